"""The encoders without PyTorch: VGG-19 and EfficientNet-Lite2, run by ONNX Runtime in float32.

VGG-19 may also be run in int8, where somebody chose so.

B batch · L = rows · columns places · D annotation size.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.graph import Graph, Session, Value, in_8bit, int8_is_exact
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

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], preprocessing: Preprocessing) -> None:
        self.weights = dict(weights)
        self.precision: Literal["float32", "int8"] = "float32"
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

    def use_int8(self) -> None:
        """Compute in int8 from now on: several times faster, with annotations that differ by some per cent.

        Call it before the encoder is used. Raises `SatError` for other weights than the shipped ones, since the range
        of each layer's values was measured with these, and on a processor whose sums would overflow.
        """
        if self.digest != vgg.DIGEST:
            raise SatError("precision 'int8' is for the shipped weights of VGG-19 only: leave it out for this model")
        if not int8_is_exact():
            raise SatError(
                "precision 'int8' needs a processor with VNNI, and this one would compute wrongly: leave it out"
            )
        self.precision = "int8"

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


class _Layers:
    """VGG-19's convolutions of a graph, each with its ReLU, in float32."""

    how: ClassVar[dict[str, Any]] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def convolved(self, value: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """What a layer makes of a value."""
        found: str = self.graph(
            "Relu", self.graph("Conv", value, self.graph.constant(weight), self.graph.constant(bias), **self.how)
        )
        return found

    def whole(self, value: str) -> str:
        """The value of the last layer, in float32."""
        return value


class _Int8Layers(_Layers):
    """The same in int8: a value after a ReLU is a whole number from 0 to 255, times a scale that is its layer's.

    The first layer computes in float32, because pixels are no such numbers, and their 3 channels cost little.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.scales = [np.float32(largest / 255) for largest in vgg.LARGEST]
        self.done = 0  # layers
        self.zero = graph.constant(np.uint8(0))

    def convolved(self, value: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        graph, after = self.graph, self.scales[self.done]
        self.done += 1
        found: str
        if self.done == 1:
            found = graph("QuantizeLinear", super().convolved(value, weight, bias), graph.constant(after), self.zero)
            return found
        before = self.scales[self.done - 2]
        packed = in_8bit(weight)
        assert packed is not None  # the shipped weights are in 8 bits
        values, scales = packed
        # Each output is Σ weight · value + bias in whole numbers, rounded to the layer's scale. What is below zero
        # becomes zero, so that the ReLU is done.
        found = graph(
            "QLinearConv",
            value,
            graph.constant(before),
            self.zero,
            graph.constant(values),
            graph.constant(scales),
            graph.constant(np.zeros(len(values), np.int8)),
            graph.constant(after),
            self.zero,
            graph.constant((bias / (before * scales)).round().astype(np.int32)),
            **self.how,
        )
        return found

    def whole(self, value: str) -> str:
        found: str = self.graph("DequantizeLinear", value, self.graph.constant(self.scales[-1]), self.zero)
        return found


class OnnxVGG19(OnnxEncoder):
    """VGG-19 up to conv5_4."""

    name, annotation_size, step = "vgg19", 512, 16

    def network(self, graph: Graph, pixels: Value) -> Value:
        layers = _Int8Layers(graph) if self.precision == "int8" else _Layers(graph)
        value, number = pixels, 0
        for channels in vgg.LAYERS:
            if isinstance(channels, int):
                layer = f"features.{number}"
                value = layers.convolved(value, self.weights[f"{layer}.weight"], self.weights[f"{layer}.bias"])
                number += 2
            else:
                value = graph("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
                number += 1
        return layers.whole(value)


class OnnxEfficientNet(OnnxEncoder):
    """EfficientNet-Lite2 up to the head, and its projection, if its name stands for the one that has it."""

    def __init__(
        self,
        name: str,
        weights: Mapping[str, NDArray[np.float32]],
        preprocessing: Preprocessing,
        blocks: Sequence[efficientnet.Block] | None = None,
    ) -> None:
        """``blocks`` are by default those of the encoder of that name; the map is what the last of them gives."""
        self.name, self.blocks = name, blocks or efficientnet.blocks(name)
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
    if name in efficientnet.NAMES:
        return OnnxEfficientNet(name, efficientnet.read(name, weights), efficientnet.preprocessing(resize))
    if name != "vgg19":
        raise needs_torch(f"the encoder {name}")
    if weights == "torchvision":
        raise needs_torch("downloading torchvision's weights")
    return OnnxVGG19(vgg.read(weights), Preprocessing(resize=resize))
