"""From a photo to the square of pixels that an encoder reads.

Letters in shapes: H height, W width, both in pixels; rows first.
"""

import io
import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from pydantic import Field

from show_attend_tell.settings import Count, Rate, settings

if TYPE_CHECKING:
    from torch import Tensor

Resize = Literal["squash", "squash-256", "crop"]
Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# The version of the pixels that `open_photo` and `Preprocessing` make. Add one if you change them: it is in the key of
# feature caches, so older ones are not read any more.
PREPROCESSING_VERSION = 3

FIRST_SIDE = 256  # pixels of the square to which `squash-256` brings a photo first
SMALLEST_CROP = 0.75  # of the photo's width and of its height, in a view called crop-1, crop-2, …
DRAWN = ("crop-", "rendered-")  # how the names of views begin that are drawn at random
# Of a view called rendered-1, rendered-2, …
SMALLEST_WINDOW = 0.85  # of the photo's width and of its height
RENDERED_SIDE = (128, 512)  # pixels
RENDERED_QUALITY = (30, 95)  # of the JPEG file
RENDERED_COLORS = 0.2  # how far brightness, contrast and saturation are from 1, at most
RENDERED_FILTERS = [Image.Resampling[name] for name in ("BOX", "BILINEAR", "BICUBIC", "LANCZOS")]


@settings
class Preprocessing:
    """How a photo becomes the square of pixels that an encoder was made for; it travels with the weights.

    `squash` resizes the whole photo to `size` × `size`; `squash-256` does so by way of 256 × 256 pixels, so that copies
    in several sizes become nearly the same. `crop` resizes its shortest side to 256/224 of `size` and cuts the central
    square (section 4.3 of the paper). `mean` and `std` are of red, green and blue from 0 to 1.
    """

    size: Count = 224
    resize: Resize = "crop"
    mean: Annotated[tuple[float, float, float], Field(strict=False)] = Field(
        IMAGENET_MEAN, description="not strict: JSON has lists"
    )
    std: Annotated[tuple[Rate, Rate, Rate], Field(strict=False)] = IMAGENET_STD

    def __call__(self, photo: Image.Image, view: str = "original", name: str = "") -> "Tensor":
        """Return the `pixels` of a photo as a tensor of PyTorch."""
        import torch

        return torch.from_numpy(self.pixels(photo, view, name))

    def pixels(self, photo: Image.Image, view: str = "original", name: str = "") -> NDArray[np.float32]:
        """Return the pixels of an RGB photo (`open_photo`), normalized: (3, size, size) float32.

        Other views than the `original` are for training: `flipped` is mirrored left to right; `crop-1`, `crop-2` and so
        on are windows of 75 to 100 % of its sides, mirrored half the time, drawn by the photo's `name`; `rendered-1`
        and so on are copies as photos are found, of other sizes, colors and JPEG qualities.
        """
        box = self.seen(*photo.size)
        if view.startswith("crop-"):
            box = _window(box, SMALLEST_CROP, *_chances(view, name)[:4])
        if view.startswith("rendered-"):
            photo = _rendered(photo, box, _chances(view, name))
            box = (0, 0, *photo.size)
        if self.resize == "squash-256":
            photo = photo.resize((FIRST_SIDE, FIRST_SIDE), Image.Resampling.BILINEAR, box=box)
            box = (0, 0, *photo.size)
        # A box instead of resizing, then cropping: the same pixels, and a photo of 10 × 9000 costs no more.
        resized = photo.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        # NumPy, because each thread that prepares photos would start torch's own threads.
        values = np.asarray(resized, dtype=np.float32) / np.float32(255)  # (H, W, 3)
        pixels = (values - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        if mirrors(view, name):
            pixels = pixels[:, ::-1]
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (3, H, W)

    def seen(self, width: int, height: int) -> Box:
        """Return the rectangle of a photo that the encoder sees: left, top, right, bottom in its own pixels."""
        if self.resize != "crop":
            return (0.0, 0.0, float(width), float(height))
        ends = []
        for side in (width, height):
            # in whole pixels: the long side is cut down to a whole number, as torchvision does
            resized = round(self.size * 256 / 224) * side // min(width, height)
            corner = round((resized - self.size) / 2)
            scale = side / resized
            ends.append((corner * scale, min(float(side), (corner + self.size) * scale)))
        (left, right), (top, bottom) = ends
        return (left, top, right, bottom)

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON can hold them; they make an equal one."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}


def mirrors(view: str, name: str) -> bool:
    """Whether a view of the photo of that name is mirrored left to right (`Preprocessing.pixels`)."""
    return _chances(view, name)[4] < 0.5 if view.startswith(DRAWN) else view == "flipped"


def _chances(view: str, name: str) -> list[float]:
    """Twelve random numbers: the window's width, height, left and top; mirrored or not; then those of `_rendered`."""
    chance = random.Random(f"{view} of {name}")
    return [chance.random() for _ in range(12)]


def _window(box: Box, smallest: float, width: float, height: float, left: float, top: float) -> Box:
    """A window of a box (left, top, right, bottom) by four numbers from 0 to 1; its sides are at least ``smallest``."""
    first, highest, right, bottom = box
    width = (right - first) * (smallest + (1 - smallest) * width)
    height = (bottom - highest) * (smallest + (1 - smallest) * height)
    left = first + (right - width - first) * left
    top = highest + (bottom - height - highest) * top
    return (left, top, min(right, left + width), min(bottom, top + height))


def _rendered(photo: Image.Image, box: Box, chances: Sequence[float]) -> Image.Image:
    """A copy of what is in a rectangle of a photo, as the copies that people keep (`_chances`)."""
    smallest, largest = RENDERED_SIDE
    side = round(smallest * (largest / smallest) ** chances[5])
    resampling = RENDERED_FILTERS[int(chances[6] * len(RENDERED_FILTERS))]
    copy = photo.resize((side, side), resampling, box=_window(box, SMALLEST_WINDOW, *chances[:4]))
    changes = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for change, chance in zip(changes, chances[7:10], strict=True):
        copy = change(copy).enhance(1 + RENDERED_COLORS * (2 * chance - 1))
    worst, best = RENDERED_QUALITY
    quality = round(worst + (best - worst) * chances[10])
    file = io.BytesIO()
    copy.save(file, "JPEG", quality=quality, subsampling=2 * (chances[11] < 0.7))
    return Image.open(file).convert("RGB")
