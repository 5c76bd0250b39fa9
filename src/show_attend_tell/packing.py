"""Weights in 8 bits: one byte per weight and one float32 scale per row, a quarter of float32's size; or in 4 bits.

weight[r, …] ≈ int8[r, …] · scale[r], with scale[r] = max|weight[r, …]| / 127. The largest error of a weight
is half its row's scale. A row is a slice of the first dimension: an output channel of a convolution, an
output of a linear map, a word of an embedding.

In 4 bits, two weights to a byte, there are 15 values instead of 255. So the largest weights of a row are cut off where
this makes the error of the whole row smallest. Only the directions of `visual_ngrams` have 4 bits: they are used in
sums over very many weights, in which the errors average out.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError

SCALE = ".scale"
CUTS = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2)  # of a row's largest weight, where 4 bits may end


def pack_8bit(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round every floating tensor of two or more dimensions to int8, its scales stored as `NAME.scale`.

    Floating tensors of fewer dimensions (biases) become float32; integers and booleans stay as they are.
    Packing what `unpack_8bit` returned gives the same bytes again. Raises `SatError` for a weight that is not
    finite, and for a tensor that has the name of another tensor's scales.
    """
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
        # Idempotent because (s · 127) / 127 == s for every s = m / 127 in float32, which was checked for all
        # 2²³ mantissas m. That fails among subnormal numbers, so a row as small as that counts as zero.
        scale = tensor.flatten(1).abs().amax(1) / 127  # (rows,)
        scale = torch.where(scale < torch.finfo(torch.float32).tiny, torch.ones_like(scale), scale)
        packed[name] = (tensor / _per_row(scale, tensor)).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def unpack_8bit(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the float32 weights that `pack_8bit` stored; floating tensors never packed become float32 too.

    Raises `SatError` for an int8 tensor without its scales, or with scales of the wrong shape.
    """
    state = {}
    for name, tensor in packed.items():
        if tensor.dtype == torch.int8:
            scale = packed.get(name + SCALE)
            if scale is None:
                raise SatError(f"{name}: 8-bit weights without their scales ({name}{SCALE} is missing)")
            if tensor.ndim < 2 or scale.shape != tensor.shape[:1]:
                raise SatError(
                    f"{name}{SCALE}: {tuple(scale.shape)} scales do not fit weights of {tuple(tensor.shape)}"
                )
            state[name] = tensor.float() * _per_row(scale.float(), tensor)
        elif not (name.endswith(SCALE) and _is_int8(packed.get(name.removesuffix(SCALE)))):
            state[name] = tensor.float() if tensor.is_floating_point() else tensor
    return state


def pack_4bit(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Round weights (rows, n) to two a byte, (rows, ⌈n/2⌉) uint8, and scales (rows,).

    weight[r, i] ≈ (four bits − 8) · scale[r], the four bits from 1 to 15, an even i's the lower of its byte. Of seven
    scales each row has the one with the least squared error. Raises `SatError` for a weight that is not finite.
    """
    weights = nn.functional.pad(weights.detach().float(), (0, weights.shape[1] % 2))
    if not weights.isfinite().all():
        raise SatError("weights that are not finite cannot be stored")
    largest = weights.abs().amax(1)
    values = torch.full_like(weights, 8, dtype=torch.uint8)
    scale, least = torch.ones_like(largest), torch.full_like(largest, float("inf"))
    for cut in CUTS:
        step = (largest * (cut / 7)).clamp_min(torch.finfo(torch.float32).tiny)
        rounded = (weights / step[:, None]).round().clamp(-7, 7)
        error = (rounded * step[:, None] - weights).square().sum(1)
        better = error < least
        values[better] = (rounded[better] + 8).to(torch.uint8)
        scale, least = torch.where(better, step, scale), torch.minimum(error, least)
    return values[:, ::2] | values[:, 1::2] << 4, scale


def unpack_4bit(packed: Tensor, scale: Tensor) -> Tensor:
    """The float32 weights (rows, 2 · bytes) that `pack_4bit` stored, a zero at the end where n was odd.

    Raises `SatError` for tensors that are not bytes in rows with one scale for each row.
    """
    if packed.dtype != torch.uint8 or packed.ndim != 2 or scale.shape != packed.shape[:1]:
        raise SatError(f"4-bit weights of {tuple(packed.shape)} {packed.dtype} and {tuple(scale.shape)} scales")
    values = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)
    return (values.float() - 8) * scale.float()[:, None]


def _per_row(scale: Tensor, tensor: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (tensor.ndim - 1))  # (rows, 1, …)


def _is_int8(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == torch.int8
