"""Mosaics: what is where in the picture, which nouns count, and what is measured, by maps made by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import evidence as program
import numpy as np
import pytest
from attention.mosaics import Mosaic, draw_mosaics, draw_picture, mosaic_page
from builders import captioner_of, small_checkpoint, small_encoder
from measure import Report
from PIL import Image
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary

COLORS = ("red", "green", "blue", "white", "black")
NOUNS = ("dog", "boat", "tree", "horse", "car")


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Photos of one color, each with a noun of its own among nouns that all have."""
    (tmp_path / "images").mkdir()
    rows = ["photo,caption,split"]
    found = []
    for color, noun in zip(COLORS, NOUNS, strict=True):
        path = tmp_path / "images" / f"{noun}.png"
        Image.new("RGB", (40, 30), color).save(path)
        words = ("a", "man", "and", "two", f"{noun}s", "see", "a", noun)
        rows.append(f"{path.name},{' '.join(words)},val")
        found.append(Example(path.name, path, "val", (words,), (" ".join(words),)))
    (tmp_path / "captions.csv").write_text("\n".join(rows) + "\n")
    return found


@pytest.fixture
def captioner() -> Captioner:
    """Untrained, on the small encoder of 3 × 5 locations, so that a quarter's edge is inside of locations."""
    encoder = small_encoder()
    vocabulary = Vocabulary([*NOUNS, *(f"{noun}s" for noun in NOUNS[:-1]), *"a man and two see or in red blue".split()])
    checkpoint = small_checkpoint(encoder, vocabulary_size=len(vocabulary))
    return captioner_of(replace(checkpoint, vocabulary=vocabulary), encoder, name="untrained")


def point(captioner: Captioner, examples: list[Example], **options: Any) -> Report:
    return program.point_in_mosaics(captioner, examples, data="colors", split="val", show=False, **options)


class CountingBackend(TorchBackend):
    """Counts the photos that it encodes."""

    def __init__(self, captioner: Captioner) -> None:
        backend = captioner.torch_backend()
        super().__init__(backend.decoder, backend.encoder)
        self.encoded: list[int] = []

    def encode(self, pixels: Any) -> Tensor:
        self.encoded.append(len(pixels))
        return super().encode(pixels)


def counting(captioner: Captioner) -> tuple[Captioner, list[int]]:
    backend = CountingBackend(captioner)
    return Captioner(captioner.checkpoint, backend, name=captioner.name), backend.encoded


def test_each_photo_is_a_quarter_of_the_picture(examples: list[Example]) -> None:
    square = Preprocessing(size=9, resize="squash", mean=(0, 0, 0), std=(1, 1, 1))
    red, green, blue, white = examples[:4]
    pixels = draw_picture((red, green, blue, white), square)
    assert pixels.shape == (3, 9, 9)
    for row, column, color in ((0, 0, (1, 0, 0)), (3, 4, (0, 128 / 255, 0)), (4, 3, (0, 0, 1)), (7, 7, (1, 1, 1))):
        assert pixels[:, row, column].tolist() == pytest.approx(color)
    assert not pixels[:, 8].any() and not pixels[:, :, 8].any()  # an odd side: the mean color


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


def test_a_model_reads_each_caption_with_one_encoding_of_its_mosaic(
    examples: list[Example], captioner: Captioner
) -> None:
    def measured(captioner: Captioner, seed: int = 2, **options: Any) -> dict[str, Any]:
        found = point(captioner, examples, mosaics=7, seed=seed, **options)
        return found.to_dict()

    counted, encoded = counting(captioner)
    found = measured(counted)
    assert sum(encoded) == 7 and found == measured(captioner) != measured(captioner, seed=3)
    # "man" comes first and is in every caption; then "dogs" and "dog", but the model does not know "cars"
    cars = sum(mosaic.photos[mosaic.quarter].name == "car.png" for mosaic in draw_mosaics(examples, 7, 2))
    words = {kind: of["words"] for kind, of in found["chance"].items()}
    assert 0 < cars < 7 and words == {"all": 14 - cars, "1 or more": 14 - cars}
    assert found["chance"]["all"]["share"]["mean"] == pytest.approx(0.25)
    one = found["maps"]["evidence"]["all"]["share"]
    assert 0 < one["low"] < one["mean"] < one["high"] < 1
    argmax = measured(captioner, attention_mode="argmax")
    assert argmax["attention_mode"] == "argmax" and argmax["maps"]["alpha"] != found["maps"]["alpha"]


