"""Several data sets as one: names, splits, weights, and annotations from each one's own cache."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from builders import shape_folder, small_encoder
from PIL import Image

from show_attend_tell.data.datasets import Dataset, join, read_dataset
from show_attend_tell.data.datasets.dataset import repeat_by_weight
from show_attend_tell.errors import SatError
from show_attend_tell.vision.sources import cached


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    """Two folders of the same name, with photos of the same names."""
    home = tmp_path_factory.mktemp("data")
    folders = [shape_folder(home / location / "shapes", train=6, val=3, test=2) for location in ("here", "there")]
    for file in (folders[1] / "images").iterdir():
        Image.open(file).transpose(Image.Transpose.FLIP_TOP_BOTTOM).save(file)
    return [read_dataset(folder) for folder in folders]


def test_photos_keep_their_split_and_are_told_apart(parts):
    joined = join(parts)
    assert joined.name == "shapes + shapes-2"
    assert len({example.name for example in joined.examples}) == sum(len(part.examples) for part in parts)
    for split in ("train", "val", "test"):
        expected = [example.photo for part in parts for example in part.split(split)]
        assert [example.photo for example in joined.split(split)] == expected
        assert joined.report.photos[split] == len(expected)
    assert joined.examples[0].captions == parts[0].examples[0].captions
    assert any(line.startswith("shapes-2: train: ") for line in joined.report.notes)


def test_wrong_weights_and_a_folder_given_twice_are_refused(parts):
    with pytest.raises(SatError, match="weights: 1, data folders: 2; give one for each"):
        join(parts, [1.0])
    for weight in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(SatError, match="give a number above 0"):
            join(parts, [1.0, weight])
    with pytest.raises(SatError, match="is given twice: give it once, with a larger weight"):
        join([parts[0], replace(parts[0], name="other")])


def test_copies_of_photos_of_another_folder_s_split_are_left_out_and_counted(tmp_path):
    folders = [shape_folder(tmp_path / name, train=6, val=3, test=2) for name in ("here", "there")]
    captions = folders[1] / "captions.csv"
    lines = captions.read_text().replace("photo7.png", "renamed.png").splitlines()
    for number, split in ((1, "test"), (2, "val"), (7, "train"), (10, "train")):
        lines[1 + number] = f"{lines[1 + number].rpartition(',')[0]},{split}"
    captions.write_text("\n".join(lines))
    (folders[1] / "images" / "photo7.png").rename(folders[1] / "images" / "renamed.png")
    joined = join([read_dataset(folder) for folder in folders])
    assert joined.report.photos == {"train": 4 + 4, "val": 3 + 3, "test": 2 + 2}
    assert [len(part.dataset.examples) for part in joined.parts] == [9, 9]
    lines = joined.report.lines()
    assert "here: left out: 2 photos whose exact copy is in another split: photo1.png, photo2.png" in lines
    assert "there: left out: 2 photos whose exact copy is in another split: renamed.png, photo10.png" in lines


def test_an_epoch_shows_each_as_often_as_its_weight_says():
    weights = [1.0] * 10 + [2.5] * 20 + [0.25] * 40
    found = Counter(repeat_by_weight(weights, random.Random(1)))
    assert {found[index] for index in range(10)} == {1}
    assert sorted(found[index] for index in range(10, 30)) == [2] * 10 + [3] * 10
    assert sorted(found[index] for index in range(30, 70)) == [0] * 30 + [1] * 10
    assert found != Counter(repeat_by_weight(weights, random.Random(2)))


def test_each_part_is_encoded_in_its_own_folder_of_the_cache(parts, tmp_path):
    other = replace(parts[1], name="others")
    joined, encoder = join([parts[0], other]), small_encoder()
    found = cached(joined, encoder, tmp_path, splits=("train", "val"), show=False)
    assert {folder.name for folder in tmp_path.iterdir() if folder.is_dir()} == {"shapes", "others"}
    names = [example.name for example in joined.split("train")]
    random.Random(3).shuffle(names)
    annotations = found[names]
    for row, name in enumerate(names):
        part, _, own = name.partition("/")
        alone = cached({"shapes": parts[0], "others": other}[part], encoder, tmp_path, splits=("train",), show=False)
        assert torch.equal(annotations[row], alone[[own]][0])
