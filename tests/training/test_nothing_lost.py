"""What goes wrong around a training is told in one line, and the last good state stays: the training can go on."""

from itertools import count

import pytest
from builders import shape_folder
from commands import refused, sat, settings
from safetensors import SafetensorError

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.training.trainer as loop_module
from show_attend_tell.checkpoint.checkpoint import Checkpoint

FULL = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.fixture
def command(small, tmp_path):
    """`sat train`, without its output."""
    data = shape_folder(tmp_path / "shapes", captions=2)
    own = settings(minimum_count=1, averaging=0.9, validation_beam_size=2, warmup=0, flipped="false")
    return ("train", data, "--preset", "flickr8k", "--epochs", 2, "--bits", 32, *own, "--output")


def model(folder):
    return [(folder / name).read_bytes() for name in ("model.safetensors", "vocabulary.json", "config.json")]


def full_at(number, save_file):
    """What saves files on a disk that is full at the call of this number."""
    calls = count(1)

    def saved(*arguments, **options):
        if next(calls) == number:
            raise SafetensorError(FULL)
        save_file(*arguments, **options)

    return saved


def test_a_full_disk_costs_nothing_but_time(command, tmp_path, monkeypatch):
    sat(*command, tmp_path / "whole")
    for module, file, number in (
        (loop_module, "state", 1),
        (checkpoint_module, "model", 1),
        (checkpoint_module, "model", 2),
    ):
        output = tmp_path / f"{file}-{number}"
        with monkeypatch.context() as patched:
            patched.setattr(module, "save_file", full_at(number, module.save_file))
            line = refused(*command, output)
        assert f"{file}.safetensors cannot be written" in line and "No space left on device" in line
        if number == 2:
            Checkpoint.load(output)  # the one before
        sat(*command, output, "--resume")
        assert model(output) == model(tmp_path / "whole")
        assert not list(output.rglob("*.part"))
