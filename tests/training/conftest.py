"""What the tests of trainings share."""

import pytest
from builders import shape_folder

from show_attend_tell.data.datasets import read_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return read_dataset(shape_folder(tmp_path_factory.mktemp("data") / "shapes", captions=2))
