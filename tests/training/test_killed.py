"""A training that is killed at any moment, by SIGKILL, ends with the same weights once it is resumed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from builders import shape_folder
from commands import settings

KILLED = int(os.environ.get("KILLED", "30"))  # moments, drawn at random over the whole training


def command(data, home):
    """`sat train`, with a model and a feature cache below ``home``."""
    own = settings(minimum_count=1, averaging=0.9, scheduled_sampling=0.3, validation_beam_size=2, warmup=0)
    return [
        sys.executable,
        "-c",
        "from show_attend_tell.cli import main; main()",
        "train",
        str(data),
        "--attention",
        "soft",
        "--resize",
        "squash",
        "--epochs",
        "3",
        "--bits",
        "32",
        "--output",
        str(home / "model"),
        "--device",
        "cpu",
        "--resume",
        *own,
    ]


def environment(home):
    return {**os.environ, "OMP_NUM_THREADS": "1", "SAT_CACHE": str(home / "cache")}


def weights(home):
    """What a finished training leaves, but for its card and log, which have times."""
    files = ("model.safetensors", "vocabulary.json", "config.json")
    return {name: (home / "model" / name).read_bytes() for name in files}


@pytest.mark.proof
def test_a_training_that_is_killed_at_any_moment_ends_with_the_same_weights(tmp_path):
    data = shape_folder(tmp_path / "shapes", train=12, val=4, test=0, captions=3)
    whole = tmp_path / "whole"
    began = time.monotonic()
    subprocess.run(command(data, whole), env=environment(whole), check=True, capture_output=True)
    seconds = time.monotonic() - began
    chance = random.Random(5)
    unfinished = 0
    for number in range(KILLED):
        home = tmp_path / f"killed-{number}"
        process = subprocess.Popen(
            command(data, home), env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds * (number + chance.random()) / KILLED)
        process.send_signal(signal.SIGKILL)
        unfinished += process.wait() == -signal.SIGKILL
        again = subprocess.run(command(data, home), env=environment(home), capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
        assert weights(home) == weights(whole), number
        left = [path.name for path in home.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]
        print(f"killed after {seconds * number / KILLED:.1f} s or a little later; left behind: {left}")
    assert unfinished > KILLED / 2  # most of them were killed before they ended
