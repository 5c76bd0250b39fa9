"""`make models` makes what ships, from data to files, and goes on where it was interrupted."""

import dataclasses
import gzip
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import results
import shipped
import stages
from builders import SIZES, shape_folder

import show_attend_tell.data.datasets as datasets_module
import show_attend_tell.training.run as run_module
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.likelihood import MiniBatch
from show_attend_tell.training.presets import custom
from show_attend_tell.training.trainer import Trainer

TINY = {**{f"decoder.{name}": size for name, size in SIZES.items()}, "decoder.annotation_window": 1}
TINY |= {"epochs": 1, "batch_size": 8, "minimum_count": 1, "max_length": 9}
SEEDS = (1, 2)
MODELS = {"soft": "flickr8k-soft", "hard": "flickr8k-hard"}


def make_models(data: Path, output: Path, *options: str) -> None:
    settings = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    shipped.main([str(data), str(output), "--seeds", *map(str, SEEDS), *settings, *options])


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.acceptance
@pytest.mark.usefixtures("small")
def test_models_are_made_from_data_to_files(  # noqa: PLR0915 - one story, from data to files
    tmp_path, monkeypatch, capsys
):
    data, output = shape_folder(tmp_path / "shapes", captions=5), tmp_path / "runs"
    take, interrupting = Trainer.take, True
    taken = Counter()  # batches, by the training

    def counted(trainer: Trainer, batch: MiniBatch) -> None:
        second_stage = trainer.config.epochs == 3
        taken[trainer.config.decoder.attention, trainer.config.epochs, trainer.config.seed] += 1
        if interrupting and second_stage and trainer.taken == 4:
            signal.raise_signal(signal.SIGINT)
        take(trainer, batch)

    monkeypatch.setattr(Trainer, "take", counted)
    monkeypatch.setattr(custom, "SMALL", 0)  # the real data are no small set
    with pytest.raises(SystemExit) as ended:
        make_models(data, output)
    assert ended.value.code == 130
    said = capsys.readouterr().out
    assert "0 of 27 stages are done, 27 are left." in said
    assert "The same call of this script goes on from here." in said
    assert (output / "soft-1" / "training" / "state.safetensors").exists()

    make_models(data, output, "--list")  # which makes nothing
    said = capsys.readouterr().out
    assert "[1/27] train plain-1: done\n[2/27] train soft-1: to do\n" in said and "1 of 27 stages are done" in said
    assert {path.name for path in output.iterdir()} == {"plain-1", "soft-1"}

    interrupting = False
    make_models(data, output)
    said = capsys.readouterr().out
    assert "resumed after 0 epochs and 5 batches" in said
    assert len(taken) == 6 and {seed for _, _, seed in taken} == {1, 2}
    assert all(taken[kind, epochs, 1] == taken[kind, epochs, 2] for kind, epochs, _ in taken)  # no batch was repeated

    kept = set(results.names(output / "results"))
    for kind, name in MODELS.items():
        by_seed = {seed: read(output / f"{kind}-{seed}-val.json")["bleu_4"] for seed in SEEDS}
        model = Checkpoint.load(output / "models" / name)
        seed = model.training["seed"]
        assert by_seed[seed] == max(by_seed.values())
        Checkpoint.load(output / f"{kind}-{seed}").save(tmp_path / name, bits=4)
        first, second = (folder / name / "model.safetensors" for folder in (output / "models", tmp_path))
        assert first.read_bytes() == second.read_bytes() and model.config.attention == kind
        assert [f"stage_{n}" in model.training for n in (1, 2, 3)] == [True, True, kind == "hard"]
        for split in ("val", "test"):
            evaluated = read(output / f"{name}-{split}.json")
            assert model.scores[split]["bleu_4"] == evaluated["bleu_4"] and evaluated["rerank_weight"] == 0
            assert {f"{name}-{split}", f"{kind}-1-{split}", f"{kind}-2-{split}"} <= kept
    assert "flickr8k-hard-mean-test" in kept and len(kept) == 15
    for name in MODELS.values():
        energy = Checkpoint.load(output / f"{name}-even").weights["attention.energy"]
        assert not energy.any() and f"{name}-even-test" in kept
    assert str(tmp_path) not in "".join(json.dumps(results.read(name, output / "results")) for name in kept)  # no paths

    before = {path: path.stat().st_mtime_ns for path in output.rglob("*.json")}
    make_models(data, output)
    assert "27 of 27 stages are done, 0 are left." in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*.json")} == before


# Settings that came later, and what they were before: the training was as these values say.
NEW = {
    "crops": 0,
    "renderings": 0,
    "decoder.initial_size": 0,
    "decoder.output_depth": 1,
    "selected_by": "bleu_4",
    "cautious": False,
    "validation_attention_mode": None,
    "precision": "auto",
    "micro_batch_size": 0,
    "mirror_sides": False,  # before, photos whose captions name sides were mirrored too
}


# Settings that are gone, and what the code does.
GONE = {"soft.entropy_weight": 0.0, "hard.doubly_stochastic": 0.0, "new_words": True, "text_weight": 1.0}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", shipped.SHIPS)
def test_the_commands_have_the_settings_of_the_shipped_models(name, tmp_path, monkeypatch):
    config, training = read(SHIPPED / name / "config.json"), shipped.SHIPS[name].training
    kind = config["decoder"]["attention"]
    wanted = config["training"]["settings"]
    asked = {}

    def train(plan: TrainingPlan) -> Checkpoint:
        asked["config"] = plan.config
        return Checkpoint.load(SHIPPED / name)

    monkeypatch.setattr(run_module, "train", train)
    read_dataset = datasets_module.read_dataset
    monkeypatch.setattr(  # as Flickr8k, to which no settings are fitted
        datasets_module, "read_dataset", lambda *of, **how: dataclasses.replace(read_dataset(*of, **how), custom=False)
    )
    data = [shape_folder(tmp_path / each) for each in shipped.SHIPS[name].data]
    for start in ("plain-1", "soft-1", "everyday-plain-1", "everyday-texts-1", "everyday-soft-1"):  # to start from
        (tmp_path / start).symlink_to(SHIPPED / "flickr8k-soft")
    (data[-1] / shipped.TEXTS).write_bytes(gzip.compress(b"a red circle\n"))
    given = shipped.arguments(training, config["training"]["seed"], tmp_path, coco=data[-1])
    stages.sat("train", *data, *given, *stages.SQUASHED, "--output", tmp_path / "new")
    found = asked["config"].to_dict()
    sizes = {"decoder.vocabulary_size", "decoder.annotation_size"}  # which come from the data
    for setting in found.keys() | wanted.keys() - sizes:
        if setting in sizes:
            continue
        if setting not in found:
            assert wanted[setting] == GONE[setting], setting
        elif setting not in wanted:
            assert found[setting] == NEW[setting], setting
        elif not setting.startswith({"soft": "hard.", "hard": "soft."}[kind]):  # the other objective's do nothing
            assert found[setting] == wanted[setting], setting
