"""Small vision models of transformers and EfficientNet-Lite2 with random weights, and random pixels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from small_encoder import published_names
from torch import Tensor

from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.vision.backbones import Backbone, ConvolutionalNetwork
from show_attend_tell.vision.efficientnet import CHANNELS, EFFICIENTNET_LITE2
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.network import convolutions

VIT = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 7,
    "image_size": 20,
    "patch_size": 4,
}
RESNET = {"embedding_size": 6, "hidden_sizes": [6, 10], "depths": [1, 1], "layer_type": "basic"}
CONVNEXT = {"hidden_sizes": [6, 10], "depths": [1, 1], "num_stages": 2, "patch_size": 4, "image_size": 40}


def noise(photos: int, size: int) -> Tensor:
    """Pixels (B, 3, size, size)."""
    return torch.randn(photos, 3, size, size, generator=torch.Generator().manual_seed(3))


def save_model(transformers: Any, folder: Path, kind: str, config: dict[str, Any], size: int, **processor: Any) -> str:
    """Save a model with random weights, and the preprocessing of ``size``, as a folder that may be loaded."""
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**config))
    model.save_pretrained(folder)
    values = {"image_processor_type": "ViTImageProcessor", "size": {"height": size, "width": size}, **processor}
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return str(folder)


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
