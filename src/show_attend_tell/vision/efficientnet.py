"""EfficientNet-Lite2 up to its head, as data.

EfficientNet (Tan and Le 2019) has a first convolution, the stem; then blocks; then a last convolution, the head. A
block makes more channels (expand), filters each of them by itself (depthwise) and makes fewer channels again (project).
The Lite models (Google, 2020) have no squeeze-and-excitation, ReLU6 as the activation, and the same stem and head in
every size. The batch norm after each convolution is folded into its weights and biases, so that the network is made of
convolutions only. `research/small_encoder.py` makes the shipped file.
"""

from pathlib import Path

from show_attend_tell.vision.network import Block, Convolution, Network

CHANNELS = 1280  # of the map

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


def _blocks() -> tuple[Block, ...]:
    stem = Convolution("stem", 3, 32, kernel=3, stride=2, activation="relu6")
    blocks = [Block("stem", (stem,))]
    channels = 32
    for repeats, kernel, first, expansion, outputs in STAGES:
        for repeat in range(repeats):
            name = f"block{len(blocks)}"
            stride = first if repeat == 0 else 1
            wide = expansion * channels
            depthwise = Convolution(f"{name}_depthwise", wide, wide, kernel, stride, groups=wide, activation="relu6")
            project = Convolution(f"{name}_project", wide, outputs, activation=None)
            expand = Convolution(f"{name}_expand", channels, wide, activation="relu6")
            convolutions = (depthwise, project) if expansion == 1 else (expand, depthwise, project)
            blocks.append(Block(name, convolutions, adds_input=stride == 1 and channels == outputs))
            channels = outputs
    return (*blocks, Block("head", (Convolution("head", channels, CHANNELS, activation="relu6"),)))


EFFICIENTNET_LITE2 = Network(
    "efficientnet-lite2-1280",
    "EfficientNet-Lite2",
    _blocks(),
    Path(__file__).parent / "efficientnet_lite2" / "model.safetensors",
    size=448,
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
    fixed_precision="float32",  # in bfloat16 its annotations change by a tenth (relative L2 norm), VGG-19's by 0.8 %
    offset=(0.24, 0.28),  # because of its padding, as was measured
)
