"""The other recipes: what they train, and how hard attention is called as good as soft attention or not."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import recipes
import results
import shipped
import stages
from builders import shape_folder
from documents import ROOT, blocks
from evaluations import keep
from trainings import config_of

from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.training.losses import HardObjective, SoftObjective
from show_attend_tell.training.presets import preset


def test_the_fair_pair_differs_in_its_look_alone() -> None:
    soft, hard = config_of(recipes.TRAININGS["soft-as-hard"]), preset("flickr8k", "hard")
    assert dataclasses.replace(soft.decoder, attention="hard") == hard.decoder
    alike: dict[str, Any] = {"decoder": hard.decoder, "visual_ngrams": True}
    # a soft model reads no hard objective, and λ_e is a part of that
    alike |= {"hard": hard.hard, "entropy_weight_end": hard.entropy_weight_end}
    assert dataclasses.replace(soft, **alike) == hard
    assert isinstance(soft.objective(), SoftObjective) and soft.soft.label_smoothing == hard.hard.label_smoothing


def test_the_papers_recipe_is_wholly_the_papers() -> None:
    soft, free, hard = (config_of(recipes.TRAININGS[name]) for name in ("paper-soft", "paper-soft-0", "paper-hard"))
    plain = SoftObjective(doubly_stochastic=0.33, label_smoothing=0.0)
    rule = HardObjective(
        samples=1,
        reward_weight=0.5,
        entropy_weight=0.128,
        coin="image",
        reward="sentence",
        baseline="moving",
        doubly_stochastic=0.0,
        label_smoothing=0.0,
    )
    assert soft.objective() == plain and free == dataclasses.replace(soft, soft=free.soft)
    assert free.objective() == dataclasses.replace(plain, doubly_stochastic=0.0)
    assert hard.objective() == rule
    assert (soft.decoder.attention, hard.decoder.attention) == ("soft", "hard")
    for config in (soft, free, hard):
        assert (
            config.decoder.to_dict().items()
            >= {
                **{"gate": config.decoder.attention == "soft", "output_tanh": False, "tied_embeddings": False},
                **{
                    "annotation_window": 1,
                    "annotation_dropout": 0.0,
                    "annotation_norm": "scale",
                },
            }.items()
        )
        told = config.to_dict()
        ours = {"flipped": False, "crops": 0, "visual_ngrams": False}
        ours |= {"scheduled_sampling": 0.0, "scheduled_sampling_end": None, "averaging": 0.0, "clip": 0.0}
        ours |= {"entropy_weight_end": None, "schedule": "constant", "warmup": 0}
        ours |= {"selected_by": "bleu_4"}
        papers = {"optimizer": "rmsprop", "batch_size": 64, "vocabulary_size": 10_000, "minimum_count": 1, "epochs": 10}
        assert told.items() >= {**ours, **papers}.items()


@pytest.mark.parametrize("stage", ["-plain", ""])
def test_the_control_on_another_encoder_has_uniform_attention_and_nothing_else(stage: str) -> None:
    control, model = (recipes.TRAININGS[f"efficientnet-{kind}"] for kind in (f"uniform{stage}", stage[1:] or "soft"))
    uniform, soft = config_of(control), config_of(model)
    reranked = dataclasses.replace(uniform, visual_ngrams=not stage)  # a reranker is fitted after the training
    assert dataclasses.replace(reranked, decoder=dataclasses.replace(uniform.decoder, attention="soft")) == soft
    assert ("--encoder" in control.arguments) == ("--encoder" in model.arguments) == bool(stage)
    usual = config_of(shipped.TRAININGS[stage[1:] or "soft"])
    assert dataclasses.replace(soft, visual_ngrams=False) == usual
    assert (model.start, control.start) == (
        (None, None) if stage else ("efficientnet-plain", "efficientnet-uniform-plain")
    )


def test_captions_with_a_reranker_are_scored_without_it_too(tmp_path: Path) -> None:
    model = tmp_path / "efficientnet-soft-1"
    for name in (tmp_path / "efficientnet-plain-1", model):
        name.mkdir()
        (name / "config.json").write_text(
            '{"training": {"validation_bleu_4": 1, "without_reranker": {"beam_size": 5, "length_penalty": 0.5}}}'
        )
    asked: list[str] = []
    found = recipes.stages_of("efficientnet-soft", Path("DATA"), tmp_path, [1])
    stages.run(found, sat=lambda *given: asked.append(" ".join(map(str, given))))
    usual = f"evaluate --model {model} --data DATA --split test"
    assert asked == [
        f"{usual} --rerank-weight 0 --beam-size 5 --length-penalty 0.5 --json {model}-test.json",
        f"{usual} --json {model}-test-reranked.json",
    ]


def test_the_documentation_has_the_commands() -> None:
    document = (ROOT / "research" / "notes" / "training.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line.split() for block in blocks(document, "sh") for line in block.splitlines()]
    for name in ("soft-as-hard", "paper-soft", "paper-soft-0", "paper-hard"):
        assert any(set(recipes.TRAININGS[name].arguments) <= set(command) for command in commands), name


def test_evaluations_with_a_reranker_are_kept_too(dataset: Dataset, tmp_path: Path) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "kept"
    runs.mkdir()
    for ending in ("", recipes.RERANKED):
        keep(dataset, folder, f"efficientnet-soft-3-test{ending}", 2)
        text = json.dumps(results.read(f"efficientnet-soft-3-test{ending}", folder))
        (runs / f"efficientnet-soft-3-test{ending}.json").write_text(text, encoding="utf-8")
    recipes.keep(runs, tmp_path / "again")
    assert results.names(tmp_path / "again") == results.names(folder)


def test_each_training_is_made_once_and_after_those_it_starts_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes.main(["DATA", str(tmp_path), "--list"])
    lines = [line.split("] ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines() if line[0] == "["]
    assert len(lines) == len(set(lines)) and lines.index("train soft-2") < lines.index("train hard-2")
    asked: list[str] = []
    found = recipes.stages_of("paper-hard", Path("DATA"), tmp_path, [1])
    stages.run(found, sat=lambda *given: asked.append(" ".join(map(str, given))))
    assert asked == [
        "train DATA --preset paper --attention hard --epochs 10 --seed 1 --resize squash "
        f"--output {tmp_path}/paper-hard-1",
        f"evaluate --model {tmp_path}/paper-hard-1 --data DATA --split test --json {tmp_path}/paper-hard-1-test.json",
    ]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return read_dataset(shape_folder(tmp_path / "flickr8k", train=2, val=1, test=17, captions=2))


@pytest.mark.usefixtures("without_java")
def test_attention_is_compared_with_its_control_on_another_encoder(dataset: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    folder = tmp_path / "results"
    keep(dataset, folder, "efficientnet-uniform-1-test", 9)
    encoders = "efficientnet-uniform", "efficientnet-soft"
    assert recipes.compared(*encoders, dataset, folder) == ""  # there is nothing to compare with
    keep(dataset, folder, "efficientnet-soft-1-test", 2)
    keep(dataset, folder, "efficientnet-soft-2-test", 2)
    said = recipes.compared(*encoders, dataset, folder)
    assert "EfficientNet-Lite2, uniform α | EfficientNet-Lite2, soft attention (mean of 2) | difference" in said


def test_seeds_are_kept_before_the_shipped_model(dataset: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for seed in (1, 2):
        keep(dataset, folder, f"hard-{seed}-test", 2)
    assert "| hard attention, by the argmax of α, 2 seeds | 50.0 ± 0.0 |" in recipes.scores(folder)
    keep(dataset, folder, "flickr8k-hard-test", 2)
    assert recipes.kept("hard", folder) == ["hard-1-test", "hard-2-test"]
    assert recipes.kept("soft", folder) == []
