"""A model's weights on disk: safetensors files, read and checked. Nothing is ever unpickled.

What is read for a back end is made by its own classes: `VisualNgrams` and `Doubt` of tensors, `ArrayNgrams` and
`ArrayDoubt` of arrays.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint import hub as find
from show_attend_tell.checkpoint.packing import check_readable, read_arrays, unpacked, weights_digest
from show_attend_tell.errors import SatError

if TYPE_CHECKING:
    from torch import Tensor

Made = TypeVar("Made")

NGRAMS = "ngrams.safetensors"
TUNED = "encoder.safetensors"
DOUBT = "doubt.safetensors"


def read_weights(file: Path) -> "dict[str, Tensor]":
    """The tensors of a safetensors file; raises `SatError` when the file is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_readable(file)
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise SatError(f"{file} is missing or damaged ({error}): copy the model again") from error


def not_finite(weights: "Mapping[str, Tensor] | Mapping[str, NDArray[Any]]") -> str | None:
    """The name of the first tensor that has a value that is infinite or not a number; None when there is none."""
    for name, value in weights.items():
        finite = np.isfinite(value) if isinstance(value, np.ndarray) else value.isfinite()
        if not finite.all():
            return name
    return None


def read_ngrams(folder: Path, digest: str | None, make: Callable[[Path], Made]) -> Made | None:
    """The visual n-grams that a model names by their SHA-256; None when it names none.

    ``make`` makes them of a file. They are in the model's folder, in a folder NAME-ngrams beside it, which several
    models may share, or among those shipped. Raises `SatError` when none of these files has that SHA-256, and for a
    damaged file.
    """
    if digest is None:
        return None
    for file in own_and_shared(folder, NGRAMS, "ngrams"):
        try:
            ngrams: Any = make(file)
        except SatError as error:
            raise SatError(f"{file} is damaged: {error}") from error
        if ngrams.digest == digest:
            return ngrams  # type: ignore[no-any-return]
    raise SatError(f"{folder / NGRAMS} is missing or is another model's: copy the model again")


def read_tuned(folder: Path, digest: str | None) -> dict[str, NDArray[Any]] | None:
    """The encoder's tuned weights that a model names by their SHA-256 (`weights_digest`); None when it names none.

    They are in the model's folder, in a folder NAME-encoder beside it, which several models may share, or among those
    shipped. Raises `SatError` when none of these files has that SHA-256, and for a damaged file.
    """
    if digest is None:
        return None
    for file in own_and_shared(folder, TUNED, "encoder"):
        tuned = unpacked(read_arrays(file))
        if weights_digest(tuned) == digest:
            return tuned
    raise SatError(f"{folder / TUNED} is missing or is another model's: copy the model again")


def own_and_shared(folder: Path, name: str, kind: str) -> list[Path]:
    """The files of that name in a model's folder, in folders NAME-KIND beside it, and in those shipped."""
    shared = f"*-{kind}/{name}"
    files = (folder / name, *sorted(folder.parent.glob(shared)), *sorted(find.SHIPPED.glob(shared)))
    return [file for file in files if file.exists()]


def read_doubt(folder: Path, annotation_size: int, make: Callable[[Path], Made]) -> Made | None:
    """The scale of doubt of a model's folder, which ``make`` makes of the file; None when there is none.

    Raises `SatError` for a damaged file and for one of annotations of another size.
    """
    file = folder / DOUBT
    if not file.exists():
        return None
    try:
        doubt: Any = make(file)
    except SatError as error:
        raise SatError(f"{file} is damaged: {error}") from error
    if len(doubt.mean) != annotation_size:
        raise SatError(f"{file} is of annotations of size {len(doubt.mean)}, and the model reads {annotation_size}")
    return doubt  # type: ignore[no-any-return]
