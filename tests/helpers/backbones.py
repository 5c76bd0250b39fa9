"""EfficientNet-Lite2 for small photos, and random pixels."""

from collections.abc import Mapping

import torch
from torch import Tensor

from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork
from show_attend_tell.vision.efficientnet import CHANNELS, EFFICIENTNET_LITE2
from show_attend_tell.vision.encoder import Encoder


def noise(photos: int, size: int) -> Tensor:
    """Pixels (B, 3, size, size)."""
    return torch.randn(photos, 3, size, size, generator=torch.Generator().manual_seed(3))


def lite_encoder(weights: Mapping[str, Tensor]) -> Encoder:
    """The network for photos of 64 × 64 pixels."""
    body = ConvolutionalNetwork(EFFICIENTNET_LITE2.blocks)
    body.load_state_dict(weights)
    name, preprocessing = EFFICIENTNET_LITE2.name, Preprocessing(size=64)
    return Encoder(Backbone(body, name, CHANNELS, (2, 2), preprocessing, fixed_precision="float32"))
