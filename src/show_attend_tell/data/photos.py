"""A photo, from whatever a user has, to the pixels that an encoder reads.

Letters in shapes: H height, W width, both in pixels; rows first.
"""

import contextlib
import functools
import glob
import io
import os
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageEnhance, ImageOps, UnidentifiedImageError
from pydantic import Field

from show_attend_tell.errors import MissingPhoto, PhotoError, SatError
from show_attend_tell.messages import install_command, plural, unreadable
from show_attend_tell.settings import Count, Rate, settings

if TYPE_CHECKING:
    from torch import Tensor

Resize = Literal["squash", "squash-256", "crop"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# The version of the pixels that `open_photo` and `Preprocessing` make. Add one if you change them: it is in the key of
# feature caches, so older ones are not read any more.
PREPROCESSING_VERSION = 3

FEWEST = 24  # pixels of the shorter side; of fewer, captions say what is common and not what is in the photo
FIRST_SIDE = 256  # pixels of the square to which `squash-256` brings a photo first
SMALLEST_CROP = 0.75  # of the photo's width and of its height, in a view called crop-1, crop-2, …
DRAWN = ("crop-", "rendered-")  # how the names of views begin that are drawn at random
# Of a view called rendered-1, rendered-2, …
SMALLEST_WINDOW = 0.85  # of the photo's width and of its height
RENDERED_SIDE = (128, 512)  # pixels
RENDERED_QUALITY = (30, 95)  # of the JPEG file
RENDERED_COLORS = 0.2  # how far brightness, contrast and saturation are from 1, at most
RENDERED_FILTERS = [Image.Resampling[name] for name in ("BOX", "BILINEAR", "BICUBIC", "LANCZOS")]

# Pillow knows more formats than these. They are not used for photos, and some start other programs (EPS runs
# Ghostscript).
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif"),
    *(".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2", ".avif", ".heic", ".heif", ".hif"),
)
SIDECAR = ".xmp"  # such a file says something of a photo, and nobody expects a caption of it
GRAY = ("1", "L", "LA", "La")
TIFF_BITS, TIFF_MEANING, TIFF_PLANES, WHITE_IS_ZERO = 258, 262, 284, 0  # tags, and a meaning of pixels
FULL = (255, 4095, 65535)  # the largest whole numbers of 8, 12 and 16 bits
KEY_SCALE = {"L;2": 85, "L;4": 17}  # to 8 bits: Pillow scales the pixels of gray PNGs, and not their transparent level
SAME_COLOR = 2  # levels of 255; a color profile that changes no color by more is sRGB
QUOTES = "put quotes around a name with spaces"  # which a shell cuts into several
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # of ISO/IEC 23008-12

Photo: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | Image.Image | NDArray[Any] | Tensor"


def is_photo(thing: object) -> bool:
    """Whether something is one photo by its type, and not several."""
    known = (str, os.PathLike, bytes, bytearray, memoryview, Image.Image, np.ndarray)
    return isinstance(thing, known) or _is_tensor(thing) or hasattr(thing, "read")


