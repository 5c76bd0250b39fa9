"""The commands that make Table 1: comparators are trained, ensembles evaluated, captions retrieved."""

import json
from pathlib import Path

import pytest
from commands import refused, sat

from show_attend_tell.checkpoint.checkpoint import Checkpoint

SMALL = ["--set", "decoder.embedding_size=17", "--set", "minimum_count=1", "--set", "batch_size=4", "--epochs", "1"]


def test_train_evaluate_together_and_retrieve(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    for seed in (1, 2):
        sat("train", data, "--decoder", "log_bilinear", "--seed", seed, "--output", tmp_path / f"lbl-{seed}", *SMALL)
    trained = Checkpoint.load(tmp_path / "lbl-1")
    assert trained.decoder.config.kind == "log_bilinear" and trained.training["seed"] == 1

    models = ("--model", tmp_path / "lbl-1", "--model", tmp_path / "lbl-2")
    told = sat("evaluate", *models, "--data", data, "--json", tmp_path / "both.json").stdout
    assert told.startswith("lbl-1 + lbl-2 on shapes test: 4 captions")
    found = json.loads((tmp_path / "both.json").read_text())
    assert found["model"] == "lbl-1 + lbl-2" and len(found["results"]) == 4
    line = refused("evaluate", *models, "--data", data, "--attention-mode", "sample")
    assert "look is sampled, and lbl-1 + lbl-2 has no attention to choose places by: leave it out" in line
    assert "--card writes into the model's folder" in refused("evaluate", *models, "--data", data, "--card")

    told = sat("analyze", "retrieval", data, "--json", tmp_path / "retrieval.json").stdout
    assert told.startswith("retrieval on shapes test: 4 captions, each from ")
    borrowed = json.loads((tmp_path / "retrieval.json").read_text())
    assert [entry["photo"] for entry in borrowed["results"]] == [entry["photo"] for entry in found["results"]]
    assert borrowed["variety"]["not_in_training"] == 0


def test_attention_or_a_comparator(tmp_path: Path) -> None:
    train = ("train", tmp_path, "--output", tmp_path / "model")
    assert "only one of --attention (soft, hard or uniform) and --decoder" in refused(
        *train, "--attention", "soft", "--decoder", "nic"
    )
    assert "log_bilinear" in refused(*train, "--decoder", "nick")
    assert "no preset 'paper' for 'nic': choose flickr8k" in refused(*train, "--decoder", "nic", "--preset", "paper")
    assert "decoder.hidden_size" in refused(*train, "--decoder", "nic", "--set", "decoder.attention_size=3")
