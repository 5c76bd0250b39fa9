"""Weights in 8 bits: one byte per weight and one float32 scale per row, a quarter of float32's size; or in 4 bits.

weight[r, …] ≈ int8[r, …] · scale[r], with scale[r] = max|weight[r, …]| / 127. The largest error of a weight
is half its row's scale. A row is a slice of the first dimension: an output channel of a convolution, an
output of a linear map, a word of an embedding.

In 4 bits, two weights to a byte, there are 15 values instead of 255. So the largest weights of a row are cut off where
this makes the error of the whole row smallest. That is for large matrices, which are used in sums over many weights: in
these the errors average out.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import SatError

if TYPE_CHECKING:
    from torch import Tensor

Arrays = Mapping[str, NDArray[Any]]

SCALE = ".scale"
CUTS = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2)  # of a row's largest weight, where 4 bits may end
LARGE = 65_536  # weights from which on a matrix may have 4 bits


def pack(state: "Mapping[str, Tensor]", bits: Literal[8, 4] = 8) -> "dict[str, Tensor]":
    """Round every floating tensor of two or more dimensions to int8, its scales stored as `NAME.scale`.

    With 4 ``bits``, matrices of `LARGE` weights or more, in rows of an even number, are rounded to these instead
    (`pack_4bit`). Floating tensors of fewer than two dimensions (biases) become float32; integers and booleans stay as
    they are. Packing what `unpack` returned gives the same bytes again. Raises `SatError` for a weight that is not
    finite, and for a tensor that has the name of another tensor's scales.
    """
    import torch

    packed = {}
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            packed[name] = tensor
            continue
        tensor = tensor.detach().float()
        if not tensor.isfinite().all():
            raise SatError(f"{name}: holds values that are not finite, so it cannot be stored")
        if tensor.ndim < 2 or tensor.numel() == 0:
            packed[name] = tensor
            continue
        if name + SCALE in state:
            raise SatError(f"{name}{SCALE}: this name is needed for the scales of {name}; rename the tensor")
        if bits == 4 and tensor.ndim == 2 and tensor.shape[1] % 2 == 0 and tensor.numel() >= LARGE:
            packed[name], packed[name + SCALE] = pack_4bit(tensor)
            continue
        # Idempotent because (s · 127) / 127 == s for every s = m / 127 in float32, which was checked for all
        # 2²³ mantissas m. That fails among subnormal numbers, so a row as small as that counts as zero.
        scale = tensor.flatten(1).abs().amax(1) / 127  # (rows,)
        scale = torch.where(scale < torch.finfo(torch.float32).tiny, torch.ones_like(scale), scale)
        packed[name] = (tensor / _per_row(scale, tensor)).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def unpack(packed: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return the float32 weights that `pack` stored, as tensors; see `unpacked`."""
    return as_tensors(unpacked({name: as_array(tensor) for name, tensor in packed.items()}))


def unpacked(packed: Arrays) -> dict[str, NDArray[Any]]:
    """Return the float32 weights that `pack` stored; floating arrays never packed become float32 too.

    Bytes (uint8) with scales are weights in 4 bits. Raises `SatError` for an int8 array without its scales, and for
    scales of the wrong shape.
    """
    state = {}
    for name, array in packed.items():
        if array.dtype == np.uint8 and name + SCALE in packed:
            state[name] = unpacked_4bit(array, packed[name + SCALE])
            continue
        if array.dtype == np.int8:
            scale = packed.get(name + SCALE)
            if scale is None:
                raise SatError(f"{name}: 8-bit weights without their scales ({name}{SCALE} is missing)")
            if array.ndim < 2 or scale.shape != array.shape[:1]:
                raise SatError(f"{name}{SCALE}: {scale.shape} scales do not fit weights of {array.shape}")
            state[name] = array.astype(np.float32)
            state[name] *= scale.astype(np.float32).reshape(-1, *[1] * (array.ndim - 1))
        elif not (name.endswith(SCALE) and _has_scales(packed.get(name.removesuffix(SCALE)))):
            floating = np.issubdtype(array.dtype, np.floating)
            state[name] = array.astype(np.float32, copy=False) if floating else array
    return state


