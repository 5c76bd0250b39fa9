"""`sat check`: what it says before a training, and that it stops when it is told to."""

import json
from pathlib import Path

import pytest
from builders import shape_folder
from commands import read_json, refused, sat, settings

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.messages import plural


def test_it_says_what_a_training_would_do(tmp_path):
    folder = shape_folder(tmp_path / "shapes", train=12, val=4, captions=7)
    (folder / "images" / "photo3.png").write_bytes((folder / "images" / "photo3.png").read_bytes()[:100])
    whole = (folder / "images" / "photo2.png").read_bytes()
    (folder / "images" / "photo2.png").write_bytes(whole[:33] + b"\0\0\0\x09pHYs" + bytes(13) + whole[33:])
    (folder / "images" / "alone.png").write_bytes(b"")
    with open(folder / "captions.csv", "a") as file:
        file.write("photo1.png,Ein roter Kreis auf der linken Seite,train\n")
    said = sat("check", folder, "--json", tmp_path / "report.json").output
    assert "20 photos opened, 1 of them cannot be read, which a training leaves out\n" in said
    assert "photo3.png: " in said and "train: 11 photos, 78 captions\n" in said
    assert "1 photo of the folder without a caption: alone.png" in said
    assert "captions: 6 to 8 words, half of them 6 to 8" in said
    assert "134 captions with a side or readable text (right, left, linken): a training shows" in said
    assert "so English" in said and "photo1.png (0 % English words): 'Ein roter Kreis auf der linken Seite'" in said
    assert "it takes about" in said and f"Next, with the same options: sat train {folder}" in said
    report = read_json(tmp_path / "report.json")
    assert report["passed_over"] == {"photo2.png": "pHYs"} and "1 photo read although" in said
    assert report["photos"] == {"train": 11, "val": 4, "test": 4}
    assert [Path(photo).name for photo in report["unreadable"]] == ["photo3.png"]
    assert report["estimate"]["updates"] > 0 and report["estimate"]["disk"] == 2 * 3 * 5 * 11 * (11 * 2 + 4)
    assert json.loads(sat("check", folder, "--json", "-").stdout)["not_covered"] == ["black"]  # of the damaged photo


def test_it_ends_where_a_photo_of_the_papers_data_cannot_be_read(tmp_path):
    folder = shape_folder(tmp_path / "shapes")
    images = [
        {"filename": photo.name, "split": photo.split, "sentences": [{"raw": photo.raw[0]}]}
        for photo in read_dataset(folder).examples
    ]
    (folder / "dataset_flickr8k.json").write_text(json.dumps({"dataset": "flickr8k", "images": images}))
    (folder / "captions.csv").unlink()
    (folder / "images" / "photo0.png").write_bytes(b"")
    said = sat("check", folder).output
    assert "17 photos opened, 1 of them cannot be read\n" in said and "it takes about" in said


def test_a_split_without_a_photo_that_can_be_read_is_told_as_such(tmp_path):
    folder = shape_folder(tmp_path / "shapes")
    for number in (10, 11, 12):  # all of val
        photo = folder / "images" / f"photo{number}.png"
        photo.write_bytes(photo.read_bytes()[:100])
    for command in (("check", folder), ("train", folder, "--output", tmp_path / "model", "--init-from", "none")):
        line = refused(*command)
        assert "no photo of val can be read: 3 of " in line and "photo10.png: " in line
        assert line.endswith("Replace these photos, or put others in val")


def test_photos_that_are_read_without_a_part_are_counted_by_every_command(data, tmp_path):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    for number in (0, 13):  # of train and of test
        photo = data / "images" / f"photo{number}.png"
        whole = photo.read_bytes()
        photo.write_bytes(whole[:33] + b"\0\0\0\x09pHYs" + bytes(13) + whole[33:])
    model = tmp_path / "model"
    caption = ("caption", data / "images", "--model", model)
    train = ("train", data, "--attention", "soft", "--output", model, "--resize", "squash", "--epochs", 1)
    for command, number in (
        (("check", data), 2),
        ((*train, *settings(minimum_count=1, flipped="true")), 1),
        (("evaluate", "--data", data, "--model", model), 1),
        (caption, 2),
        ((*caption, "--output", "-"), 2),
    ):
        line = f"{plural(number, 'photo')} read although something beside the pixels is damaged"
        assert sat(*command).output.count(line) == 1, command
