"""What ships and the documents say what the evaluations in research/results/ say."""

import json
import re
from pathlib import Path

import pytest
import results
import shipped
import tables

from show_attend_tell.checkpoint.arrays import NGRAMS, read_arrays
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.errors import SatError

MODELS = tuple(shipped.SHIPS)


@pytest.mark.parametrize("name", MODELS)
def test_the_shipped_configurations_hold_what_code_writes(name: str, tmp_path: Path) -> None:
    """Loaded and described again they are the same, byte for byte, and so are their cards."""
    folder = tmp_path / name
    folder.mkdir()
    Checkpoint.load(SHIPPED / name).describe(folder)
    for file in ("config.json", "README.md"):
        assert (folder / file).read_bytes() == (SHIPPED / name / file).read_bytes(), file


def test_the_card_of_the_shared_n_grams_is_what_code_writes(tmp_path: Path) -> None:
    folder = SHIPPED / shipped.shared_folder("everyday-soft", NGRAMS)
    copied = tmp_path / folder.name
    copied.mkdir()
    seen = Checkpoint.load(SHIPPED / "everyday-soft").encoder.preprocessing
    shipped.describe_ngrams(read_arrays(folder / NGRAMS), copied, seen)
    assert (copied / "README.md").read_text(encoding="utf-8") == (folder / "README.md").read_text(encoding="utf-8")


def test_hard_attention_ships_hard() -> None:
    assert Checkpoint.load(SHIPPED / "flickr8k-hard").generation.attention_mode == "argmax"


@pytest.mark.parametrize("name", MODELS)
def test_the_cards_have_the_scores_of_the_evaluations(name: str) -> None:
    scores = json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))["scores"]
    titles = shipped.titles(shipped.SHIPS[name]) | shipped.ELSEWHERE.get(name, {})
    assert list(scores) == list(titles)
    for title, ending in titles.items():
        kept = results.read(f"{name}-{ending}")
        assert {key: kept[key] for key in scores[title] if key in kept} == scores[title]


# The evaluations that are kept, and the tables


def test_a_document_with_another_table_fails_the_check() -> None:
    """`make test` runs the check on README and docs."""
    block = "<!-- table scores, by research/tables.py -->\n{}<!-- end of table -->"
    assert tables.with_tables(block.format("| old |\n")) == block.format(tables.scores())
    with pytest.raises(SatError, match="there is no table 'marks'"):
        tables.with_tables("<!-- table marks, by research/tables.py -->\n<!-- end of table -->")


def test_the_evaluations_are_light_and_hold_neither_references_nor_paths() -> None:
    size = sum(file.stat().st_size for file in results.RESULTS.iterdir())
    assert size <= 5_000_000
    for name in results.names():
        found = results.read(name)
        assert set(found["results"][0]) <= set(results.OF_A_PHOTO)
        photos = {"val": 200, "test": 300}[found["split"]] if found["data"] == "coco" else 1000
        assert found["captions"] == len(found["results"]) == photos
        assert all("/" not in entry["photo"] for entry in found["results"])
        command = re.sub(r"experiments(/research)?\b", "research", found["command"])  # its name until November 2026
        assert command == results.command(found)
    listed = re.findall(
        r"^\| (\S+) \|.*`((?:sat|python|PYTHONPATH=\w+) .*)` \|$",
        (results.RESULTS / "README.md").read_text(),
        re.MULTILINE,
    )
    assert listed == [(name, results.command(results.read(name))) for name in results.names()]


def test_an_evaluation_is_kept_with_its_command(tmp_path: Path) -> None:
    entry = {"photo": "a.jpg", "file": "/home/me/a.jpg", "caption": "a dog", "references": ["a cat"], "cider": 1.23456}
    figures = {"model": "m", "data": "d", "split": "val", "beam_size": 3, "attention_mode": "sample"}
    figures |= {"rerank_weight": 96.0}
    figures |= {"length_penalty": 0.5, "meteor": None, "meteor_missing": "no Java", "cider": 1.23456}
    for name in ("one", "two"):
        results.keep({**figures, "results": [entry]}, name, tmp_path)
    found = results.read("one", tmp_path)
    assert found["cider"] == 1.23456 and "meteor_missing" not in found
    assert found["results"] == [{"photo": "a.jpg", "caption": "a dog", "cider": 1.23}]
    assert found["command"] == (
        "sat evaluate --model m --data d/ --split val --beam-size 3 --attention-mode sample --length-penalty 0.5 "
        "--rerank-weight 96"
    )
    one, two = (tmp_path / f"{name}.json.gz" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()  # whenever it was written


def test_an_ablation_is_kept_with_its_command_and_becomes_a_table(tmp_path: Path) -> None:
    kept = results.read("flickr8k-soft", results.ABLATION)
    results.keep_analysis({key: value for key, value in kept.items() if key != "command"}, "again", tmp_path)
    assert results.read("again", tmp_path) == kept and kept["command"].startswith(
        "python research/ablation.py flickr8k/ "
    )
    noun = kept["at_word"]["noun"]["uniform"]
    rows = {line.split(" | ")[0]: line for line in tables.ablation("again", tmp_path).splitlines()}
    assert f"| {noun['mean']:.2f} [{noun['low']:.2f}, {noun['high']:.2f}] |" in rows["| α replaced by uniform α"]


def test_evidence_is_kept_with_its_command_and_becomes_a_table(tmp_path: Path) -> None:
    figure = {"mean": 0.625, "low": 0.5, "high": 0.75}
    maps = {name: {"1 or more": {"words": 9, "share": figure, "peak": figure}} for name in ("alpha", "evidence")}
    found = {"model": "m", "data": "d", "split": "val", "mosaics": 20, "attention_mode": "mean", "seed": 3}
    controls = {"hidden": {"1 or more": {"alpha": figure}}, "shuffled": {"1 or more": {"lstm": figure}}}
    results.keep_analysis({**found, "maps": maps, **controls}, "m", tmp_path)
    assert results.read("m", tmp_path)["command"] == (
        "python research/evidence.py d/ m --split val --mosaics 20 --attention-mode mean --seed 3"
    )
    rows = dict(line.removeprefix("| ").split(" | ", 1) for line in tables.evidence(folder=tmp_path).splitlines())
    assert rows["nouns with 1 or more before, in mosaics"] == "m (20 of val) |"
    shown = {title for title, cell in rows.items() if cell == "0.62 [0.50, 0.75] |"}
    assert shown >= {"in the right photo: α", "nats, hidden: α", "rank correlation, shuffled: lstm"} and len(shown) == 6
