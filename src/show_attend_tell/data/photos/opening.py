"""A photo, from whatever a user has: a path, an address, bytes, a file object, an image, an array or a tensor."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from show_attend_tell.data.photos.decoding import decode, from_array, from_tensor, to_rgb
from show_attend_tell.data.photos.mending import mended
from show_attend_tell.errors import MissingPhoto, PhotoError
from show_attend_tell.messages import install_command, unreadable

if TYPE_CHECKING:
    from torch import Tensor

FEWEST = 24  # pixels of the shorter side; of fewer, captions say what is common and not what is in the photo
PASSED_OVER = "passed_over"  # what `Image.info` calls the parts of a file that were left out for its pixels to be read

# Pillow knows more formats than these. They are not used for photos, and some start other programs (EPS runs
# Ghostscript).
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # of ISO/IEC 23008-12
OTHER_FILES = {  # by their first bytes, what people take for photos
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a ZIP archive (unpack it, and give its folder)",
    b"8BPS": "a Photoshop file",
    b"<svg": "a drawing in SVG",
    b"<!DO": "a web page",
    b"<htm": "a web page",
    b"vers": "a pointer of Git LFS (git lfs pull gets the photo)",
}

Opened = TypeVar("Opened", bound=Image.Image)
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
        return to_rgb(from_tensor(photo))
    if isinstance(photo, np.ndarray):
        return to_rgb(from_array(photo))
    if isinstance(photo, Image.Image):
        return decode(photo, getattr(photo, "filename", "") or f"{photo.mode} image of {photo.size}")
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
    from fsspec import open as open_address

    try:
        with open_address(address, "rb") as file:
            content: bytes = file.read()
    except ImportError as error:
        protocol = address.partition("://")[0].replace("https", "http")
        raise PhotoError(str(error), subject=address, remedy=f"pip install 'fsspec[{protocol}]'") from None
    except FileNotFoundError:
        raise MissingPhoto("no such file", subject=address) from None
    except Exception as error:  # file systems behind an address have errors of their own
        raise PhotoError(unreadable(error), subject=address) from None
    return content


def _read_object(file: Any) -> Image.Image:
    path = getattr(file, "name", None)  # a number for a file without a name
    name = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else ""
    try:
        content = file.read()
    except (OSError, ValueError) as error:  # the latter of a closed file, and of one that is opened as text
        raise PhotoError(f"cannot be read ({error})", subject=name or "file object") from None
    if not isinstance(content, (bytes, bytearray, memoryview)):
        what = "text" if isinstance(content, str) else type(content).__name__
        raise PhotoError(f"gives {what}, not bytes: open it with mode 'rb'", subject=name or "file object")
    if not content:
        raise PhotoError("gives no bytes", subject=name or "file object", remedy="rewind it with seek(0)")
    return _read(io.BytesIO(content), name or f"photo of {len(content):,} bytes")


def _read(source: Path | io.BytesIO, name: str) -> Image.Image:
    try:
        with open_header(source, name) as image:
            try:
                photo = decode(image, name)
            except PhotoError as error:
                return _from_mended(source, lambda mended_image: decode(mended_image, name), error)
            if PASSED_OVER in image.info:
                photo.info[PASSED_OVER] = image.info[PASSED_OVER]
            return photo
    except UnidentifiedImageError:
        raise PhotoError(_no_photo(_content(source, 12)), subject=name) from None
    except Image.DecompressionBombError as error:
        raise PhotoError(f"too many pixels to decode safely ({error}); make it smaller first", subject=name) from None
    except (PhotoError, Warning):
        raise
    except FileNotFoundError:
        link = isinstance(source, Path) and source.is_symlink()
        raise MissingPhoto("a link to a file that does not exist" if link else "no such file", subject=name) from None
    except IsADirectoryError:
        raise PhotoError("a folder, not a photo", subject=name) from None
    except Exception as error:  # readers of headers raise almost anything on a damaged file
        raise PhotoError(unreadable(error), subject=name) from None


def _from_mended(source: Path | io.BytesIO, read: Callable[[ImageFile.ImageFile], Opened], error: Exception) -> Opened:
    """What can be read of an image without the rest of its file. Raises the ``error`` for any other."""
    with contextlib.suppress(Exception):
        for content, left_out in mended(_content(source)):
            with contextlib.suppress(Exception):
                image = read(_open(io.BytesIO(content)))
                image.info[PASSED_OVER] = left_out
                return image
    raise error


def _content(source: Path | io.BytesIO, size: int = -1) -> bytes:
    with open(source, "rb") if isinstance(source, Path) else io.BytesIO(source.getvalue()) as file:
        return file.read(size)


def _no_photo(head: bytes) -> str:
    """What a file is that no reader takes for a photo."""
    if not head:
        return "empty, a file of 0 bytes"
    what = OTHER_FILES.get(head[:4], "")
    return f"{what}{', ' * bool(what)}not a photo in a format that is read here ({formats_read()})"


def formats_read() -> str:
    """The names of the formats that are read here; HEIC needs the package pillow-heif."""
    heic = ["HEIC"] if find_spec("pillow_heif") else []
    return ", ".join([known for known in FORMATS if known in Image.OPEN] + heic)


def open_header(source: Path | io.BytesIO, name: str) -> ImageFile.ImageFile:
    """The image in a file, of which only the header is read; raises what Pillow's readers raise."""
    try:
        return _open(source)
    except Image.DecompressionBombError:
        raise
    except Exception as error:
        head = _content(source, 12)
        if head[4:8] == b"ftyp" and head[8:12] in HEIC_BRANDS:
            return _open_heic(source, name)
        return _from_mended(source, lambda image: image, error)


def _open(source: Path | io.BytesIO) -> ImageFile.ImageFile:
    Image.init()  # registers every format, so that those that this Pillow was built without can be left out
    return Image.open(source, formats=[known for known in FORMATS if known in Image.OPEN])


def _open_heic(source: Path | io.BytesIO, name: str) -> ImageFile.ImageFile:
    try:
        import pillow_heif
    except ImportError:
        raise PhotoError(
            "reading HEIC photos needs pillow-heif", subject=name, remedy=install_command("heic")
        ) from None
    pillow_heif.register_heif_opener()
    return Image.open(source, formats=["HEIF"])
