"""Photos of shapes with captions in several languages."""

from functools import partial
from pathlib import Path

from builders import shape_folder, shape_scenes

# A caption's parts, in the order in which they are said: {side} {color} {shape}.
SAY = {
    "english": ("a {color} {shape} is on the {side}", " "),
    "german": ("Auf der {side} Seite ist „ein {color} {shape}“.", " "),
    "arabic": ("{shape} {color}، على {side}.", " "),
    "chinese": ("{side}|有|一个|{color}|的|{shape}|。", ""),
    "thai": ("มี|{shape}|{color}|อยู่|ทาง|{side}", ""),
}
WORDS = {
    "english": {},
    "german": {
        **{"red": "roter", "blue": "blauer", "green": "grüner", "black": "schwarzer", "white": "weißer"},
        **{"circle": "Kreis", "square": "Würfel", "left": "linken", "right": "rechten"},
    },
    "arabic": {
        **{"red": "أحمر", "blue": "أزرق", "green": "أخضر", "black": "أسود", "white": "أبيض"},
        **{"circle": "دائرة", "square": "مربع", "left": "اليسار", "right": "اليمين"},
    },
    "chinese": {
        **{"red": "红色", "blue": "蓝色", "green": "绿色", "black": "黑色", "white": "白色"},
        **{"circle": "圆形", "square": "正方形", "left": "左边", "right": "右边"},
    },
    "thai": {
        **{"red": "สีแดง", "blue": "สีน้ำเงิน", "green": "สีเขียว", "black": "สีดำ", "white": "สีขาว"},
        **{"circle": "วงกลม", "square": "สี่เหลี่ยม", "left": "ซ้าย", "right": "ขวา"},
    },
}


def caption(language: str, scene: tuple[str, str, bool], between: str | None = None) -> str:
    """A caption of a scene of `builders.shape_photo`; ``between`` parts the words of a script without spaces."""
    form, own = SAY[language]
    color, shape, left = scene
    log = WORDS[language]
    side = "left" if left else "right"
    text = form.format(color=log.get(color, color), shape=log.get(shape, shape), side=log.get(side, side))
    return text.replace("|", own if between is None else between)


CAPTIONS = {language: [caption(language, scene) for scene in shape_scenes(20)] for language in SAY}


def caption_folder(folder: Path, language: str, *, between: str | None = None) -> Path:
    """A data folder of 20 photos of shapes: 12 of train, 4 of val and 4 of test."""
    say = partial(caption, language, between=between)
    return shape_folder(folder, train=12, val=4, test=4, say=lambda *scene: say(scene))
