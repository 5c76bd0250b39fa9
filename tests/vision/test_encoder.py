"""The encoder: VGG-19 from every kind of file, vision models of `transformers`, and what frozen means."""

import copy
import hashlib
import json
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import scenes_encoder
import torch
from backbones import noise
from builders import shape_folder
from commands import sat, settings
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array, as_tensors, pack, unpack, weights_digest
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.vision.backbones import Backbone
from show_attend_tell.vision.encoder import Encoder, load_encoder
from show_attend_tell.vision.vgg import VGG19

CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34)
POOLED_AFTER = (2, 7, 16, 25)


@pytest.fixture(scope="module")
def vgg() -> Encoder:
    return load_encoder()


@pytest.fixture(scope="module")
def shipped() -> dict[str, NDArray[Any]]:
    return safetensors.numpy.load_file(VGG19.weights)


def tiny(body: nn.Module, **options: Any) -> Encoder:
    """An encoder of a body that keeps height and width."""
    return Encoder(Backbone(body, "tiny", 5, (6, 6), Preprocessing(size=6), **options))


# VGG-19


def test_vgg19_is_the_network_of_the_paper(vgg, shipped):
    weights = as_tensors(unpack(shipped))
    names = {f"features.{i}.{kind}" for i in CONVOLUTIONS for kind in ("weight", "bias")}
    assert names == weights.keys() == vgg.body.state_dict().keys()
    expected = noise(1, 224)
    for i in CONVOLUTIONS:
        expected = functional.conv2d(
            expected, weights[f"features.{i}.weight"], weights[f"features.{i}.bias"], padding=1
        )
        expected = expected.clamp_min(0)
        if i in POOLED_AFTER:
            expected = functional.max_pool2d(expected, 2, 2)
    annotations = vgg(noise(1, 224))
    assert annotations.shape == (1, 196, 512) and annotations.dtype == torch.float32
    assert (vgg.grid, vgg.annotation_size) == ((14, 14), 512)
    for row, column in ((0, 0), (2, 11), (13, 5)):
        location = annotations[0, row * 14 + column]
        torch.testing.assert_close(location, expected[0, :, row, column], rtol=1e-4, atol=1e-3)


def test_the_shipped_file_is_packed_weights(vgg, shipped):
    again = pack(unpack(shipped))
    assert again.keys() == shipped.keys() and all(np.array_equal(again[name], shipped[name]) for name in again)
    assert vgg.digest == weights_digest(unpack(shipped))
    assert vgg.digest in (VGG19.weights.parent / "README.md").read_text()


