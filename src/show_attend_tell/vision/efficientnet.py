"""The layers of EfficientNet-Lite2 and their weights, as arrays, from which both back ends build the network.

EfficientNet (Tan and Le 2019) has a first convolution, the stem; then blocks; then a last convolution, the head. A
block makes more channels (expand), filters each of them by itself (depthwise) and makes fewer channels again (project).
The Lite models (Google, 2020) have no squeeze-and-excitation, ReLU6 as the activation, and the same stem and head in
every size. The batch norm after each convolution is folded into its weights and biases, so that the network is made of
convolutions only. `research/small_encoder.py` makes the shipped file.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.photos import Preprocessing, Resize
from show_attend_tell.vision.weights import Weights, network_weights

NAME = "efficientnet-lite2-1280"
TITLE = "EfficientNet-Lite2"
SHIPPED = Path(__file__).parent / "efficientnet_lite2" / "model.safetensors"
CHANNELS = 1280  # of the map
SIZE, STEP = 448, 32  # pixels of a photo's side and of a location's
OFFSET = (0.24, 0.28)  # cells down and right, measured by `research/locations.py`
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3  # of a color from 0 to 1, as the network was trained

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

    @property
    def name(self) -> str:
        """ "stem", "block1" to "block21" or "head"."""
        return self.convolutions[0].name.partition("_")[0]


def _blocks() -> tuple[Block, ...]:
    stem = Convolution("stem", 3, 32, kernel=3, stride=2)
    found, channels = [Block((stem,))], 32
    for repeats, kernel, first, expansion, given in STAGES:
        for repeat in range(repeats):
            name, stride, wide = f"block{len(found)}_", (first if repeat == 0 else 1), expansion * channels
            depthwise = Convolution(f"{name}depthwise", wide, wide, kernel=kernel, stride=stride, groups=wide)
            project = Convolution(f"{name}project", wide, given, relu6=False)
            expand = Convolution(f"{name}expand", channels, wide)
            convolutions = (depthwise, project) if expansion == 1 else (expand, depthwise, project)
            found.append(Block(convolutions, adds_input=stride == 1 and channels == given))
            channels = given
    return (*found, Block((Convolution("head", channels, CHANNELS),)))


BLOCKS = _blocks()  # the stem first, the head last


def offset(name: str) -> tuple[float, float]:
    """How far below and to the right of its cell's middle a location of an encoder looks, in cells.

    Those of EfficientNet-Lite2 look there because of its padding, see `Convolution.padding`; all others do not.
    """
    return OFFSET if name == NAME else (0.0, 0.0)


def preprocessing(resize: Resize) -> Preprocessing:
    """How a photo becomes the pixels that the network reads."""
    return Preprocessing(size=SIZE, resize=resize, mean=MEAN, std=STD)


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of each weight of the folded network: `LAYER.weight` and `LAYER.bias` of each convolution."""
    found: dict[str, tuple[int, ...]] = {}
    for block in BLOCKS:
        for each in block.convolutions:
            found |= {f"{each.name}.weight": each.shape, f"{each.name}.bias": (each.outputs,)}
    return found


def read(weights: Weights) -> dict[str, NDArray[np.float32]]:
    """The float32 weights from a file, from the shipped one for None, or from arrays; see `network_weights`."""
    return network_weights(weights, shapes(), TITLE, shipped=SHIPPED)
