"""The letters of a picture, each drawn in a font that has it.

Inter comes with the package. A letter that it lacks is drawn in a font of this machine; one that no font has becomes a
box, and `lacking` names it. Scripts from right to left, and letters with marks, are laid out by Raqm, which Pillow has
where FriBiDi is installed; without it, `unshaped` says so.
"""

import shutil
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from PIL import ImageDraw, ImageFont, features


class Face(NamedTuple):
    """A font: its file, or its file's name in the system's folders, and its number among those in the file."""

    file: str
    number: int = 0


INTER = Face(str(Path(__file__).parent / "font" / "Inter-Regular.otf"))

# Fonts of many letters that come with Linux, macOS, Windows and office programs. Pillow finds them by their names.
COMMON = tuple(
    Face(name)
    for name in (
        *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "NotoSansCJK-Regular.ttc", "NotoSansArabic-Regular.ttf"),
        *("NotoSansDevanagari-Regular.ttf", "NotoSansHebrew-Regular.ttf", "NotoSansThai-Regular.ttf"),
        *("Arial Unicode.ttf", "PingFang.ttc", "Hiragino Sans GB.ttc", "AppleSDGothicNeo.ttc"),
        *("arial.ttf", "msyh.ttc", "YuGothR.ttc", "malgun.ttf", "Nirmala.ttc", "LeelawUI.ttf", "seguisym.ttf"),
    )
)
ABSENT = "\uffff"  # is not a letter, so every font draws it like a letter that it lacks
PROBE = 32  # the size of letters that are compared with it
JOINERS = "\u200c\u200d"  # without width: they say how the letters beside them are joined
DOTS, UNDER = 5, 5  # pixels from dot to dot, and from the baseline down to the dotted line
SHAPES = bool(features.check("raqm"))  # whether Pillow can lay out all scripts


def draw_text(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, size: int, ink: tuple[int, int, int]) -> None:
    """Draw a line of text from the left end of its baseline."""
    for face, part in runs(text):
        if face is None:
            box = (x + 0.08 * size, y - 0.7 * size, x + _width(face, part, size) - 0.08 * size, y)
            draw.rectangle(box, outline=ink, width=2)
        else:
            draw.text((x, y), part, ink, font(size, face, is_complex(part)), anchor="ls")
        x += _width(face, part, size)


def draw_dots(draw: ImageDraw.ImageDraw, x: float, y: float, width: float, ink: tuple[int, int, int]) -> None:
    """Draw a dotted line under a word that is to be checked."""
    for left in range(round(x), round(x + width) - 1, DOTS):
        draw.rectangle((left, y, left + 1, y + 1), fill=ink)


def length(text: str, size: int) -> float:
    """The width of a line of text in pixels."""
    return sum(_width(face, part, size) for face, part in runs(text))


def lacking(text: str) -> list[str]:
    """The letters of a text that no font on this machine has, each once, in their order."""
    return list(dict.fromkeys(letter for face, part in runs(text) for letter in _lacked(face, _letters(part))))


def unshaped(text: str) -> bool:
    """Whether a text has letters that this machine can only draw one by one, from left to right."""
    return not SHAPES and is_complex(text)


def right_to_left(text: str) -> bool:
    """Whether a text is written from right to left: whether its first letter is of such a script."""
    return next((strong == "R" for strong in map(_direction, text) if strong), False)


def is_complex(text: str) -> bool:
    """Whether the look of a letter depends on the letters beside it, or the text is written from right to left."""
    return any(_direction(sign) == "R" or unicodedata.category(sign)[0] == "M" for sign in text)


@cache
def _direction(sign: str) -> str:
    """R or L for a letter of a script from right to left or from left to right; empty for any other sign."""
    return {"R": "R", "AL": "R", "L": "L"}.get(unicodedata.bidirectional(sign), "")


@cache
def font(size: int, face: Face = INTER, shaped: bool = False) -> ImageFont.FreeTypeFont:
    """A font at a size in pixels, or `OSError` if it is not here; ``shaped`` lays letters out as their script does."""
    layout = ImageFont.Layout.RAQM if shaped and SHAPES else ImageFont.Layout.BASIC
    return ImageFont.truetype(face.file, size, face.number, layout_engine=layout)


def runs(text: str) -> list[tuple[Face | None, str]]:
    """A text in parts of one font each, None for a letter that no font has; right-to-left text is one part."""
    letters = list(_letters(text))
    if any(_direction(sign) == "R" for sign in text):
        faces = [face for letter in letters if (face := _face(letter)) is not None]
        first = next((_face(letter) for letter in letters if _direction(letter[0]) == "R"), None)
        whole = next((face for face in faces if not _lacked(face, letters)), first)
        if whole is not None:
            return [(whole, "".join(letters))]
    found: list[tuple[Face | None, str]] = []
    for letter in letters:
        face = ((found and found[-1][0]) or INTER) if letter == " " else _face(letter)
        if found and face is not None and found[-1][0] == face:
            found[-1] = face, found[-1][1] + letter
        else:
            found.append((face, letter))
    return found


def _letters(text: str) -> Iterator[str]:
    """Letters with the marks that stand on them; invisible signs are left out, and any white space is a space."""
    letter = ""
    for sign in unicodedata.normalize("NFC", text):
        if "\ufe00" <= sign <= "\ufe0f":  # chooses between two forms of the letter before it
            continue
        kind = unicodedata.category(sign)
        if letter and (kind.startswith("M") or (sign in JOINERS and SHAPES)):
            letter += sign
            continue
        if letter:
            yield letter
        letter = " " if sign.isspace() else "" if kind in ("Cf", "Cc", "Cs") else sign
    if letter:
        yield letter


@cache
def _face(letter: str) -> Face | None:
    """The font to draw a letter in: Inter, then what fontconfig would choose, then the `COMMON` ones."""
    if not _lacked(INTER, [letter]):
        return INTER
    others = (*_by_fontconfig(letter[0]), *COMMON)
    return next((face for face in others if _is_here(face) and not _lacked(face, [letter])), None)


def _lacked(face: Face | None, letters: Iterable[str]) -> list[str]:
    """Those of some letters that a font lacks; without a font, all."""
    return [
        letter
        for letter in letters
        if face is None or not all(_has(face, sign) for sign in letter if sign not in JOINERS and sign != " ")
    ]


@cache
def _is_here(face: Face) -> bool:
    try:
        font(PROBE, face)
    except OSError:
        return False
    return True


@cache
def _has(face: Face, sign: str) -> bool:
    drawn = bytes(font(PROBE, face).getmask(sign))
    return any(drawn) and drawn != bytes(font(PROBE, face).getmask(ABSENT))


def _by_fontconfig(sign: str) -> list[Face]:
    """The font that fontconfig, which most Linux systems have, chooses for a sign."""
    program = shutil.which("fc-match")
    if program is None:
        return []
    command = [program, "--format", "%{file}\n%{index}", f"sans-serif:charset={ord(sign):x}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        file, number = answer.split("\n")
        return [Face(file, int(number) & 0xFFFF)]  # the upper bits number the instances of a variable font
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def _width(face: Face | None, part: str, size: int) -> float:
    """The width of a part of a text; without a font, that of the box in a letter's place."""
    if face is None:
        return size * (1.0 if unicodedata.east_asian_width(part[0]) in "WF" else 0.6)
    return font(size, face, is_complex(part)).getlength(part)
