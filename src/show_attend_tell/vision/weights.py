"""The weights of the networks whose layers are written out here, as arrays: no PyTorch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.arrays import read_arrays
from show_attend_tell.checkpoint.packing import unpack
from show_attend_tell.errors import MissingFile, SatError
from show_attend_tell.model.config import misfit

Weights = str | Path | Mapping[str, NDArray[Any]] | None  # a file, arrays by their names, or None for the shipped file


def network_weights(
    weights: Weights,
    shapes: Mapping[str, tuple[int, ...]],
    network: str,
    *,
    shipped: Path,
    unused: tuple[str, ...] = (),
) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of a network, from arrays or a safetensors file, either plain or in 8 bits.

    ``shapes`` are by the names of the weights. Weights whose names begin with one of ``unused`` are left out. Raises
    `MissingFile`, and `SatError` for a damaged file and for weights that are not the ``network``'s.
    """
    source = "weights"
    if not isinstance(weights, Mapping):
        path = shipped if weights is None else Path(weights)
        if not path.is_file():
            remedy = "give another, or none for the shipped ones"
            raise MissingFile(f"no such file of {network} weights", subject=str(path), remedy=remedy)
        source, weights = str(path), read_arrays(path, remedy="give a .safetensors file")
    used = {name: array for name, array in weights.items() if not name.startswith(unused)}
    try:
        found = unpack(used)
    except SatError as error:
        raise SatError(f"{source}: {error}") from None
    if difference := misfit(found, shapes):
        raise SatError(f"{source}: not the weights of {network}: {difference}")
    return found
