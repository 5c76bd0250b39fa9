"""A search for better settings: trainings whose settings Optuna (an extra) chooses by those that went before.

The paper's authors chose theirs by Bayesian optimization, with a service that is gone (sec. 4.3). A *study* is kept in
a SQLite file: it can be interrupted, and several processes of one machine may work on it together. A *trial* is one
training, without the choice of its generation config. Its value is what selects its best epoch (`Trainer.selection`). A
trial that is worse than the median of the others after as many epochs is ended (pruned). Tools of Optuna, such as
``optuna-dashboard``, show all trials.
"""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from show_attend_tell.devices import pick_device
from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.files import atomic_write, make_folder
from show_attend_tell.messages import install_command, plural
from show_attend_tell.training.config import TrainingConfig, TrainingPlan, changed
from show_attend_tell.training.loop import Epoch, Trainer
from show_attend_tell.training.presets.custom import fitted
from show_attend_tell.training.ranks import LOGGER, log
from show_attend_tell.training.run import check_settings, prepare, started
from show_attend_tell.training.start import check_start
from show_attend_tell.training.state import ctrl_c_held_back

BEATS, GRACE = 10, 60  # seconds: between two heartbeats of a trial, and without one until it counts as killed
STARTUP = 3  # trials before the first one is pruned; none is before its second epoch
RETRIES = 3  # of a trial whose process was killed


