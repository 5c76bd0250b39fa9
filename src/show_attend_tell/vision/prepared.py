"""Photos on their way to a model: those that are meant, and what is needed of each."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.data.photos import (
    PASSED_OVER,
    Photo,
    Preprocessing,
    is_address,
    is_photo,
    open_photo,
)
from show_attend_tell.errors import InvalidValue, PhotoError
from show_attend_tell.messages import shorten
from show_attend_tell.progress import Progress

KEPT = 1000  # pixels of the longer side of a photo that a caption holds
FEW = 8  # photos that are captioned without showing the progress
PROGRESS = "{n_fmt} of {total_fmt} photos |{bar:30}| {elapsed} gone, {remaining} left"


class PreparedPhoto(NamedTuple):
    """A photo that waits to be captioned."""

    pixels: NDArray[np.float32]  # (3, S, S), the encoder's square
    size: tuple[int, int]  # of the photo, width and height
    source: str | None
    kept: Path | Image.Image
    passed_over: str | None  # what was left out of the photo's file


def prepare_photo(photo: "Photo | PhotoError", preprocessing: Preprocessing) -> PreparedPhoto | PhotoError:
    """What is needed of a photo, without holding it; or why it cannot be read."""
    if isinstance(photo, PhotoError):
        return photo
    try:
        image = open_photo(photo)
    except PhotoError as error:
        return error.with_traceback(None)  # which would hold the photo
    pixels = preprocessing.pixels(image)
    size = image.size
    passed_over = image.info.get(PASSED_OVER)
    path = os.fsdecode(photo) if isinstance(photo, (str, os.PathLike)) else None
    kept: Path | Image.Image = image
    if path is not None and not is_address(photo):
        kept = Path(path).absolute()
    else:
        image.thumbnail((KEPT, KEPT), Image.Resampling.LANCZOS)  # leaves a smaller one as it is
    return PreparedPhoto(pixels, size, path, kept, passed_over)


def several_photos(photos: Any) -> "Iterable[Photo | PhotoError] | None":
    """Photos, or None for what is one photo; raises `InvalidValue` for what is neither."""
    if is_photo(photos):
        return None
    if not isinstance(photos, Iterable):
        raise InvalidValue(
            f"{shorten(photos)} is not a photo",
            remedy="give a path, bytes, a file object, a PIL image, an array, a tensor, or several of them in a list",
        )
    return photos


def progress_bar(total: int | None, *, show: bool) -> Progress:
    """A bar on standard error that says "12 of 30 photos"."""
    form = None if total is None else PROGRESS
    return Progress(total=total, desc="photos", disable=not show, unit="photo", bar_format=form)
