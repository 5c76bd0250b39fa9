"""Mosaics: what is where in the picture, which nouns count, and what is measured, by maps made by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import D, captioner_of, small_checkpoint, small_encoder
from commands import refused, sat
from PIL import Image
from table1.nic import NicConfig
from torch import Tensor

from show_attend_tell.analysis.mosaics import (
    Mosaic,
    draw_mosaics,
    draw_picture,
    mosaic_page,
    own_mosaics,
    point_in_mosaics,
)
from show_attend_tell.backends.torch import TorchBackend, decoder_weights
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.registry import build

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
        found = point_in_mosaics(captioner, examples, split="val", mosaics=11, seed=seed, show=False, **options)
        return found.to_dict()

    counted, encoded = counting(captioner)
    found = measured(counted)
    assert sum(encoded) == 11 and found == measured(captioner) != measured(captioner, seed=3)
    # "man" comes first and is in every caption; then "dogs" and "dog", but the model does not know "cars"
    cars = sum(mosaic.photos[mosaic.quarter].name == "car.png" for mosaic in draw_mosaics(examples, 11, 2))
    words = {kind: of["words"] for kind, of in found["chance"].items()}
    assert 0 < cars < 11 and words == {"all": 22 - cars, "1 or more": 22 - cars}
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
    found = point_in_mosaics(uniform, examples, split="val", mosaics=3, show=False).to_dict()["maps"]
    assert found["alpha"]["all"]["share"]["mean"] == pytest.approx(0.25)
    evidence, gradient = (found[name]["all"]["share"] for name in ("evidence", "gradient"))
    assert evidence == pytest.approx(gradient) and evidence["mean"] != pytest.approx(0.25)


def without_attention(captioner: Captioner) -> Captioner:
    """A model of the same words and encoder that reads the mean annotation."""
    checkpoint = captioner.checkpoint
    config = NicConfig(vocabulary_size=len(checkpoint.vocabulary), annotation_size=D, embedding_size=5, hidden_size=7)
    blind = replace(checkpoint, config=config, weights=decoder_weights(build(config)))
    return captioner_of(blind, captioner.backend.encoder, name="blind")


def test_what_cannot_be_measured_is_refused(examples: list[Example], captioner: Captioner) -> None:
    with pytest.raises(SatError, match="3 photos: a mosaic has 4"):
        point_in_mosaics(captioner, examples[:3], split="val", show=False)
    with pytest.raises(SatError, match="1 mosaics: give 2 or more"):
        point_in_mosaics(captioner, examples, split="val", mosaics=1, show=False)
    alike = [replace(example, captions=(("a", "man"),)) for example in examples]
    with pytest.raises(SatError, match="no noun tells a photo apart in 3 mosaics"):
        point_in_mosaics(captioner, alike, split="val", mosaics=3, show=False)
    encoder = captioner.backend.encoder
    uniform = captioner_of(small_checkpoint(encoder, attention="uniform"), encoder, name="blind")
    with pytest.raises(SatError, match="blind has no attention"):
        point_in_mosaics(without_attention(captioner), examples, split="val", mosaics=3, show=False)
    with pytest.raises(SatError, match="blind has no attention"):
        point_in_mosaics(uniform, examples, split="val", mosaics=3, attention_mode="argmax", show=False)
    for blind in (without_attention(captioner), uniform):
        with pytest.raises(SatError, match="blind has no attention"):
            mosaic_page(blind, [examples[:4]], title="")
        with pytest.raises(SatError, match="blind has no attention"):
            own_mosaics(blind, [example.photo for example in examples[:4]])


@pytest.mark.usefixtures("small")
def test_the_command_prints_and_writes(examples: list[Example], captioner: Captioner, tmp_path: Path) -> None:
    captioner.save_pretrained(tmp_path / "model")
    command = ("analyze", "evidence", "--model", tmp_path / "model", "--device", "cpu", "--split", "val")
    mosaics = (*command, tmp_path, "--mosaics", 8)
    lines = sat(*mosaics, "--json", tmp_path / "found.json").stdout.splitlines()
    found = json.loads((tmp_path / "found.json").read_text())
    assert lines[0].startswith("model on 8 mosaics of ") and "val by seed 0, soft attention" in lines[0]
    fall = found["hidden"]["all"]["evidence"]
    (line,) = (line for line in lines[-16:] if line.startswith("evidence: "))
    assert f" {fall['mean']:.2f} [{fall['low']:.2f}, " in line
    assert found["model"] == "model" and found["split"] == "val" and found["mosaics"] == 8


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
    measured = point_in_mosaics(captioner, examples, split="val", mosaics=6, show=False).maps
    for name, title in (("attention", "alpha"), ("evidence", "evidence")):
        of_map = measured[title]["all"]
        assert of_map.words == len(shares[name])
        assert np.mean(shares[name]) == pytest.approx(of_map.means["share"].value, abs=1e-4)


def replace_quarter(mosaic: Mosaic, quarter: int) -> Mosaic:
    return Mosaic(mosaic.photos, quarter, mosaic.photos[quarter].captions[0])


@pytest.mark.usefixtures("small")
def test_the_page_of_a_data_folder_has_its_captions(
    examples: list[Example], captioner: Captioner, tmp_path: Path
) -> None:
    captioner.save_pretrained(tmp_path / "model")
    page = tmp_path / "page.html"
    command = ("analyze", "evidence", "--model", tmp_path / "model", "--device", "cpu", "--html", page)
    done = sat(*command, tmp_path, "--split", "val", "--mosaics", 3)
    assert "in the right place" in done.stdout and "a page of 3 mosaics" in done.stderr
    photos = shown(page)
    assert len(photos) == 3
    for photo in photos:
        words = [caption["words"] for caption in photo["captions"]]
        assert len(words) == 4 and set(map(len, words)) == {8}
        assert [f"{words[-1]}.png" for words in words] == photo["captions"][0]["quarters"]["names"]


@pytest.mark.usefixtures("small")
def test_the_page_of_one_s_own_photos_has_one_s_own_captions_or_the_model_s(
    examples: list[Example], captioner: Captioner, tmp_path: Path
) -> None:
    captioner.save_pretrained(tmp_path / "model")
    page, folder = tmp_path / "page.html", tmp_path / "images"
    command = ("analyze", "evidence", "--model", tmp_path / "model", "--device", "cpu", "--html", page)
    own = sat(*command, folder)  # five photos
    assert own.stdout == "" and "a page of 1 mosaic" in own.stderr
    assert "1 photo of 5 left out: a page has 4 photos a mosaic" in own.stderr
    (photo,) = shown(page)
    alone = captioner([folder / f"{name}.png" for name in ("boat", "car", "dog", "horse")])  # by name
    assert [caption["caption"] for caption in photo["captions"]] == [str(caption) for caption in alone]
    sat(*command, folder, "--attention-mode", "argmax")
    assert all(caption["settings"]["attention_mode"] == "argmax" for caption in shown(page)[0]["captions"])

    files = [folder / f"{name}.png" for name in ("dog", "tree", "boat", "car")]
    given = ("a dog", "a zebra and a tree", "two boats", "a man")
    mine = sat(*command, *files, *(part for text in given for part in ("--caption", text)))
    assert "model does not know zebra: read as <unk>" in mine.stderr
    (photo,) = shown(page)
    assert photo["captions"][0]["quarters"]["names"] == ["dog.png", "tree.png", "boat.png", "car.png"]
    assert [caption["caption"] for caption in photo["captions"]] == [given[0], "a <unk> and a tree", *given[2:]]
    assert [caption["quarters"]["nouns"] for caption in photo["captions"]] == [[1], [4], [1], [1]]


@pytest.mark.usefixtures("small")
def test_photos_without_a_page_or_without_three_others_are_refused(
    examples: list[Example], captioner: Captioner, tmp_path: Path
) -> None:
    captioner.save_pretrained(tmp_path / "model")
    page, folder = tmp_path / "page.html", tmp_path / "images"
    files = [example.photo for example in examples[:4]]
    command = ("analyze", "evidence", "--model", tmp_path / "model", "--device", "cpu")
    asked = (*command, "--html", page)
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    for arguments, message in (
        ((*asked, *files[:3]), "3 photos, and a mosaic has 4"),
        ((*asked, files[0]), "1 photo, and a mosaic has 4"),
        ((*asked, *files[:3], tmp_path / "absent.jpg"), "no such photo"),
        ((*asked, *files[:3], tmp_path / "broken.jpg"), "broken.jpg: not a photo"),
        ((*asked, *files, "--caption", "a dog"), "1 caption for 4 photos: give each photo one"),
        ((*asked, *files, *("--caption", "a") * 3, "--caption", "!"), "caption '!' has no word"),
        ((*asked, *files, "--json", tmp_path / "own.json"), "--json: it does nothing for photos without captions"),
        ((*asked, folder, "--split", "val"), "--split: it does nothing for photos without captions"),
        ((*asked, tmp_path / "absent"), "absent"),
        ((*command, *files), "nothing is measured on photos without captions: add --html"),
        ((*command, folder), "holds no captions"),
        ((*command, *files, "--html", files[1]), "would be overwritten"),
    ):
        assert message in refused(*arguments), arguments
        assert not page.exists()