def import_optuna() -> Any:
    """Optuna. Raises `MissingPackage` where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingPackage("tuning needs Optuna", remedy=install_command("tune")) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@dataclass(frozen=True)
class Range:
    """The values that a setting may take in a study."""

    name: str
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
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
            integer = low.strip().isdigit() and high.strip().isdigit()
            found = cls(name, float(low), float(high), integer=integer, given=text)
            if not found.low < found.high:
                raise ValueError
            return found
        except ValueError:
            raise SatError(f"--search {text}: give NAME=LOW..HIGH or NAME=ONE,OTHER") from None

    def ends(self) -> list[str]:
        """The extreme values, or all choices, as changes of settings."""
        return [self.change(value) for value in self.choices or (self.low, self.high)]

    def change(self, value: Any) -> str:
        """The change of settings "NAME=VALUE", as ``--set`` reads it."""
        if self.choices:
            return f"{self.name}={value}"
        return f"{self.name}={int(value)}" if self.integer else f"{self.name}={value:.4g}"

    def suggested(self, trial: Any) -> str:
        """The change of settings that a trial makes. Wide ranges above zero are searched by their logarithms."""
        if self.choices:
            return self.change(trial.suggest_categorical(self.name, self.choices))
        if self.integer:
            return self.change(trial.suggest_int(self.name, int(self.low), int(self.high)))
        logarithmic = self.low > 0 and self.high >= 10 * self.low
        return self.change(trial.suggest_float(self.name, self.low, self.high, log=logarithmic))


class Best(NamedTuple):
    """The best trial of a study."""

    number: int
    value: float
    changes: list[str]  # of the preset
    trials: int  # that ended, or were pruned


@dataclass(frozen=True)
class Study:
    """A search over ranges of settings around a plan, whose output is the study's folder."""

    plan: TrainingPlan
    ranges: Sequence[Range]
    preset: str  # name of the settings that `base` are
    attention: str
    base: TrainingConfig  # which the plan's config and the trials change
    trainer: type[Trainer] = Trainer
    startup: int = STARTUP

    def run(self, *, trials: int, seconds: float | None = None, show: bool = True) -> Best:
        """Go on until the study has that many trials, or that many seconds are over, and write the best settings.

        Raises `SatError` for ranges that the settings do not have, for a study of something else, for a folder whose
        files would be lost, and when no trial was finished.
        """
        optuna, folder = import_optuna(), self.plan.output
        states = optuna.trial.TrialState
        self.check()
        make_folder(folder, "name another --output")
        device = pick_device(self.plan.device)
        self.plan.start.encoder.to(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats are new in Optuna
            study = self.opened(optuna)
            ended = (states.COMPLETE, states.PRUNED)
            if done := len(study.get_trials(deepcopy=False, states=ended)):
                log(f"{folder} has {plural(done, 'trial')} already")
            if done < trials:
                plan = replace(self.plan, dataset=prepare(self.plan, show=show).dataset)  # encodes all photos
                enough = optuna.study.MaxTrialsCallback(trials, states=ended)
                with ctrl_c_held_back() as pressed:  # while Optuna stores a trial

                    def report(_: Any, trial: Any) -> None:
                        log(self.line(optuna, trial))
                        if pressed():
                            raise KeyboardInterrupt

                    def objective(trial: Any) -> float:
                        try:
                            return self.trained(optuna, trial, plan, device, show=show)
                        except KeyboardInterrupt:
                            study.enqueue_trial(trial.params)  # the first one when the study goes on
                            raise

                    study.optimize(objective, callbacks=[report, enough], timeout=seconds)
            return self.written(optuna, study)

    def config(self, changes: Sequence[str] = ()) -> TrainingConfig:
        """The settings of a trial with these changes, fitted to the data as in `train`."""
        config = changed(self.plan.config, changes)
        if not (self.plan.fit_to_data and self.plan.dataset.custom):
            return config
        return fitted(self.plan.dataset, config, given=self.given(changes), started=self.plan.start.name is not None)[0]

    def given(self, changes: Sequence[str]) -> set[str]:
        """The names of the settings that the user or a trial has chosen."""
        return {*(self.plan.given or ()), *(change.partition("=")[0] for change in changes)}

    def check(self) -> None:
        """Raise `SatError` for ranges with values that the settings cannot have, and for a folder of something else."""
        for each in self.ranges:
            for change in each.ends():
                try:
                    changed(self.plan.config, [change])
                except SatError as error:
                    raise SatError(f"--search {each.given}: {str(error).removeprefix('--set ')}") from None
        if self.plan.config.selected_by == "last":
            raise SatError("selected_by is 'last', which says nothing about an epoch: give bleu_4, cider or nats")
        check_settings(self.plan)
        check_start(self.plan.start, self.plan.config.decoder)
        folder = self.plan.output
        if (folder / "settings.json").exists() and not (folder / "study.db").exists():
            raise SatError(f"{folder} is not a study, and its settings.json would be overwritten: name another folder")

    def identity(self) -> dict[str, Any]:
        """What all processes of a study share: settings, ranges, captions, the encoder and how it sees photos."""
        dataset, encoder = self.plan.dataset, self.plan.start.encoder
        captions = json.dumps([[example.name, example.split, example.captions] for example in dataset.examples])
        return {
            "preset": self.preset,
            "attention": self.attention,
            "set": {
                name: value for name, value in self.plan.config.to_dict().items() if name in (self.plan.given or ())
            },
            "init_from": self.plan.start.name,
            "data": dataset.name,
            "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
            "encoder": encoder.digest,
            "preprocessing": encoder.preprocessing.to_dict(),
            "search": list(map(repr, self.ranges)),
        }

    def opened(self, optuna: Any) -> Any:
        """The study in the folder, made if it is not there; raises `SatError` for a damaged file."""
        from sqlalchemy.exc import DBAPIError

        file = self.plan.output / "study.db"
        try:
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{file.resolve()}",
                engine_kwargs={"connect_args": {"timeout": 60}},
                heartbeat_interval=BEATS,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )
            pruner = optuna.pruners.MedianPruner(n_startup_trials=self.startup, n_warmup_steps=2)
            study = optuna.create_study(
                storage=storage, study_name="sat", direction="maximize", load_if_exists=True, pruner=pruner
            )
        except DBAPIError as error:
            raise SatError(f"{file} cannot be read as a study ({error.orig}): name another --output") from error
        ours, before = json.loads(json.dumps(self.identity())), study.user_attrs.get("about")
        if before is None:
            study.set_user_attr("about", ours)
            study.enqueue_trial(self.own_values())
        elif before != ours:
            different = [name for name in ours if before.get(name) != ours[name]]
            raise SatError(f"{self.plan.output} is a study with other {' and '.join(different)}: name another --output")
        opened = study.user_attrs.get("opened", 0)  # so that two workers do not draw the same trials
        study.set_user_attr("opened", opened + 1)
        seed = 1000 * self.plan.config.seed + opened
        study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        return study

    def own_values(self) -> dict[str, Any]:
        """The values that the settings have already, where they are in their ranges: the first trial."""
        values = self.config().to_dict()
        found: dict[str, Any] = {}
        for each in self.ranges:
            value = values[each.name]
            if each.choices and str(value) in each.choices:
                found[each.name] = str(value)
            elif not each.choices and isinstance(value, (int, float)) and each.low <= value <= each.high:
                found[each.name] = value
        return found

    def trained(self, optuna: Any, trial: Any, plan: TrainingPlan, device: torch.device, *, show: bool) -> float:
        """Train with a trial's settings, and report each epoch to the trial; the value of the best one."""
        changes = [each.suggested(trial) for each in self.ranges]
        config = changed(plan.config, changes)
        plan = replace(plan, config=config, given=self.given(changes))
        LOGGER.disabled = True  # each trial would log the same about its data
        try:
            prepared = prepare(plan, show=show)
            trainer = started(prepared, plan.start, device, trainer=self.trainer, show=show)
        finally:
            LOGGER.disabled = False

        def report(epoch: Epoch, better: bool) -> None:
            trial.report(trainer.selection(epoch.scores), epoch.number)
            if trial.should_prune() and not trainer.ended(prepared.config.epochs):
                raise optuna.TrialPruned

        try:
            trainer.run(on_epoch=report, show=show)
        except SatError as error:  # the loss is not a number, for example
            trial.set_user_attr("error", str(error))
            raise optuna.TrialPruned from error
        return trainer.best

    def line(self, optuna: Any, trial: Any) -> str:
        """What a trial that has ended reached, in one line."""
        what = f"trial {trial.number}: {', '.join(self.changes(trial))}"
        if "error" in trial.user_attrs or not trial.intermediate_values:
            return f"{what}: {trial.user_attrs.get('error', 'ended before its first epoch')}"
        epochs = plural(len(trial.intermediate_values), "epoch")
        if trial.state == optuna.trial.TrialState.PRUNED:
            return f"{what}: {max(trial.intermediate_values.values()):.3f}, pruned after {epochs}"
        return f"{what}: {trial.value:.3f} after {epochs}"

    def changes(self, trial: Any) -> list[str]:
        """The changes of settings that a trial has made."""
        return [each.change(trial.params[each.name]) for each in self.ranges]

    def written(self, optuna: Any, study: Any) -> Best:
        """Write the best settings."""
        folder, states = self.plan.output, optuna.trial.TrialState
        trials = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
        if not any(trial.state == states.COMPLETE for trial in trials):
            pruned = (
                f", and {plural(len(trials), 'trial')} ended early ({self.line(optuna, trials[-1])})" if trials else ""
            )
            remedy = (
                "give more --trials, or another --output with other settings" if trials else "the same command goes on"
            )
            raise SatError(f"no trial of {folder} was finished{pruned}: {remedy}")
        trial = study.best_trial
        before = self.base.to_dict()
        settings = self.config(self.changes(trial)).to_dict()
        changes = [f"{name}={value}" for name, value in settings.items() if value != before[name]]
        best = Best(trial.number, trial.value, changes, len(trials))
        content = {
            "preset": self.preset,
            "attention": self.attention,
            "set": changes,
            "value": best.value,
            "trial": best.number,
            "trials": best.trials,
            "data": self.plan.dataset.name,
        }
        text = json.dumps(content, indent=1) + "\n"
        atomic_write(folder / "settings.json", lambda scratch: scratch.write_text(text, encoding="utf-8"))

        return best
