"""`sat tune`: a study that goes on, prunes, is shared, and ends in settings that `sat train` takes."""

import json
import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import click
import pytest
from builders import shape_folder
from commands import refused, sat

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.errors import SatError
from show_attend_tell.training import run
from show_attend_tell.training import tune as studies
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.presets import custom as own
from show_attend_tell.training.tune import Range, read_settings
from show_attend_tell.training.tune_plot import history
from show_attend_tell.vision.encoder import Encoder

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
RATES = ("--search", "learning_rate=1e-4..1e-1", "--search", "batch_size=2,4")


def tune(data: Path, folder: Path, *more: object) -> tuple[object, ...]:
    return ("tune", data, "--output", folder, "--device", "cpu", *SMALL, *RATES, *more)


def trials_of(folder: Path) -> list[Any]:
    found: list[Any] = optuna.load_study(study_name="sat", storage=f"sqlite:///{folder / 'study.db'}").trials
    return found


def test_a_study_goes_on_and_its_settings_train_a_model(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, epochs = tmp_path / "tuned", []
    one_epoch = Trainer.one_epoch

    def interrupted(trainer: Trainer, *arguments: Any) -> dict[str, float]:
        epochs.append(trainer.config.learning_rate)
        if len(epochs) == 4:  # in the second trial
            raise KeyboardInterrupt
        return one_epoch(trainer, *arguments)

    monkeypatch.setattr(Trainer, "one_epoch", interrupted)
    assert "interrupted; " in refused(*tune(data, folder, "--trials", 3), code=130)
    assert not (folder / "settings.json").exists()
    said = sat(*tune(data, folder, "--trials", 3)).output
    assert f"{folder} has 1 trial already" in said and "best of" in said
    again = [trial for trial in trials_of(folder) if trial.state == optuna.trial.TrialState.COMPLETE]
    assert len({tuple(trial.params.items()) for trial in again}) == len(again)
    assert epochs[4] == epochs[3]  # the trial that was interrupted is done first
    found = json.loads((folder / "settings.json").read_text())
    assert found["value"] == max(trial.value for trial in again)
    rate, size = found["set"][-2:]
    assert rate.startswith("learning_rate=") and size in ("batch_size=2", "batch_size=4")
    assert "has 3 trials already" in sat(*tune(data, folder, "--trials", 3)).output
    assert "is a study with other set" in refused(*tune(data, folder, "--set", "seed=5"))
    assert "is a study with other preprocessing:" in refused(*tune(data, folder, "--resize", "squash"))
    other = shape_folder(tmp_path / "x2" / data.name, captions=2)
    assert "is a study with other captions:" in refused(*tune(other, folder))
    monkeypatch.setattr(Encoder, "digest", property(lambda encoder: "0" * 64))
    assert "is a study with other encoder:" in refused(*tune(data, folder))
    monkeypatch.undo()

    model = tmp_path / "model"
    sat("train", data, "--preset", folder / "settings.json", "--output", model, "--device", "cpu")
    settings = json.loads((model / "config.json").read_text())["training"]["settings"]
    assert settings["learning_rate"] == float(rate.partition("=")[2]) and settings["decoder.hidden_size"] == 8
    assert f"batch_size={settings['batch_size']}" == size
    other = ("--preset", folder / "settings.json", "--attention", "hard", "--output", tmp_path / "hard")
    assert "has settings of soft attention" in refused("train", data, *other)
    ElementTree.parse(folder / "history.svg")


def test_poor_trials_are_pruned_and_broken_ones_do_not_end_the_study(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "WARM", 1)
    numbers = iter(range(99))

    class DecoderOutput(Trainer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.number = next(numbers)

        def one_epoch(self, *arguments: Any, **options: Any) -> dict[str, float]:
            if self.number == 2:
                raise SatError("the loss became nan")
            return {}

        def validate(self, **options: Any) -> dict[str, float]:
            return {"nats": 1.0 + self.number}

    monkeypatch.setattr(run, "Trainer", DecoderOutput)
    said = sat(*tune(data, tmp_path / "tuned", "--trials", 4, "--set", "epochs=4")).output
    first, second, third, fourth = trials_of(tmp_path / "tuned")
    assert (first.value, len(first.intermediate_values)) == (-1.0, 4)
    for pruned in (second, fourth):
        assert pruned.state == optuna.trial.TrialState.PRUNED and len(pruned.intermediate_values) == 2
    assert third.state == optuna.trial.TrialState.PRUNED and "the loss became nan" in said
    assert "best of 4 trials: -1.000, trial 0" in said


@pytest.mark.parametrize("moment", ["while it is stored", "after its line"])
def test_ctrl_c_does_not_lose_a_trial_that_has_ended(
    moment: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, echo = optuna.storages.RDBStorage.set_trial_state_values, click.echo

    def stored(storage: Any, number: int, state: Any, values: Any = None) -> bool:
        if values is not None and moment == "while it is stored":
            signal.raise_signal(signal.SIGINT)
        kept: bool = store(storage, number, state, values)
        return kept

    def said(text: str, **options: Any) -> None:
        echo(text, **options)
        if text.startswith("trial 0: ") and moment == "after its line":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(optuna.storages.RDBStorage, "set_trial_state_values", stored)
    monkeypatch.setattr(click, "echo", said)
    folder = tmp_path / "tuned"
    assert "interrupted; " in refused(*tune(data, folder, "--trials", 2, "--set", "epochs=1"), code=130)
    assert [trial.state for trial in trials_of(folder)] == [optuna.trial.TrialState.COMPLETE]
    monkeypatch.undo()


def test_a_study_without_a_result_says_what_failed(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(trainer: Trainer, *arguments: Any) -> dict[str, float]:
        raise SatError("the loss became nan")

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "one_epoch", failing)
        line = refused(*tune(data, tmp_path / "tuned", "--trials", 1))
    assert "and 1 trial ended early (trial 0: learning_rate=" in line and "the loss became nan)" in line
    assert line.endswith("give more --trials, or another --output with other settings")


def test_trials_that_were_interrupted_are_not_counted(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(trainer: Trainer, *arguments: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    once = tune(data, tmp_path / "tuned", "--trials", 1, "--set", "epochs=1")
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "one_epoch", interrupted)
        refused(*once, code=130)
    assert "best of 1 trial: " in sat(*once).output


def test_photos_that_cannot_be_read_are_left_out_and_told_once(tmp_path: Path, data: Path) -> None:
    damaged = data / "images" / "photo3.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    said = sat(*tune(data, tmp_path / "tuned", "--trials", 2)).output
    assert said.count("left out: 1 of ") == 1 and "photo3.png" in said and "best of 2 trials" in said


def test_files_of_others_are_not_overwritten(tmp_path: Path, data: Path) -> None:
    for name in ("settings.json", "history.svg"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine", encoding="utf-8")
        assert f"is not a study, and its {name} would be overwritten" in refused(*tune(data, folder, "--trials", 1))
        assert [file.name for file in folder.iterdir()] == [name] and (folder / name).read_text() == "mine"
    assert "the folder cannot be made" in refused(*tune(data, data / "captions.csv" / "tuned"))


def test_a_damaged_study_is_named(tmp_path: Path, data: Path) -> None:
    (tmp_path / "study.db").write_text("not a study", encoding="utf-8")
    message = refused(*tune(data, tmp_path, "--trials", 1))
    assert "study.db cannot be read as a study (file is not a database): name another --output" in message


def test_own_data_has_the_rules_of_a_training(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts from the default model, and its settings train as its trials did."""
    start = tmp_path / "start"
    sat("train", data, "--output", start, "--resize", "squash", "--init-from", "none", *SIZES)
    monkeypatch.setattr(own, "START", str(start))
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
    changed = [*SMALL[1::2], "decoder.annotation_window=1", "learning_rate=0.0125"]
    first = {"preset": "flickr8k", "attention": "hard", "set": changed}
    (tmp_path / "first.json").write_text(json.dumps(first), encoding="utf-8")
    start = ("--preset", tmp_path / "first.json", "--search", "batch_size=2,4", "--trials", 1)
    sat("tune", data, "--output", tmp_path / "second", "--device", "cpu", *start, "--set", "seed=5")
    preset, attention, changes = read_settings(tmp_path / "second" / "settings.json")
    assert (preset, attention) == ("flickr8k", "hard")
    assert changes == [*changed, "seed=5", "batch_size=4"]
    soft = ("--output", tmp_path / "third", *start, "--attention", "soft")
    assert "has settings of hard attention: leave out --attention" in refused("tune", data, *soft)


def test_two_workers_share_one_study(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tuned"
    one_epoch, inside = Trainer.one_epoch, []

    def other_worker(trainer: Trainer, *arguments: Any) -> dict[str, float]:
        if not inside:
            inside.append(True)
            sat(*tune(data, folder, "--trials", 2))  # while this one trains
        return one_epoch(trainer, *arguments)

    monkeypatch.setattr(Trainer, "one_epoch", other_worker)
    sat(*tune(data, folder, "--trials", 5))
    trials = trials_of(folder)
    assert len(trials) == 5 and all(trial.state.is_finished() for trial in trials)
    assert len({trial.params["learning_rate"] for trial in trials}) == 5  # none is drawn by both


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("learning_rate", "give NAME=LOW..HIGH"),
        ("learning_rate=2..1", "give NAME=LOW..HIGH"),
        ("learning_rate=a..b", "give NAME=LOW..HIGH"),
        ("decoder.dropout=0..2", "decoder.dropout=2: dropout is"),
        ("nosuch=1..2", "--search nosuch=1..2: nosuch=1: give NAME=VALUE with one of these names"),
        ("batch_size=4,many", "batch_size=many"),
    ],
)
def test_ranges_that_a_setting_does_not_have_are_refused(text: str, why: str, tmp_path: Path, data: Path) -> None:
    assert why in refused("tune", data, "--output", tmp_path / "tuned", "--device", "cpu", "--search", text)
    assert not (tmp_path / "tuned" / "study.db").exists()


def test_settings_that_no_training_takes_are_refused(tmp_path: Path, data: Path) -> None:
    uniform = ("--attention", "uniform", "--set", "decoder.annotation_window=1", "--set", "sharpening=2")
    assert "this decoder has no α to sharpen" in refused(*tune(data, tmp_path / "tuned", *uniform))


def test_ranges_are_read() -> None:
    assert Range.read("a=1..20") == Range("a", 1.0, 20.0, whole=True)
    assert Range.read("a=1..20.5") == Range("a", 1.0, 20.5)
    assert Range.read("a=x, y") == Range("a", choices=("x", "y"))
    assert Range.read("a=1..20").ends() == ["1", "20"]


def test_a_file_that_is_not_of_a_study_is_refused(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "settings.json"
    for content in ({}, {"preset": "flickr8k", "attention": "soft", "set": "epochs=2"}, []):
        file.write_text(json.dumps(content))
        with pytest.raises(SatError, match="must hold"):
            read_settings(file)
    file.write_text(json.dumps({"preset": "flickr8k", "attention": "soft", "set": ["epochs=0"]}))
    assert "epochs" in refused("train", data, "--preset", file, "--output", tmp_path / "m")


def test_the_history_shows_every_trial() -> None:
    points = [(0, 1.0, False), (1, 3.0, True), (2, 2.0, False)]
    picture = ElementTree.fromstring(history(points, title="a < b"))
    name = "{http://www.w3.org/2000/svg}"
    circles = picture.findall(f"{name}circle")
    assert [circle.get("fill") == "white" for circle in circles] == [False, True, False]
    heights = [float(circle.get("cy") or 0) for circle in circles]
    assert heights[0] > heights[2] > heights[1]
    (line,) = picture.findall(f"{name}polyline")
    assert len((line.get("points") or "").split()) == 2
    ElementTree.fromstring(history([(5, 1.0, False)], title="one"))
