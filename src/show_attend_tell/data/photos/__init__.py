"""Photos: finding them, opening them whatever they are, and making of them what an encoder reads."""

from show_attend_tell.data.photos.finding import (
    QUOTES,
    SUFFIXES,
    LeftOut,
    counts_as_photo,
    leaves_folder,
    photos_in,
)
from show_attend_tell.data.photos.opening import (
    FEWEST,
    PASSED_OVER,
    Photo,
    formats_read,
    is_address,
    is_photo,
    open_header,
    open_photo,
)
from show_attend_tell.data.photos.preprocessing import (
    DRAWN,
    IMAGENET_MEAN,
    IMAGENET_STD,
    PREPROCESSING_VERSION,
    Preprocessing,
    Resize,
    mirrors,
)

__all__ = [
    "DRAWN",
    "FEWEST",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "PASSED_OVER",
    "PREPROCESSING_VERSION",
    "QUOTES",
    "SUFFIXES",
    "LeftOut",
    "Photo",
    "Preprocessing",
    "Resize",
    "counts_as_photo",
    "formats_read",
    "is_address",
    "is_photo",
    "leaves_folder",
    "mirrors",
    "open_header",
    "open_photo",
    "photos_in",
]
