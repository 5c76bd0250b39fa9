"""Configurations of small transformers backbones."""

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
