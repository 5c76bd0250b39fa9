"""Every form of data set that is read, and what is counted, left out or refused on the way."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import SatError


def draw(*photos: Path) -> None:
    for photo in photos:
        photo.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 5)).save(photo)


def image(name: str, split: str, *captions: str, **more: str) -> dict[str, Any]:
    """Make an entry of Karpathy's file, whose tokens are not exactly what its raw text would give."""
    sentences = [{"tokens": caption.lower().split(), "raw": f"{caption} ."} for caption in captions]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def karpathy(folder: Path, *images: dict[str, Any], name: str = "flickr8k") -> Path:
    content = {"images": list(images), "dataset": name}
    (folder / f"dataset_{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


THREE = (
    image("a.jpg", "train", "A dog-like thing", "A dog"),
    image("b.jpg", "val", "A cat"),
    image("c.jpg", "test", "Two birds"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with three photos."""
    draw(*(tmp_path / "images" / name for name in ("a.jpg", "b.jpg", "c.jpg")))
    return tmp_path


def splits(dataset: Dataset) -> dict[str, str]:
    return {example.name: example.split for example in dataset.examples}


# Forms


def test_karpathy(folder: Path) -> None:
    dataset = read_dataset(karpathy(folder, *THREE))
    assert dataset.name == "flickr8k"
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    (example,) = dataset.split("train")
    assert example.photo == folder / "images" / "a.jpg"
    assert example.captions == (("a", "dog-like", "thing"), ("a", "dog"))  # the file's own tokens
    assert example.raw == ("A dog-like thing .", "A dog .")
    assert dataset.report.photos == {"train": 1, "val": 1, "test": 1}
    assert dataset.report.captions == {"train": 2, "val": 1, "test": 1}
    assert dataset.report.lines() == [
        "train: 1 photo, 2 captions",
        "val: 1 photo, 1 caption",
        "test: 1 photo, 1 caption",
    ]


@pytest.mark.parametrize("place", ["images", "."])
def test_karpathy_coco_with_subfolders_and_restval(tmp_path: Path, place: str) -> None:
    draw(tmp_path / place / "train2014" / "a.jpg", *(tmp_path / place / "val2014" / f"{n}.jpg" for n in "bcd"))
    karpathy(
        tmp_path,
        image("a.jpg", "train", "A dog", filepath="train2014"),
        image("b.jpg", "val", "A cat", filepath="val2014"),
        image("c.jpg", "restval", "A cow", "Two cows", filepath="val2014"),
        image("d.jpg", "test", "A hen", filepath="val2014"),
        name="coco",
    )
    dataset = read_dataset(tmp_path)
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "d.jpg": "test"}
    assert dataset.report.other_splits == {"restval": 1}
    assert "left out: 1 photo of the split 'restval'" in dataset.report.lines()
    assert dataset.split("test")[0].photo == tmp_path / place / "val2014" / "d.jpg"

    dataset = read_dataset(tmp_path, restval=True)
    assert splits(dataset)["c.jpg"] == "train"
    assert dataset.report.captions == {"train": 3, "val": 1, "test": 1}
    assert dataset.report.other_splits == {}


@pytest.mark.parametrize("place", [".", "text"])
@pytest.mark.parametrize(
    ("token_file", "prefix"), [("Flickr8k.token.txt", "Flickr_8k"), ("results_20130124.token", "Flickr_30k")]
)
def test_the_authors_flickr_files(folder: Path, place: str, token_file: str, prefix: str) -> None:
    text = folder / place
    text.mkdir(exist_ok=True)
    lines = [
        "a.jpg#0\tA dark-haired dog runs .",
        "a.jpg#1\tA dog\u2028runs",  # not the end of a line
        "b.jpg#0\tA cat 's tail",
        "c.jpg#0\tTwo birds",
        "a.jpg.1#0\tA photo that does not exist",  # as in the real file
        "a.jpg.1#1\tAnother caption of it",
    ]
    (text / token_file).write_text("\n".join(lines) + "\n", encoding="utf-8-sig")  # with the mark of some editors
    for name, photo in (("train", "a.jpg"), ("dev", "b.jpg"), ("test", "c.jpg")):
        (text / f"{prefix}.{name}Images.txt").write_text(f"{photo}\r\n\r\n", encoding="utf-8")
    dataset = read_dataset(folder)
    assert dataset.name == prefix.lower().replace("_", "")
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    (example,) = dataset.split("train")
    assert example.captions == (("a", "dark", "haired", "dog", "runs"), ("a", "dog", "runs"))
    assert example.raw[0] == "A dark-haired dog runs ."
    assert (dataset.report.stray_photos, dataset.report.stray_captions) == (("a.jpg.1",), 2)
    assert "left out: 2 captions of 1 photo in no split: a.jpg.1" in dataset.report.lines()


def test_flickr_captions_without_split_lists_are_refused(folder: Path) -> None:
    (folder / "results_20130124.token").write_text("a.jpg#0\tA dog\n", encoding="utf-8")
    with pytest.raises(SatError, match=r"without its splits.*Flickr_30k\.trainImages\.txt"):
        read_dataset(folder)


@pytest.mark.parametrize("place", [".", "annotations"])
def test_coco_captions(tmp_path: Path, place: str) -> None:
    draw(tmp_path / "train2014" / "a.jpg", tmp_path / "images" / "val2014" / "b.jpg")
    (tmp_path / place).mkdir(exist_ok=True)
    for split, photo in (("train", "a.jpg"), ("val", "b.jpg")):
        content = {
            "images": [{"id": 7, "file_name": photo}],
            "annotations": [
                {"id": 1, "image_id": 7, "caption": "A man, riding.\n"},
                {"id": 2, "image_id": 11, "caption": "Of no photo"},
            ],
        }
        (tmp_path / place / f"captions_{split}2014.json").write_text(json.dumps(content), encoding="utf-8")
    dataset = read_dataset(tmp_path)
    assert dataset.name == "coco"
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val"}
    assert dataset.examples[0].captions == (("a", "man", "riding"),)
    assert dataset.examples[0].raw == ("A man, riding.",)
    assert dataset.report.stray_captions == 2
    with pytest.raises(SatError, match=r"no split 'test'; it has train, val"):
        dataset.split("test")

    (tmp_path / place / "captions_train2014.json").unlink()
    assert splits(read_dataset(tmp_path)) == {"b.jpg": "val"}


def test_own_pictures(folder: Path) -> None:
    draw(folder / "images" / "holiday" / "d.jpg")
    rows = [
        "\ufeffPhoto,Caption,Split",
        'a.jpg,"A dog, running.",train',
        "./a.jpg,A brown dog,train",
        "b.jpg,A cat,validation",
        "holiday/d.jpg,The sea,test",
        "",
    ]
    (folder / "captions.csv").write_text("\r\n".join(rows), encoding="utf-8")
    dataset = read_dataset(folder)
    assert dataset.name == folder.name
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "holiday/d.jpg": "test"}
    assert dataset.split("train")[0].captions == (("a", "dog", "running"), ("a", "brown", "dog"))
    assert dataset.split("test")[0].photo == folder / "images" / "holiday" / "d.jpg"
    assert not dataset.report.dealt


def test_own_pictures_are_dealt_to_splits_by_name(tmp_path: Path) -> None:
    names = [f"{number}.jpg" for number in range(211)]
    for name in names:
        (tmp_path / name).touch()  # photos are found, not opened

    def deal(kept: list[str]) -> Dataset:
        text = "photo,caption\n" + "".join(f"{name},a dog\n{name},a cat\n" for name in kept)
        (tmp_path / "captions.csv").write_text(text, encoding="utf-8")
        return read_dataset(tmp_path)

    dataset = deal(names)
    photos = dataset.report.photos
    assert sum(photos.values()) == 211
    assert 0.8 < photos["train"] / 211 < 0.97
    assert min(photos["val"], photos["test"]) > 2
    assert any("dealt 90/5/5" in line for line in dataset.report.lines())
    fewer = splits(deal(names[::3]))
    assert fewer == {name: splits(dataset)[name] for name in names[::3]}


def test_karpathy_wins_over_all_other_forms(folder: Path) -> None:
    (folder / "captions.csv").write_text("photo,caption\na.jpg,mine\n", encoding="utf-8")
    (folder / "Flickr8k.token.txt").write_text("damaged", encoding="utf-8")
    assert len(read_dataset(karpathy(folder, *THREE)).examples) == 3


def test_photos_may_be_elsewhere(tmp_path: Path) -> None:
    draw(*(tmp_path / "pictures" / name for name in ("a.jpg", "b.jpg", "c.jpg")))
    (tmp_path / "data").mkdir()
    dataset = read_dataset(karpathy(tmp_path / "data", *THREE), images=tmp_path / "pictures")
    assert dataset.examples[0].photo == tmp_path / "pictures" / "a.jpg"
    with pytest.raises(SatError, match="nowhere is not a folder"):
        read_dataset(tmp_path / "data", images=tmp_path / "nowhere")


# What is counted and left out


def test_odd_captions_are_counted(folder: Path) -> None:
    odd = image("a.jpg", "train", *(f"a dog {n}" for n in "wxyy"), "", *(f"a cat {n}" for n in "xyz"))
    odd["sentences"][0]["tokens"] += ["", " "]
    dataset = read_dataset(karpathy(folder, odd, *THREE[1:]))
    (example,) = dataset.split("train")
    assert [" ".join(words) for words in example.captions] == [
        "a dog w", "a dog x", "a dog y", "a dog y", "a cat x"
    ]  # fmt: skip
    report = dataset.report
    assert (report.empty_captions, report.extra_references, report.duplicate_captions) == (1, 2, 1)
    assert report.lines()[3:] == [
        "left out: 1 caption without a word",
        "left out: 2 captions beyond 5 of a photo",
        "kept: 1 caption that the same photo has twice",
    ]


def test_odd_photos_are_counted(folder: Path) -> None:
    gone = [image(f"gone{n}.jpg", "train", "A dog") for n in range(7)]
    silent = image("b2.jpg", "val", "", "")
    twice = image("a.jpg", "train", "Something else")
    unknown = image("d.jpg", "spare", "A spare")
    dataset = read_dataset(karpathy(folder, *THREE, *gone, silent, twice, unknown))
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    assert dataset.split("train")[0].captions[1] == ("a", "dog")
    assert dataset.report.lines()[3:] == [
        "left out: 1 photo of the split 'spare'",
        "left out: 7 photos not found, in train: gone0.jpg, gone1.jpg, gone2.jpg and 4 more",
        "left out: 1 photo without a caption: b2.jpg",
        "left out: 1 photo listed twice (the first listing is kept): a.jpg",
        "left out: 2 captions without a word",
    ]


# What is refused


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_missing_photo_of_val_or_test_is_refused(folder: Path, split: str) -> None:
    karpathy(folder, *THREE, image("gone.jpg", split, "A dog"))
    with pytest.raises(SatError, match=rf"1 photo of the split {split} not found in .*images.*: gone\.jpg"):
        read_dataset(folder)


def test_a_photo_in_two_splits_is_refused(folder: Path) -> None:
    karpathy(folder, *THREE, image("a.jpg", "test", "A dog"))
    with pytest.raises(SatError, match=r"'a\.jpg' is in two splits, train and test"):
        read_dataset(folder)


def test_a_folder_without_photos_is_refused(tmp_path: Path) -> None:
    unused = r"lists 3 photos, and none can be used: {} without a caption, {} not found in .*images"
    with pytest.raises(SatError, match=unused.format(0, 3)):
        read_dataset(karpathy(tmp_path, *THREE))


def test_a_folder_without_a_word_is_refused(folder: Path) -> None:
    (folder / "captions.csv").write_text("photo,caption\na.jpg,\nb.jpg,...\n", encoding="utf-8")
    with pytest.raises(SatError, match="lists 2 photos, and none can be used: 2 without a caption, 0 not found"):
        read_dataset(folder)


def test_one_photo_by_two_names_is_refused(folder: Path) -> None:
    rows = ["photo,caption,split", "a.jpg,a dog,train", "b.jpg,a cat,val", "images/a.jpg,a dog,test"]
    (folder / "captions.csv").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(SatError, match=r"'a\.jpg' and 'images/a\.jpg' are one photo, .*images/a\.jpg; .*one name"):
        read_dataset(folder)


def test_a_folder_without_captions_is_refused(folder: Path) -> None:
    with pytest.raises(SatError, match=r"looked for dataset\*\.json .*Flickr8k\.token\.txt .*captions\.csv"):
        read_dataset(folder)
    with pytest.raises(SatError, match="none is not a folder"):
        read_dataset(folder / "none")


def test_two_split_files_are_refused(folder: Path) -> None:
    karpathy(folder, *THREE, name="coco")
    with pytest.raises(SatError, match=r"dataset_coco\.json, dataset_flickr8k\.json; keep the one"):
        read_dataset(karpathy(folder, *THREE))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"images": [', r"dataset_flickr8k\.json is not valid JSON"),
        ("[3]", r"dataset_flickr8k\.json must hold a JSON object"),
        ('{"photos": []}', r"dataset_flickr8k\.json: 'images' must be a list .* is missing"),
        (json.dumps({"images": [THREE[0], THREE[1] | {"split": 3}]}), r"images\[1\]: 'split' must be a text"),
        (json.dumps({"images": [THREE[0] | {"filename": None}]}), r"images\[0\]: 'filename' must be a text"),
        (
            json.dumps({"images": [THREE[0] | {"sentences": ["a"]}]}),
            r"images\[0\]: 'sentences' must be a list",
        ),
        (
            json.dumps({"images": [THREE[0] | {"sentences": [{"tokens": ["a"]}, {"tokens": "a dog"}]}]}),
            r"images\[0\]\.sentences\[1\]: 'tokens' must be a list of words, and is 'a dog'",
        ),
    ],
)
def test_a_damaged_split_file_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "dataset_flickr8k.json").write_text(content, encoding="utf-8")
    with pytest.raises(SatError, match=message):
        read_dataset(folder)


def test_a_damaged_flickr_line_is_refused(folder: Path) -> None:
    (folder / "Flickr8k.token.txt").write_text("a.jpg#0\tA dog\na.jpg A dog\n", encoding="utf-8")
    with pytest.raises(SatError, match=r"Flickr8k\.token\.txt: line 2 must be .* and is 'a\.jpg A dog'"):
        read_dataset(folder)


@pytest.mark.parametrize(
    ("images", "annotations", "message"),
    [
        ([{"id": "7", "file_name": "a.jpg"}], [], r"images\[0\]: 'id' must be a whole number, and is '7'"),
        ([{"id": 7, "file_name": "a.jpg"}], [{"image_id": 7}], r"annotations\[0\]: 'caption' must be a text"),
        ([{"id": 7, "file_name": "a.jpg"}], None, r"'annotations' must be a list"),
    ],
)
def test_damaged_coco_captions_are_refused(folder: Path, images: Any, annotations: Any, message: str) -> None:
    content = json.dumps({"images": images, "annotations": annotations})
    (folder / "captions_val2014.json").write_text(content, encoding="utf-8")
    with pytest.raises(SatError, match=r"captions_val2014\.json: " + message):
        read_dataset(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line must be photo,caption"),
        ("file;caption\n", "the first line must be photo,caption"),
        (
            "photo,caption\na.jpg,A dog, running\n",
            r"line 2 must have the cells photo, caption \(a caption with a",
        ),
        ("photo,caption\na.jpg,A dog\n,A cat\n", "line 3 must have the cells"),
        ("photo,caption,split\na.jpg,A dog,spare\n", "line 2 has the split 'spare'; use train, val, test"),
        ("photo,caption,split\na.jpg,A dog,\n", "line 2 has the split ''"),
        ('photo,caption\na.jpg,"A dog\n', r"captions\.csv: line 2 is damaged"),
        (
            "photo,caption,split\na.jpg,A dog,val\na.jpg,A cat,test\n",
            "'a.jpg' is in two splits, val and test",
        ),
    ],
)
def test_damaged_own_captions_are_refused(folder: Path, text: str, message: str) -> None:
    (folder / "captions.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SatError, match=message):
        read_dataset(folder)


def test_captions_in_another_encoding_are_refused(folder: Path) -> None:
    (folder / "captions.csv").write_bytes("photo,caption\na.jpg,Ein Bär\n".encode("latin-1"))
    with pytest.raises(SatError, match=r"cannot read .*captions\.csv: .*UTF-8"):
        read_dataset(folder)
