"""Weights in 8 bits: one byte per weight and one float32 scale per row, a quarter of float32's size; or in 4 bits.

weight[r, …] ≈ int8[r, …] · scale[r], with scale[r] = max|weight[r, …]| / 127; a row is a slice of the first dimension.

In 4 bits, two weights to a byte, the largest weights of a row are cut off where this makes the error of the whole row
smallest. That is for large matrices, in whose sums over many weights the errors average out.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import SatError
from show_attend_tell.values import Array

if TYPE_CHECKING:
    from torch import Tensor

Arrays = Mapping[str, Array]

SCALE = ".scale"
CUTS = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2)  # of a row's largest weight, where 4 bits may end
LARGE = 65_536  # weights from which on a matrix may have 4 bits


def pack(state: Arrays, bits: Literal[8, 4] = 8) -> dict[str, Array]:
    """Round every floating array of two or more dimensions to int8, its scales stored as `NAME.scale`.

    With 4 ``bits``, `LARGE` matrices are rounded to these instead (`pack_4bit`). Packing what `unpack` returned gives
    the same bytes again. Raises `SatError` for a weight that is not finite.
    """
    packed: dict[str, Array] = {}
    for name, array in state.items():
        if not np.issubdtype(array.dtype, np.floating):
            packed[name] = array
            continue
        array = np.asarray(array, dtype=np.float32)
        if not np.isfinite(array).all():
            raise SatError(f"{name}: holds values that are not finite, so it cannot be stored")
        if array.ndim < 2 or array.size == 0:
            packed[name] = array
            continue
        if bits == 4 and array.ndim == 2 and array.shape[1] % 2 == 0 and array.size >= LARGE:
            packed[name], packed[name + SCALE] = pack_4bit(array)
            continue
        # Idempotent because (s · 127) / 127 == s for every s = m / 127 in float32, which was checked for all
        # 2²³ mantissas m. That fails among subnormal numbers, so a row as small as that counts as zero.
        scale = np.abs(array.reshape(len(array), -1)).max(1) / np.float32(127)  # (rows,)
        scale[scale < np.finfo(np.float32).tiny] = 1
        packed[name] = (array / scale.reshape(-1, *[1] * (array.ndim - 1))).round().astype(np.int8)
        packed[name + SCALE] = scale
    return packed


def unpack(packed: Arrays) -> dict[str, Array]:
    """The float32 weights that `pack` stored; bytes (uint8) with scales are weights in 4 bits."""
    state = {}
    for name, array in packed.items():
        if array.dtype == np.uint8 and name + SCALE in packed:
            state[name] = unpack_4bit(array, packed[name + SCALE])
            continue
        if array.dtype == np.int8:
            scale = packed.get(name + SCALE)
            if scale is None or array.ndim < 2 or scale.shape != array.shape[:1]:
                raise SatError(f"{name}: 8-bit weights of {array.shape} without as many scales ({name}{SCALE})")
            state[name] = array.astype(np.float32)
            state[name] *= scale.astype(np.float32).reshape(-1, *[1] * (array.ndim - 1))
        elif not name.endswith(SCALE) or packed.get(name.removesuffix(SCALE), array).dtype not in (np.int8, np.uint8):
            floating = np.issubdtype(array.dtype, np.floating)
            state[name] = array.astype(np.float32, copy=False) if floating else array
    return state


def unpack_4bit(packed: Array, scale: Array) -> NDArray[np.float32]:
    """The float32 weights (rows, 2 · bytes) that `pack_4bit` stored, a zero at the end where n was odd."""
    if packed.dtype != np.uint8 or packed.ndim != 2 or scale.shape != packed.shape[:1]:
        raise SatError(f"4-bit weights of {packed.shape} {packed.dtype} and {scale.shape} scales")
    values = np.empty((*packed.shape, 2), dtype=np.float32)
    values[..., 0] = packed & 15
    values[..., 1] = packed >> 4
    values -= 8
    values *= scale.astype(np.float32)[:, None, None]
    return values.reshape(len(packed), -1)


def as_array(values: Any) -> Any:
    """A tensor's values as an array, floating ones in float32, since NumPy has no bfloat16. What is no tensor stays."""
    if not hasattr(values, "numpy"):
        return values
    return (values.float() if values.is_floating_point() else values).numpy(force=True)


def as_tensors(arrays: Arrays) -> "dict[str, Tensor]":
    """Arrays as tensors of PyTorch, which share their memory where it may be written."""
    import torch

    return {name: torch.from_numpy(np.require(array, requirements="W")) for name, array in arrays.items()}


def weights_digest(weights: Arrays) -> str:
    """The SHA-256 of weights in the order of their names: a line `NAME torch.float32 (SHAPE)` and the bytes of each."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        array = weights[name]
        if np.issubdtype(array.dtype, np.floating):
            array = array.astype(np.float32, copy=False)
        sha.update(f"{name} torch.{array.dtype.name} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).data)
    return sha.hexdigest()


def arrays_digest(arrays: Arrays) -> str:
    """The SHA-256 of named arrays as a file holds them: their names, shapes and bytes, in the order of the names."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def pack_4bit(weights: Array) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Round weights (rows, n) to two a byte, (rows, ⌈n/2⌉) uint8, and scales (rows,) of the least squared error.

    weight[r, i] ≈ (four bits − 8) · scale[r], an even i's in the lower half of its byte.
    """
    weights = np.pad(weights.astype(np.float32), ((0, 0), (0, weights.shape[1] % 2)))
    largest = np.abs(weights).max(1)
    values = np.full(weights.shape, 8, dtype=np.uint8)
    scale = np.ones_like(largest)
    least = np.full_like(largest, np.inf)
    for cut in CUTS:
        # (s · 7) / 7 == s for every s = m / 7 in float32, as for 127 above, so packing again changes nothing
        step = largest * np.float32(cut) / np.float32(7)
        step[step < np.finfo(np.float32).tiny] = 1
        rounded = (weights / step[:, None]).round().clip(-7, 7)
        with np.errstate(over="ignore"):  # of rows near the largest float32
            error = np.square(rounded * step[:, None] - weights).sum(1)
        better = error < least
        values[better] = (rounded[better] + 8).astype(np.uint8)
        scale = np.where(better, step, scale)
        least = np.minimum(error, least)
    packed = values[:, ::2] | np.left_shift(values[:, 1::2], 4)
    return packed.astype(np.uint8, copy=False), scale
