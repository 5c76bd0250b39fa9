"""Where annotations come from: photos read while an encoder trains."""

import threading
from pathlib import Path

import pytest
import torch
from builders import shape_folder, small_encoder
from PIL import Image

import show_attend_tell.vision.sources as sources_module
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.vision.sources import LivePhotos


def test_live_photos_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first photo waits until a second one is being opened too."""
    examples = read_dataset(shape_folder(tmp_path / "shapes")).split("train")
    names = [example.name for example in examples]
    live = LivePhotos(examples, small_encoder())
    expected = live[names]
    together = threading.Barrier(2, timeout=20)

    def opened(path: Path) -> Image.Image:
        together.wait()
        return open_photo(path)

    monkeypatch.setattr(sources_module, "open_photo", opened)
    assert len(names) % 2 == 0
    assert torch.equal(live[names], expected)  # in their order, too


def test_a_live_photo_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    examples = read_dataset(shape_folder(tmp_path / "shapes")).split("train")
    examples[3].photo.write_bytes(b"no photo")
    with pytest.raises(SatError, match=rf"{examples[3].name}: not a photo"):
        LivePhotos(examples, small_encoder())[[example.name for example in examples]]