def unpacked_4bit(packed: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.float32]:
    """The float32 weights (rows, 2 · bytes) that `pack_4bit` stored, a zero at the end where n was odd.

    Raises `SatError` for arrays that are not bytes in rows with one scale for each row.
    """
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


def check_readable(file: Path) -> None:
    """Raise `SatError` for a file that may not be read; safetensors would call it missing."""
    try:
        open(file, "rb").close()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror}): give yourself the right to read it") from None


def read_arrays(file: Path, *, remedy: str = "copy the model again") -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file.

    Raises `SatError`, which ends with the remedy, when the file is missing or damaged, and for bfloat16, which NumPy
    does not have.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    check_readable(file)
    try:
        return load_file(file)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SatError(f"{file} is missing or damaged ({error}): {remedy}") from error


def fitting(
    state: Arrays, shapes: Mapping[str, tuple[int, ...]], source: str, network: str
) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of a network, of arrays that are plain or in 8 bits.

    ``source`` and ``network`` are names for messages. Raises `SatError` unless the arrays have the names and ``shapes``
    of the network's weights.
    """
    try:
        found = unpacked(state)
    except SatError as error:
        raise SatError(f"{source}: {error}") from None
    if missing := sorted(shapes.keys() - found.keys()):
        raise SatError(f"{source}: not the weights of {network}, lacks {', '.join(missing)}")
    if extra := sorted(found.keys() - shapes.keys()):
        raise SatError(f"{source}: not the weights of {network}, has besides {', '.join(extra)}")
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise SatError(f"{source}: {name} has shape {found[name].shape}, {network}'s is {shape}")
    return found


def weights_digest(weights: Arrays) -> str:
    """Return the SHA-256 of named weights, in hexadecimal.

    Hashed are, in the order of the names, a line `NAME torch.float32 (SHAPE)` and the bytes of each array in row-major
    order; floating weights count as float32.
    """
    sha = hashlib.sha256()
    for name in sorted(weights):
        array = weights[name]
        if np.issubdtype(array.dtype, np.floating):
            array = array.astype(np.float32, copy=False)
        sha.update(f"{name} torch.{array.dtype.name} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).data)
    return sha.hexdigest()


def pack_4bit(weights: "Tensor") -> "tuple[Tensor, Tensor]":
    """Round weights (rows, n) to two a byte, (rows, ⌈n/2⌉) uint8, and scales (rows,).

    weight[r, i] ≈ (four bits − 8) · scale[r], the four bits from 1 to 15, an even i's the lower of its byte. Of seven
    scales each row has the one with the least squared error. Raises `SatError` for a weight that is not finite.
    """
    import torch

    weights = torch.nn.functional.pad(weights.detach().float(), (0, weights.shape[1] % 2))
    if not weights.isfinite().all():
        raise SatError("weights that are not finite cannot be stored")
    largest = weights.abs().amax(1)
    values = torch.full_like(weights, 8, dtype=torch.uint8)
    scale, least = torch.ones_like(largest), torch.full_like(largest, float("inf"))
    for cut in CUTS:
        # (s · 7) / 7 == s for every s = m / 7 in float32, as for 127 above, so packing again changes nothing
        step = largest * cut / 7
        step = torch.where(step < torch.finfo(torch.float32).tiny, torch.ones_like(step), step)
        rounded = (weights / step[:, None]).round().clamp(-7, 7)
        error = (rounded * step[:, None] - weights).square().sum(1)
        better = error < least
        values[better] = (rounded[better] + 8).to(torch.uint8)
        scale, least = torch.where(better, step, scale), torch.minimum(error, least)
    return values[:, ::2] | values[:, 1::2] << 4, scale


def unpack_4bit(packed: "Tensor", scale: "Tensor") -> "Tensor":
    """The float32 weights that `pack_4bit` stored, as a tensor; see `unpacked_4bit`."""
    import torch

    return torch.from_numpy(unpacked_4bit(packed.numpy(force=True), scale.numpy(force=True)))


def _per_row(scale: "Tensor", tensor: "Tensor") -> "Tensor":
    return scale.view(-1, *[1] * (tensor.ndim - 1))  # (rows, 1, …)


def _has_scales(array: NDArray[Any] | None) -> bool:
    return array is not None and array.dtype in (np.int8, np.uint8)
