"""What goes wrong around a training is told in one line, and the last good state stays: the training can go on."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from builders import shape_folder
from commands import refused, sat
from safetensors import SafetensorError

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.training.state as state_module
from show_attend_tell.checkpoint.checkpoint import Checkpoint

SETTINGS = (
    *("decoder.embedding_size=8", "decoder.hidden_size=8", "decoder.attention_size=8", "batch_size=4"),
    *("minimum_count=1", "averaging=0.9", "validation_beam_size=2", "warmup=0", "visual_ngrams=false", "flipped=false"),
)
FULL = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.fixture
def command(small: None, tmp_path: Path) -> tuple[object, ...]:
    """`sat train`, without its output."""
    data = shape_folder(tmp_path / "shapes", captions=2)
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    return ("train", data, "--preset", "flickr8k", "--epochs", 2, "--bits", 32, *settings, "--output")


def model(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", "vocabulary.json", "config.json")]


@pytest.mark.parametrize(("module", "number"), [(state_module, 1), (checkpoint_module, 1), (checkpoint_module, 2)])
def test_a_full_disk_costs_nothing_but_time(
    module: Any, number: int, command: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, save_file, output = count(1), module.save_file, tmp_path / "full"

    def full(*arguments: Any, **options: Any) -> None:
        if next(calls) == number:
            raise SafetensorError(FULL)
        save_file(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(module, "save_file", full)
        line = refused(*command, output)
    file = "state" if module is state_module else "model"
    assert f"{file}.safetensors cannot be written" in line and "No space left on device" in line
    if number == 2:
        Checkpoint.load(output)  # the one before
    sat(*command, output, "--resume")
    sat(*command, tmp_path / "whole")
    assert model(output) == model(tmp_path / "whole")
    assert not list(output.rglob("*.part"))


def test_a_folder_that_cannot_be_written_is_told_before_the_work(command: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    line = refused(*command, tmp_path / "file" / "model")
    assert "file is not a folder" in line
    assert not (tmp_path / "cache").exists()  # no photo was encoded


def test_a_truncated_state_is_told(command: tuple[object, ...], tmp_path: Path) -> None:
    sat(*command, tmp_path / "model")
    before = model(tmp_path / "model")
    state = tmp_path / "model" / "training" / "state.safetensors"
    whole = state.read_bytes()
    for left in (0, 7, 1000, len(whole) - 1):
        state.write_bytes(whole[:left])
        line = refused(*command, tmp_path / "model", "--resume", "--epochs", 4)
        assert f"the training state {state} cannot be read" in line and "give another --output" in line
        assert model(tmp_path / "model") == before
    state.unlink()
    line = refused(*command, tmp_path / "model", "--resume")
    assert "cannot be resumed. Give another --output; --init-from" in line
    sat(*command, tmp_path / "afresh", "--resume")
    assert model(tmp_path / "afresh") == before
    sat(*command, tmp_path / "further", "--init-from", tmp_path / "model")
    state.write_bytes(whole)
    sat(*command, tmp_path / "model", "--resume")


def test_damaged_annotations_stop_a_training_that_then_goes_on(command: tuple[object, ...], tmp_path: Path) -> None:
    sat(*command, tmp_path / "before")
    files = list((tmp_path / "cache").glob("*/*/*/*"))  # each of a photo
    assert len(files) == 13
    stored = files[3].read_bytes()
    files[3].write_bytes(stored[:100] + bytes([stored[100] ^ 1]) + stored[101:])
    line = refused(*command, tmp_path / "model")
    assert "the stored annotations of photo" in line and "sat train with --resume" in line
    sat(*command, tmp_path / "model", "--resume")
    assert files[3].read_bytes() == stored
    assert (tmp_path / "model" / "model.safetensors").exists()
