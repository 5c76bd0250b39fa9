"""A model's arrays on disk: safetensors files, read and checked. Nothing is ever unpickled."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from show_attend_tell.checkpoint import hub
from show_attend_tell.checkpoint.packing import Arrays, arrays_digest, unpack, weights_digest
from show_attend_tell.errors import SatError
from show_attend_tell.model.config import misfit

NGRAMS = "ngrams.safetensors"
TUNED = "encoder.safetensors"
DOUBT = "doubt.safetensors"


def read_arrays(file: Path, *, unpacked: bool = False, remedy: str = "copy the model again") -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, with ``unpacked`` the float32 weights that it packs.

    Raises `SatError`, which ends with the remedy, when the file is missing or damaged, may not be read, or has
    bfloat16, which NumPy does not have; with ``unpacked`` also for values that are not numbers.
    """
    check_readable(file)
    try:
        arrays = load_file(file)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SatError(f"{file} is missing or damaged ({error}): {remedy}") from error
    if not unpacked:
        return arrays
    try:
        arrays = unpack(arrays)
    except SatError as error:
        raise SatError(f"{file} is damaged: {error}") from error
    if name := not_finite(arrays):
        raise SatError(f"{file} is damaged: {name} holds values that are not numbers")
    return arrays


def check_readable(file: Path) -> None:
    """Raise `SatError` for a file that may not be read; safetensors would call it missing."""
    try:
        open(file, "rb").close()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror}): give yourself the right to read it") from None


def not_finite(weights: Arrays) -> str | None:
    """The name of the first array that has a value that is infinite or not a number; None when there is none."""
    return next((name for name, value in weights.items() if not np.isfinite(value).all()), None)


def check_fit(file: Path, weights: Arrays, shapes: Mapping[str, tuple[int, ...]] | None) -> None:
    """Raise `SatError` unless the weights of a file have the shapes of the configuration, where these are known."""
    if shapes is not None and (difference := misfit(weights, shapes)):
        raise SatError(f"{file} does not fit its config.json: {difference}")


def read_ngrams(folder: Path, digest: str | None) -> dict[str, NDArray[Any]] | None:
    """The visual n-grams, packed, that a model names by their SHA-256 (`arrays_digest`); see `named_arrays`."""
    return named_arrays(folder, digest, NGRAMS, "ngrams", read_arrays, arrays_digest)


def read_tuned(folder: Path, digest: str | None) -> dict[str, NDArray[Any]] | None:
    """The encoder's tuned weights that a model names by their SHA-256 (`weights_digest`); see `named_arrays`."""
    return named_arrays(folder, digest, TUNED, "encoder", partial(read_arrays, unpacked=True), weights_digest)


def named_arrays(
    folder: Path,
    digest: str | None,
    name: str,
    kind: str,
    read: Callable[[Path], dict[str, NDArray[Any]]],
    digest_of: Callable[[Arrays], str],
) -> dict[str, NDArray[Any]] | None:
    """Arrays that a model names by their SHA-256; None when it names none.

    They are in the model's folder, in a folder NAME-KIND beside it, which several models may share, or among those
    shipped. Raises `SatError` when none of these files has that SHA-256, and for a damaged file.
    """
    if digest is None:
        return None
    shared = f"*-{kind}/{name}"
    for file in (folder / name, *sorted(folder.parent.glob(shared)), *sorted(hub.SHIPPED.glob(shared))):
        if file.exists() and digest_of(arrays := read(file)) == digest:
            return arrays
    raise SatError(f"{folder / name} is missing or is another model's: copy the model again")
