"""Mosaics: what is where in the picture, which nouns count, and what is measured, by maps made by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import COLUMNS, ROWS, small_checkpoint, small_encoder, small_load_encoder
from commands import refused, sat
from PIL import Image
from torch import Tensor

import show_attend_tell.analysis.mosaics as mosaics_module
import show_attend_tell.checkpoint.checkpoint as checkpoint_module
from show_attend_tell.analysis.mosaics import Mosaic, draw_mosaics, draw_picture, point_in_mosaics
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.interface import Told

COLOURS = ("red", "green", "blue", "white", "black")
NOUNS = ("dog", "boat", "tree", "horse", "car")


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Photos of one colour, each with a noun of its own among nouns that all have."""
    (tmp_path / "images").mkdir()
    rows = ["photo,caption,split"]
    found = []
    for colour, noun in zip(COLOURS, NOUNS, strict=True):
        path = tmp_path / "images" / f"{noun}.png"
        Image.new("RGB", (40, 30), colour).save(path)
        words = ("a", "man", "and", "two", f"{noun}s", "see", "a", noun)
        rows.append(f"{path.name},{' '.join(words)},val")
        found.append(Example(path.name, path, "val", (words,), (" ".join(words),)))
    (tmp_path / "captions.csv").write_text("\n".join(rows) + "\n")
    return found


@pytest.fixture
def captioner() -> Captioner:
    """Untrained, on the small encoder of 3 × 5 places, so that a quarter's edge is inside of places."""
    encoder = small_encoder()
    vocabulary = Vocabulary([*NOUNS, *(f"{noun}s" for noun in NOUNS[:-1]), *"a man and two see or in red blue".split()])
    checkpoint = small_checkpoint(encoder, vocabulary_size=len(vocabulary))
    return Captioner(replace(checkpoint, vocabulary=vocabulary), encoder, name="untrained")


def test_each_photo_is_a_quarter_of_the_picture(examples: list[Example]) -> None:
    square = Preprocessing(size=9, geometry="squash", mean=(0, 0, 0), std=(1, 1, 1))
    red, green, blue, white = examples[:4]
    pixels = draw_picture(Mosaic((red, green, blue, white), 0, ()), square)
    assert pixels.shape == (3, 9, 9)
    for row, column, colour in ((0, 0, (1, 0, 0)), (3, 4, (0, 128 / 255, 0)), (4, 3, (0, 0, 1)), (7, 7, (1, 1, 1))):
        assert pixels[:, row, column].tolist() == pytest.approx(colour)
    assert not pixels[:, 8].any() and not pixels[:, :, 8].any()  # an odd side: the mean colour


def test_nouns_count_that_only_the_caption_s_photo_has(examples: list[Example]) -> None:
    mosaic = Mosaic(tuple(examples[:4]), 1, ("a", "boat", "a", "dog", "men", "boats", "and", "car"))
    known = {"a", "boat", "dog", "men", "boats", "and"}
    # "dog" and, in the singular, "men" are in the other photos' captions; "car" the model does not know
    assert mosaic.nouns(known) == [(1, 0), (5, 3)]


def test_mosaics_are_drawn_by_the_seed_and_not_by_the_order(examples: list[Example]) -> None:
    drawn = draw_mosaics(examples, 200, 3)
    assert drawn == draw_mosaics(examples[::-1], 200, 3) != draw_mosaics(examples, 200, 4)
    assert {mosaic.quarter for mosaic in drawn} == {0, 1, 2, 3}
    for mosaic in drawn:
        assert len(set(mosaic.photos)) == 4 and mosaic.words in mosaic.photos[mosaic.quarter].captions


