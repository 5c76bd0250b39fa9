"""A search for better settings: trainings whose settings Optuna (an extra) chooses by those that went before.

The paper's authors chose theirs by Bayesian optimization, with a service that is gone (sec. 4.3). A *study* is kept in
a SQLite file: it can be interrupted, and several processes of one machine may work on it together. A *trial* is one
training, without the choice of its decoding. Its value is what selects its best epoch (`Trainer.selection`). A trial
that is worse than the median of the others after as many epochs is ended (pruned).
"""

import hashlib
import json
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.files import atomic_write as replace_file
from show_attend_tell.files import make_folder, read_object
from show_attend_tell.messages import install_command, plural, shorten
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.loop import Epoch
from show_attend_tell.training.run import check_settings, check_start, prepared, started
from show_attend_tell.training.tune_plot import history
from show_attend_tell.vision.encoder import Encoder

BEATS, GRACE = 10, 60  # seconds: between two signs of life of a trial, and without one until it counts as killed
WARM = 3  # trials, before the first one is pruned; none is before its second epoch
RETRIES = 3  # of a trial whose process was killed

Log = Callable[[str], None]
Build = Callable[[Sequence[str]], TrainingConfig]  # settings with changes, "learning_rate=1e-3" and the like


@dataclass(frozen=True)
class Range:
    """The values that a setting may take in a study."""

    name: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    choices: tuple[str, ...] = ()
    given: str = field(default="", repr=False, compare=False)  # what it was read from

    @classmethod
    def read(cls, text: str) -> "Range":
        """The range in "learning_rate=1e-4..1e-2" or "batch_size=32,64". Raises `SatError` for another text."""
        name, _, values = text.partition("=")
        low, dots, high = values.partition("..")
        try:
            if not name or not values:
                raise ValueError
            if not dots:
                return cls(name, choices=tuple(part.strip() for part in values.split(",")), given=text)
            whole = low.strip().isdigit() and high.strip().isdigit()
            found = cls(name, float(low), float(high), whole=whole, given=text)
            if not found.low < found.high:
                raise ValueError
            return found
        except ValueError:
            raise SatError(f"--search {text}: give NAME=LOW..HIGH or NAME=ONE,OTHER") from None

    def ends(self) -> list[str]:
        """Texts of the extreme values, or of all choices."""
        return list(self.choices) or [self.text(self.low), self.text(self.high)]

    def text(self, value: Any) -> str:
        """A value as ``--set`` reads it."""
        if self.choices:
            return str(value)
        return str(int(value)) if self.whole else f"{value:.4g}"

    def drawn(self, trial: Any) -> str:
        """The change of settings that a trial makes. Wide ranges above zero are searched by their logarithms."""
        if self.choices:
            value = trial.suggest_categorical(self.name, self.choices)
        elif self.whole:
            value = trial.suggest_int(self.name, int(self.low), int(self.high))
        else:
            value = trial.suggest_float(self.name, self.low, self.high, log=self.low > 0 and self.high >= 10 * self.low)
        return f"{self.name}={self.text(value)}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is searched, on what data, and where its results go."""

    folder: Path
    dataset: Dataset
    encoder: Encoder
    cache: Path
    device: torch.device
    changes: Callable[[Sequence[str]], list[str]]  # all changes of the preset, with those of a trial
    build: Build
    ranges: Sequence[Range]
    base: dict[str, Any]  # preset, attention, changes and model to start from: what all trials share
    init_from: Checkpoint | None
    log: Log
    show: bool = True
    said: set[str] = field(default_factory=set)  # lines about the data, which each trial would say again

    def log_once(self, line: str) -> None:
        """Say a line, unless a trial before has said it."""
        if line not in self.said:
            self.said.add(line)
            self.log(line)

    def run(self, *, trials: int, seconds: float | None = None) -> dict[str, Any]:
        """Go on until the study has that many trials, or that many seconds are over, and write what is best.

        Returns the content of the settings file. Raises `SatError` for ranges that the settings do not have, for a
        study of something else, for a folder whose files would be lost, and when no trial was finished.
        """
        optuna = self.optuna()
        self.check()
        self.check_vacant()
        make_folder(self.folder, "name another --output")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # signs of life are new in Optuna
            study = self.opened(optuna)
            finished = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
            done = len(study.get_trials(deepcopy=False, states=finished))
            if done:
                self.log(f"{self.folder} has {plural(done, 'trial')} already")
            if done < trials:
                enough = optuna.study.MaxTrialsCallback(trials, states=finished)
                with held_back() as interrupts:

                    def objective(trial: Any) -> float:
                        return self.trial(optuna, study, trial, interrupts)

                    def report(_: Any, trial: Any) -> None:  # once the trial is stored
                        self.log(self.told(optuna, trial))
                        interrupts.check()

                    study.optimize(objective, callbacks=[report, enough], timeout=seconds)
            return self.written(optuna, study)

    @staticmethod
    def optuna() -> Any:
        """Optuna. Raises `MissingPackage` where it is not installed."""
        try:
            import optuna
        except ImportError:
            raise MissingPackage("tuning needs Optuna", remedy=install_command("tune")) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        return optuna

    def check(self) -> None:
        """Raise `SatError` for ranges with values that the settings cannot have."""
        config = self.build([])
        for each in self.ranges:
            for text in each.ends():
                try:
                    self.build([f"{each.name}={text}"])
                except SatError as error:
                    raise SatError(f"--search {each.given}: {str(error).removeprefix('--set ')}") from None
        if config.selected_by == "last":
            raise SatError("selected_by is 'last', which says nothing about an epoch: give bleu_4, cider or nats")
        check_settings(config, self.encoder)
        if self.init_from is not None:
            check_start(self.init_from, config.decoder, self.encoder)

    def check_vacant(self) -> None:
        """Raise `SatError` where the results would overwrite files of a folder that holds no study."""
        for name in () if (self.folder / "study.db").exists() else ("settings.json", "history.svg"):
            if (self.folder / name).exists():
                raise SatError(
                    f"{self.folder} is not a study, and its {name} would be overwritten: name another folder"
                )

    def identity(self) -> dict[str, Any]:
        """What all processes of a study share: settings, what is searched, captions, the encoder and what it sees."""
        captions = json.dumps([[example.name, example.split, example.captions] for example in self.dataset.examples])
        found = {
            **self.base,
            "data": self.dataset.name,
            "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
            "encoder": self.encoder.digest,
            "preprocessing": self.encoder.preprocessing.to_dict(),
            "search": list(map(repr, self.ranges)),
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain

    def opened(self, optuna: Any) -> Any:
        """The study in the folder, made if it is not there; raises `SatError` for a damaged file."""
        from sqlalchemy.exc import DBAPIError

        file = self.folder / "study.db"
        try:
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{file.resolve()}",
                engine_kwargs={"connect_args": {"timeout": 60}},
                heartbeat_interval=BEATS,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )
            study = optuna.create_study(
                storage=storage,
                study_name="sat",
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=WARM, n_warmup_steps=2),
            )
        except DBAPIError as error:
            raise SatError(f"{file} cannot be read as a study ({error.orig}): name another --output") from error
        ours, before = self.identity(), study.user_attrs.get("about")
        if before is None:
            study.set_user_attr("about", ours)
            study.enqueue_trial(self.own_values())
        elif before != ours:
            different = [name for name in ours if before.get(name) != ours[name]]
            raise SatError(f"{self.folder} is a study with other {' and '.join(different)}: name another --output")
        opened = study.user_attrs.get("opened", 0)  # so that two workers do not draw the same trials
        study.set_user_attr("opened", opened + 1)
        seed = 1000 * self.build([]).seed + opened
        study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        return study

    def own_values(self) -> dict[str, Any]:
        """The values that the settings have already, where they are in their ranges: the first trial."""
        values = self.build([]).to_dict()
        found: dict[str, Any] = {}
        for each in self.ranges:
            value = values[each.name]
            if each.choices and str(value) in each.choices:
                found[each.name] = str(value)
            elif not each.choices and isinstance(value, (int, float)) and each.low <= value <= each.high:
                found[each.name] = value
        return found

    def trial(self, optuna: Any, study: Any, trial: Any, interrupts: "Interrupts") -> float:
        """Train with the settings of a trial; what selected its best epoch."""
        config = self.build([each.drawn(trial) for each in self.ranges])
        try:
            with interrupts.answered():
                return self.trained(optuna, trial, config)
        except KeyboardInterrupt:
            study.enqueue_trial(trial.params)  # the first that is done when the study goes on
            raise

    def trained(self, optuna: Any, trial: Any, config: TrainingConfig) -> float:
        """Train with settings, and report each epoch to the trial; what selected the best one."""
        start, show = self.init_from, self.show
        _, config, data = prepared(
            self.dataset, config, self.encoder, self.cache, init_from=start, log=self.log_once, show=show
        )
        trainer = started(config, data, start, device=self.device, log=self.log_once, show=show)

        def report(epoch: Epoch, better: bool) -> None:
            trial.report(trainer.selection(epoch.scores), epoch.number)
            if trial.should_prune() and not trainer.ended(config.epochs):
                raise optuna.TrialPruned

        try:
            trainer.run(on_epoch=report, show=show)
        except SatError as error:  # the loss is not a number, say
            trial.set_user_attr("error", str(error))
            raise optuna.TrialPruned from error
        return trainer.best

    def told(self, optuna: Any, trial: Any) -> str:
        """What a trial that has ended reached, as a line."""
        what = f"trial {trial.number}: {', '.join(self.drawn(trial))}"
        if "error" in trial.user_attrs or not trial.intermediate_values:
            return f"{what}: {trial.user_attrs.get('error', 'ended before its first epoch')}"
        epochs = plural(len(trial.intermediate_values), "epoch")
        if trial.state == optuna.trial.TrialState.PRUNED:
            return f"{what}: {max(trial.intermediate_values.values()):.3f}, pruned after {epochs}"
        return f"{what}: {trial.value:.3f} after {epochs}"

    def drawn(self, trial: Any) -> list[str]:
        """The changes of settings that a trial has made."""
        return [f"{each.name}={each.text(trial.params[each.name])}" for each in self.ranges]

    def written(self, optuna: Any, study: Any) -> dict[str, Any]:
        """Write the best settings and the history of the study."""
        complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        pruned = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.PRUNED,))
        if pruned and not complete:
            raise SatError(
                f"no trial of {self.folder} was finished, and {plural(len(pruned), 'trial')} ended early "
                f"({self.told(optuna, pruned[-1])}): give more --trials, or another --output with other settings"
            )
        if not complete:
            raise SatError(f"no trial of {self.folder} was finished: the same command goes on")
        best = study.best_trial
        content = {
            **{name: self.base[name] for name in ("preset", "attention")},
            "set": self.changes(self.drawn(best)),
            "value": best.value,
            "trial": best.number,
            "trials": len(complete) + len(pruned),
            "data": self.dataset.name,
        }
        text = json.dumps(content, indent=1) + "\n"
        replace_file(self.folder / "settings.json", lambda scratch: scratch.write_text(text, encoding="utf-8"))
        points = [
            (trial.number, trial.value if trial.value is not None else max(trial.intermediate_values.values()), pruned)
            for trial in study.get_trials(deepcopy=False)
            for pruned in [trial.state == optuna.trial.TrialState.PRUNED]
            if trial.state == optuna.trial.TrialState.COMPLETE or (pruned and trial.intermediate_values)
        ]
        picture = history(
            points, title=f"{self.base['preset']}, {self.base['attention']}: {self.build([]).selected_by}"
        )
        replace_file(self.folder / "history.svg", lambda scratch: scratch.write_text(picture, encoding="utf-8"))
        return content


