"""How pictures look: the page, its text, and the colormaps."""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageColor
from pydantic import Field

from show_attend_tell.settings import settings

Color = tuple[int, int, int]
Colormap = Literal["light", "heat"]
Shown = Literal["evidence", "attention"]

MARK = (230, 97, 0)  # the frame of the chosen location; color-blind eyes tell it from white, gray and blue too
EDGE = (24, 26, 30)  # the line around MARK, so that it shows on a light photo

# Nine of viridis's colors (Smith and van der Walt, 2015; CC0), from dark blue over green to yellow: lightness rises
# evenly along it, for color-blind eyes and in print without color too.
VIRIDIS = "#440154 #472d7b #3b528b #2c728e #21918c #28ae80 #5ec962 #addc30 #fde725".split()


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

    colormap: Colormap = Field("light", description="maps as light, or as colors (viridis) over a gray photo")
    shown: Shown = Field(
        "evidence", description="what supported a word, or where the model looked before it chose the word (attention)"
    )
    dark: bool = Field(False, description="a dark page")
    per_word_scale: bool = Field(
        False, description="each word has its own scale, up to its peak; otherwise all words share one"
    )

    @property
    def theme(self) -> Theme:
        return DARK if self.dark else LIGHT

    @property
    def ends(self) -> tuple[str, str]:
        """The names of the colors of least and most attention."""
        return ("violet", "yellow") if self.colormap == "heat" else ("dark", "white")

    def ground(self, photo: Image.Image) -> Image.Image:
        """The photo as it lies under an overlay. For "heat" it is gray and dim, so that all colors are the map's."""
        if self.colormap == "light":
            return photo
        return photo.convert("L").point(lambda gray: 24 + 0.5 * gray).convert("RGB")

    def overlay(self, strength: NDArray[np.float64]) -> Image.Image:
        """The RGBA palette image over the photo for a map of ``strength`` (H, W), 0 to 1; "heat" is viridis."""
        levels = (strength.clip(0, 1) * 255).round().astype(np.uint8)
        overlay = Image.frombytes("P", strength.shape[::-1], levels.tobytes())
        overlay.putpalette(self.ramp().tobytes(), "RGBA")
        return overlay

    def ramp(self) -> NDArray[np.uint8]:
        """The overlay's RGBA for each of 256 strengths (256, 4)."""
        strength = np.linspace(0, 1, 256)
        if self.colormap == "heat":
            at = np.linspace(0, 1, len(VIRIDIS))
            channels = np.array(list(map(ImageColor.getrgb, VIRIDIS))).T
            colors = np.stack([np.interp(strength, at, channel) for channel in channels], 1)
            opacity = 0.5 + 0.3 * strength
        else:
            whiter = strength[:, None] >= 0.5
            colors = np.where(whiter, 255, (10, 10, 14))
            opacity = np.where(whiter[:, 0], 0.6 * (2 * strength - 1), 0.8 * (1 - 2 * strength))
        return np.column_stack([colors, 255 * opacity]).round().astype(np.uint8)

    def scale(self, steps: int) -> NDArray[np.uint8]:
        """The colors of a medium gray photo from no attention to most (steps, 3)."""
        gray = self.ground(Image.new("RGB", (steps, 1), (128, 128, 128)))
        return np.asarray(composite(self.overlay(np.linspace(0, 1, steps)[None]), gray)).reshape(steps, 3)


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
