"""`sat train` on small custom data: what it starts from, and what it says of its choices."""

from pathlib import Path
from shutil import copytree

import pytest
from builders import shape_folder
from commands import refused, sat, settings

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.training.presets import custom as fitting

SMALL = settings(max_length=12)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the place of the shipped soft model: of the small encoder and the shapes' words."""
    folder = shape_folder(tmp_path / "first")
    output = tmp_path / "start"
    sat("train", folder, "--output", output, "--resize", "squash", "--epochs", 1, "--init-from", "none", *SMALL)
    monkeypatch.setattr(fitting, "START", str(output))
    return output


def test_it_trains_soft_attention_from_the_shipped_model(start, tmp_path):
    first = Checkpoint.load(start)
    first.vocabulary = Vocabulary(first.vocabulary.words[2:])  # with the shipped models' tokenizer
    first.save(start)
    data = shape_folder(tmp_path / "mine", captions=2)
    captions = data / "captions.csv"
    text = captions.read_text().replace("circle", "mug of 2.5 liters")
    captions.write_text(text)
    said = sat("train", data, "--output", tmp_path / "model", *SMALL, "--epochs", 2).stdout
    assert said.startswith("train: 10 photos, 20 captions")
    assert f"the training starts from {start} and sees photos as it does (--resize squash)" in said
    assert "new words for the model to start from: " in said
    assert "two trainings on half of the photos, each judged by the others" in said and " nats a word" in said
    model = Checkpoint.load(tmp_path / "model")
    assert model.config.attention == "soft" and model.encoder.preprocessing.resize == "squash"
    assert model.training["init_from"] == str(start) and {"mug", "2.5"} <= set(model.vocabulary.words)
    assert model.vocabulary.tokenizer.tokens != first.vocabulary.tokenizer.tokens
    assert "the training starts afresh" in sat("check", data).stdout  # the start has another decoder than the preset


def test_each_choice_can_be_turned_off(start, tmp_path):
    data = shape_folder(tmp_path / "mine")
    train = ("train", data, *SMALL, "--epochs", 1, "--output")
    said = sat(*train, tmp_path / "afresh", "--init-from", "none").stdout
    assert "starts from" not in said and "init_from" not in Checkpoint.load(tmp_path / "afresh").training
    assert Checkpoint.load(tmp_path / "afresh").encoder.preprocessing.resize == "crop"
    said = sat(*train, tmp_path / "cropped", "--resize", "crop").stdout
    assert "the training starts afresh" in said and "saw photos by squash" in said
    said = sat(*train, tmp_path / "other", "--set", "decoder.hidden_size=18").stdout
    assert "the training starts afresh" in said and "has another decoder" in said
    said = sat(*train, tmp_path / "preset", "--preset", "flickr8k", "--set", "minimum_count=1").stdout
    assert "starts" not in said and "nats a word" not in said  # the preset as it is
    assert "Give only one of --attention" in refused(*train, tmp_path / "x", "--attention", "soft", "--decoder", "nic")


def test_an_ended_training_goes_on(start, tmp_path):
    by_val = ("--set", "selected_by=nats")  # or two trainings on halves may say that fewer epochs are enough
    train = ("train", shape_folder(tmp_path / "mine"), "--output", tmp_path / "model", *SMALL, *by_val)
    sat(*train, "--epochs", 1)
    said = sat(*train, "--resume", "--epochs", 3).stdout
    assert "3 epochs instead of 1, at a learning rate of 0.0005; a cosine goes to 0 again from 0.5 of it" in said
    assert "epoch 2: " in said and "epoch 3: " in said
    said = sat(*train, "--resume").stdout
    assert "resumed after 3 epochs" in said and "updates, by the rule" not in said  # of as many epochs as it has
    assert "epoch 4: " in sat(*train, "--resume", "--set", "epochs=4").stdout


def test_what_it_says_to_do_next_can_be_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shape_folder(tmp_path / "my data")
    options = ("--encoder-weights", "weights 1", "--init-from", "none", *SMALL, "--epochs", 1)
    said = sat("train", "my data", "--output", fitting.START, *options).stdout
    assert said.splitlines()[-1] == (
        f"Done. Score it with: sat evaluate --model ./{fitting.START} --data 'my data' --split test "
        "--encoder-weights 'weights 1'"
    )
    captions = shape_folder(tmp_path / "no test") / "captions.csv"
    captions.write_text(captions.read_text().replace(",test", ",val"))
    said = sat("train", "no test", "my data", "--output", "both", *options).stdout
    assert "--data 'no test' --split val " in said.splitlines()[-1]


def test_a_training_goes_on_from_its_own_start_alone(start, tmp_path):
    """So the card cannot name a model that it does not come from."""
    other = copytree(start, tmp_path / "other")
    train = ("train", shape_folder(tmp_path / "mine"), "--output", tmp_path / "model", *SMALL)
    sat(*train, "--epochs", 1, "--init-from", other)
    line = refused(*train, "--resume", "--epochs", 2)
    assert f"init_from was '{other}', is '{start}'" in line
    assert f"init_from was '{other}', is None" in refused(*train, "--resume", "--epochs", 2, "--init-from", "none")
    sat(*train, "--resume", "--epochs", 2, "--init-from", other)
    assert Checkpoint.load(tmp_path / "model").training["init_from"] == str(other)
