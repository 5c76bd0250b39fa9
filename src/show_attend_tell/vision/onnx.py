"""The encoder without PyTorch: VGG-19, run by ONNX Runtime in float32.

B batch · L = rows · columns places · D annotation size.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.photos import Geometry, Preprocessing
from show_attend_tell.device import needs_torch
from show_attend_tell.device.onnx import Graph, Session
from show_attend_tell.errors import SatError
from show_attend_tell.packing import weights_digest
from show_attend_tell.vision import vgg


class OnnxEncoder:
    """VGG-19 as `encoder.Encoder` has it: the same attributes, weights and digest, for arrays instead of tensors."""

    name = "vgg19"
    annotation_size = 512

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], geometry: Geometry) -> None:
        self.weights = dict(weights)
        self.preprocessing = Preprocessing(geometry=geometry)
        places = self.preprocessing.size // 16
        self.grid = (places, places)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights in use, as `Encoder.digest`."""
        return weights_digest(self.weights)

    def adopt(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights that were tuned, before the encoder is used.

        Raises `SatError` for a name or a shape that VGG-19 does not have.
        """
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
        size = self.preprocessing.size
        graph = Graph()
        value = graph.input("pixels", ["B", 3, size, size])
        number = 0
        for channels in vgg.LAYERS:
            if isinstance(channels, int):
                layer = f"features.{number}"
                weight, bias = (graph.constant(self.weights[f"{layer}.{part}"]) for part in ("weight", "bias"))
                value = graph("Relu", graph("Conv", value, weight, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
                number += 2
            else:
                value = graph("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
                number += 1
        rows, columns = self.grid
        flat = graph("Reshape", value, graph.constant([0, self.annotation_size, rows * columns]))
        graph.output(graph("Transpose", flat, perm=[0, 2, 1]), "annotations", 3)
        return graph


def load_encoder(name: str, *, weights: str | Path | None = None, geometry: Geometry = "crop") -> OnnxEncoder:
    """The encoder of that name, as `encoder.load_encoder` gives it with PyTorch.

    Raises `SatError` for weights that cannot be had, and for encoders that need PyTorch.
    """
    if name != "vgg19":
        raise needs_torch(f"the encoder {name}")
    if weights == "torchvision":
        raise needs_torch("downloading torchvision's weights")
    return OnnxEncoder(vgg.read(weights), geometry)
