"""The encoders without PyTorch: VGG-19 and EfficientNet-Lite2, run by ONNX Runtime in float32.

B batch · L = rows · columns places · D annotation size.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.graph import Graph, Session, Value
from show_attend_tell.checkpoint.packing import weights_digest
from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.devices import needs_torch
from show_attend_tell.errors import SatError
from show_attend_tell.vision import efficientnet, vgg


class OnnxEncoder:
    """An encoder as `encoder.Encoder` has it: the same attributes, weights and digest, for arrays, not tensors."""

    name: str
    annotation_size: int  # D
    step: int  # pixels of a place's side
    precision = "float32"

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], preprocessing: Preprocessing) -> None:
        self.weights = dict(weights)
        self.preprocessing = preprocessing
        locations = preprocessing.size // self.step
        self.grid = (locations, locations)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights in use, as `Encoder.digest`."""
        return weights_digest(self.weights)

    def adopt(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights that were tuned, before the encoder is used.

        Raises `SatError` for a name or a shape that the network does not have.
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
        value = self.network(graph, graph.input("pixels", ["B", 3, size, size]))
        rows, columns = self.grid
        flat = graph("Reshape", value, graph.constant([0, self.annotation_size, rows * columns]))
        graph.output(graph("Transpose", flat, perm=[0, 2, 1]), "annotations", 3)
        return graph

    def network(self, graph: Graph, pixels: Value) -> Value:
        """Write the layers: pixels in, the map (B, D, rows, columns) out."""
        raise NotImplementedError


class OnnxVGG19(OnnxEncoder):
    """VGG-19 up to conv5_4."""

    name, annotation_size, step = "vgg19", 512, 16

    def network(self, graph: Graph, pixels: Value) -> Value:
        value, number = pixels, 0
        for channels in vgg.LAYERS:
            if isinstance(channels, int):
                layer = (self.weights[f"features.{number}.{part}"] for part in ("weight", "bias"))
                convolved = graph("Conv", value, *map(graph.constant, layer), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
                value = graph("Relu", convolved)
                number += 2
            else:
                value = graph("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
                number += 1
        return value


class OnnxEfficientNet(OnnxEncoder):
    """EfficientNet-Lite2 up to the head."""

    name = efficientnet.NAME

    def __init__(
        self,
        weights: Mapping[str, NDArray[np.float32]],
        preprocessing: Preprocessing,
        blocks: Sequence[efficientnet.Block] = efficientnet.BLOCKS,
    ) -> None:
        """The map is what the last of the ``blocks`` gives."""
        self.blocks = blocks
        convolutions = [each for block in self.blocks for each in block.convolutions]
        self.step, self.annotation_size = math.prod(each.stride for each in convolutions), convolutions[-1].outputs
        super().__init__(weights, preprocessing)

    def network(self, graph: Graph, pixels: Value) -> Value:
        value = pixels
        lowest, highest = graph.constant(0.0), graph.constant(6.0)
        for block in self.blocks:
            read = value
            for each in block.convolutions:
                before, after = each.padding
                weight, bias = (graph.constant(self.weights[f"{each.name}.{part}"]) for part in ("weight", "bias"))
                value = graph(
                    "Conv",
                    *(value, weight, bias),
                    kernel_shape=[each.kernel] * 2,
                    strides=[each.stride] * 2,
                    pads=[before, before, after, after],
                    group=each.groups,
                )
                if each.relu6:
                    value = graph("Clip", value, lowest, highest)
            if block.adds_input:
                value = graph.add(value, read)
        return value


def load_encoder(
    name: str, *, weights: str | Path | Mapping[str, NDArray[Any]] | None = None, resize: Resize = "crop"
) -> OnnxEncoder:
    """The encoder of that name, as `encoder.load_encoder` gives it with PyTorch.

    Raises `SatError` for weights that cannot be had, and for encoders that need PyTorch.
    """
    if name == efficientnet.NAME:
        return OnnxEfficientNet(efficientnet.read(weights), efficientnet.preprocessing(resize))
    if name != "vgg19":
        raise needs_torch(f"the encoder {name}")
    if weights == "torchvision":
        raise needs_torch("downloading torchvision's weights")
    return OnnxVGG19(vgg.read(weights), Preprocessing(resize=resize))
