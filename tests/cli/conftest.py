"""What the tests of the commands share: the small encoder, photos, a model and a data folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from builders import shape_folder, shape_photo, shape_scenes, small_checkpoint, small_encoder, small_load_encoder

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.scoring import java as java_metrics


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small encoder instead of VGG-19, the cache in the test's own folder, no GPU, no seconds of METEOR."""
    monkeypatch.setattr(encoder_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))

    def absent(module: Any, jar: str) -> Path:
        raise java_metrics.JavaError("no Java in this test")

    monkeypatch.setattr(java_metrics, "java_program", absent)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, scene in enumerate(shape_scenes(3)):
        shape_photo(*scene).save(folder / f"photo{number}.png")
    (folder / "notes.txt").write_text("no photo")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_checkpoint(small_encoder()).save(tmp_path / "beach")
    return tmp_path / "beach"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return shape_folder(tmp_path / "shapes")
