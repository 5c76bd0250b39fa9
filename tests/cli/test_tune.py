"""`sat tune`: a study that goes on, prunes, is shared, and ends in settings that `sat train` takes."""

import json
import logging
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import shape_folder, small_config, small_encoder
from commands import refused, sat
from trainers import Float32Trainer, acting, logged

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.training.config import Start, TrainingPlan, changed
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.presets import custom, tuned_settings
from show_attend_tell.training.ranks import LOGGER
from show_attend_tell.training.tune import Range, Study

optuna = pytest.importorskip("optuna", reason="the extra [tune] is not installed")

SIZES = [
    part
    for setting in (
        *("decoder.embedding_size=8", "decoder.hidden_size=8", "decoder.attention_size=8", "batch_size=4"),
        *("flipped=false", "epochs=2", "visual_ngrams=false", "max_length=5"),
    )
    for part in ("--set", setting)
]
SMALL = [*SIZES, "--set", "minimum_count=1", "--set", "selected_by=nats"]
RATES = ("learning_rate=1e-4..1e-1", "batch_size=2,4")


def tune(data: Path, folder: Path, *more: object) -> tuple[object, ...]:
    searched = [part for text in RATES for part in ("--search", text)]
    return ("tune", data, "--output", folder, "--device", "cpu", *SMALL, *searched, *more)


def study_of(
    data: Path, folder: Path, changes: Sequence[str] = (), *, trainer: type[Trainer] = Float32Trainer, **options: Any
) -> Study:
    base = small_config(epochs=2, selected_by="nats", max_length=5)
    plan = TrainingPlan(
        dataset=read_dataset(data),
        start=Start(small_encoder()),
        config=changed(base, changes),
        output=folder,
        given={change.partition("=")[0] for change in changes},
        cache=folder.parent / "cache",
        device="cpu",
    )
    names = {"preset": "flickr8k", "attention": "soft", "base": base}
    return Study(plan, [Range.read(text, base) for text in RATES], trainer=trainer, **names, **options)


def trials_of(folder: Path) -> list[Any]:
    found: list[Any] = optuna.load_study(study_name="sat", storage=f"sqlite:///{folder / 'study.db'}").trials
    return found


