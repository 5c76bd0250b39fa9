"""The device to compute on, and whether bfloat16 saves time there. PyTorch is imported when it is first needed."""

import os
from typing import TYPE_CHECKING, Literal

from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.messages import install_command

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16"]
PRECISION = "SAT_PRECISION"  # the environment variable that names the precision which ``auto`` stands for


def needs_torch(what: str) -> MissingPackage:
    """The error of what PyTorch alone can do."""
    return MissingPackage(f"{what} needs PyTorch", remedy=install_command("torch"))


def pick_device(name: "str | torch.device" = "auto") -> "torch.device":
    """The device called `name`: cpu, cuda, cuda:1, mps, or auto, which is CUDA where there is one; else `SatError`."""
    import torch

    name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    unknown = SatError(f"device {name!r}: choose auto, cpu, cuda, cuda:0 (1, 2 …) or mps")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise unknown from None
    if device.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= there:
            raise SatError(f"device {name!r}: PyTorch sees {there} CUDA device(s) here; choose auto or cpu")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise SatError("device 'mps': PyTorch sees no Apple GPU here; choose auto or cpu")
    elif device.type != "cpu":
        raise unknown
    return device


def native_bf16(device: "torch.device | str") -> bool:
    """Say whether ``auto`` is bfloat16 on this device: where it computes bfloat16 itself, or as $SAT_PRECISION says.

    A CPU without AVX512-BF16 or AMX emulates bfloat16, about ten times slower. Raises `SatError` for another value of
    the variable than float32 and bfloat16.
    """
    forced = os.environ.get(PRECISION)
    if forced:
        if forced not in ("float32", "bfloat16"):
            raise SatError(f"{PRECISION} is {forced!r}: give float32 or bfloat16, or unset it")
        return forced == "bfloat16"
    return computes_bf16(device)


def computes_bf16(device: "torch.device | str") -> bool:
    """Whether the device has instructions for bfloat16, whatever $SAT_PRECISION says."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # PyTorch keeps these two probes private; where a version has none, float32 is the safe answer.
        probes = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
        return any(bool(probe()) for probe in probes if probe is not None)
    return False
