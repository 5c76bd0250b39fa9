"""What the tests of the commands share: the small encoder, photos, a model and a data folder."""

from pathlib import Path

import pytest
from builders import shape_folder, shape_photos, small_checkpoint, small_encoder


@pytest.fixture(autouse=True)
def always_small(small: None) -> None:
    """The small encoder in every test of the commands."""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    shape_photos(folder)
    (folder / "notes.txt").write_text("no photo")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_checkpoint(small_encoder()).save(tmp_path / "beach")
    return tmp_path / "beach"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return shape_folder(tmp_path / "shapes")
