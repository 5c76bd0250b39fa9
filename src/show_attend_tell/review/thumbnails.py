"""Small copies of photos for the page, kept in the user's cache and never beside the photos."""

import hashlib
import io
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from show_attend_tell.data.photos import open_header, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write

SIDE = 480  # pixels of the longer side
QUALITY = 82
ROOM = threading.Semaphore(2)  # for photos that are decoded at a time, since each takes memory
RAW = tuple(".3fr .arw .cr2 .cr3 .dng .erf .nef .nrw .orf .pef .raf .raw .rw2 .srw .x3f".split())


def default_folder() -> Path:
    """Where thumbnails are kept: in `$XDG_CACHE_HOME`, or the user's ``.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "show-attend-tell" / "thumbnails"


def thumbnail(photo: Path, folder: Path) -> bytes:
    """The thumbnail of a photo as JPEG, kept in a folder by the photo's path, size and time of change.

    Raises `OSError` for a photo that is not there or cannot be read.
    """
    status = photo.stat()
    version = repr((str(photo.absolute()), status.st_size, status.st_mtime_ns, SIDE))
    file = folder / f"{hashlib.sha256(version.encode()).hexdigest()}.jpg"
    with suppress(OSError):
        return file.read_bytes()
    with ROOM:
        content = shrunk(photo)
    with suppress(OSError, SatError):  # without a cache it is made again each time
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(file, lambda scratch: scratch.write_bytes(content))
    return content


def shrunk(photo: Path, side: int = SIDE) -> bytes:
    """A copy of a photo as JPEG, its longer side at most so many pixels; raises `PhotoError`."""
    try:
        with open_header(photo, str(photo)) as header:
            header.draft(None, (side, side))  # of a large JPEG only the pixels that are needed
            image = open_photo(header)
    except Exception:  # readers of headers raise almost anything, and `open_photo` says what it means
        image = open_photo(photo)
    image.thumbnail((side, side), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def raw_alone(folder: Path, photos: Iterable[Path]) -> list[Path]:
    """The cameras' raw files in a folder and below it that have no photo of the same name beside them."""
    stems = {photo.with_suffix("") for photo in photos}
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names if name.lower().endswith(RAW)]
    return sorted(file for file in files if file.with_suffix("") not in stems)
