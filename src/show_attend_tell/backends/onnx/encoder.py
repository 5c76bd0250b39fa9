"""The encoders without PyTorch: those that are known as data, run by ONNX Runtime in float32.

B batch · L = rows · columns locations · D annotation size.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.graph import Graph, Session
from show_attend_tell.checkpoint.packing import weights_digest
from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.devices import needs_torch
from show_attend_tell.errors import SatError
from show_attend_tell.vision.network import Block, Weights, convolutions, reach
from show_attend_tell.vision.registry import ENCODERS


class OnnxEncoder:
    """An encoder as `encoder.Encoder` has it: the same attributes, weights and digest, for arrays, not tensors."""

    precision = "float32"

    def __init__(
        self,
        name: str,
        blocks: Sequence[Block],
        weights: Mapping[str, NDArray[np.float32]],
        preprocessing: Preprocessing,
    ) -> None:
        """The map is what the last of the ``blocks`` gives."""
        self.name = name
        self.blocks = blocks
        self.weights = dict(weights)
        self.preprocessing = preprocessing
        self.annotation_size = convolutions(blocks)[-1].outputs  # D
        locations = preprocessing.size // reach(blocks)
        self.grid = (locations, locations)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights in use, as `Encoder.digest`."""
        return weights_digest(self.weights)

    def adopt(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights that were tuned; raises `SatError` for a name or a shape that the network lacks."""
        for name, value in weights.items():
            if name not in self.weights or value.shape != self.weights[name].shape:
                raise SatError(f"tuned weights do not fit the encoder {self.name}: {name} of shape {value.shape}")
        self.weights.update(weights)

    def annotate(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """The annotations (B, L, D) of preprocessed pixels (B, 3, size, size)."""
        (annotations,) = self._session(pixels=pixels)
        return annotations

    @cached_property
    def _session(self) -> Session:
        return Session(self.graph())

    def graph(self) -> Graph:
        """The network: preprocessed pixels (B, 3, size, size) in, annotations (B, L, D) out."""
        graph = Graph()
        size = self.preprocessing.size
        value = graph.input("pixels", "B", 3, size, size)
        for block in self.blocks:
            read = value
            for layer in block.convolutions:
                before, after = layer.padding
                weight, bias = (self.weights[f"{layer.name}.{part}"] for part in ("weight", "bias"))
                value = graph(
                    "Conv",
                    *(value, weight, bias),
                    kernel_shape=[layer.kernel] * 2,
                    strides=[layer.stride] * 2,
                    pads=[before, before, after, after],
                    group=layer.groups,
                )
                if layer.activation == "relu":
                    value = graph("Relu", value)
                elif layer.activation == "relu6":
                    value = graph("Clip", value, 0.0, 6.0)
            if block.adds_input:
                value = value + read
            if block.pools:
                value = graph("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
        rows, columns = self.grid
        flat = graph("Reshape", value, [0, self.annotation_size, rows * columns])
        graph.output(graph("Transpose", flat, perm=[0, 2, 1]), "annotations", 3)
        return graph


def load_encoder(name: str, *, weights: Weights = None, resize: Resize = "crop") -> OnnxEncoder:
    """The encoder of that name, as `encoder.load_encoder`; raises `SatError` for encoders that need PyTorch."""
    if name not in ENCODERS:
        raise needs_torch(f"the encoder {name}")
    network = ENCODERS[name]
    return OnnxEncoder(name, network.blocks, network.read(weights), network.preprocessing(resize))
