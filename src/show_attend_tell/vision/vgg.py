"""The layers of VGG-19 and their weights, as arrays, from which both back ends build the network."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.vision.weights import Weights, network_weights

SHIPPED = Path(__file__).parent / "vgg19" / "model.safetensors"

# Channels of the convolutions, each followed by a ReLU, and the poolings between them (Simonyan and Zisserman 2014,
# configuration E), up to conv5_4.
LAYERS = (64, 64, "pool", 128, 128, "pool", *[256] * 4, "pool", *[512] * 4, "pool", *[512] * 4)


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of each weight, under torchvision's names: `features.N.weight` and `features.N.bias`."""
    found: dict[str, tuple[int, ...]] = {}
    number, before = 0, 3
    for channels in LAYERS:
        if isinstance(channels, int):
            found[f"features.{number}.weight"] = (channels, before, 3, 3)
            found[f"features.{number}.bias"] = (channels,)
            number, before = number + 2, channels
        else:
            number += 1
    return found


def read(weights: Weights) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of a file, of the shipped one for None, or of arrays, as `network_weights` has it."""
    return network_weights(weights, shapes(), "VGG-19", shipped=SHIPPED, unused=("classifier.",))
