"""The layers of VGG-19 and their weights, as arrays: what both back ends make the network of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import SatError
from show_attend_tell.packing import unpacked

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


def read(weights: str | Path | None) -> dict[str, NDArray[np.float32]]:
    """The float32 weights of a safetensors file, plain or in 8 bits; of the shipped one for None.

    Raises `SatError` for a file that is missing or damaged, and for weights that are not VGG-19's.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = SHIPPED if weights is None else Path(weights)
    if not path.is_file():
        raise SatError(f"{path}: no such file of VGG-19 weights; give another, or 'torchvision' to download them")
    try:
        state = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise SatError(f"{path}: not a readable .safetensors file ({error})") from None
    return checked(state, str(path))


def checked(state: Mapping[str, NDArray[Any]], source: str) -> dict[str, NDArray[np.float32]]:
    """The weights of the convolutions in float32; raises `SatError` unless all are there, and nothing else."""
    try:
        found = unpacked({name: state[name] for name in state if not name.startswith("classifier.")})
    except SatError as error:
        raise SatError(f"{source}: {error}") from None
    expected = shapes()
    if missing := sorted(expected.keys() - found.keys()):
        raise SatError(f"{source}: not the weights of VGG-19, lacks {', '.join(missing)}")
    if extra := sorted(found.keys() - expected.keys()):
        raise SatError(f"{source}: not the weights of VGG-19, has besides {', '.join(extra)}")
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise SatError(f"{source}: {name} has shape {found[name].shape}, VGG-19's is {shape}")
    return found