def _is_tensor(thing: object) -> bool:
    """Whether something is a tensor of PyTorch; there is none where PyTorch is not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def open_photo(photo: Photo) -> Image.Image:
    """Return any photo as an upright RGB image of 8 bits per channel.

    A photo is one of these:

    - a path, or the address of a file that fsspec opens, a URL for example;
    - the bytes of a photo's file, or a file object that is opened for reading bytes;
    - a Pillow image of any mode;
    - an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of uint8, uint16, or floats from 0 to 1;
    - a tensor (H, W), (1, H, W), (3, H, W) or (4, H, W) of the same types, as torchvision has them.

    Transparency is laid on white, an animation gives its first frame (an animated Pillow image is rewound), the
    camera's EXIF orientation is applied, and colors are converted to sRGB by the photo's ICC profile. Values of 16 and
    32 bits are scaled from 0..1 (floats only), 0..255, 0..4095 or 0..65535, whichever is the narrowest that holds them,
    and otherwise from their own minimum to their maximum. HEIC needs the package pillow-heif.

    Raises `PhotoError`, with the photo as its subject, for anything that is not a photo or is damaged, and for more
    pixels than Pillow will decode (twice `PIL.Image.MAX_IMAGE_PIXELS`).
    """
    if _is_tensor(photo):
        return _to_rgb(_from_tensor(photo))
    if isinstance(photo, np.ndarray):
        return _to_rgb(_from_array(photo))
    if isinstance(photo, Image.Image):
        return _decode(photo, getattr(photo, "filename", "") or f"{photo.mode} image of {photo.size}")
    if isinstance(photo, (bytes, bytearray, memoryview)):
        return _read(io.BytesIO(photo), f"photo of {len(photo):,} bytes")
    if hasattr(photo, "read"):
        return _read_object(photo)
    if not isinstance(photo, (str, os.PathLike)):
        raise PhotoError(
            f"a photo is a path, bytes, a file object, a PIL image, a NumPy array or a tensor, not a "
            f"{type(photo).__name__}"
        )
    if is_address(photo):
        return _read(io.BytesIO(_fetched(str(photo))), str(photo))
    return _read(Path(os.fsdecode(photo)), os.fsdecode(photo))


def is_address(photo: object) -> bool:
    """Whether something is an address, such as a URL, and no path."""
    return isinstance(photo, str) and "://" in photo and not os.path.exists(photo)


def _fetched(address: str) -> bytes:
    from fsspec import open as opened

    try:
        with opened(address, "rb") as file:
            content: bytes = file.read()
    except ImportError as error:
        protocol = address.partition("://")[0].replace("https", "http")
        raise PhotoError(str(error), subject=address, remedy=f"pip install 'fsspec[{protocol}]'") from None
    except FileNotFoundError:
        raise MissingPhoto("no such file", subject=address) from None
    except Exception as error:  # file systems behind an address have errors of their own
        reason, remedy = unreadable(error)
        raise PhotoError(reason, subject=address, remedy=remedy) from None
    return content


def _read_object(file: Any) -> Image.Image:
    name = getattr(file, "name", None)
    name = os.fsdecode(name) if isinstance(name, (str, os.PathLike)) else ""  # a number for a file without a name
    start = 0
    try:
        with contextlib.suppress(AttributeError, OSError):  # of what cannot tell
            start = file.tell()
        content = file.read()
    except (OSError, ValueError) as error:  # the latter of a closed file, and of one that is opened as text
        raise PhotoError(f"cannot be read ({error})", subject=name or "file object") from None
    if not isinstance(content, (bytes, bytearray, memoryview)):
        what = "text" if isinstance(content, str) else type(content).__name__
        raise PhotoError(f"gives {what}, not bytes: open it with mode 'rb'", subject=name or "file object")
    try:
        return _read(io.BytesIO(content), name or f"photo of {len(content):,} bytes")
    except PhotoError as error:
        if not start:
            raise
        reason = f"{error.reason}. The file object was read before, up to byte {start:,}"
        raise PhotoError(reason, subject=error.subject, remedy="rewind it with seek(0)") from None


def _read(source: Path | io.BytesIO, name: str) -> Image.Image:
    try:
        with open_header(source, name) as image:
            return _decode(image, name)
    except UnidentifiedImageError:
        raise PhotoError(f"not a photo in a format that is read here ({formats_read()})", subject=name) from None
    except Image.DecompressionBombError as error:
        raise PhotoError(f"too many pixels to decode safely ({error}); make it smaller first", subject=name) from None
    except (PhotoError, Warning):
        raise
    except FileNotFoundError:
        raise MissingPhoto("no such file", subject=name) from None
    except IsADirectoryError:
        raise PhotoError("a folder, not a photo", subject=name) from None
    except OSError as error:
        raise PhotoError(f"cannot be read ({error.strerror or error})", subject=name) from None
    except Exception as error:  # readers of headers raise almost anything on a damaged file
        raise PhotoError(f"damaged, it cannot be decoded ({error})", subject=name) from None


def formats_read() -> str:
    """The names of the formats that are read here; HEIC needs the package pillow-heif."""
    heic = ["HEIC"] if find_spec("pillow_heif") else []
    return ", ".join([known for known in FORMATS if known in Image.OPEN] + heic)


def open_header(source: Path | io.BytesIO, name: str) -> Image.Image:
    """The image in a file, of which only the header is read; raises what Pillow's readers raise."""
    try:
        Image.init()  # registers every format, so that those that this Pillow was built without can be left out
        return Image.open(source, formats=[known for known in FORMATS if known in Image.OPEN])
    except UnidentifiedImageError:
        if not _is_heic(source):
            raise
    try:
        import pillow_heif
    except ImportError:
        raise PhotoError(
            "reading HEIC photos needs pillow-heif", subject=name, remedy=install_command("heic")
        ) from None
    pillow_heif.register_heif_opener()
    return Image.open(source, formats=["HEIF"])