def test_a_model_with_uniform_attention_is_measured_by_its_gradient(
    examples: list[Example], captioner: Captioner
) -> None:
    encoder, vocabulary = captioner.backend.encoder, captioner.checkpoint.vocabulary
    checkpoint = small_checkpoint(encoder, attention="uniform", vocabulary_size=len(vocabulary))
    uniform = captioner_of(replace(checkpoint, vocabulary=vocabulary), encoder)
    found = point(uniform, examples, mosaics=3).to_dict()["maps"]
    assert found["alpha"]["all"]["share"]["mean"] == pytest.approx(0.25)
    evidence, gradient = (found[name]["all"]["share"] for name in ("evidence", "gradient"))
    assert evidence == pytest.approx(gradient) and evidence["mean"] != pytest.approx(0.25)


def shown(page: Path) -> list[dict[str, Any]]:
    """The mosaics that a page holds; the page is then removed."""
    text = page.read_text()
    page.unlink()
    start = text.index('{"title"')
    photos: list[dict[str, Any]] = json.JSONDecoder().raw_decode(text[start:])[0]["photos"]
    return photos


def test_the_page_has_the_share_of_each_quarter_at_each_word(
    examples: list[Example], captioner: Captioner, tmp_path: Path
) -> None:
    """The same shares as the measurement's, of the same picture, encoded once."""
    drawn = draw_mosaics(examples, 6, 0)
    counted, encoded = counting(captioner)
    (tmp_path / "page.html").write_text(mosaic_page(counted, [one.photos for one in drawn], title="mosaics"))
    assert encoded == [1] * 6
    photos, known = shown(tmp_path / "page.html"), captioner.checkpoint.vocabulary
    shares: dict[str, list[float]] = {"attention": [], "evidence": []}
    for mosaic, photo in zip(drawn, photos, strict=True):
        assert photo["size"] == [800, 800] and len(photo["captions"]) == 4
        for quarter, caption in enumerate(photo["captions"]):
            about = caption["quarters"]
            assert about["own"] == quarter and caption["visible_box"] == [0, 0, 800, 800]
            assert about["names"] == [example.name for example in mosaic.photos]
            for shares_of_map in about["shares"].values():
                assert np.sum(shares_of_map, axis=1) == pytest.approx([1] * len(caption["words"]), abs=2e-4)
            assert about["nouns"] == [step for step, _ in replace_quarter(mosaic, quarter).nouns(known)] != []
        about = photo["captions"][mosaic.quarter]["quarters"]
        for name, found in shares.items():
            found += [about["shares"][name][step][mosaic.quarter] for step in about["nouns"]]
    measured = point(captioner, examples, mosaics=6)["maps"]
    for name, title in (("attention", "alpha"), ("evidence", "evidence")):
        of_map = measured[title]["all"]
        assert of_map.words == len(shares[name])
        assert np.mean(shares[name]) == pytest.approx(of_map.means["share"].value, abs=1e-4)


def replace_quarter(mosaic: Mosaic, quarter: int) -> Mosaic:
    return Mosaic(mosaic.photos, quarter, mosaic.photos[quarter].captions[0])


@pytest.mark.usefixtures("small")
def test_the_program_measures_captioned_photos_and_makes_pages(
    examples: list[Example], captioner: Captioner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captioner.save_pretrained(tmp_path / "model")
    page, file = tmp_path / "page.html", tmp_path / "found.json"

    def run(data: Path, *more: str) -> str:
        program.main([str(data), str(tmp_path / "model"), "--device", "cpu", "--html", str(page), *more])
        return capsys.readouterr().out

    table, found = run(tmp_path, "--split", "val", "--mosaics", "8", "--json", str(file)), json.loads(file.read_text())
    assert table.startswith("model model, attention soft,") and "split val, photos 5, mosaics 8" in table
    fall = found["hidden"]["all"]["evidence"]
    (line,) = (line for line in table.splitlines()[-16:] if line.startswith("  evidence: "))
    assert f" {fall['mean']:.2f} [{fall['low']:.2f}, " in line
    photos = shown(page)
    assert len(photos) == 8
    for photo in photos:
        words = [caption["words"] for caption in photo["captions"]]
        assert [f"{words[-1]}.png" for words in words] == photo["captions"][0]["quarters"]["names"]
    assert "chance" not in run(tmp_path / "images")  # five photos without captions: a page of one mosaic
    (photo,) = shown(page)
    alone = captioner([tmp_path / "images" / f"{name}.png" for name in ("boat", "car", "dog", "horse")])  # by name
    assert [caption["caption"] for caption in photo["captions"]] == [str(caption) for caption in alone]
