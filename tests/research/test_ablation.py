"""Decoders that use their attention, and one that only reports it, tell the measure apart."""

import math
from pathlib import Path
from typing import Any

import ablation as program
import pytest
from attention.controls import CONTROLS
from measure import Interval, Report, WordClass
from pointers import LENGTH, L, Pointer, noise_data, pointing_captioner

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return noise_data(tmp_path)


def ablation(captioner: Captioner, data: Dataset, **options: Any) -> Report:
    """Without captions made by the controls, unless asked for."""
    given = {"captioned": 0, **options}
    return program.ablation(captioner, data, "val", cache=data.folder / "cache", show=False, **given)


def figures(found: dict[str, WordClass], kind: str = "all") -> dict[str, Interval]:
    return {name: figure for name, figure in found[kind].figures.items() if figure is not None}


# What it finds


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_what_a_model_truly_attends_to_matters_more_than_any_control(mode: AttentionModeName, data: Dataset) -> None:
    result = ablation(pointing_captioner(Pointer(coupled=True)), data, encoded=24, attention_mode=mode)
    assert result["photos"] == result["captions_forced"] == 24 and result["words"] == 24 * LENGTH
    costs = figures(result["at_word"])
    for name in ("uniform", "static", "other_word", "random"):
        assert costs[name].low > (0.2 if mode == "mean" else 0), name
    # α depends on the step alone: another photo's is the same, and only its annotations are others
    assert costs["other_view"].low > 1
    if mode != "sample":
        assert costs["other_photo"].mean == pytest.approx(0, abs=1e-4)

    assert result["hidden"] == 2 and result["locations"] == L
    assert result["captions_by_way"] == {"annotations": 24, "gray": 24}
    for way in ("annotations", "gray"):
        falls = figures(result["occlusion"][way])
        assert falls["ratio_random"].low > 1.5 and falls["ratio_patch"].low > 1.5, way
        assert falls["most"].mean > 4 * abs(falls["least"].mean), way
        assert falls["most"].mean > 2 * falls["other_word"].mean, way
        assert falls["most"].mean == pytest.approx(falls["other_photo"].mean, abs=1e-4), way


def test_what_a_model_only_reports_matters_no_more_than_the_controls(data: Dataset) -> None:
    result = ablation(pointing_captioner(Pointer(coupled=False)), data, encoded=24)
    for name in CONTROLS:
        cost = figures(result["at_word"])[name].mean
        assert cost > 1 if name == "other_view" else cost == pytest.approx(0, abs=1e-4), name
    for way in ("annotations", "gray"):
        falls = figures(result["occlusion"][way])
        assert falls["random"].low > 0  # locations do matter
        assert falls["ratio_random"].low < 1 < falls["ratio_random"].high, way
        assert 0.5 < falls["ratio_random"].mean < 2


def test_words_are_counted_by_class_and_gate_and_maps_are_described(data: Dataset) -> None:
    result = ablation(pointing_captioner(Pointer(coupled=True)), data)
    assert (
        result["captions_by_way"]["gray"] == 0 and result["occlusion"]["gray"] == {} and result["captions_made"] is None
    )
    for by_class in (result["occlusion"]["annotations"], result["at_word"], result["attention"]):
        assert sum(found.words for kind, found in by_class.items() if kind != "all") == by_class["all"].words == 120
    assert result["unclassified_share"] == pytest.approx(result["at_word"]["unclassified"].words / 120)
    assert set(result["unclassified_words"]) == {"zyx", "abc"}
    every = figures(result["attention"])
    assert every["beta"].mean == pytest.approx(0.7)  # 0.9, 0.8 … 0.5
    assert every["entropy"].mean == pytest.approx(-(0.9 * math.log(0.45) + 0.1 * math.log(0.1 / 13)), rel=1e-4)
    nouns, functions = (figures(result["attention"], kind)["beta"].mean for kind in ("noun", "function"))
    assert result["beta_noun_minus_function"] is not None
    assert result["beta_noun_minus_function"].mean == pytest.approx(nouns - functions)
    assert result["moved"].mean == pytest.approx(0.9 - 2 * 0.1 / 13, rel=1e-4)
    table = "\n".join(result.tables)
    for part in ("120 words,", "own / those of another word", "noun (", "2 of 15 locations", "zyx"):
        assert part in table
    assert "grayed" not in table and "CIDEr" not in table


# Captions made with other maps