class Interrupts:
    """Ctrl-C while a study goes on: it ends a trial at once, and waits while Optuna stores one."""

    def __init__(self) -> None:
        self.pressed = self.at_once = False

    def press(self, *_: Any) -> None:
        """Ctrl-C was pressed."""
        self.pressed = True
        if self.at_once:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt at once, also if it was pressed before."""
        self.at_once = True
        try:
            self.check()
            yield
        finally:
            self.at_once = False


@contextmanager
def held_back() -> Iterator[Interrupts]:
    """Hold Ctrl-C back. In a thread other than the main one, which Ctrl-C does not reach, nothing changes."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, interrupts.press)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def read_settings(file: Path) -> tuple[str, str, list[str]]:
    """Preset, attention and changes of a settings file that a study wrote.

    Raises `SatError` for another file.
    """
    content = read_object(file, "preset")
    preset, attention, changes = (content.get(name) for name in ("preset", "attention", "set"))
    texts = isinstance(changes, list) and all(isinstance(change, str) for change in changes)
    if not (isinstance(preset, str) and isinstance(attention, str) and texts):
        raise SatError(
            f"{file} must hold 'preset', 'attention' and 'set', a list of texts, and holds {shorten(content)}"
        )
    assert isinstance(changes, list)
    return preset, attention, changes
