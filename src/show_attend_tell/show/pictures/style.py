"""How pictures look: the page, its letters, and the colors that attention is shown in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Color = tuple[int, int, int]

MARK = (230, 97, 0)  # the frame of a hard model's place; color-blind eyes tell it from white, gray and blue too
EDGE = (24, 26, 30)  # the line around MARK, so that it shows on a light photo

# Nine of viridis's colors (Smith and van der Walt, 2015; CC0), from dark blue over green to yellow: lightness rises
# evenly along it, for color-blind eyes and in print without color too.
VIRIDIS = np.array(
    [
        (68, 1, 84),
        (71, 45, 123),
        (59, 82, 139),
        (44, 114, 142),
        (33, 145, 140),
        (40, 174, 128),
        (94, 201, 98),
        (173, 220, 48),
        (253, 231, 37),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Style:
    """What the user of a picture may choose."""

    heat: bool = False  # attention as colors over a gray photo, for color-blind eyes and for print; else as light
    dark: bool = False  # a dark page
    per_word_scale: bool = False  # each word has its own scale, up to its own peak; else all words share one

    @property
    def page(self) -> Color:
        """The color of the page."""
        return (18, 19, 22) if self.dark else (255, 255, 255)

    @property
    def ink(self) -> Color:
        """The color of words."""
        return (238, 238, 234) if self.dark else (28, 30, 34)

    @property
    def pale_ink(self) -> Color:
        """The color of numbers and notes."""
        return (156, 160, 168) if self.dark else (100, 104, 112)

    @property
    def faint(self) -> Color:
        """The color of words not said yet, and of the stripes over what the encoder never saw."""
        return (84, 88, 96) if self.dark else (178, 180, 184)

    @property
    def darkest(self) -> str:
        """The name of the color that stands for least attention."""
        return "violet" if self.heat else "dark"

    @property
    def brightest(self) -> str:
        """The name of the color that stands for most attention."""
        return "yellow" if self.heat else "white"

    def ground(self, photo: Image.Image) -> Image.Image:
        """The photo as it lies under a veil. With heat it is gray and dim, so that all colors are the map's."""
        return photo.convert("L").point(lambda gray: 24 + 0.5 * gray).convert("RGB") if self.heat else photo

    def veil(self, strength: NDArray[np.float64]) -> Image.Image:
        """The image that is laid over the photo to show attention of ``strength`` (H, W), 0 to 1.

        It has 8 bits and an RGBA palette. Light: 32 % of the photo at strength 0, a quarter of it under white at 1.
        Heat: viridis, the denser the stronger.
        """
        levels = (strength.clip(0, 1) * 255).round().astype(np.uint8)
        veil = Image.frombytes("P", strength.shape[::-1], levels.tobytes())
        veil.putpalette(self.ramp().tobytes(), "RGBA")
        return veil

    def ramp(self) -> NDArray[np.uint8]:
        """The veil's RGBA for each of 256 strengths (256, 4)."""
        strength = np.linspace(0, 1, 256)
        if self.heat:
            at = np.linspace(0, 1, len(VIRIDIS))
            colors = np.stack([np.interp(strength, at, channel) for channel in VIRIDIS.T], 1)
            opacity = 0.5 + 0.3 * strength
        else:  # a veil of this gray and opacity makes (1 - s) 0.32 c + s (0.25 c + 0.75 white) of each color c
            opacity = 0.68 + 0.07 * strength
            colors = np.repeat((255 * 0.75 * strength / opacity)[:, None], 3, 1)
        return np.column_stack([colors, 255 * opacity]).round().astype(np.uint8)

    def scale(self, steps: int) -> NDArray[np.uint8]:
        """The colors of a middling gray photo from no attention to most (steps, 3)."""
        gray = self.ground(Image.new("RGB", (steps, 1), (128, 128, 128)))
        return np.asarray(laid(self.veil(np.linspace(0, 1, steps)[None]), gray)).reshape(steps, 3)


def laid(veil: Image.Image, photo: Image.Image) -> Image.Image:
    """The photo under a veil."""
    return Image.alpha_composite(photo.convert("RGBA"), veil.convert("RGBA")).convert("RGB")
