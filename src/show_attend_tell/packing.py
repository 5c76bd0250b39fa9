"""Weights in 8 bits: one byte per weight and one float32 scale per row, a quarter of float32's size.

weight[r, …] ≈ int8[r, …] · scale[r], with scale[r] = max|weight[r, …]| / 127. The largest error of a weight
is half its row's scale. A row is a slice of the first dimension: an output channel of a convolution, an
output of a linear map, a word of an embedding.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from show_attend_tell.errors import SatError

SCALE = ".scale"


def pack_8bit(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round every floating tensor of two or more dimensions to int8, its scales stored as `NAME.scale`.

    Floating tensors of fewer dimensions (biases) become float32; integers and booleans stay as they are.
    Packing what `unpack_8bit` returned gives the same bytes again. Raises `SatError` for a weight that is not
    finite and for a name that is taken already by a scale.
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


def _per_row(scale: Tensor, tensor: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (tensor.ndim - 1))  # (rows, 1, …)


def _is_int8(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == torch.int8
