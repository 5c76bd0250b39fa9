"""EfficientNet-Lite2 for small photos, and random weights as the published file has them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from small_encoder import published_names
from torch import Tensor

from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork
from show_attend_tell.vision.efficientnet import CHANNELS, EFFICIENTNET_LITE2
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.network import convolutions


def lite_encoder(weights: Mapping[str, Tensor]) -> Encoder:
    """The network for photos of 64 × 64 pixels."""
    body = ConvolutionalNetwork(EFFICIENTNET_LITE2.blocks)
    body.load_state_dict(weights)
    name, preprocessing = EFFICIENTNET_LITE2.name, Preprocessing(size=64)
    return Encoder(Backbone(body, name, CHANNELS, (2, 2), preprocessing, fixed_precision="float32"))


def published(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights under the names of the published file, with a batch norm after each convolution."""
    random = np.random.default_rng(seed)
    state: dict[str, NDArray[np.float32]] = {}
    for each in convolutions(EFFICIENTNET_LITE2.blocks):
        convolution, norm = published_names(each.name)
        inputs = each.shape[1] * each.kernel**2
        state[f"{convolution}.weight"] = random.normal(0, (2 / inputs) ** 0.5, each.shape).astype(np.float32)
        for part, low, high in (
            ("weight", 0.7, 1.3),
            ("bias", -0.3, 0.6),
            ("running_mean", -0.3, 0.3),
            ("running_var", 0.5, 1.5),
        ):
            state[f"{norm}.{part}"] = random.uniform(low, high, each.outputs).astype(np.float32)
    return state
