"""VGG-19 up to conv5_4 and its ReLU (Simonyan and Zisserman 2014, configuration E), as data.

The last pooling and the classifier are left out: the paper's annotations are the map "before max pooling" (section
4.3). The weights bear torchvision's names.
"""

from pathlib import Path

from show_attend_tell.vision.network import Block, Convolution, Network

GROUPS = (2, 64), (2, 128), (4, 256), (4, 512), (4, 512)  # convolutions and their channels, between poolings


def _blocks() -> tuple[Block, ...]:
    blocks: list[Block] = []
    layer = 0
    inputs = 3
    for group, (number, channels) in enumerate(GROUPS, 1):
        for place in range(1, number + 1):
            convolution = Convolution(f"features.{layer}", inputs, channels, kernel=3)
            pools = place == number and group < len(GROUPS)
            blocks.append(Block(f"conv{group}_{place}", (convolution,), pools=pools))
            layer = layer + 2 + pools
            inputs = channels
    return tuple(blocks)


VGG19 = Network(
    "vgg19", "VGG-19", _blocks(), Path(__file__).parent / "vgg19" / "model.safetensors", unused=("classifier.",)
)
