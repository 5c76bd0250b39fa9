"""The fastest way to encode photos on this machine with an encoder of PyTorch."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.backends.onnx.encoder import OnnxEncoder
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.vision.backbones import ConvolutionalNetwork
from show_attend_tell.vision.encoder import Encode, Encoder
from show_attend_tell.vision.network import convolutions


def fastest_encode(encoder: Encoder) -> Encode:
    """`Encoder.annotate`, or the same by ONNX Runtime: pixels (B, 3, S, S) → annotations (B, L, D), float32.

    PyTorch's depthwise convolutions are slow on a CPU, so ONNX Runtime runs a frozen encoder that has them there, with
    the weights that it has now; its annotations agree to about 1e-5.
    """
    body, on_cpu = encoder.body, next(encoder.parameters()).device.type == "cpu"
    depthwise = isinstance(body, ConvolutionalNetwork) and any(each.groups > 1 for each in convolutions(body.blocks))
    if not (depthwise and encoder.frozen and on_cpu and encoder.precision == "float32"):
        return encoder.annotate
    weights = {name: as_array(tensor) for name, tensor in body.state_dict().items()}
    network = OnnxEncoder(encoder.name, body.blocks, weights, encoder.preprocessing)

    def encode(pixels: Tensor | NDArray[Any]) -> Tensor:
        encoder.check(pixels)
        return torch.from_numpy(network.annotate(pixels.numpy() if isinstance(pixels, Tensor) else pixels))

    return encode
