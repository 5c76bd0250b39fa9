"""The layers of VGG-19 and their weights, as arrays: what both back ends make the network of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.packing import fitting, read_arrays
from show_attend_tell.errors import SatError

SHIPPED = Path(__file__).parent / "vgg19" / "model.safetensors"
DIGEST = "9f91727737c7b1dd5bcd2f6adf11c008f11af495a7f15cb14a612ac1f8e78f27"  # `Encoder.digest` of the shipped weights

# Channels of the convolutions, each followed by a ReLU, and the poolings between them (Simonyan and Zisserman 2014,
# configuration E), up to conv5_4.
LAYERS = (64, 64, "pool", 128, 128, "pool", *[256] * 4, "pool", *[512] * 4, "pool", *[512] * 4)

# The largest value after each convolution's ReLU with the shipped weights: the mean over 48 photos of Flickr8k's train
# (`experiments/eight_bits.py`). Larger values are cut off when activations are stored in 8 bits.
LARGEST = (34.2, 42.2, 48.0, 79.3, 50.0, 40.2, 17.8, 32.2, 27.0, 52.5, 56.6, 200.7, 80.4, 120.3, 94.8, 198.0)


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


def read(weights: str | Path | Mapping[str, NDArray[Any]] | None) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of a safetensors file, plain or in 8 bits; of the shipped one for None.

    Arrays by their names may be given too.

    Raises `SatError` for a file that is missing or damaged, and for weights that are not VGG-19's.
    """
    if isinstance(weights, Mapping):
        return checked(weights, "weights")
    path = SHIPPED if weights is None else Path(weights)
    if not path.is_file():
        raise SatError(f"{path}: no such file of VGG-19 weights; give another, or 'torchvision' to download them")
    return checked(read_arrays(path, remedy="give a .safetensors file"), str(path))


def checked(state: Mapping[str, NDArray[Any]], source: str) -> dict[str, NDArray[np.float32]]:
    """The weights of the convolutions in float32; raises `SatError` unless all are there, and nothing else."""
    convolutions = {name: state[name] for name in state if not name.startswith("classifier.")}
    return fitting(convolutions, shapes(), source, "VGG-19")