def test_a_study_goes_on_and_its_settings_train_a_model(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "tuned"
    said = sat(*tune(data, folder, "--trials", 2)).output
    assert "best of 2 trials" in said
    said = sat(*tune(data, folder, "--trials", 3)).output
    assert f"{folder} has 2 trials already" in said and "best of 3 trials" in said
    trials = trials_of(folder)
    complete = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    assert len({tuple(trial.params.items()) for trial in trials}) == 3
    found = json.loads((folder / "settings.json").read_text())
    best = max(complete, key=lambda trial: trial.value)
    assert found["value"] == best.value

    model = tmp_path / "model"
    sat("train", data, "--preset", folder / "settings.json", "--output", model, "--device", "cpu")
    settings = Checkpoint.load(model).training["settings"]
    assert settings["learning_rate"] == pytest.approx(best.params["learning_rate"], rel=1e-3)
    assert settings["decoder.hidden_size"] == 8 and str(settings["batch_size"]) == best.params["batch_size"]
    hard = ("--preset", folder / "settings.json", "--attention", "hard", "--output", tmp_path / "hard")
    assert "has settings of soft attention" in refused("train", data, *hard)

    assert "is a study with other settings:" in refused(*tune(data, folder, "--set", "seed=5"))
    assert "is a study with other preprocessing:" in refused(*tune(data, folder, "--resize", "squash"))
    other = shape_folder(tmp_path / "x2" / data.name, captions=2)
    assert "is a study with other captions:" in refused(*tune(other, folder))


def test_an_interrupted_trial_is_done_first_when_the_study_goes_on(tmp_path: Path, data: Path) -> None:
    rates: list[float] = []

    def interrupt(number: int, trainer: Trainer) -> None:
        rates.append(trainer.config.learning_rate)
        if number == 4:  # in the second trial
            raise KeyboardInterrupt

    study = study_of(data, tmp_path / "tuned", trainer=acting(interrupt, "one_epoch"))
    with pytest.raises(KeyboardInterrupt):
        study.run(trials=2, show=False)
    assert not (tmp_path / "tuned" / "settings.json").exists()
    assert study.run(trials=2, show=False).trials == 2 and rates[4] == rates[3]


def test_poor_trials_are_pruned_and_broken_ones_do_not_end_the_study(tmp_path: Path, data: Path) -> None:
    started: list[Trainer] = []

    class Scored(Float32Trainer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            self.number = len(started) - 1

        def one_epoch(self, *arguments: Any, **options: Any) -> dict[str, float]:
            if self.number == 2:
                raise SatError("the loss became nan")
            return {}

        def validate(self, **options: Any) -> dict[str, float]:
            return {"nats": 1.0 + self.number}

    study = study_of(data, tmp_path / "tuned", ["epochs=4"], trainer=Scored, startup=1)
    with logged() as messages:
        best = study.run(trials=4, show=False)
    first, second, third, fourth = trials_of(tmp_path / "tuned")
    assert (first.value, len(first.intermediate_values)) == (-1.0, 4)
    for pruned in (second, fourth):
        assert pruned.state == optuna.trial.TrialState.PRUNED and len(pruned.intermediate_values) == 2
    assert third.state == optuna.trial.TrialState.PRUNED and any("the loss became nan" in line for line in messages)
    assert (best.trials, best.number, best.value) == (4, 0, -1.0)


class Pressing(logging.Handler):
    """Presses Ctrl-C when a trial is reported."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("trial 0: "):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_does_not_lose_a_trial_that_has_ended(tmp_path: Path, data: Path) -> None:
    handler = Pressing()
    with logged(), pytest.raises(KeyboardInterrupt):
        LOGGER.addHandler(handler)
        try:
            study_of(data, tmp_path / "tuned", ["epochs=1"]).run(trials=2, show=False)
        finally:
            LOGGER.removeHandler(handler)
    assert [trial.state for trial in trials_of(tmp_path / "tuned")] == [optuna.trial.TrialState.COMPLETE]


def test_a_study_without_a_result_says_what_failed(tmp_path: Path, data: Path) -> None:
    def fail(number: int, trainer: Trainer) -> None:
        raise SatError("the loss became nan")

    with pytest.raises(SatError, match=r"was finished \(trial 0: learning_rate=.*the loss became nan\): give"):
        study_of(data, tmp_path / "tuned", trainer=acting(fail, "one_epoch")).run(trials=1, show=False)


def test_photos_that_cannot_be_read_are_left_out_and_told_once(tmp_path: Path, data: Path) -> None:
    damaged = data / "images" / "photo3.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    said = sat(*tune(data, tmp_path / "tuned", "--trials", 2)).output
    assert said.count("left out: 1 of ") == 1 and "photo3.png" in said and "best of 2 trials" in said


def test_files_of_others_are_not_overwritten(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "settings.json").write_text("mine", encoding="utf-8")
    line = refused(*tune(data, folder, "--trials", 1))
    assert "is not a study, and its settings.json would be overwritten" in line
    assert [file.name for file in folder.iterdir()] == ["settings.json"]
    assert "the folder cannot be made" in refused(*tune(data, data / "captions.csv" / "tuned"))
    (tmp_path / "study.db").write_text("not a study", encoding="utf-8")
    message = refused(*tune(data, tmp_path, "--trials", 1))
    assert "study.db cannot be read as a study (file is not a database): name another --output" in message


def test_custom_data_has_the_rules_of_a_training(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts from the default model, and its settings train as its trials did."""
    start = tmp_path / "start"
    sat("train", data, "--output", start, "--resize", "squash", "--init-from", "none", *SIZES)
    monkeypatch.setattr(custom, "START", str(start))
    folder = tmp_path / "tuned"
    tuned = ("tune", data, "--output", folder, "--device", "cpu", *SIZES, "--trials", 1, "--search", "batch_size=2,4")
    said = sat(*tuned).output
    assert f"the training starts from {start}" in said and "words seen once or more are learnt" in said
    found = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["set"]
    assert {"minimum_count=1", "selected_by=nats", "learning_rate=0.0005", "scheduled_sampling=0.3"} < set(found)
    model = tmp_path / "model"
    train = said.splitlines()[-1].removeprefix("Train with it: ").replace("MODEL", str(model)).split()
    assert train[-4:-2] == ["--init-from", str(start)]
    sat(*train[1:])
    trained = Checkpoint.load(model)
    assert trained.encoder.preprocessing.resize == "squash" and trained.training["init_from"] == str(start)
    assert trained.training["settings"]["learning_rate"] == 0.0005
    afresh = sat(*tuned[:3], tmp_path / "afresh", *tuned[4:], "--init-from", "none", "--resize", "squash").output
    assert "starts from" not in afresh and "--init-from" not in afresh.splitlines()[-1]
    assert "--resize squash --output MODEL" in afresh
    plain = sat(*tuned[:3], tmp_path / "plain", *tuned[4:], "--preset", "flickr8k", "--set", "minimum_count=1").output
    assert "starts from" not in plain and "nats" not in plain  # the preset as it is


def test_a_study_may_start_from_the_settings_of_another(tmp_path: Path, data: Path) -> None:
    changes = [*SMALL[1::2], "decoder.annotation_window=1", "learning_rate=0.0125"]
    first = {"preset": "flickr8k", "attention": "hard", "set": changes}
    (tmp_path / "first.json").write_text(json.dumps(first), encoding="utf-8")
    start = ("--preset", tmp_path / "first.json", "--search", "batch_size=2,4", "--trials", 1)
    sat("tune", data, "--output", tmp_path / "second", "--device", "cpu", *start, "--set", "seed=5")
    preset, attention, found = tuned_settings(str(tmp_path / "second" / "settings.json"), None)
    assert (preset, attention) == ("flickr8k", "hard")
    assert {"seed=5", "batch_size=4", "learning_rate=0.0125", "flipped=False"} < set(found)
    soft = ("--output", tmp_path / "third", *start, "--attention", "soft")
    assert "has settings of hard attention: leave out --attention" in refused("tune", data, *soft)


def test_two_workers_share_one_study(tmp_path: Path, data: Path) -> None:
    def other_worker(number: int, trainer: Trainer) -> None:
        if number == 1:  # while this one trains
            study_of(data, tmp_path / "tuned").run(trials=2, show=False)

    study_of(data, tmp_path / "tuned", trainer=acting(other_worker, "one_epoch")).run(trials=5, show=False)
    trials = trials_of(tmp_path / "tuned")
    assert len(trials) == 5 and all(trial.state.is_finished() for trial in trials)
    assert len({trial.params["learning_rate"] for trial in trials}) == 5  # none is drawn by both


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("learning_rate", "give NAME=LOW..HIGH"),
        ("learning_rate=2..1", "give NAME=LOW..HIGH"),
        ("learning_rate=a..b", "give NAME=LOW..HIGH"),
        ("decoder.dropout=0..2", "decoder.dropout=2: dropout is"),
        ("nosuch=1..2", "--search nosuch=1: give NAME=VALUE with one of these names"),
        ("batch_size=4,many", "batch_size=many"),
        ("decoder.annotation_window=2,4", "annotation_window is 2"),
    ],
)
def test_ranges_that_a_setting_does_not_have_are_refused(text: str, why: str, tmp_path: Path, data: Path) -> None:
    tuned = ("tune", data, "--output", tmp_path / "tuned", "--device", "cpu", "--init-from", "none")
    assert why in refused(*tuned, "--search", text)
    assert not (tmp_path / "tuned" / "study.db").exists()


