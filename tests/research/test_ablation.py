"""Decoders that use their attention, and one that only reports it, tell the measure apart."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import ablation as program
import pytest
import torch
from ablation import SEARCHED, Subject, caption_photos, scores_of_controls
from attention.controls import CONTROLS
from attention.forcing import SeededMode
from builders import shape_folder, small_checkpoint, small_encoder
from measure import Interval, Report, WordClass
from pointers import LENGTH, L, Pointer, noise_data, pointing_captioner
from torch import Tensor

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName
from show_attend_tell.vision.sources import LivePhotos


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


def test_references_can_be_measured_instead(data: Dataset) -> None:
    result = ablation(pointing_captioner(Pointer(coupled=True)), data, captions="reference")
    assert result["words"] == 24 * 3  # "a dog runs"
    assert {kind: found.words for kind, found in result["at_word"].items()} == {
        "noun": 24, "verb": 24, "function": 24, "all": 72
    }  # fmt: skip
    assert result["captions"] == "reference"


def test_maps_that_do_not_move_and_a_model_without_a_gate(data: Dataset) -> None:
    class Staring(Pointer):
        def step(self, embedded: Tensor, state: State, mode: Any = MEAN_ATTENTION) -> Step:
            step = super().step(embedded, state, mode)
            assert step.alpha is not None
            return step._replace(alpha=step.alpha * 0 + 1 / L)

    result = ablation(pointing_captioner(Staring(coupled=True, gate=False)), data, photos=2)
    assert result["moved"].mean == 0
    assert set(result["attention"]["all"].means) == {"entropy"} and result["beta_noun_minus_function"] is None


def test_the_photos_are_drawn_by_the_seed_and_not_by_their_order(data: Dataset) -> None:
    captioner = pointing_captioner(Pointer(coupled=True))
    backwards = replace(data, examples=data.examples[::-1])

    def drawn(given: Dataset, seed: int) -> dict[str, Any]:
        return ablation(captioner, given, photos=5, encoded=2, seed=seed).to_dict()

    assert drawn(data, 1) == drawn(backwards, 1)
    assert drawn(data, 1) != drawn(data, 2)


# Captions made with other maps


@pytest.mark.usefixtures("without_java")
def test_each_control_makes_captions_and_is_scored_against_the_references(data: Dataset) -> None:
    pytest.importorskip("pycocoevalcap")
    captioner = pointing_captioner(Pointer(coupled=True))
    annotations = LivePhotos(data.examples, captioner.torch_backend().encoder)
    modes = [SeededMode("mean", number) for number in range(24)]
    subject = Subject(captioner, annotations, list(data.examples), modes, captioner.checkpoint.generation)
    with torch.no_grad():
        own = caption_photos(subject, 24, show=False)
        # the references are the model's own captions, so these score 100
        decode = captioner.checkpoint.vocabulary.decode
        examples = [
            replace(example, captions=(tuple(decode(found.words)),))
            for example, found in zip(data.examples, own, strict=True)
        ]
        result = scores_of_controls(subject._replace(examples=examples), own, show=False)
    assert result["photos"] == 24 and set(result) == {"photos", "own", *SEARCHED}
    assert set(result["own"]) == {"cider", "bleu_4", "bleu_4_no_brevity"}  # METEOR takes Java
    assert result["own"]["bleu_4"]["score"] == pytest.approx(100, abs=1e-4)
    assert result["own"]["cider"] | {"score": 0} == {"score": 0, "difference": 0, "low": 0, "high": 0}
    for name in ("uniform", "static", "other_word", "random"):
        one = result[name]["cider"]
        assert one["high"] < 0 and one["difference"] == pytest.approx(one["score"] - result["own"]["cider"]["score"])
    # this decoder's α depends on the step alone, so another photo's is its own
    assert result["other_photo"]["cider"]["difference"] == pytest.approx(0)


# From the command line


@pytest.mark.usefixtures("small")
def test_the_program_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycocoevalcap")
    checkpoint = small_checkpoint(small_encoder(), attention="hard")
    replace(checkpoint, generation=checkpoint.generation.merge(attention_mode="argmax")).save(tmp_path / "beach")
    data, file = shape_folder(tmp_path / "shapes"), tmp_path / "found.json"
    given = {"photos": 3, "captioned": 2, "encoded": 2, "beam_size": 1}
    options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    arguments = [data, tmp_path / "beach", "--split", "test", *options, "--device", "cpu", "--json", file]
    program.main([str(each) for each in [*arguments, "--cache", tmp_path / "cache"]])
    table = capsys.readouterr().out
    for part in ("model beach, data shapes, split test", "attention mode argmax, beam size 1", "again (2 photos)"):
        assert part in table
    assert "of 2 photos" in table and "CIDEr" in table and "METEOR" not in table
    captioner = Captioner.from_pretrained(tmp_path / "beach", device="cpu")
    again = program.ablation(
        captioner,
        read_dataset(data),
        "test",
        cache=tmp_path / "cache",
        show=False,
        **given,  # type: ignore[arg-type]
    )
    assert json.loads(file.read_text()) == json.loads(json.dumps(again.to_dict()))