def _is_heic(source: Path | io.BytesIO) -> bool:
    with open(source, "rb") if isinstance(source, Path) else io.BytesIO(source.getvalue()) as file:
        head = file.read(12)
    return head[4:8] == b"ftyp" and head[8:12] in HEIC_BRANDS


def counts_as_photo(name: str) -> bool:
    """Whether a file that is found, and not named, counts as a photo: by its suffix, unless it is hidden."""
    hidden = any(part.startswith(".") and part.strip(".") for part in name.replace("\\", "/").split("/"))
    return not hidden and name.lower().endswith(SUFFIXES)


def leaves_folder(name: str) -> bool:
    """Whether a relative path would leave the folder that it is relative to; none has a character of value 0."""
    parts = name.replace("\\", "/")
    return parts.startswith("/") or ".." in parts.split("/") or "://" in name or name[1:2] == ":" or "\0" in name


@dataclass
class Found:
    """The photos that arguments of a command stand for, and how much was left out."""

    photos: list[Path] = field(default_factory=list)  # each once, in the order given
    files: int = 0  # files in folders that are not photos by their suffix
    folders: int = 0  # subfolders that were not searched

    @property
    def skipped(self) -> str:
        """What was left out, in words: "2 files and 1 subfolder"; empty when it was nothing."""
        counts = {"file": self.files, "subfolder": self.folders}
        return " and ".join(plural(number, thing) for thing, number in counts.items() if number)

    @property
    def note(self) -> str:
        """What was left out, as a note to the user; empty when it was nothing."""
        hint = " (--recursive reads subfolders)" if self.folders else ""
        return f"note: {self.skipped} skipped{hint}" if self.skipped else ""

    def add(self, entries: Iterable[Path], recursive: bool) -> None:
        """Add the photos among files and folders; what is left out is counted."""
        for entry in sorted(entries):
            if entry.name.startswith("."):
                continue
            if entry.is_dir() and recursive and not entry.is_symlink():
                self.add(_inside(entry), recursive)
            elif entry.is_dir():
                self.folders += 1
            elif counts_as_photo(entry.name) and entry.is_file():
                self.photos.append(entry)
            elif not entry.name.lower().endswith(SIDECAR):
                self.files += 1


def find_photos(arguments: Sequence[str], *, recursive: bool | None = False) -> Found:
    """Return the photos that files, folders and globs stand for.

    A folder stands for the photos in it by their suffix, sorted, with ``recursive`` also in its subfolders, and a glob
    for its matches. Hidden names are left out, and links to folders are not followed. A file that is named is taken
    whatever its suffix. Raises `SatError` for an argument without any photo, and for a folder that cannot be read;
    ``recursive`` is None for a command without that option.
    """
    found = Found()
    for argument in arguments:
        path = Path(os.path.expanduser(argument))  # Path's own raises an error where ~ names no user
        folder, here = os.path.isdir(path), Found()
        if folder or not os.path.exists(path):
            here.add(_inside(path) if folder else map(Path, glob.glob(str(path))), bool(recursive))
        else:
            here.photos.append(path)
        if not here.photos and folder:
            skipped = f"; {here.skipped} skipped" if here.skipped else ""
            skipped += ", --recursive reads subfolders" if here.folders and recursive is not None else ""
            raise SatError(f"{argument}: no photo in this folder (photos end in {' '.join(SUFFIXES)}){skipped}")
        if not here.photos:
            remedy = QUOTES if len(arguments) > 1 else None
            raise MissingPhoto("no such photo, and no photo matches it as a pattern", subject=argument, remedy=remedy)
        found.photos += here.photos
        found.files, found.folders = found.files + here.files, found.folders + here.folders
    found.photos = list(dict.fromkeys(found.photos))
    return found


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise SatError(f"{folder}: the folder cannot be read ({error.strerror})") from None


