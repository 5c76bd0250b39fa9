"""Where annotations come from: photos read while an encoder trains."""

import threading
from pathlib import Path

import pytest
import torch
from builders import shape_folder, small_encoder
from PIL import Image
from torch import Tensor

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.errors import PhotoError
from show_attend_tell.vision.sources import LivePhotos

TOGETHER = threading.Barrier(2, timeout=60)


class InPairs(Preprocessing):
    """Each photo waits until another one is being read too."""

    def __call__(self, photo: Image.Image, view: str = "original", name: str = "") -> Tensor:
        TOGETHER.wait()
        return super().__call__(photo, view, name)


def test_live_photos_are_read_side_by_side(tmp_path: Path) -> None:
    examples = read_dataset(shape_folder(tmp_path / "shapes")).split("train")
    names = [example.name for example in examples]
    encoder = small_encoder()
    expected = LivePhotos(examples, encoder)[names]
    encoder.preprocessing = InPairs(size=30, resize="squash")
    assert len(names) % 2 == 0
    assert torch.equal(LivePhotos(examples, encoder)[names], expected)  # in their order, too


def test_a_live_photo_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    examples = read_dataset(shape_folder(tmp_path / "shapes")).split("train")
    examples[3].photo.write_bytes(b"no photo")
    with pytest.raises(PhotoError, match=rf"{examples[3].name}: not a photo"):
        LivePhotos(examples, small_encoder())[[example.name for example in examples]]
