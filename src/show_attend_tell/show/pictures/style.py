"""How pictures look: the page, its text, and the light over a photo."""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image
from pydantic import Field

from show_attend_tell.settings import settings

Color = tuple[int, int, int]
Shown = Literal["evidence", "attention"]

MARK = (230, 97, 0)  # the frame of the chosen location; color-blind eyes tell it from white, gray and blue too
EDGE = (24, 26, 30)  # the line around MARK, so that it shows on a light photo

# of a picture's file, as plain bytes in each format: by it is known that the file may be replaced
SIGNATURE = "drawn by show-attend-tell"


class Theme(NamedTuple):
    """The colors of a page."""

    page: Color
    ink: Color  # of words
    pale_ink: Color  # of numbers and notes
    faint: Color  # of words that are still to come, and of the stripes outside the visible box


LIGHT = Theme(page=(255, 255, 255), ink=(28, 30, 34), pale_ink=(100, 104, 112), faint=(178, 180, 184))
DARK = Theme(page=(18, 19, 22), ink=(238, 238, 234), pale_ink=(156, 160, 168), faint=(84, 88, 96))


@settings
class PictureFile:
    """The file of a picture."""

    format: Literal["png", "jpg", "svg", "gif", "webp"] = Field(
        "png", description="svg keeps letters as text; gif and webp move"
    )


@settings
class Style:
    """What the user of a picture may choose. Raises `SatError` for another value."""

    shown: Shown = Field(
        "evidence", description="what supported a word, or where the model looked before it chose the word (attention)"
    )
    dark: bool = Field(False, description="a dark page")

    @property
    def theme(self) -> Theme:
        return DARK if self.dark else LIGHT


def overlay(strength: NDArray[np.float64]) -> Image.Image:
    """The RGBA palette image over the photo for a map of ``strength`` (H, W), 0 to 1: from dark to white."""
    levels = (strength.clip(0, 1) * 255).round().astype(np.uint8)
    image = Image.frombytes("P", strength.shape[::-1], levels.tobytes())
    shares = np.linspace(0, 1, 256)
    whiter = shares >= 0.5
    colors = np.where(whiter[:, None], 255, (10, 10, 14))
    opacity = np.where(whiter, 0.6 * (2 * shares - 1), 0.8 * (1 - 2 * shares))
    image.putpalette(np.column_stack([colors, 255 * opacity]).round().astype(np.uint8).tobytes(), "RGBA")
    return image


def color_scale(steps: int) -> NDArray[np.uint8]:
    """The colors of a medium gray photo from no attention to most (steps, 3)."""
    gray = Image.new("RGB", (steps, 1), (128, 128, 128))
    return np.asarray(composite(overlay(np.linspace(0, 1, steps)[None]), gray)).reshape(steps, 3)


def composite(overlay: Image.Image, photo: Image.Image) -> Image.Image:
    """The photo under an overlay."""
    return Image.alpha_composite(photo.convert("RGBA"), overlay.convert("RGBA")).convert("RGB")


def exif() -> Image.Exif:
    """The signature for formats with EXIF data."""
    data = Image.Exif()
    data[ExifTags.Base.Software] = SIGNATURE
    return data


def is_signed(file: Path) -> bool:
    """Whether a file is a picture of attention that this package drew."""
    return SIGNATURE.encode() in file.read_bytes()