def test_the_share_is_that_of_the_right_quarter_at_both_steps(
    examples: list[Example], captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(draw_mosaics(examples, 30, 0))
    places: list[int] = []

    def tell(decoder: Any, annotations: Tensor, captions: Tensor, *, look: Any) -> Told:
        """All of α on the right quarter at the first noun of the photo's own, 0.6 at the next step; even elsewhere."""
        mosaic = next(drawn)
        corner = (ROWS - 1) * COLUMNS * (mosaic.quarter // 2) + (COLUMNS - 1) * (mosaic.quarter % 2)
        places.append(corner)
        alpha = torch.full((captions.shape[1], ROWS * COLUMNS), 1 / (ROWS * COLUMNS), dtype=torch.float64)
        (first, _), *_ = mosaic.nouns(captioner.checkpoint.vocabulary)
        alpha[first] = 0
        alpha[first, corner] = 1
        alpha[first + 1] = 0
        alpha[first + 1, [corner, ROWS * COLUMNS - 1 - corner]] = torch.tensor([0.6, 0.4], dtype=torch.float64)
        return Told(torch.zeros(1, 1, *captions.shape, 3), alpha[None, None], None, None)

    monkeypatch.setattr(mosaics_module, "tell", tell)
    found = point_in_mosaics(captioner, examples, mosaics=30, show=False)
    assert len(set(places)) == 4 and found["look"] == "expectation" and found["chance"] == pytest.approx(0.25)
    cars = sum(mosaic.photos[mosaic.quarter].name == "car.png" for mosaic in draw_mosaics(examples, 30, 0))
    assert 0 < cars < 30
    # "man" comes first and is in every caption; then "dogs" and "dog", but the model does not know "cars"
    assert {before: one["words"] for before, one in found["word"].items()} == {
        "all": 60 - cars, "1": 30, "2 or more": 30 - cars
    }  # fmt: skip
    for step, share in (("word", 1), ("next", 0.6)):
        assert found[step]["2 or more"]["share"]["mean"] == pytest.approx(0.25)
        assert found[step]["1"]["share"] == pytest.approx({"mean": share, "low": share, "high": share})
        assert found[step]["1"]["hit"] == {"mean": 1, "low": 1, "high": 1}


def test_a_model_is_told_each_caption_with_one_encoding_of_its_mosaic(
    examples: list[Example], captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    annotate = captioner.encoder.annotate

    def counted(pixels: Tensor) -> Tensor:
        encoded.append(len(pixels))
        return annotate(pixels)

    monkeypatch.setattr(captioner.encoder, "annotate", counted)
    found = point_in_mosaics(captioner, examples, mosaics=11, seed=2, show=False)
    assert sum(encoded) == 11 and found == point_in_mosaics(captioner, examples, mosaics=11, seed=2, show=False)
    assert found != point_in_mosaics(captioner, examples, mosaics=11, seed=3, show=False)
    one = found["word"]["all"]["share"]
    assert 0 < one["low"] < one["mean"] < one["high"] < 1
    looked = point_in_mosaics(captioner, examples, mosaics=11, seed=2, look="likeliest", show=False)
    assert looked["look"] == "likeliest" and looked["word"] != found["word"]


def test_what_cannot_be_measured_is_refused(
    examples: list[Example], captioner: Captioner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SatError, match="3 photos: a mosaic has 4"):
        point_in_mosaics(captioner, examples[:3], show=False)
    with pytest.raises(SatError, match="1 mosaics: give 2 or more"):
        point_in_mosaics(captioner, examples, mosaics=1, show=False)
    alike = [replace(example, captions=(("a", "man"),)) for example in examples]
    with pytest.raises(SatError, match="no noun tells a photo apart in 3 mosaics"):
        point_in_mosaics(captioner, alike, mosaics=3, show=False)
    monkeypatch.setattr(mosaics_module, "tell", lambda *args, **kwargs: Told(torch.zeros(1, 1, 2, 3), None, None, None))
    with pytest.raises(SatError, match="untrained has no attention"):
        point_in_mosaics(captioner, examples, mosaics=3, show=False)


def test_the_command_tells_and_writes(
    examples: list[Example], captioner: Captioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    captioner.save(tmp_path / "model")
    command = ("analyse", "pointing", "--model", tmp_path / "model", "--device", "cpu", "--split", "val")
    mosaics = (*command, "--mosaic", tmp_path, "--mosaics", 8)
    lines = sat(*mosaics, "--json", tmp_path / "found.json").stdout.splitlines()
    found = json.loads((tmp_path / "found.json").read_text())
    assert lines[0].startswith("model on 8 mosaics of ") and "val by seed 0, look by expectation" in lines[0]
    share = found["next"]["1"]["share"]
    assert "after the noun" in lines[5] and lines[7].split("  ")[2] == "1 noun before"
    assert f"alpha on the right photo {100 * share['mean']:.1f} % [{100 * share['low']:.1f}, " in lines[7]
    assert found["model"] == "model" and found["split"] == "val" and found["mosaics"] == 8
    for data in ((), ("--mosaic", tmp_path, "--data", tmp_path)):
        assert "give either --data" in refused(*command, *data)


def test_the_page_tells_a_caption_of_each_photo_on_one_picture(
    examples: list[Example], captioner: Captioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    captioner.save(tmp_path / "model")
    command = ("analyse", "pointing", "--model", tmp_path / "model", "--device", "cpu")
    page = tmp_path / "page.html"

    def shown() -> list[dict[str, Any]]:
        text = page.read_text()
        start = text.index('{"title"')
        photos: list[dict[str, Any]] = json.JSONDecoder().raw_decode(text[start:])[0]["photos"]
        page.unlink()
        return photos

    done = sat(*command, "--mosaic", tmp_path, "--split", "val", "--mosaics", 3, "--html", page)
    assert "alpha on the right photo" in done.stdout and "a page of 3 mosaics" in done.stderr
    photos = shown()
    assert len(photos) == 3
    for photo in photos:
        told = [caption["words"] for caption in photo["captions"]]
        assert len(told) == 4 and len({words[-1] for words in told}) == 4 and set(map(len, told)) == {8}
        assert all(len(caption["attention"]["peaks"]) == 8 for caption in photo["captions"])

    own = sat(*command, "--mosaic", tmp_path / "images", "--html", page)  # five photos, no captions
    assert own.stdout == "" and "a page of 1 mosaic" in own.stderr
    assert "1 photo of 5 left out: a page has 4 photos a mosaic" in own.stderr
    assert len(shown()[0]["captions"]) == 4
    sat(*command, "--mosaic", tmp_path / "images", "--html", page, "--look", "likeliest")
    assert all(caption["settings"]["look"] == "likeliest" for caption in shown()[0]["captions"])
    asked = ("--mosaic", tmp_path / "images", "--html", page, "--json", tmp_path / "own.json")
    assert "nothing is measured on photos without captions" in refused(*command, *asked)
    (tmp_path / "few").mkdir()
    (tmp_path / "images" / "dog.png").rename(tmp_path / "few" / "dog.png")
    assert "1 photo, and a mosaic has 4" in refused(*command, "--mosaic", tmp_path / "few", "--html", page)
    assert "holds no captions" in refused(*command, "--mosaic", tmp_path / "images")
    assert "give --mosaic too" in refused(*command, "--data", tmp_path, "--html", page)
