"""The signature in the file of a picture, by which it is known that it may be replaced."""

from pathlib import Path

from PIL import ExifTags, Image

SIGNATURE = "drawn by show-attend-tell"  # as plain bytes in each format


def exif() -> Image.Exif:
    """The signature for formats with EXIF data."""
    data = Image.Exif()
    data[ExifTags.Base.Software] = SIGNATURE
    return data


def is_signed(file: Path) -> bool:
    """Whether a file is a picture of attention that this package drew."""
    return SIGNATURE.encode() in file.read_bytes()
