"""Captions that are wrong of the mirrored photo: they name a side, a direction of turning, or text that can be read."""

import re
from collections.abc import Iterable

# By language. Words that usually mean something else are left out, such as "est" in French and 东西 ("thing").
WORDS = {
    "english": (
        "left leftmost lefthand leftward leftwards right rightmost righthand rightward rightwards "
        "clockwise counterclockwise anticlockwise east eastern eastward eastbound west western westward westbound "
        "northeast northwest southeast southwest says saying reads spells spelled spelling written lettering letters "
        "word words text inscription inscribed"
    ),
    "german": (
        "links linke linken linker linkes linkem rechts rechte rechten rechter rechtes rechtem uhrzeigersinn osten "
        "westen östlich westlich aufschrift beschriftet beschriftung schriftzug"
    ),
    "french": "gauche droite ouest horaire antihoraire inscription inscriptions écrit",
    "spanish": "izquierda izquierdo derecha derecho oeste horario antihorario escrito letras",
    "italian": "sinistra sinistro destra destro ovest orario antiorario scritta scritto",
    "portuguese": "esquerda esquerdo direita direito oeste horário escrito letras",
    "dutch": "linker rechter linkerkant rechterkant linksaf rechtsaf opschrift",
    "polish": "lewej lewo lewa lewy lewym prawej prawo prawa prawy prawym napis napisem",
    "russian": (
        "слева влево левый левая левое левой левом налево справа вправо правый правая правое правой правом направо "
        "надпись надписью"
    ),
    "turkish": "sol solda soldaki solunda sağ sağda sağdaki sağında yazılı yazıyor",
    "arabic": "يسار اليسار يمين اليمين مكتوب",
    "hindi": "बाएँ बाएं बाईं दाएँ दाएं दाईं लिखा",
    "korean": "왼쪽 왼쪽에 오른쪽 오른쪽에 시계방향",
    "chinese": "左 右 顺时针 逆时针 順時針 逆時針 东边 西边 東邊 西邊 写着 寫著",
    "japanese": "左 右 時計回り 東側 西側 書かれ",
    "thai": "ซ้าย ขวา",
}
WITHOUT_SPACES = ("chinese", "japanese", "thai")  # their words are found inside of others

_PARTS = "|".join(word for language in WITHOUT_SPACES for word in WORDS[language].split())
_WHOLE = "|".join(
    re.escape(word) for language, words in WORDS.items() if language not in WITHOUT_SPACES for word in words.split()
)
_SIDE = re.compile(rf"(?<!\w)(?:{_WHOLE})(?!\w)|{_PARTS}", re.IGNORECASE)


def side_words(text: str) -> list[str]:
    """The words of a caption that would be wrong of its mirrored photo, in lower case.

    >>> side_words("A dog on the LEFT of a sign that says stop")
    ['left', 'says']
    """
    return [word.lower() for word in _SIDE.findall(text)]


def names_side(captions: Iterable[str]) -> bool:
    """Whether one of a photo's captions would be wrong of the mirrored photo."""
    return any(_SIDE.search(caption) for caption in captions)
