"""The folder of COCO, made out of COCO's own files, is one that a training reads."""

import json
from pathlib import Path

import coco
import pytest
from PIL import Image

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.tokenizers import KARPATHY

KNOWN = {9: "train", 25: "test"}


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A piece of COCO as it is downloaded: two photos that are known, and one that is not."""
    (tmp_path / "annotations").mkdir()
    for split, ids in (("train", (9, 30)), ("val", (25,))):
        folder = tmp_path / f"{split}2014"
        folder.mkdir()
        names = {number: f"COCO_{split}2014_{number:012}.jpg" for number in ids}
        for number, name in names.items():
            Image.new("RGB", (8, 6), (number, 0, 0)).save(folder / name)
        record = {
            "images": [{"id": number, "file_name": name} for number, name in names.items()],
            "annotations": [
                {"image_id": number, "caption": f"Photo {number},\n caption {i}."} for number in ids for i in range(6)
            ],
        }
        file = tmp_path / "annotations" / f"captions_{split}2014.json"
        file.write_text(json.dumps(record), encoding="utf-8")
    return tmp_path


def test_the_folder_is_read_by_a_training(downloaded: Path) -> None:
    output = downloaded / "coco"
    assert coco.make(downloaded, output, KNOWN) == (2, 10, 6)
    data = read_dataset(output)
    assert {example.name: example.split for example in data.examples} == {"9.jpg": "train", "25.jpg": "test"}
    assert all(len(example.captions) == 5 and example.photo.exists() for example in data.examples)
    texts = read_text_corpus(output / "captions_without_photos.txt.gz", KARPATHY)
    assert texts == [("photo", "30", "caption", str(i)) for i in range(6)]


def test_the_list_of_photos_has_the_splits_that_the_models_know() -> None:
    known = list(coco.splits().values())
    assert [known.count(split) for split in ("train", "val", "test")] == [1757, 200, 300]
