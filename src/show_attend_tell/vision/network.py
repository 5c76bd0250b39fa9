"""An encoder as data: its layers, its preprocessing and its weights, from which both back ends build the network.

`vgg` and `efficientnet` are such encoders, and `registry` finds an encoder by its name. Nothing here needs PyTorch.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.arrays import read_arrays
from show_attend_tell.checkpoint.packing import unpack
from show_attend_tell.data.photos import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Resize
from show_attend_tell.errors import MissingFile, SatError
from show_attend_tell.model.config import misfit

Precision = Literal["bfloat16", "float32"]
Weights = str | Path | None  # a file, or None for the shipped one


class Convolution(NamedTuple):
    """A convolution, whose weights are `NAME.weight` and `NAME.bias` (batch norm folded in), and its activation."""

    name: str
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    activation: Literal["relu", "relu6"] | None = "relu"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the weight."""
        return self.outputs, self.inputs // self.groups, self.kernel, self.kernel

    @property
    def padding(self) -> tuple[int, int]:
        """Rows and columns of zeros before the map and after it: TensorFlow's padding "same" for even sides."""
        total = self.kernel - self.stride
        return total // 2, total - total // 2


class Block(NamedTuple):
    """Convolutions one after the other. An encoder can be cut before a block, to train the rest (`blocks.cut`)."""

    name: str
    convolutions: tuple[Convolution, ...]
    adds_input: bool = False  # whether what the block reads is added to what it gives
    pools: bool = False  # whether max pooling then halves the map


def convolutions(blocks: Iterable[Block]) -> list[Convolution]:
    """All convolutions of blocks, in their order."""
    return [convolution for block in blocks for convolution in block.convolutions]


def reach(blocks: Iterable[Block]) -> int:
    """How many pixels of the input's side become one location of the map."""
    return math.prod(
        math.prod(convolution.stride for convolution in block.convolutions) * (1 + block.pools) for block in blocks
    )


@dataclass(frozen=True)
class Network:
    """All that is known of an encoder: what is beside the weights in its folder belongs here too."""

    name: str  # of --encoder and of a model's configuration
    title: str  # for messages
    blocks: tuple[Block, ...]
    weights: Path  # safetensors, plain or in 8 bits
    size: int = 224  # pixels of a photo's side
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of a color from 0 to 1
    std: tuple[float, float, float] = IMAGENET_STD
    fixed_precision: Precision | None = None  # what PyTorch always computes in; None: what is fastest
    offset: tuple[float, float] = (0.0, 0.0)  # how far below and to the right of its cell's middle a location looks
    unused: tuple[str, ...] = ()  # with what the names of weights begin that a file may have besides

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in convolutions(self.blocks):
            shapes |= {f"{layer.name}.weight": layer.shape, f"{layer.name}.bias": (layer.outputs,)}
        return shapes

    def preprocessing(self, resize: Resize) -> Preprocessing:
        """How a photo becomes the pixels that the network reads."""
        return Preprocessing(size=self.size, resize=resize, mean=self.mean, std=self.std)

    def read(self, weights: Weights = None) -> dict[str, NDArray[np.float32]]:
        """The float32 weights, plain or from 8 bits; raises `SatError` for those that are damaged or do not fit."""
        path = Path(weights or self.weights)
        if not path.is_file():
            remedy = "give another, or none for the shipped ones"
            raise MissingFile(f"no such file of {self.title} weights", subject=str(path), remedy=remedy)
        arrays = read_arrays(path, remedy="give a .safetensors file")
        try:
            unpacked = unpack({name: array for name, array in arrays.items() if not name.startswith(self.unused)})
        except SatError as error:
            raise SatError(f"{path}: {error}") from None
        difference = misfit(unpacked, self.shapes)
        if difference:
            raise SatError(f"{path}: not the weights of {self.title}: {difference}")
        return unpacked
