"""The moving picture of README: a word's place is hidden, then the same outline in five other places.

    python docs/hidden.py            # writes hide.webp

The photo and the word are chosen by a rule: of the twelve photos of `examples/CREDITS.md`, in the order of their names,
the first with a noun that is gone when its place is hidden and stays in at least 4 of 5 other places.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from show_attend_tell import Captioner
from show_attend_tell.hide.trial import Hidden, Variant
from show_attend_tell.show.pictures.layout import in_lines
from show_attend_tell.show.pictures.letters import draw_text

ROOT = Path(__file__).parent.parent
OLDER = ("coffee.jpg", "dogs.jpg", "photographer.jpg")  # photos of examples/ that the rule does not know
STAYS = 4  # places at least in which the word stays
PHOTO, HERE, ELSEWHERE, LAST = 1880, 2600, 850, 1400  # milliseconds that a scene stands; all are 10 seconds
WIDTH, MARGIN, SIZE, LINE = 390, 12, 19, 26  # pixels
FADES, FADE = 2, 60  # frames from one scene to the next, and the milliseconds of each
Frame = tuple[Image.Image, int]  # and the milliseconds that it stands
INK, GRAY, EDGE, PAGE = (32, 32, 32), (105, 105, 105), (255, 138, 31), (255, 255, 255)


def chosen(captioner: Captioner) -> Hidden:
    """The first photo and noun by the rule."""
    for photo in sorted((ROOT / "examples").glob("*.jpg")):
        if photo.name in OLDER:
            continue
        caption = captioner(photo, evidence=True)
        assert caption.word_confidence is not None
        for step in np.flatnonzero(~np.isnan(caption.word_confidence)).tolist():
            hidden = captioner.hide(caption, step)
            if hidden.here.verdict is not None and hidden.here.verdict.kind == "gone" and hidden.stayed >= STAYS:
                return hidden
    raise SystemExit("no noun of the photos is gone when hidden here and stays when hidden elsewhere")


def covered(hidden: Hidden, variant: Variant | None) -> Image.Image:
    """The photo with a place hidden and an edge around it; without a variant, with the word's edge alone."""
    photo = hidden.before.photo
    assert photo is not None
    place = Image.fromarray((variant or hidden.here).mask)
    if variant is not None:
        left, top, right, bottom = map(round, hidden.before.visible_box or (0, 0, *photo.size))
        cover = photo.copy()
        cover.paste(hidden.cover.resize((right - left, bottom - top), Image.Resampling.BICUBIC), (left, top))
        photo = Image.composite(cover, photo, place)
    grown = place.convert("L").filter(ImageFilter.MaxFilter(9))
    edge = Image.fromarray(np.asarray(grown).astype(bool) & ~np.asarray(place))
    photo.paste(EDGE, mask=edge)
    return photo


def scene(photo: Image.Image, heading: str, caption: str, note: str, height: int) -> Image.Image:
    """A frame: a heading, the photo, and the caption with a note below."""
    picture = Image.new("RGB", (WIDTH, height), PAGE)
    draw = ImageDraw.Draw(picture)
    draw_text(draw, MARGIN, MARGIN + SIZE, heading, SIZE, GRAY)
    width = WIDTH - 2 * MARGIN
    small = photo.resize((width, round(width * photo.height / photo.width)), Image.Resampling.LANCZOS)
    y = 2 * MARGIN + SIZE + 4
    picture.paste(small, (MARGIN, y))
    y += small.height + MARGIN + SIZE
    for line in in_lines(caption.split(), " ", SIZE, width):
        draw_text(draw, MARGIN, y, " ".join(line), SIZE, INK)
        y += LINE
    draw_text(draw, MARGIN, y + 4, note, SIZE, GRAY)
    return picture


def fate(hidden: Hidden, variant: Variant) -> str:
    """What became of the word, in a line."""
    stays = variant.verdict is not None and variant.verdict.kind != "gone"
    return f"{hidden.word} {'stays' if stays else 'is gone'}"


def scenes(hidden: Hidden) -> Iterator[Frame]:
    """The photo, the place hidden, and the other places, one after the other."""
    photo = hidden.before.photo
    assert photo is not None
    captions = [str(each.caption) for each in (hidden, *hidden.controls)] + [str(hidden.before)]
    rows = max(len(in_lines(text.split(), " ", SIZE, WIDTH - 2 * MARGIN)) for text in captions)
    height = round((WIDTH - 2 * MARGIN) * photo.height / photo.width) + 4 * MARGIN + 2 * SIZE + (rows + 1) * LINE

    def drawn(variant: Variant | None, heading: str, caption: str, note: str) -> Image.Image:
        return scene(covered(hidden, variant), heading, caption, note, height)

    note = f"outlined: the evidence for {hidden.word}"
    yield drawn(None, "Photo", str(hidden.before), note), PHOTO
    yield drawn(hidden.here, "Hidden here", str(hidden.caption), fate(hidden, hidden.here)), HERE
    last = hidden.controls[-1]
    for number, variant in enumerate(hidden.controls, start=1):
        heading = f"Hidden elsewhere, {number} of {len(hidden.controls)}"
        stand = LAST if variant is last else ELSEWHERE
        yield drawn(variant, heading, str(variant.caption), fate(hidden, variant)), stand


def faded(shown: Sequence[Frame]) -> list[Frame]:
    """Put frames between frames, so that one fades into the next."""
    full = [shown[0]]
    for (before, _), (after, stand) in pairwise(shown):
        full += [(Image.blend(before, after, number / (FADES + 1)), FADE) for number in range(1, FADES + 1)]
        full.append((after, stand))
    return full


def save(file: Path, shown: Sequence[Frame]) -> None:
    """Write the frames, which fade into each other, as a WebP."""
    pictures, stands = zip(*faded(shown), strict=True)
    options = {"quality": 75, "method": 6, "loop": 0}
    pictures[0].save(file, "webp", save_all=True, append_images=pictures[1:], duration=list(stands), **options)


def picture(captioner: Captioner) -> None:
    """Choose the photo, and make the picture."""
    hidden = chosen(captioner)
    save(ROOT / "docs" / "images" / "hide.webp", list(scenes(hidden)))
    print(f"hide.webp: {hidden.before.source}", *hidden.lines, sep="\n")


if __name__ == "__main__":
    picture(Captioner.from_pretrained("everyday-soft", backend="onnx"))