@settings
class Preprocessing:
    """How a photo becomes the square of pixels that an encoder was made for; it travels with the weights.

    `squash` resizes the whole photo to `size` × `size`; `squash-256` does so by way of 256 × 256 pixels, so that copies
    in several sizes become nearly the same. `crop` resizes its shortest side to 256/224 of `size` and cuts the central
    square (section 4.3 of the paper). `mean` and `std` are of red, green and blue from 0 to 1.
    """

    size: Count = 224
    resize: Resize = "crop"
    mean: Annotated[tuple[float, float, float], Field(strict=False)] = IMAGENET_MEAN  # not strict: JSON has lists
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
        box, mirrored = self.seen(*photo.size), mirrors(view, name)
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
        pixels = pixels[:, ::-1] if mirrored else pixels
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (3, H, W)

    def seen(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Return the rectangle of a photo that the encoder sees: left, top, right, bottom in its own pixels."""
        if self.resize != "crop":
            return (0.0, 0.0, float(width), float(height))
        shortest = round(self.size * 256 / 224)
        # in whole pixels: the long side is cut down to a whole number, as torchvision does
        resized = [shortest * side // min(width, height) for side in (width, height)]
        corner = [round((side - self.size) / 2) for side in resized]
        scale = [width / resized[0], height / resized[1]]
        left, top = corner[0] * scale[0], corner[1] * scale[1]
        right = min(float(width), (corner[0] + self.size) * scale[0])
        bottom = min(float(height), (corner[1] + self.size) * scale[1])
        return (left, top, right, bottom)

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON can hold them; `from_dict` is the way back."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Preprocessing":
        """Return the preprocessing that `to_dict` described. Raises `SatError` for other or missing names or values."""
        if missing := {field.name for field in fields(cls)} - set(values):
            raise SatError(f"preprocessing: {', '.join(sorted(missing))} is missing: get the file again")
        return cls(**values)


def mirrors(view: str, name: str) -> bool:
    """Whether a view of the photo of that name is mirrored left to right (`Preprocessing.pixels`)."""
    return _chances(view, name)[4] < 0.5 if view.startswith(DRAWN) else view == "flipped"


def _chances(view: str, name: str) -> list[float]:
    """Twelve random numbers: the window's width, height, left and top; mirrored or not; then those of `_rendered`."""
    chance = random.Random(f"{view} of {name}")
    return [chance.random() for _ in range(12)]


def _window(
    box: tuple[float, float, float, float], smallest: float, width: float, height: float, left: float, top: float
) -> tuple[float, float, float, float]:
    """A window of a box (left, top, right, bottom) by four numbers from 0 to 1; its sides are at least ``smallest``."""
    first, highest, right, bottom = box
    width = (right - first) * (smallest + (1 - smallest) * width)
    height = (bottom - highest) * (smallest + (1 - smallest) * height)
    left, top = first + (right - width - first) * left, highest + (bottom - height - highest) * top
    return (left, top, min(right, left + width), min(bottom, top + height))


def _rendered(photo: Image.Image, box: tuple[float, float, float, float], chances: Sequence[float]) -> Image.Image:
    """A copy of what is in a rectangle of a photo, as the copies that people keep (`_chances`)."""
    smallest, largest = RENDERED_SIDE
    side = round(smallest * (largest / smallest) ** chances[5])
    filtered = RENDERED_FILTERS[int(chances[6] * len(RENDERED_FILTERS))]
    copy = photo.resize((side, side), filtered, box=_window(box, SMALLEST_WINDOW, *chances[:4]))
    for change, chance in zip(
        (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), chances[7:10], strict=True
    ):
        copy = change(copy).enhance(1 + RENDERED_COLORS * (2 * chance - 1))
    worst, best = RENDERED_QUALITY
    file = io.BytesIO()
    copy.save(file, "JPEG", quality=round(worst + (best - worst) * chances[10]), subsampling=2 * (chances[11] < 0.7))
    return Image.open(file).convert("RGB")


def _decode(image: Image.Image, name: str) -> Image.Image:
    if 0 in image.size:
        raise PhotoError(f"an empty photo ({image.width} × {image.height} pixels)", subject=name)
    try:
        if image.tell():
            image.seek(0)
        image = _loaded(image)
    except Exception as error:  # Pillow's decoders raise almost anything on a damaged file
        raise PhotoError(f"damaged, it cannot be decoded ({error})", subject=name) from None
    with contextlib.suppress(Exception):  # the photo decodes, so damaged EXIF data does not matter
        image = ImageOps.exif_transpose(image)
    return _to_rgb(image, name)


def _loaded(image: Image.Image) -> Image.Image:
    """An image with its pixels, also where Pillow by itself would misread 16 bits or the transparent color of a PNG."""
    tiles = getattr(image, "tile", None) or [("", (), 0, "")]  # of a file that is not decoded yet
    codec, args = tiles[0][0], tiles[0][3]
    stored = str(args[0] if isinstance(args, tuple) and args else args)
    tags: Any = getattr(image, "tag_v2", {})  # of a TIFF file
    if codec == "raw" and tags.get(TIFF_PLANES) == 2 and max(tags.get(TIFF_BITS, (8,))) == 16:
        order = ";16L" if tags.prefix == b"II" else ";16B"
        for number, tile in enumerate(tiles):
            tiles[number] = _read_as((f"{tile[3][0]}{order}", *tile[3][1:]), tile)
    deep, key = image.mode == "RGB" and ";16" in stored, image.info.get("transparency")
    lower = _lower_bytes(image) if deep and key else None
    image.load()
    alpha = None
    if lower is not None:
        alpha = Image.fromarray((256 * np.asarray(image).astype(int) + lower != key).any(2)).convert("L")
    if deep and np.asarray(image).max() <= 15:  # 12 bits in 16, of which Pillow keeps the upper 8
        image = image.point(lambda level: 17 * level)
    if alpha is not None:
        image = image.copy()
        image.putalpha(alpha)
        del image.info["transparency"]
    elif stored in KEY_SCALE and key is not None:
        image = image.copy()
        image.info["transparency"] = key * KEY_SCALE[stored]
    elif stored == "LA;16B":
        image = image.convert("LA")  # Pillow has RGBA, which no profile of gray fits
    elif image.mode.startswith("I;16") and tags.get(TIFF_MEANING) == WHITE_IS_ZERO:
        levels, info = np.asarray(image), image.info
        image = Image.fromarray(_full(levels.max()) - levels)
        image.info = info
    return image


def _read_as(args: Any, tile: Any) -> Any:
    """A part of a file that Pillow is to decode, as stored in another way; before Pillow 11 it is a plain tuple."""
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)


