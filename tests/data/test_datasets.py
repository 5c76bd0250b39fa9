"""Every form of data set that is read, and what is counted, left out or refused on the way."""

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from caption_cases import DAMAGED, ONE, TABLES, WITH_SPLIT, jsonl, table
from PIL import Image

from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.datasets.splits import split_at_random as split_groups
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.caption_files import read_references


def draw(*photos: Path) -> None:
    """Photos of one color each, which their names choose."""
    for photo in photos:
        photo.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 5), tuple(hashlib.sha256(photo.name.encode()).digest()[:3])).save(photo, "PNG")


def image(name: str, split: str, *captions: str, **more: str) -> dict[str, Any]:
    """Make an entry of Karpathy's file, whose tokens are not exactly what its raw text would give."""
    sentences = [{"tokens": caption.lower().split(), "raw": f"{caption} ."} for caption in captions]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def karpathy(folder: Path, *images: dict[str, Any], name: str = "flickr8k") -> Path:
    content = {"images": list(images), "dataset": name}
    (folder / f"dataset_{name}.json").write_text(json.dumps(content))
    return folder


THREE = (
    image("a.jpg", "train", "A dog-like thing", "A dog"),
    image("b.jpg", "val", "A cat"),
    image("c.jpg", "test", "Two birds"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with three photos."""
    draw(*(tmp_path / "data" / "images" / name for name in ("a.jpg", "b.jpg", "c.jpg")))
    return tmp_path / "data"


def splits(dataset: Dataset) -> dict[str, str]:
    return {example.name: example.split for example in dataset.examples}


# Forms


def test_karpathy(folder):
    dataset = read_dataset(karpathy(folder, *THREE))
    assert dataset.name == "flickr8k"
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    (example,) = dataset.split("train")
    assert example.photo == folder / "images" / "a.jpg"
    assert example.captions == (("a", "dog-like", "thing"), ("a", "dog"))  # the file's own tokens
    assert example.raw == ("A dog-like thing .", "A dog .")
    assert dataset.report.lines() == [
        "train: 1 photo, 2 captions",
        "val: 1 photo, 1 caption",
        "test: 1 photo, 1 caption",
    ]


@pytest.mark.parametrize("location", ["images", "."])
def test_karpathy_coco_with_subfolders_and_restval(tmp_path, location):
    draw(tmp_path / location / "train2014" / "a.jpg", *(tmp_path / location / "val2014" / f"{n}.jpg" for n in "bcd"))
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
    assert "left out: 1 photo of the split 'restval': c.jpg" in dataset.report.lines()
    assert dataset.split("test")[0].photo == tmp_path / location / "val2014" / "d.jpg"

    dataset = read_dataset(tmp_path, restval=True)
    assert splits(dataset)["c.jpg"] == "train" and not dataset.report.notes
    assert dataset.report.captions == {"train": 3, "val": 1, "test": 1}


@pytest.mark.parametrize("location", [".", "text"])
@pytest.mark.parametrize(
    ("token_file", "prefix"), [("Flickr8k.token.txt", "Flickr_8k"), ("results_20130124.token", "Flickr_30k")]
)
def test_the_authors_flickr_files(folder, location, token_file, prefix):
    text = folder / location
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
        (text / f"{prefix}.{name}Images.txt").write_text(f"{photo}\r\n\r\n")
    dataset = read_dataset(folder)
    assert dataset.name == prefix.lower().replace("_", "")
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    (example,) = dataset.split("train")
    assert example.captions == (("a", "dark", "haired", "dog", "runs"), ("a", "dog", "runs"))
    assert example.raw[0] == "A dark-haired dog runs ."
    assert "left out: 1 photo in no split, with 2 captions: a.jpg.1" in dataset.report.lines()


@pytest.mark.parametrize("location", [".", "annotations"])
def test_coco_captions(tmp_path, location):
    draw(tmp_path / "train2014" / "a.jpg", tmp_path / "images" / "val2014" / "b.jpg")
    (tmp_path / location).mkdir(exist_ok=True)
    for split, photo in (("train", "a.jpg"), ("val", "b.jpg")):
        content = {
            "images": [{"id": 7, "file_name": photo}],
            "annotations": [
                {"id": 1, "image_id": 7, "caption": "A man, riding.\n"},
                {"id": 2, "image_id": 11, "caption": "Of no photo"},
            ],
        }
        (tmp_path / location / f"captions_{split}2014.json").write_text(json.dumps(content))
    dataset = read_dataset(tmp_path)
    assert dataset.name == "coco"
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val"}
    assert dataset.examples[0].captions == (("a", "man", "riding"),)
    assert dataset.examples[0].raw == ("A man, riding.",)
    assert "left out: 1 photo in no split, with 2 captions: id 11" in dataset.report.lines()
    with pytest.raises(SatError, match=r"no split 'test'; it has train, val"):
        dataset.split("test")

    (tmp_path / location / "captions_train2014.json").unlink()
    assert splits(read_dataset(tmp_path)) == {"b.jpg": "val"}


def captioned(folder: Path, splits: Mapping[str, str]) -> Dataset:
    """A data set of photos, which are found and not opened, with their splits."""
    for name in splits:
        if not (folder / name).exists():
            (folder / name).write_text(name)
    rows = [f"{name},a dog{split and ','}{split}\n" for name, split in splits.items()]
    head = f"photo,caption{',split' if any(splits.values()) else ''}\n"
    (folder / "captions.csv").write_text("".join([head, *rows]))
    return read_dataset(folder)


def split_at_random(folder: Path, names: Iterable[str]) -> Dataset:
    """A data set of photos without splits."""
    return captioned(folder, dict.fromkeys(names, ""))


def test_photos_without_splits_are_split_at_random_by_name(tmp_path):
    names = [f"{number}.jpg" for number in range(1511)]
    dataset = split_at_random(tmp_path, names)
    photos = dataset.report.photos
    assert 0.87 < photos["train"] / 1511 < 0.93
    assert min(photos["val"], photos["test"]) > 50
    assert any(
        "not all photos have a split: photos are split at random, by name, into train, val, test, 90/5/5" in line
        for line in dataset.report.lines()
    )
    fewer = splits(split_at_random(tmp_path, names[::3]))
    assert fewer == {name: splits(dataset)[name] for name in names[::3]}  # a photo stays in its split


@pytest.mark.parametrize(
    ("photos", "expected"), [(2, (1, 1, 0)), (3, (2, 1, 0)), (9, (8, 1, 0)), (10, (8, 1, 1)), (40, (32, 4, 4))]
)
def test_few_photos_are_in_every_split(photos, expected):
    """Whatever their names are: at least one in val, and at least a tenth of ten photos or more in val and test."""
    for first in range(0, 4000, 40):
        names = [f"IMG_{first + number:04}.jpg" for number in range(photos)]
        found = Counter(split_groups([[name] for name in names]).values())
        assert set(split_groups([[name] for name in names])) == set(names)
        assert found["train"] <= expected[0] and found["train"] >= photos / 2
        assert found["val"] >= expected[1] and found["test"] >= expected[2] and (photos > 9 or not found["test"])


def test_copies_of_a_photo_are_in_one_split(tmp_path):
    names = [f"{number}.jpg" for number in range(60)]
    for number in range(30):  # the same bytes by another name, or by a link
        copy = tmp_path / names[30 + number]
        copy.write_text(names[number]) if number % 2 else copy.symlink_to(names[number])
    split_of = splits(split_at_random(tmp_path, names))
    assert set(split_of.values()) == {"train", "val", "test"}
    assert all(split_of[names[number]] == split_of[names[30 + number]] for number in range(30))


def test_a_copy_of_a_photo_of_val_or_test_leaves_train(folder):
    for copy, original in ("d.jpg", "c.jpg"), ("e.jpg", "b.jpg"), ("f.jpg", "c.jpg"), ("g.jpg", "a.jpg"):
        (folder / copy).symlink_to(folder / "images" / original)
    of_photos = "train val test train train val train train".split()
    dataset = captioned(folder, {f"{name}.jpg": split for name, split in zip("abcdefgh", of_photos, strict=True)})
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test", "g.jpg": "train", "h.jpg": "train"}
    line = "left out: 3 photos whose exact copy is in another split: d.jpg, e.jpg, f.jpg"
    assert line in dataset.report.lines()


@pytest.mark.parametrize("named", [["train"], ["train", "test"]])
def test_val_gets_photos_where_only_train_is_named(folder, named):
    dataset = captioned(folder, {f"{number}.jpg": named[number % len(named)] for number in range(20)})
    assert sum(dataset.report.photos.values()) == 20 and min(dataset.report.photos.values()) >= 1
    line = "all photos have the split train: photos are split at random, by name, into train, val, test, 90/5/5"
    if "test" in named:
        assert dataset.report.photos["test"] == 10
        line = "no photo has the split val: training photos are split at random, by name, into val"
    assert any(each.startswith(line) for each in dataset.report.lines())


# Custom data


PASSED_OVER = {  # what other tools leave beside valid data
    **{f"{name}.json": '{"splits": {"train": 3}}' for name in ("dataset_infos", "dataset-metadata", "dataset_dict")},
    **{"captions_meta.JSON": "[1]", "results.csv": "epoch,loss\n1,2\n", "captions.txt": "Written by hand.\n"},
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables(folder, kind):
    file, lines, *encoding = TABLES[kind]
    for other, content in PASSED_OVER.items():
        if other != file:
            (folder / other).write_text(content, encoding="utf-8")
    (folder / file).write_bytes("\r\n".join(lines).encode(*encoding))
    dataset = read_dataset(folder)
    captions = {"a.jpg": ["Ein Bär, groß"], "b.jpg": ["Öl", "é"], "c.jpg": ["x"]}
    assert {example.name: [*example.raw] for example in dataset.examples} == captions
    assert read_references([folder / file], tokens="raw").texts == captions  # as all readers
    assert dataset.report.captions_left_out == ({"without a word": 7} if "damaged" in kind else {})
    assert dataset.report.sources == [file]
    *notes, passed_over, at_random = dataset.report.notes
    assert passed_over.startswith("passed over, since no captions") and "at random" in at_random
    flickr30k = "not used: comment_number of results.csv"
    left_out = "left out: 1 row of results.csv without the cells image_name, comment_number, comment (a caption with a "
    expected = {
        "semicolon": [
            "captions.csv is not UTF-8, so it is read as Windows-1252. "
            "Words with other letters: Bär, groß, Öl and 1 more"
        ],
        "several columns": ["not used: id of captions.csv"],
        "Kaggle's Flickr8k": [
            "1 row of captions.txt with more cells than the first line names; the rest of the line is "
            "read as the caption (line 2: 'Ein Bär, groß')"
        ],
        "Kaggle's Flickr30k, one row damaged": [flickr30k, f"{left_out}| in quotes): line 13"],
    }
    assert notes == expected.get(kind, [])


def test_what_stands_for_no_caption_is_empty(folder):
    nothing = ["nan", "NULL", "None", "N/A", "NA", "<NA>", None, float("nan"), [None, ""]]
    rows = [json.dumps({"photo": "a.jpg", "caption": text}) for text in (*nothing, "none of two dogs", "a nan bread")]
    (folder / "captions.jsonl").write_text("\n".join(rows))
    dataset = read_dataset(folder)
    assert dataset.examples[0].raw == ("none of two dogs", "a nan bread")
    assert dataset.report.notes[0] == "6 captions with only nan, null, NA or none, read as empty"
    assert dataset.report.captions_left_out == {"without a word": 9}


def test_the_paper_s_captions_are_not_cleaned(folder):
    (example,) = read_dataset(karpathy(folder, image("a.jpg", "train", "A &amp; B", "nan"), *THREE[1:])).split("train")
    assert example.captions == (("a", "&amp;", "b"), ("nan",))


@pytest.mark.parametrize("location", ["", "data"])
def test_imagefolder_with_a_file_in_each_split(tmp_path, location):
    """The same file name in two splits is not one photo."""
    for number, split in enumerate(("train", "validation", "test")):
        root = tmp_path / location / split
        draw(root / f"{number}.png", root / "more" / f"{number + 3}.png")
        (root / f"{number}.png").rename(root / "0.png")
        text = f'file_name,text\n0.png,"A dog, running."\nmore/{number + 3}.png,A cat\n'
        (root / "metadata.csv").write_text(text)
    dataset = read_dataset(tmp_path)
    at = f"{location}/" if location else ""
    assert splits(dataset) == {
        **{f"{at}test/0.png": "test", f"{at}test/more/5.png": "test"},
        **{f"{at}train/0.png": "train", f"{at}train/more/3.png": "train"},
        **{f"{at}validation/0.png": "val", f"{at}validation/more/4.png": "val"},
    }
    (example, _) = dataset.split("val")
    assert example.photo == tmp_path / location / "validation" / "0.png"
    assert example.captions == (("a", "dog", "running"),)


def test_links_that_the_user_made_are_followed(tmp_path):
    draw(*(tmp_path / "elsewhere" / name for name in ("a.jpg", "b.jpg")), tmp_path / "c.jpg")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "images").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "data" / "c.jpg").symlink_to(tmp_path / "c.jpg")
    (tmp_path / "data" / "captions.csv").write_text("photo,caption\na.jpg,x\nb.jpg,y\nc.jpg,z\n")
    assert len(read_dataset(tmp_path / "data").examples) == 3


def test_a_photo_is_found_whichever_way_its_accents_are_written(tmp_path):
    draw(*(tmp_path / unicodedata.normalize("NFD", name) for name in ("Bär.jpg", "Öl.jpg")))
    (tmp_path / "captions.csv").write_text("photo,caption\nBär.jpg,x\nÖl.jpg,y\n", encoding="utf-8")
    assert {example.name for example in read_dataset(tmp_path).examples} == {"Bär.jpg", "Öl.jpg"}


def test_karpathy_wins_over_all_other_forms(folder):
    (folder / "captions.csv").write_text("photo,caption\na.jpg,mine\n")
    (folder / "Flickr8k.token.txt").write_text("damaged")
    assert len(read_dataset(karpathy(folder, *THREE)).examples) == 3


# What is counted and left out


def test_odd_captions_are_counted(folder):
    odd = image("a.jpg", "train", *(f"a dog {n}" for n in "wxyy"), "", *(f"a cat {n}" for n in "xyz"))
    odd["sentences"][0]["tokens"] += ["", " "]
    dataset = read_dataset(karpathy(folder, odd, *THREE[1:]))
    (example,) = dataset.split("train")
    assert [" ".join(words) for words in example.captions] == [
        "a dog w", "a dog x", "a dog y", "a dog y", "a cat x"
    ]  # fmt: skip
    assert dataset.report.lines()[3:] == [
        "left out: 1 caption without a word",
        "left out: 2 captions beyond 5 of a photo",
    ]


def test_odd_photos_are_counted(folder):
    gone = [image(f"gone{n}.jpg", "train", "A dog") for n in range(7)]
    silent = image("b2.jpg", "val", "", "")
    twice = image("a.jpg", "train", "Something else")
    unknown = image("d.jpg", "spare", "A spare")
    dataset = read_dataset(karpathy(folder, *THREE, *gone, silent, twice, unknown))
    assert splits(dataset) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
    assert dataset.split("train")[0].captions[1] == ("a", "dog")
    assert dataset.report.lines()[3:] == [
        "left out: 1 photo without a caption: b2.jpg",
        "left out: 1 photo listed twice (the first listing is kept): a.jpg",
        "left out: 1 photo of the split 'spare': d.jpg",
        "left out: 7 photos not found: gone0.jpg, gone1.jpg, gone2.jpg and 4 more",
        "left out: 2 captions without a word",
    ]


# What is refused


def coco(images: list[Any], annotations: Any) -> dict[str, str | bytes]:
    return {"captions_val2014.json": json.dumps({"images": images, "annotations": annotations})}


def splits_file(*images: dict[str, Any], **changes: Any) -> dict[str, str | bytes]:
    return {"dataset_flickr8k.json": json.dumps({"images": [*images], "dataset": "flickr8k", **changes})}


A = {"id": 7, "file_name": "a.jpg"}
OUTSIDE = "is not below the data folder; give its path from there"


KEEP_ONE = "; keep the one"
NAMED = "file_name,text\na.jpg,x\n"
REFUSED = [
    # nothing, or too much
    ({}, r"looked for dataset\*\.json .*Flickr8k\.token\.txt .*captions\.csv"),
    (table("a.jpg,A dog") | jsonl(ONE), rf"captions\.csv, captions\.jsonl{KEEP_ONE} that is meant"),
    (splits_file() | {"dataset_coco.json": '{"images": []}'}, rf"dataset_coco\.json, dataset_flickr8k\.json{KEEP_ONE}"),
    ({"results_20130124.token": "a.jpg#0\tA dog\n"}, r"without its splits.*Flickr_30k\.trainImages\.txt"),
    ({"train/metadata.csv": NAMED, "val/a": ""}, "val has no metadata file, and other sub-folders have"),
    (table("a.jpg,", "b.jpg,..."), "lists 2 photos, and none can be used: 2 without a caption, 0 not found"),
    (
        splits_file(image("x.jpg", "train", "A dog"), image("y.jpg", "val", "A dog")),
        r"none can be used: 0 without a caption, 2 not found in .*images.* \(x\.jpg, y\.jpg\).*"
        r"\. Put the photos into images/, and write their names with suffixes \(dog\.jpg\)",
    ),
    # what would make a score wrong
    (splits_file(*THREE, image("x.jpg", "val", "A")), r"1 photo of the split val not found in .*images.*: x\.jpg"),
    (splits_file(*THREE, image("a.jpg", "test", "A")), r"'a\.jpg' is in two splits, train and test"),
    (table("a.jpg,x,val", "a.jpg,y,test", header=WITH_SPLIT), r"line 3: .*'a\.jpg' is in two splits, val and test"),
    ({"train/metadata.jsonl": '{"file_name": "a.jpg", "text": "x", "split": "test"}'}, "line 1 has the split test"),
    ({"metadata.csv": "file_name,text,split\ntrain/a.jpg,x,train\ntrain/b.jpg,x,val\n"}, "line 3 has the split val"),
    ({"metadata.csv": "file_name,text\ntrain/a.jpg,x\nb.jpg,x\n"}, r"others are not \(b\.jpg\): move them, or add"),
    # photos outside of the folder
    (table("../secret.jpg,x"), rf"line 2: the photo '\.\./secret\.jpg' {OUTSIDE}"),
    (table("images/../../secret.jpg,x"), OUTSIDE),
    (table("C:\\secret.jpg,x"), OUTSIDE),
    (splits_file(image("..\\secret.jpg", "train", "A secret")), OUTSIDE),
    (splits_file(image("secret.jpg", "train", "A secret", filepath="../..")), rf"'\.\./\.\.' {OUTSIDE}"),
    # damaged JSON files
    ({"dataset_flickr8k.json": '{"images": ['}, r"dataset_flickr8k\.json is not valid JSON"),
    ({"dataset_flickr8k.json": "[3]"}, r"no captions that can be read; .*dataset_flickr8k\.json: an entry must be"),
    (splits_file(THREE[0], THREE[1] | {"split": 3}), r"images\[1\]: 'split' must be a text"),
    (splits_file(THREE[0] | {"sentences": ["a"]}), r"images\[0\]: 'sentences' must be a list"),
    (splits_file(THREE[0] | {"sentences": [{"tokens": "a dog"}]}), r"'tokens' must be a list of words, and is 'a dog'"),
    (coco([A | {"id": 7.5}], []), r"captions_val2014\.json: images\[0\]: 'id' must be a whole number, and is 7\.5"),
    (coco([A], [{"image_id": 7}]), r"annotations\[0\]: 'caption' must be a text"),
    (coco([A], None), r"captions_val2014\.json: 'annotations' must be a list"),
    (coco([A, A | {"file_name": "b.jpg"}], []), r"images\[1\]: 'a\.jpg' and 'b\.jpg' have the same id, 7,"),
    *DAMAGED,
]


@pytest.mark.parametrize(("files", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_is_wrong_is_refused_and_named(folder, files, message):
    draw(folder.parent / "secret.jpg")
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SatError, match=message):
        read_dataset(folder)
    with pytest.raises(SatError, match="none is not a folder"):
        read_dataset(folder / "none")
