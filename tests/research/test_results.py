"""What ships and the documents say what the evaluations in research/results/ say."""

import csv
import json
import re

import pytest
import results
import shipped

from show_attend_tell.checkpoint.arrays import NGRAMS, read_arrays
from show_attend_tell.checkpoint.card import PICTURE
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED

MODELS = tuple(shipped.SHIPS)


@pytest.mark.parametrize("name", MODELS)
def test_the_shipped_configurations_hold_what_code_writes(name, tmp_path):
    """Loaded and described again they are the same, byte for byte, and so are their cards."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / PICTURE).touch()
    Checkpoint.load(SHIPPED / name).describe(folder)
    for file in ("config.json", "README.md"):
        assert (folder / file).read_bytes() == (SHIPPED / name / file).read_bytes(), file


def test_the_card_of_the_shared_n_grams_is_what_code_writes(tmp_path):
    folder = SHIPPED / shipped.shared_folder("everyday-soft", NGRAMS)
    copied = tmp_path / folder.name
    copied.mkdir()
    seen = Checkpoint.load(SHIPPED / "everyday-soft").encoder.preprocessing
    shipped.describe_ngrams(read_arrays(folder / NGRAMS), copied, seen)
    assert (copied / "README.md").read_text(encoding="utf-8") == (folder / "README.md").read_text(encoding="utf-8")


def test_hard_attention_ships_hard():
    assert Checkpoint.load(SHIPPED / "flickr8k-hard").generation.attention_mode == "argmax"


@pytest.mark.parametrize("name", MODELS)
def test_the_cards_have_the_scores_of_the_evaluations(name):
    scores = json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))["scores"]
    titles = shipped.titles(shipped.SHIPS[name]) | shipped.ELSEWHERE.get(name, {})
    assert list(scores) == list(titles)
    for title, ending in titles.items():
        kept = results.read(f"{name}-{ending}")
        assert {key: kept[key] for key in scores[title] if key in kept} == scores[title]


def test_the_evaluations_are_light_and_hold_neither_references_nor_paths():
    size = sum(file.stat().st_size for file in results.RESULTS.iterdir())
    assert size <= 5_000_000
    for name in results.names():
        found = results.read(name)
        assert set(found["results"][0]) <= {*results.OF_A_PHOTO, "bleu_4_smoothed"}  # of earlier evaluations
        photos = {"val": 200, "test": 300}[found["split"]] if found["data"] == "coco" else 1000
        assert found["captions"] == len(found["results"]) == photos
        assert all("/" not in entry["photo"] for entry in found["results"])
        command = re.sub(r"experiments(/research)?\b", "research", found["command"])  # its name until November 2026
        assert command == results.command(found)
    with (results.RESULTS / results.LIST).open(encoding="utf-8", newline="") as file:
        listed = [(row["file"], row["command"]) for row in csv.DictReader(file)]
    assert listed == [(name, results.command(results.read(name))) for name in results.names()]
