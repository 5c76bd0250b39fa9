"""The letters of a picture, each line of text in one font.

Inter comes with the package. A text with letters that it lacks is drawn in a font of this machine that has them; what
that lacks too is named by `lacking`. Scripts from right to left, and letters with marks, are laid out
by Raqm, which Pillow has where FriBiDi is installed.
"""

import unicodedata
from functools import cache, lru_cache
from pathlib import Path

from PIL import ImageDraw, ImageFont

INTER = str(Path(__file__).parent / "font" / "Inter-Regular.otf")

# Files of fonts of many letters that come with Linux, macOS, Windows and office programs; Pillow finds them by name.
COMMON = (
    "DejaVuSans.ttf,NotoSans-Regular.ttf,NotoSansCJK-Regular.ttc,NotoSansArabic-Regular.ttf,"
    "NotoSansDevanagari-Regular.ttf,NotoSansHebrew-Regular.ttf,NotoSansThai-Regular.ttf,"
    "DroidSansFallbackFull.ttf,wqy-microhei.ttc,Arial Unicode.ttf,"
    "PingFang.ttc,Hiragino Sans GB.ttc,AppleSDGothicNeo.ttc,"
    "arial.ttf,msyh.ttc,YuGothR.ttc,malgun.ttf,Nirmala.ttc,LeelawUI.ttf,seguisym.ttf"
).split(",")
ABSENT = "\uffff"  # is not a letter, so every font draws it like a letter that it lacks
PROBE = 32  # the size of letters that are compared with it
JOINERS = "\u200c\u200d"  # without width: they say how the letters beside them are joined
DOTS, UNDER = 5, 5  # pixels from dot to dot, and from the baseline down to the dotted line


def draw_text(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, size: int, ink: tuple[int, int, int]) -> None:
    """Draw a line of text from the left end of its baseline."""
    draw.text((x, y), plain(text), ink, font_of(text, size), anchor="ls")


def draw_dots(draw: ImageDraw.ImageDraw, x: float, y: float, width: float, ink: tuple[int, int, int]) -> None:
    """Draw a dotted line under a word that is to be checked."""
    for left in range(round(x), round(x + width) - 1, DOTS):
        draw.rectangle((left, y, left + 1, y + 1), fill=ink)


def length(text: str, size: int) -> float:
    """The width of a line of text in pixels."""
    return font_of(text, size).getlength(plain(text))


def lacking(text: str) -> list[str]:
    """The letters of a text that its font lacks, in their order."""
    return _lacked(_face(plain(text)), plain(text))


def right_to_left(text: str) -> bool:
    """Whether a text is written from right to left: whether its first letter is of such a script."""
    return next((strong == "R" for strong in map(_direction, text) if strong), False)


@cache
def _direction(sign: str) -> str:
    """R or L for a letter of a script from right to left or from left to right; empty for any other sign."""
    return {"R": "R", "AL": "R", "L": "L"}.get(unicodedata.bidirectional(sign), "")


@cache
def font(size: int, face: str = INTER) -> ImageFont.FreeTypeFont:
    """A font at a size in pixels, or `OSError` if it is not here."""
    return ImageFont.truetype(face, size)


def font_of(text: str, size: int) -> ImageFont.FreeTypeFont:
    """The font to draw a text in, at a size in pixels."""
    return font(size, _face(plain(text)))


def plain(text: str) -> str:
    """A text without invisible signs, whose letters are composed and whose white space is spaces."""
    signs = (" " if sign.isspace() else sign for sign in unicodedata.normalize("NFC", text))
    kept = (sign for sign in signs if not "\ufe00" <= sign <= "\ufe0f")  # without what chooses a form of a letter
    invisible = ("Cf", "Cc", "Cs")
    return "".join(each for each in kept if each in JOINERS or unicodedata.category(each) not in invisible)


@lru_cache(maxsize=4096)  # a server draws ever new texts
def _face(text: str) -> str:
    """The font that has all letters of a text, or most: Inter, or a `COMMON` one."""
    lacked = _lacked(INTER, text)
    others = [face for face in COMMON if _is_here(face)] if lacked else []
    return min([INTER, *others], key=lambda face: len(_lacked(face, text)))


def _lacked(face: str, text: str) -> list[str]:
    """Those letters of a text that a font lacks."""
    return [sign for sign in text if sign not in (*JOINERS, " ") and not _has(face, sign)]


@cache
def _is_here(face: str) -> bool:
    try:
        font(PROBE, face)
    except OSError:
        return False
    return True


@cache
def _has(face: str, sign: str) -> bool:
    drawn = bytes(font(PROBE, face).getmask(sign))
    return any(drawn) and drawn != bytes(font(PROBE, face).getmask(ABSENT))
