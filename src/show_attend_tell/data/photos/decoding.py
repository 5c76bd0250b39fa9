"""Pixels of any kind as an upright RGB image of 8 bits per channel.

Letters in shapes: H height, W width, both in pixels; rows first.
"""

import contextlib
import functools
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps

from show_attend_tell.errors import PhotoError

GRAY = ("1", "L", "LA", "La")
# Tags of a TIFF file: bits of each channel, where channels lie, what levels mean; and one such meaning.
TIFF_BITS = 258
TIFF_MEANING = 262
TIFF_PLANES = 284
WHITE_IS_ZERO = 0
FULL = (255, 4095, 65535)  # the largest whole numbers of 8, 12 and 16 bits
SAME_COLOR = 2  # levels of 255; a color profile that changes no color by more is sRGB


def decode(image: Image.Image, name: str) -> Image.Image:
    """A Pillow image, decoded. Raises `PhotoError`, with the name as its subject, for a damaged one."""
    if 0 in image.size:
        raise PhotoError(f"an empty photo ({image.width} × {image.height} pixels)", subject=name)
    tags: Any = getattr(image, "tag_v2", {})  # of a TIFF file
    if 16 in tags.get(TIFF_BITS, ()) and (tags.get(TIFF_PLANES) == 2 or tags.get(TIFF_MEANING) == WHITE_IS_ZERO):
        raise PhotoError("a TIFF file of 16 bits of a kind that is misread", subject=name, remedy="save it as PNG")
    tiles: Any = getattr(image, "tile", None)  # of a file that is not decoded yet
    scaled = bool(tiles) and ";" in str(tiles[0][3])  # to 8 bits, by Pillow: the pixels, and not what is transparent
    try:
        if image.tell():
            image.seek(0)
        image.load()
    except Exception as error:  # Pillow's decoders raise almost anything on a damaged file
        raise PhotoError(f"damaged, it cannot be decoded ({error})", subject=name) from None
    if scaled and image.mode in ("L", "RGB") and "transparency" in image.info:
        image = image.copy()
        del image.info["transparency"]
    with contextlib.suppress(Exception):  # the photo decodes, so damaged EXIF data does not matter
        image = ImageOps.exif_transpose(image)
    return to_rgb(image, name)


def to_rgb(image: Image.Image, name: str = "array") -> Image.Image:
    """A decoded image of any mode in RGB: in sRGB by its color profile, on white where it is transparent."""
    alpha = None
    if image.mode.startswith("I") or image.mode == "F":
        color, alpha = _from_deep(np.asarray(image), image.info.get("transparency"), name)
    elif image.has_transparency_data:
        seen_through = image.convert("LA" if image.mode == "La" else "RGBA").convert("RGBA")
        color = seen_through.convert("L" if image.mode in GRAY else "RGB")
        alpha = seen_through.getchannel("A")
    else:
        color = image if image.mode == "CMYK" else image.convert("L" if image.mode in GRAY else "RGB")
    profile = image.info.get("icc_profile")
    transform = _to_srgb(profile, color.mode) if profile else None
    if transform:
        color = ImageCms.applyTransform(color, transform) or color
    color = color.convert("RGB")
    return Image.composite(color, Image.new("RGB", color.size, "white"), alpha) if alpha else color


def _from_deep(values: NDArray[Any], key: int | None, name: str) -> tuple[Image.Image, Image.Image | None]:
    """Gray of 8 bits from one channel of 16 or 32, and its alpha where one of its levels, ``key``, is transparent."""
    if not np.isfinite(values).all():
        raise PhotoError("holds values that are not finite", subject=name)
    opaque = np.ones(values.shape, bool) if key is None else values != key
    levels = values[opaque] if opaque.any() else np.array([0.0, 1.0])
    low = float(levels.min())
    high = float(levels.max())
    if low < 0 or high > FULL[-1]:
        full = high - low or 1.0
    else:
        low = 0.0
        full = 1 if values.dtype.kind == "f" and high <= 1 else _full(high)
    scaled = ((values.astype(np.float64) - low) * (255 / full)).round().clip(0, 255).astype(np.uint8)
    return Image.fromarray(scaled), None if key is None else Image.fromarray(opaque).convert("L")


@functools.lru_cache(maxsize=64)
def _to_srgb(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """What converts images of a mode to sRGB by a color profile; None where nothing would change or can be done."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
        if mode == "CMYK":
            return transform
        levels = np.linspace(0, 255, 9).round().astype(np.uint8)
        colors = Image.fromarray(np.stack(np.meshgrid(levels, levels, levels), -1).reshape(9, -1, 3)).convert(mode)
        changed = np.asarray(ImageCms.applyTransform(colors, transform), dtype=int)
    except (ImageCms.PyCMSError, ImportError, OSError):  # ImportError: of a Pillow without littlecms
        return None
    return transform if np.abs(changed - np.asarray(colors.convert("RGB"))).max() > SAME_COLOR else None


def _full(largest: float) -> int:
    """The largest value of the fewest bits that hold values from 0 to the ``largest`` of them, at most 65535."""
    return next(full for full in FULL if largest <= full)


def from_tensor(tensor: Any) -> Image.Image:
    """A tensor of PyTorch as an image. Raises `PhotoError` for one that is no photo."""
    what = f"tensor of shape {tuple(tensor.shape)} and type {tensor.dtype}"
    plain = tensor.detach().cpu()
    if plain.is_floating_point():
        plain = plain.float()
    if plain.ndim == 3:
        plain = plain.permute(1, 2, 0)
    return from_array(plain.numpy(), what)


def from_array(array: NDArray[Any], what: str = "") -> Image.Image:
    """An array as an image; ``what`` it is called in messages. Raises `PhotoError` for one that is no photo."""
    what = what or f"array of shape {array.shape} and type {array.dtype}"
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        channels = "first in a tensor, and last in an array"
        raise PhotoError(f"a photo's shape is (H, W), or has 1, 3 or 4 channels, {channels}", subject=what)
    if array.size == 0:
        raise PhotoError("an empty photo", subject=what)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:  # also of another byte order
        array = (array * (255 / _full(array.max()))).round().astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        low = float(array.min())
        high = float(array.max())
        if not (low >= 0 and high <= 1):  # also when they are not numbers
            raise PhotoError(f"floats are read from 0 to 1, these go from {low:g} to {high:g}", subject=what)
        array = (array * 255).round().astype(np.uint8)
    elif array.dtype != np.uint8:
        raise PhotoError("a photo's type is uint8, uint16, or a float from 0 to 1", subject=what)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return Image.fromarray(array)
