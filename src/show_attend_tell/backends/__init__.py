"""What turns a checkpoint into something that encodes photos and opens decoder sessions.

`base` has the protocol, `torch` PyTorch (an extra), and `onnx` ONNX Runtime, which makes captions only. Everything
above asks the protocol. `load` chooses a back end, and imports it when it is first needed.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from show_attend_tell.backends.base import Backend
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.devices import needs_torch
from show_attend_tell.errors import InvalidValue, MissingPackage
from show_attend_tell.messages import install_command
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.settings import EVERYWHERE
from show_attend_tell.vision.registry import ENCODERS

if TYPE_CHECKING:
    import torch

BackendName = Literal["torch", "onnx"]
GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")  # of NVIDIA's driver, of WSL's, of AMD's


def load(
    checkpoint: Checkpoint,
    name: str,
    *,
    backend: str = "auto",
    device: "str | torch.device" = "auto",
    encoder_weights: str | Path | None = None,
) -> Backend:
    """The back end of one model called ``name``; the arguments are those of `Captioner.from_pretrained`."""
    chosen = pick_backend(backend, checkpoint, device)
    if chosen == "onnx":
        if str(device) not in ("auto", "cpu"):
            raise InvalidValue(f"device {str(device)!r}: ONNX Runtime computes on the cpu here; choose backend torch")
        from show_attend_tell.backends.onnx.backend import OnnxBackend

        return OnnxBackend.load(checkpoint, name, encoder_weights=encoder_weights)
    from show_attend_tell.backends.torch import TorchBackend
    from show_attend_tell.devices import pick_device

    return TorchBackend.load(checkpoint, name, device=pick_device(device), encoder_weights=encoder_weights)


def pick_backend(name: str, checkpoint: Checkpoint, device: object = "auto") -> BackendName:
    """The back end called ``name``, or for "auto" the faster one: ONNX Runtime on a processor, if it has the model."""
    if name not in ("auto", *get_args(BackendName)):
        raise InvalidValue(f"backend {name!r}: choose auto, {' or '.join(get_args(BackendName))}")
    installed = find_spec("torch") is not None
    if name == "torch" and not installed:
        raise MissingPackage("backend 'torch': PyTorch is not installed", remedy=install_command("torch"))
    attention = isinstance(checkpoint.config, DecoderConfig)
    encoder = checkpoint.encoder.name in ENCODERS
    mode = checkpoint.generation.attention_mode in EVERYWHERE
    gpu = shutil.which("nvidia-smi") or any(Path(file).exists() for file in GPU_FILES)  # a driver that PyTorch may use
    processor = str(device) == "cpu" or (str(device) == "auto" and not gpu)
    faster = attention and encoder and mode and processor
    if name == "torch" or (name == "auto" and installed and not faster):
        return "torch"
    if not attention:
        raise needs_torch(f"a decoder of kind {checkpoint.config.kind!r}")
    if not encoder:
        raise needs_torch(f"the encoder {checkpoint.encoder.name}")
    return "onnx"
