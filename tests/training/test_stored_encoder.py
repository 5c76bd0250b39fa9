"""A model of EfficientNet-Lite2 holds its encoder, so that both back ends caption without the package of weights."""

from pathlib import Path

import pytest
import torch
from builders import shape_folder, small_checkpoint, small_config, small_encoder
from lite import published

from show_attend_tell.captioner import Captioner
from show_attend_tell.cli.train import start_and_encoder
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.packing import pack_8bit, unpack_8bit
from show_attend_tell.training import run
from show_attend_tell.vision import efficientnet
from show_attend_tell.vision.encoder import Encoder, load_encoder


def test_the_folder_of_a_model_is_all_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "PACKAGE", "weights_that_are_not_installed")
    monkeypatch.setattr(Encoder, "precision", "float32")
    folded = {name: torch.from_numpy(array) for name, array in efficientnet.folded(published()).items()}
    weights = unpack_8bit(pack_8bit(folded))
    encoder = load_encoder("efficientnet-lite2", weights=weights, geometry="squash")
    dataset = read_dataset(shape_folder(tmp_path / "shapes", train=4, val=2, test=2))
    output, cache = tmp_path / "model", tmp_path / "cache"
    device, config = torch.device("cpu"), small_config(epochs=1, visual_ngrams=False)
    model = run.train(dataset, config, encoder, output, cache=cache, device=device, say=lambda text: None, show=False)
    assert model.encoder.digest == encoder.digest
    assert model.tuned_encoder is not None and model.tuned_encoder.keys() == weights.keys()
    assert 4.7e6 < (output / "encoder.safetensors").stat().st_size < 5.1e6  # 8 bits a weight

    photos = [example.photo for example in dataset.split("test")]
    one, other = (Captioner.from_pretrained(output, backend=backend) for backend in ("torch", "onnx"))
    for found, expected in zip(one(photos), other(photos), strict=True):
        assert found.words == expected.words
        assert abs(found.log_probability - expected.log_probability) < 1e-3

    start, again = start_and_encoder(
        str(output), "efficientnet-lite2", weights=None, geometry="crop", fine_tune=None, default_geometry=True
    )
    assert again.digest == start.encoder.digest == encoder.digest
    assert again.preprocessing == encoder.preprocessing


def test_the_card_tells_published_weights_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = small_encoder()
    model = small_checkpoint(encoder)
    model.tuned_encoder = encoder.body.state_dict()
    assert ", fine-tuned;" in model.card("beach")
    monkeypatch.setattr(efficientnet, "DIGEST", encoder.digest)
    assert ", frozen;" in model.card("beach")
