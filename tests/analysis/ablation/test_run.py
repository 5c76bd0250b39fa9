"""Does it look where it should? Decoders that are known to look, and one that only says so, tell the measure apart."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import D, shape_folder, small_checkpoint, small_encoder, small_load_encoder
from commands import refused, sat
from gazing import LENGTH, L, Pointer, captioner_of, noise_data
from table1.nic import NicConfig
from torch import Tensor

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.analysis.ablation import run
from show_attend_tell.analysis.ablation.controls import CONTROLS
from show_attend_tell.analysis.ablation.occlusion import VARIANTS
from show_attend_tell.analysis.ablation.run import STILL, movement
from show_attend_tell.analysis.ablation.table import ablation_table
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.model.registry import build
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName


@pytest.fixture(autouse=True)
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: False)


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return noise_data(tmp_path)


def ablation(captioner: Captioner, data: Dataset, **options: Any) -> dict[str, Any]:
    """Without captions made by the controls, unless asked for."""
    given = {"captioned": 0, **options}
    return run.ablation(captioner, data, "val", cache=data.folder / "cache", show=False, **given)


# What it finds


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_what_a_model_truly_looks_at_matters_more_than_any_control(mode: AttentionModeName, data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=True)), data, encoded=24, mode=mode)
    assert result["photos"] == result["captions_told"] == 24 and result["words"] == 24 * LENGTH
    for name in ("uniform", "static", "other_word", "random"):
        assert result["at_word"]["all"][name]["low"] > (0.2 if mode == "mean" else 0), name
        if mode != "sample":  # other places are sampled when a caption is told again
            assert result["throughout"][name]["cost"]["low"] > 0, name
    # α depends on the step alone: another photo's is the same, and only its annotations are others
    assert result["at_word"]["all"]["other_view"]["low"] > 1
    assert result["throughout"][mode]["cost"] == {"mean": 0, "low": 0, "high": 0}
    if mode != "sample":
        assert result["at_word"]["all"]["other_photo"]["mean"] == pytest.approx(0, abs=1e-4)

    assert result["hidden"] == 2 and result["locations"] == L
    assert result["captions_by_way"] == {"annotations": 24, "annotations_at_word": 24, "gray": 24, "blur": 24}
    for way in ("annotations", "annotations_at_word", "gray"):
        falls = result["occlusion"][way]["all"]
        assert falls["ratio_random"]["low"] > 1.5 and falls["ratio_patch"]["low"] > 1.5, way
        assert falls["most_minus_random"]["low"] > 0
        assert falls["most"]["mean"] > 4 * abs(falls["least"]["mean"]), way
        assert falls["most"]["mean"] > 2 * falls["other_word"]["mean"], way
        assert falls["most"]["mean"] == pytest.approx(falls["other_photo"]["mean"], abs=1e-4), way
    # this decoder remembers nothing that it saw, so hiding at one step is hiding at all
    for name in VARIANTS:
        once, throughout = (result["occlusion"][way]["all"][name] for way in ("annotations_at_word", "annotations"))
        assert once == pytest.approx(throughout, rel=1e-3, abs=1e-4), name


def test_what_a_model_only_says_it_looks_at_matters_no_more_than_the_controls(data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=False)), data, encoded=24)
    for name in CONTROLS:
        cost = result["at_word"]["all"][name]["mean"]
        assert cost > 1 if name == "other_view" else cost == pytest.approx(0, abs=1e-4), name
    for way in ("annotations", "annotations_at_word", "gray", "blur"):
        falls = result["occlusion"][way]["all"]
        assert falls["random"]["low"] > 0  # places do matter
        assert falls["ratio_random"]["low"] < 1 < falls["ratio_random"]["high"], way
        assert 0.5 < falls["ratio_random"]["mean"] < 2
        assert falls["most_minus_random"]["low"] < 0 < falls["most_minus_random"]["high"], way


def test_words_are_counted_by_class_and_the_gate_and_the_gaze_are_described(data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=True)), data)
    assert result["captions_by_way"]["gray"] == 0 and result["occlusion"]["gray"] == {}
    assert result["captions_made"] is None
    for by_class in (result["occlusion"]["annotations"], result["at_word"], result["attention"]):
        assert sum(row["words"] for kind, row in by_class.items() if kind != "all") == by_class["all"]["words"] == 120
    assert result["unclassified_share"] == pytest.approx(by_class["unclassified"]["words"] / 120)
    assert set(result["unclassified_words"]) == {"zyx", "abc"}
    every = result["attention"]["all"]
    assert every["beta"]["mean"] == pytest.approx(0.7)  # 0.9, 0.8 … 0.5
    assert every["share"] == pytest.approx({"mean": 0.9, "low": 0.9, "high": 0.9})
    expected = -(0.9 * math.log(0.45) + 0.1 * math.log(0.1 / 13))
    assert every["entropy"]["mean"] == pytest.approx(expected, rel=1e-4)
    nouns, functions = (result["attention"][kind]["beta"]["mean"] for kind in ("noun", "function"))
    assert result["beta_noun_minus_function"]["mean"] == pytest.approx(nouns - functions)
    assert result["moved"]["mean"] == pytest.approx(0.9 - 2 * 0.1 / 13, rel=1e-4) and result["still"] == []
    table = ablation_table(result)
    for part in ("own captions: 120,", "own / those of another word", "noun (", "2 of 15 places", "zyx", "0 of 24"):
        assert part in table
    assert "grayed" not in table and "CIDEr" not in table


def test_references_can_be_told_instead(data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=True)), data, captions="reference")
    assert result["words"] == 24 * 3 and result["throughout"]["words"] == 24 * 4  # "a dog runs", and the end token
    assert {kind: row["words"] for kind, row in result["at_word"].items()} == {
        "noun": 24, "verb": 24, "function": 24, "all": 72
    }  # fmt: skip
    assert "words of each photo's first reference: 72," in ablation_table(result)


def test_maps_that_do_not_move_are_flagged(data: Dataset) -> None:
    class Staring(Pointer):
        def step(self, embedded: Tensor, state: State, mode: Any = MEAN_ATTENTION) -> Step:
            step = super().step(embedded, state, mode)
            assert step.alpha is not None
            return step._replace(alpha=step.alpha * 0 + 1 / L)

    result = ablation(captioner_of(Staring(coupled=True)), data, photos=2)
    assert result["moved"]["mean"] == 0 and result["travel"]["mean"] == pytest.approx(0, abs=1e-6)
    assert len(result["still"]) == 2 and "2 of 2 captions" in ablation_table(result)


def test_a_class_of_one_photo_has_no_interval_in_the_table_and_columns_stay_apart(data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=True)), data, photos=3)
    assert result["at_word"]["all"]["photos"] == 3
    row = result["at_word"]["noun"]
    row["photos"], row["log_loss"] = 1, {"mean": 1.79, "low": 1.79, "high": 1.79}
    result["at_word"]["all"]["log_loss"] = dict.fromkeys(("mean", "low", "high"), -1234567.25)
    table = ablation_table(result)
    line = next(line for line in table.splitlines() if "-log p by its own alpha" in line)
    assert "1.79" not in line and "  –" in line
    assert "]  -1234567.25 [" in line


def test_the_photos_are_drawn_by_the_seed_and_not_by_their_order(data: Dataset) -> None:
    captioner = captioner_of(Pointer(coupled=True))
    backwards = replace(data, examples=data.examples[::-1])

    def drawn(given: Dataset, seed: int) -> dict[str, Any]:
        return ablation(captioner, given, photos=5, encoded=2, seed=seed)

    assert drawn(data, 1) == drawn(backwards, 1)
    assert drawn(data, 1) != drawn(data, 2)


def test_a_model_without_a_gate_has_no_beta(data: Dataset) -> None:
    result = ablation(captioner_of(Pointer(coupled=True, gate=False)), data, photos=3)
    assert "beta" not in result["attention"]["all"] and "beta_noun_minus_function" not in result
    assert "no beta: the model has no gate" in ablation_table(result)


def test_too_few_photos_and_captions_are_refused(data: Dataset) -> None:
    captioner = captioner_of(Pointer(coupled=True))
    for given, message in (
        ({"photos": 1}, "1 photos give no interval"),
        ({"captioned": 1}, r"1 photo \(--captioned\) has no other photo's attention"),
        ({"encoded": 1}, r"1 photos encoded again \(--encoded\) give no interval"),
        ({"encoded": -1}, "-1 photos encoded again"),
    ):
        with pytest.raises(SatError, match=message):
            ablation(captioner, data, **given)
    with pytest.raises(SatError, match="the split 'val' has one photo"):
        ablation(captioner, replace(data, examples=data.examples[:1]))
    captioner.checkpoint = replace(captioner.checkpoint, generation=GenerationConfig(beam_size=1, max_length=1))
    with pytest.raises(SatError, match="0 of 3 captions have two words"):
        ablation(captioner, data, photos=3)


def test_movement_is_in_sides_of_the_photo_and_sees_maps_that_split() -> None:
    corner, opposite, middle, both = np.zeros((4, 15))
    corner[0] = opposite[14] = middle[7] = 1
    both[0] = both[14] = 0.5
    found = movement(np.stack([corner, opposite, middle, both, both]), (3, 5))
    diagonal = math.hypot(2 / 3, 4 / 5)
    np.testing.assert_allclose(found, [[diagonal, 1], [diagonal / 2, 1], [0, 1], [0, 0]], atol=1e-12)
    assert STILL < 1


# From the command line


def test_the_command_tells_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap")
    monkeypatch.setenv("PATH", "")  # no Java, no seconds of METEOR
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    checkpoint = small_checkpoint(small_encoder(), attention="hard")
    replace(checkpoint, generation=checkpoint.generation.merge(mode="argmax")).save(tmp_path / "beach")
    data = shape_folder(tmp_path / "shapes")
    command = ["analyze", "ablation", "--model", tmp_path / "beach", "--data", data, "--cache", tmp_path / "cache"]
    command += ["--device", "cpu", "--photos", 3, "--encoded", 2, "--split", "test"]
    table = sat(*command).stdout
    assert table.startswith("gaze of beach on 3 photos of shapes test, drawn by seed 0; look by likeliest\n")
    for part in ("captions by beam 3,", "in the photo, grayed and encoded again (2 photos)", "of 3 photos", "CIDEr"):
        assert part in table
    assert "METEOR" not in table
    found = json.loads(sat(*command, "--beam-size", 1, "--captioned", 2, "--json", "-").stdout)
    assert found["model"] == "beach" and found["split"] == "test" and found["beam_size"] == 1
    assert found["captions_made"]["photos"] == 2
    again = run.ablation(
        Captioner.from_pretrained(tmp_path / "beach", device="cpu"),
        read_dataset(data),
        "test",
        cache=tmp_path / "cache",
        photos=3,
        captioned=2,
        encoded=2,
        beam_size=1,
        show=False,
    )
    assert found == json.loads(json.dumps(again))


def test_what_cannot_be_measured_is_refused_before_anything_is_captioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    small_checkpoint(small_encoder()).save(tmp_path / "beach")
    data = shape_folder(tmp_path / "shapes", test=1)
    command = ("analyze", "ablation", "--model", tmp_path / "beach", "--data", data, "--cache", tmp_path / "cache")
    assert "1 photos encoded again (--encoded) give no interval" in refused(*command, "--encoded", 1)
    assert "the split 'test' has one photo, and a gaze takes 2 or more" in refused(*command, "--split", "test")
    model = small_checkpoint(small_encoder())
    config = NicConfig(vocabulary_size=len(model.vocabulary), annotation_size=D, embedding_size=5, hidden_size=7)
    replace(model, decoder=build(config)).save(tmp_path / "nic")
    small_checkpoint(small_encoder(), attention="uniform").save(tmp_path / "uniform")
    for name in ("nic", "uniform"):
        blind = (*command[:3], tmp_path / name, *command[4:], "--split", "val", "--json", tmp_path / "nic.json")
        assert refused(*blind, code=1) == f"sat: {name} has no attention: give a model with soft or hard attention"
        assert not (tmp_path / "nic.json").exists()
    assert not (tmp_path / "cache").exists()
