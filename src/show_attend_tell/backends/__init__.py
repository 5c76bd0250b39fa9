"""What turns a checkpoint into something that encodes photos and decodes captions.

`base` has the protocol, `torch` PyTorch (an extra), and `onnx` ONNX Runtime, which makes captions only. Everything
above asks the protocol. A back end is imported when it is first needed.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_args

from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.messages import install_command

BackendName = Literal["torch", "onnx"]


def pick_backend(name: str = "auto") -> BackendName:
    """Return the back end called `name`: `torch`, `onnx`, or `auto`, which is PyTorch where it is installed.

    Raises `SatError` for another name, and for PyTorch where it is not installed.
    """
    if name not in ("auto", *get_args(BackendName)):
        raise SatError(f"backend {name!r}: choose auto, {' or '.join(get_args(BackendName))}")
    there = find_spec("torch") is not None
    if name == "torch" and not there:
        raise MissingPackage("backend 'torch': PyTorch is not installed", remedy=install_command("torch"))
    return "torch" if there and name != "onnx" else "onnx"


def joined(parts: Sequence[Any]) -> Any:
    """Tensors or arrays of some photos each, as one of all photos."""
    if hasattr(parts[0], "numpy"):
        import torch

        return torch.cat(list(parts))
    import numpy as np

    return np.concatenate(parts)
