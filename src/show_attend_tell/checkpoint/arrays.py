"""A model's arrays on disk: safetensors files, read and checked. Nothing is ever unpickled."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from show_attend_tell.checkpoint import hub
from show_attend_tell.checkpoint.packing import Arrays, arrays_digest, unpack, weights_digest
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.values import Array

NGRAMS = "ngrams.safetensors"
TUNED = "encoder.safetensors"
CONFIDENCE = "confidence.safetensors"
CLASS_WORDS = "class_words.safetensors"


def read_arrays(file: Path, *, unpacked: bool = False, remedy: str = "copy the model again") -> dict[str, Array]:
    """The arrays of a safetensors file, or the float32 weights in it; raises `SatError` with the remedy."""
    try:
        open(file, "rb").close()  # safetensors would call a file missing that may not be read
        arrays: dict[str, Array] = load_file(file)
        arrays = unpack(arrays) if unpacked else arrays
    except (OSError, SafetensorError, SatError, ValueError, KeyError, TypeError) as error:
        raise SatError(f"{file} is missing or damaged ({error}): {remedy}") from error
    name = not_finite(arrays) if unpacked else None
    if name:
        raise SatError(f"{file} is damaged: {name} holds values that are not numbers")
    return arrays


def not_finite(weights: Arrays) -> str | None:
    """The name of the first array that has a value that is infinite or not a number; None when there is none."""
    return next((name for name, value in weights.items() if not np.isfinite(value).all()), None)


def reranker_file(kind: str) -> str:
    """The name of the file of a reranker's arrays; raises `SatError` for a kind that is not one word."""
    if not kind.isidentifier():
        raise SatError(f"the kind of a reranker is {shorten(kind)}: give it a name of letters and digits")
    return NGRAMS if kind == "ngrams" else f"reranker-{kind}.safetensors"


def shared_arrays(folder: Path, name: str, digest: str, *, unpacked: bool = False) -> dict[str, Array]:
    """Arrays that a model names by their SHA-256, those of the file, or ``unpacked`` of the weights that it packs.

    They are in the model's folder, in a folder ending in -ngrams or -encoder beside it, or among those shipped.
    """
    shared = f"*-{Path(name).stem}/{name}"
    digest_of = weights_digest if unpacked else arrays_digest
    for file in (folder / name, *sorted(folder.parent.glob(shared)), *sorted(hub.SHIPPED.glob(shared))):
        if file.exists():
            arrays = read_arrays(file, unpacked=unpacked)
            if digest_of(arrays) == digest:
                return arrays
    raise SatError(f"{folder / name} is missing or is another model's: copy the model again")