def test_settings_that_no_training_takes_are_refused(tmp_path: Path, data: Path) -> None:
    window = ("--set", "decoder.annotation_window=4")
    assert "annotation_window is 4" in refused(*tune(data, tmp_path / "tuned", *window))
    study = study_of(data, tmp_path / "tuned")
    last = replace(study, plan=replace(study.plan, config=small_config(selected_by="last")))
    with pytest.raises(SatError, match="selected_by is 'last'"):
        last.run(trials=1, show=False)


def test_ranges_are_read() -> None:
    for name, text, values in (
        ("batch_size", "1..20", (1, 20)),
        ("soft.doubly_stochastic", "0..2", (0.0, 2.0)),
        ("scheduled_sampling_end", "0..1", (0.0, 1.0)),
        ("optimizer", "x, y", ("x", "y")),
    ):
        found = Range.read(f"{name}={text}", small_config())
        assert found == (name, values) and list(map(type, found.values)) == list(map(type, values))


def test_trials_whose_values_do_not_fit_each_other_are_pruned(tmp_path: Path, data: Path) -> None:
    study = study_of(data, tmp_path / "pairs", ["seed=20261127"])
    pair = [Range("decoder.initial_depth", ("1", "1")), Range("decoder.initial_size", ("8", "8"))]
    with pytest.raises(SatError, match=r"no trial of .* was finished .*at initial_depth 1 no layer has it"):
        replace(study, ranges=pair).run(trials=1, show=False)


def test_a_file_that_is_not_of_a_study_is_refused(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "settings.json"
    for content in ({}, {"preset": "flickr8k", "attention": "soft", "set": "epochs=2"}, []):
        file.write_text(json.dumps(content))
        with pytest.raises(SatError, match="must hold"):
            tuned_settings(str(file), None)
    file.write_text(json.dumps({"preset": "flickr8k", "attention": "soft", "set": ["epochs=0"]}))
    assert "epochs" in refused("train", data, "--preset", file, "--output", tmp_path / "m")