def _lower_bytes(image: Any) -> NDArray[np.uint8]:
    """The lower bytes (H, W, 3) of a PNG's colors of 16 bits, of which Pillow keeps the upper ones."""
    at = image.fp.tell()
    twin = Image.open(image.fp, formats=["PNG"])
    twin.tile = [_read_as("RGB;16L", tile) for tile in twin.tile]
    lower = np.asarray(twin)
    image.fp.seek(at)
    return lower


def _to_rgb(image: Image.Image, name: str = "array") -> Image.Image:
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
    if profile and (transform := _to_srgb(profile, color.mode)):
        color = ImageCms.applyTransform(color, transform) or color
    color = color.convert("RGB")
    return Image.composite(color, Image.new("RGB", color.size, "white"), alpha) if alpha else color


def _from_deep(values: NDArray[Any], key: int | None, name: str) -> tuple[Image.Image, Image.Image | None]:
    """Gray of 8 bits from one channel of 16 or 32, and its alpha where one of its levels, ``key``, is transparent."""
    if not np.isfinite(values).all():
        raise PhotoError("holds values that are not finite", subject=name)
    seen = np.ones(values.shape, bool) if key is None else values != key
    low, high = (float(values[seen].min()), float(values[seen].max())) if seen.any() else (0.0, 1.0)
    if low < 0 or high > FULL[-1]:
        full = high - low or 1.0
    else:
        low, full = 0.0, 1 if values.dtype.kind == "f" and high <= 1 else _full(high)
    levels = ((values.astype(np.float64) - low) * (255 / full)).round().clip(0, 255).astype(np.uint8)
    return Image.fromarray(levels), None if key is None else Image.fromarray(seen).convert("L")


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


def _from_tensor(tensor: Any) -> Image.Image:
    import torch

    what = f"tensor of shape {tuple(tensor.shape)} and type {tensor.dtype}"
    if tensor.ndim not in (2, 3) or (tensor.ndim == 3 and tensor.shape[0] not in (1, 3, 4)):
        raise PhotoError("a photo's shape is (H, W), (1, H, W), (3, H, W) or (4, H, W)", subject=what)
    if tensor.layout != torch.strided or tensor.is_meta:
        raise PhotoError("a photo's tensor is dense and holds data", subject=what)
    plain = tensor.detach().cpu().float() if tensor.is_floating_point() else tensor.detach().cpu()
    return _from_array((plain if plain.ndim == 2 else plain.permute(1, 2, 0)).numpy(), what)


def _from_array(array: NDArray[Any], what: str = "") -> Image.Image:
    what = what or f"array of shape {array.shape} and type {array.dtype}"
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise PhotoError("a photo's shape is (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)", subject=what)
    if array.size == 0:
        raise PhotoError("an empty photo", subject=what)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:  # also of another byte order
        array = (array * (255 / _full(array.max()))).round().astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):  # also when they are not numbers
            raise PhotoError(f"floats are read from 0 to 1, these go from {low:g} to {high:g}", subject=what)
        array = (array * 255).round().astype(np.uint8)
    elif array.dtype != np.uint8:
        raise PhotoError("a photo's type is uint8, uint16, or a float from 0 to 1", subject=what)
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)