def test_weights_that_do_not_fit_are_refused_by_name(shipped, tmp_path):
    without = {name: array for name, array in shipped.items() if name != "features.7.bias"}
    unscaled = {name: array for name, array in shipped.items() if name != "features.7.weight.scale"}
    for state, message in (
        (without, "features.7.bias is missing"),
        ({**shipped, "features.36.bias": np.ones(3)}, "features.36.bias does not belong to it"),
        ({**shipped, "features.7.bias": np.ones(127)}, r"features.7.bias has shape \(127,\)"),
        (unscaled, "features.7.weight.scale"),
    ):
        safetensors.numpy.save_file(state, tmp_path / "w.safetensors")
        with pytest.raises(SatError, match=rf"w\.safetensors: .*{message}"):
            load_encoder(weights=tmp_path / "w.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"not tensors")
    with pytest.raises(SatError, match=r"junk\.safetensors is missing or damaged .*: give a \.safetensors file"):
        load_encoder(weights=tmp_path / "junk.safetensors")
    with pytest.raises(FileNotFoundError, match=r"absent\.safetensors: no such file"):
        load_encoder(weights=str(tmp_path / "absent.safetensors"))


# What every encoder promises


@pytest.mark.parametrize("fixed", [None, "bfloat16", "float32"])
def test_precision_is_fixed_or_follows_the_hardware(fixed):
    encoder = tiny(nn.Conv2d(3, 5, 1), fixed_precision=fixed)
    assert encoder.precision == (fixed or ("bfloat16" if native_bf16("cpu") else "float32"))
    expected = encoder.annotate(noise(2, 6), precision=encoder.precision)
    assert torch.equal(encoder.annotate(noise(2, 6).numpy()), expected)
    assert expected.dtype == torch.float32


def digest_of(tensors: dict[str, torch.Tensor]) -> str:
    return weights_digest({name: as_array(each) for name, each in tensors.items()})


def test_digest_is_of_names_shapes_and_float32_bytes():
    weights = {"b": torch.tensor([[1.0, 2.0, 3.0]]), "a": torch.tensor([4, 5])}
    digest = digest_of(weights)
    by_hand = b"a torch.int64 (2,)\n" + struct.pack("=2q", 4, 5)
    by_hand += b"b torch.float32 (1, 3)\n" + struct.pack("=3f", 1, 2, 3)
    assert digest == hashlib.sha256(by_hand).hexdigest()
    assert digest_of(dict(reversed(weights.items()))) == digest
    assert digest_of({**weights, "b": weights["b"].half()}) == digest  # exact in half precision
    assert digest_of({**weights, "b": weights["b"].T.contiguous().T}) == digest
    assert digest_of({**weights, "b": weights["b"].T}) != digest


def test_frozen_means_that_training_a_parent_changes_nothing():
    encoder = tiny(nn.Sequential(nn.Conv2d(3, 5, 1), nn.BatchNorm2d(5), nn.Dropout(0.5)))
    parent = nn.Sequential(encoder, nn.Linear(5, 1))
    digest, expected = encoder.digest, encoder(noise(2, 6))
    parent.train()
    assert parent.training and not encoder.training
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    for _ in range(3):
        parent(noise(2, 6) + 7).sum().backward()
    assert encoder.digest == digest  # running mean and variance included
    assert torch.equal(encoder(noise(2, 6)), expected)


def test_unfrozen_trains_all_but_the_statistics_of_batch_norm():
    encoder = tiny(nn.Sequential(nn.Conv2d(3, 5, 1), nn.BatchNorm2d(5), nn.Dropout(0.5)))
    encoder.unfreeze()
    parent = nn.Sequential(encoder).train()
    _, norm, dropout = encoder.body
    assert dropout.training and not norm.training
    parent(noise(2, 6)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    assert torch.equal(norm.running_mean, torch.zeros(5))

    annotations = encoder.annotate(noise(2, 6))
    assert torch.equal(annotations, encoder.annotate(noise(2, 6)))  # no dropout here
    assert not annotations.requires_grad and dropout.training and not norm.training
    nn.Linear(5, 2)(annotations).sum().backward()  # they may feed a decoder in training

    digest = encoder.digest
    with torch.no_grad():
        encoder.body[0].bias[2] += 1
    assert encoder.digest != digest  # of the weights in use


def test_pixels_of_another_size_are_refused():
    with pytest.raises(SatError, match=r"pixels are \(B, 3, 6, 6\), not \(2, 3, 6, 7\)"):
        tiny(nn.Conv2d(3, 5, 1))(torch.zeros(2, 3, 6, 7))


# Vision models of transformers, tiny ones with random weights


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers, an extra, is not installed")


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
SWIN = {"embed_dim": 6, "depths": [1, 1, 1], "num_heads": [1, 2, 3], "window_size": 3, "patch_size": 4}
# class: configuration, the side of its photos, the grid expected, the annotation size expected
MODELS = {
    "ViT": (VIT, 20, (5, 5), 12),
    "Dinov2WithRegisters": ({**VIT, "num_register_tokens": 3, "mlp_ratio": 2}, 20, (5, 5), 12),
    "CLIPVision": (VIT, 20, (5, 5), 12),
    "SiglipVision": (VIT, 20, (5, 5), 12),
    "ResNet": (RESNET, 48, (6, 6), 10),
    "ConvNext": (CONVNEXT, 40, (5, 5), 10),
    "Swin": ({**SWIN, "image_size": 48}, 48, (3, 3), 24),
}


def save_model(transformers: Any, folder: Path, kind: str, config: dict[str, Any], size: int, **processor: Any) -> str:
    """Save a model with random weights, and the preprocessing of ``size``, as a folder that may be loaded."""
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**config))
    model.save_pretrained(folder)
    values = {"image_processor_type": "ViTImageProcessor", "size": {"height": size, "width": size}, **processor}
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return str(folder)


@pytest.mark.parametrize("kind", MODELS)
def test_transformers_models_give_a_grid_in_reading_order(transformers, tmp_path, kind):
    config, size, grid, annotation_size = MODELS[kind]
    encoder = load_encoder(save_model(transformers, tmp_path, kind, config, size))
    assert (encoder.grid, encoder.annotation_size) == (grid, annotation_size)
    assert encoder.preprocessing.size == size
    pixels = noise(2, size)
    annotations = encoder.annotate(pixels, precision="float32")
    assert annotations.shape == (2, grid[0] * grid[1], annotation_size)

    # A change of one corner of the photo must be felt most at the location of that corner, or beside it where
    # convolutions overlap.
    rows, columns = grid
    step = size // rows
    for row, column in ((0, columns - 1), (rows - 1, 0)):
        changed = pixels.clone()
        changed[:, :, row * step : (row + 1) * step, column * step : (column + 1) * step] += 3
        felt = (encoder.annotate(changed, precision="float32") - annotations).norm(dim=2)
        for location in felt.argmax(1).tolist():
            assert abs(location // columns - row) <= 1 and abs(location % columns - column) <= 1

    assert encoder.digest == load_encoder(str(tmp_path)).digest
    alone = torch.cat([encoder.annotate(photo[None], precision="float32") for photo in pixels])
    torch.testing.assert_close(alone, annotations, rtol=1e-4, atol=1e-5)
    assert encoder.annotate(pixels, precision="bfloat16").dtype == torch.float32


def test_a_transformers_model_is_trained_on_by_its_folder(transformers, tmp_path, monkeypatch):
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))
    processor = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 48}, "crop_pct": 1.0}
    resnet = save_model(transformers, tmp_path / "resnet", "ResNet", RESNET, 48)
    (tmp_path / "resnet" / "preprocessor_config.json").write_text(json.dumps(processor))
    data, model = shape_folder(tmp_path / "shapes"), tmp_path / "model"
    own = settings(minimum_count=1)
    sat("train", data, "--output", model, "--attention", "soft", "--epochs", 1, *own, "--encoder", resnet)
    found = Checkpoint.load(model).encoder
    assert found.grid == (6, 6) and found.preprocessing.size == 48
    assert len(sat("caption", data / "images", "--model", model).stdout.splitlines()) == 17


