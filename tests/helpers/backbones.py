"""Small vision models of transformers with random weights, and random pixels."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