def test_preprocessing_is_the_model_s_own(transformers, tmp_path):
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.1, 0.2, 0.3]}
    name = save_model(transformers, tmp_path, "ViT", VIT, 20, **processor)
    expected = Preprocessing(size=20, resize="squash", mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3))
    assert load_encoder(name, resize="squash").preprocessing == expected
    cropped = {"size": {"shortest_edge": 24}, "do_center_crop": True, "crop_size": {"height": 20, "width": 20}}
    values = {"image_processor_type": "ViTImageProcessor", **cropped, "do_normalize": False}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    assert load_encoder(name).preprocessing == Preprocessing(size=20, resize="crop", mean=(0, 0, 0), std=(1, 1, 1))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**values, "crop_size": {"longest_edge": 20}}))
    with pytest.raises(SatError, match="names no size in pixels"):
        load_encoder(name)


def test_models_that_do_not_fit_are_refused(transformers, tmp_path):
    def refused(name, message):
        with pytest.raises(SatError, match=message) as refusal:
            load_encoder(name)
        assert name in str(refusal.value)

    yolos = {**VIT, "image_size": [20, 20], "num_detection_tokens": 3}
    refused(save_model(transformers, tmp_path / "yolos", "Yolos", yolos, 20), "29 tokens .* not 5 × 5 locations")
    refused(save_model(transformers, tmp_path / "size", "ViT", VIT, 24), "does not encode photos of 24 × 24")
    words = {**VIT, "vocab_size": 11, "max_position_embeddings": 5}
    refused(save_model(transformers, tmp_path / "words", "Bert", words, 20), "does not encode photos")
    neither = "neither one of vgg19, efficientnet-lite2-1280 nor a model that transformers"
    refused(str(tmp_path / "absent"), neither)

    name = save_model(transformers, tmp_path / "part", "ViT", VIT, 20)
    weights = safetensors.torch.load_file(tmp_path / "part" / "model.safetensors")
    del weights["embeddings.position_embeddings"]
    safetensors.torch.save_file(weights, tmp_path / "part" / "model.safetensors", {"format": "pt"})
    refused(name, "lacks embeddings.position_embeddings")
    (tmp_path / "part" / "model.safetensors").write_bytes(b"half of it")
    refused(name, neither)

    name = save_model(transformers, tmp_path / "mean", "ViT", VIT, 20, image_mean=0.5)
    refused(name, "no mean and std of three colors")
    (tmp_path / "mean" / "preprocessor_config.json").write_text("{")
    refused(name, r"its preprocessor_config\.json is damaged")


def test_names_and_files_are_refused_without_asking_the_hub(monkeypatch):
    for name, weights, message in (
        ("facebook/dinov2-small", "w.safetensors", "only vgg19 and .* take a file of weights"),
        ("vgg16", None, "there is no encoder 'vgg16': choose vgg19, .*, a model of the Hugging Face hub"),
        ("efficientnet-lite-2", None, "there is no encoder 'efficientnet-lite-2': choose vgg19, .*-1280,"),
    ):
        with pytest.raises(SatError, match=message):
            load_encoder(name, weights=weights)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install .*\[transformers\]"):
        load_encoder("facebook/dinov2-small")


def test_a_local_model_is_known_by_its_whole_path_or_its_hub_id(transformers, tmp_path, monkeypatch):
    """So that a checkpoint that names it is read from other folders, and of the hub's cache on other machines, too."""
    name = save_model(transformers, tmp_path / "vit", "ViT", VIT, 20)
    monkeypatch.chdir(tmp_path)
    assert load_encoder("vit").name == name
    snapshot = tmp_path / "hub" / "models--facebook--tiny-vit" / "snapshots" / "0f3c9a"
    assert load_encoder(save_model(transformers, snapshot, "ViT", VIT, 20)).name == "facebook/tiny-vit"


def test_the_small_encoder_is_the_same_each_time_and_draws_from_nobodys_random_numbers():
    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(3)
    first, second = load_encoder(scenes_encoder.NAME), load_encoder(scenes_encoder.NAME, resize="squash")
    assert torch.equal(torch.rand(5), expected)
    assert first.digest == second.digest and first.frozen
    assert second.preprocessing == Preprocessing(size=64, resize="squash")
    assert first(noise(2, 64)).shape == (2, 64, 64)


def test_a_copy_of_the_small_encoder_and_a_pickled_one_encode_as_it_does():
    encoder, pixels = load_encoder(scenes_encoder.NAME), noise(2, 64)
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        torch.testing.assert_close(other(pixels), encoder(pixels), rtol=0, atol=0)
