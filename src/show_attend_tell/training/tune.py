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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

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


def change(name: str, value: Any) -> str:
    """The change of settings "NAME=VALUE", as ``--set`` reads it."""
    return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"


class Range(NamedTuple):
    """The values that a setting may take in a study."""

    name: str
    values: tuple[Any, ...]  # the choices, as texts; or the lowest and the highest of all numbers between

    @classmethod
    def read(cls, text: str, base: TrainingConfig) -> "Range":
        """The range in "learning_rate=1e-4..1e-2" or "batch_size=32,64", around settings.

        Raises `SatError` for another text.
        """
        name, _, values = text.partition("=")
        low, dots, high = (part.strip() for part in values.partition(".."))
        if name and values and not dots:
            return cls(name, tuple(part.strip() for part in values.split(",")))
        number = int if isinstance(base.to_dict().get(name), int) else float
        try:
            found = cls(name, (number(low), number(high)))
        except ValueError:
            found = cls("", (0, 0))
        if not found.name or not found.values[0] < found.values[1]:
            raise SatError(f"--search {text}: give NAME=LOW..HIGH or NAME=ONE,OTHER")
        return found

    def suggested(self, trial: Any) -> Any:
        """The value that a trial takes. Wide ranges above zero are searched by their logarithms."""
        low, *_, high = self.values
        if isinstance(low, str):
            return trial.suggest_categorical(self.name, self.values)
        if isinstance(low, int):
            return trial.suggest_int(self.name, low, high)
        return trial.suggest_float(self.name, low, high, log=0 < low <= high / 10)

    def own(self, value: Any) -> Any:
        """A setting's value as Optuna has it, or None where it is not in the range."""
        low, *_, high = self.values
        if isinstance(low, str):
            return str(value) if str(value) in self.values else None
        return value if isinstance(value, (int, float)) and low <= value <= high else None


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
        optuna = import_optuna()
        self.check()
        make_folder(self.plan.output, "name another --output")
        self.plan.start.encoder.to(pick_device(self.plan.device))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats are new in Optuna
            study = self.opened(optuna)
            ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
            if done := len(study.get_trials(deepcopy=False, states=ended)):
                log(f"{self.plan.output} has {plural(done, 'trial')} already")
            if done < trials:
                plan = replace(self.plan, dataset=prepare(self.plan, show=show).dataset)  # encodes all photos
                enough = optuna.study.MaxTrialsCallback(trials, states=ended)
                with ctrl_c_held_back() as pressed:  # while Optuna stores a trial

                    def report(_: Any, trial: Any) -> None:
                        log(line(trial))
                        if pressed():
                            raise KeyboardInterrupt

                    def objective(trial: Any) -> float:
                        try:
                            return self.trained(optuna, trial, plan, show=show)
                        except KeyboardInterrupt:
                            study.enqueue_trial(trial.params)  # the first one when the study goes on
                            raise

                    study.optimize(objective, callbacks=[report, enough], timeout=seconds)
        return self.written(study.get_trials(deepcopy=False, states=ended))

    def config(self, values: Mapping[str, Any] = MappingProxyType({})) -> TrainingConfig:
        """The settings of a trial with these values, fitted to the data as in `train`."""
        plan = with_values(self.plan, values)
        if not (plan.fit_to_data and plan.dataset.custom):
            return plan.config
        return fitted(plan.dataset, plan.config, given=plan.given or (), started=plan.start.name is not None)[0]

    def check(self) -> None:
        """Raise `SatError` for ranges with values that the settings cannot have, and for a folder of something else."""
        for name, values in self.ranges:
            for value in values:
                try:
                    config = changed(self.plan.config, [change(name, value)])
                    check_settings(replace(self.plan, config=config))
                    check_start(self.plan.start, config.decoder)
                except SatError as error:
                    raise SatError(str(error).replace("--set", "--search", 1)) from None
        if self.plan.config.selected_by == "last":
            raise SatError("selected_by is 'last', which says nothing about an epoch: give bleu_4, cider or nats")
        check_settings(self.plan)
        check_start(self.plan.start, self.plan.config.decoder)
        folder = self.plan.output
        if (folder / "settings.json").exists() and not (folder / "study.db").exists():
            raise SatError(f"{folder} is not a study, and its settings.json would be overwritten: name another folder")

    def identity(self) -> dict[str, Any]:
        """What all processes of a study share: settings, ranges, captions, the encoder and how it sees photos."""
        encoder = self.plan.start.encoder
        captions = json.dumps([[each.name, each.split, each.captions] for each in self.plan.dataset.examples])
        found = {
            "settings": self.config().to_dict(),
            "init_from": self.plan.start.name,
            "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
            "encoder": encoder.digest,
            "preprocessing": encoder.preprocessing.to_dict(),
            "search": self.ranges,
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain

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
        ours, before = self.identity(), study.user_attrs.get("about")
        if before is None:
            study.set_user_attr("about", ours)
            values = self.config().to_dict()  # the first trial has them, where they are in their ranges
            found = {each.name: each.own(values[each.name]) for each in self.ranges}
            study.enqueue_trial({name: value for name, value in found.items() if value is not None})
        elif different := [name for name in ours if before.get(name) != ours[name]]:
            raise SatError(f"{self.plan.output} is a study with other {' and '.join(different)}: name another --output")
        opened = study.user_attrs.get("opened", 0)  # so that two workers do not draw the same trials
        study.set_user_attr("opened", opened + 1)
        seed = (1000 * self.plan.config.seed + opened) % 2**32
        study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        return study

    def trained(self, optuna: Any, trial: Any, plan: TrainingPlan, *, show: bool) -> float:
        """Train with a trial's settings, and report each epoch to the trial; the value of the best one."""
        values = {each.name: each.suggested(trial) for each in self.ranges}

        def report(epoch: Epoch, better: bool) -> None:
            trial.report(trainer.selection(epoch.scores), epoch.number)
            if trial.should_prune() and not trainer.ended(prepared.config.epochs):
                raise optuna.TrialPruned

        LOGGER.disabled = True  # each trial would log the same about its data
        try:
            plan = with_values(plan, values)
            prepared = prepare(plan, show=show)
            trainer = started(prepared, plan.start, pick_device(plan.device), trainer=self.trainer, show=show)
            LOGGER.disabled = False
            trainer.run(on_epoch=report, show=show)
        except SatError as error:  # values that do not go together, or the loss is not a number
            trial.set_user_attr("error", str(error))
            raise optuna.TrialPruned from error
        finally:
            LOGGER.disabled = False
        return trainer.best

    def written(self, trials: Sequence[Any]) -> Best:
        """Write the best settings of trials that have ended."""
        folder = self.plan.output
        complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
        if not complete:
            last = f" ({line(trials[-1])})" if trials else ""
            raise SatError(f"no trial of {folder} was finished{last}: give more --trials, or another --output")
        trial = max(complete, key=lambda trial: trial.value)
        before = self.base.to_dict()
        settings = self.config(trial.params).to_dict()
        best = Best(
            number=trial.number,
            value=trial.value,
            changes=[f"{name}={value}" for name, value in settings.items() if value != before[name]],
            trials=len(trials),
        )
        content = {
            "preset": self.preset,
            "attention": self.attention,
            "set": best.changes,
            "value": best.value,
            "trial": best.number,
            "trials": best.trials,
            "data": self.plan.dataset.name,
        }
        text = json.dumps(content, indent=1) + "\n"
        atomic_write(folder / "settings.json", lambda scratch: scratch.write_text(text, encoding="utf-8"))
        return best


def with_values(plan: TrainingPlan, values: Mapping[str, Any]) -> TrainingPlan:
    """A plan with a trial's values of settings, which count as chosen by the user."""
    config = changed(plan.config, [change(*item) for item in values.items()])
    return replace(plan, config=config, given={*(plan.given or ()), *values})


def line(trial: Any) -> str:
    """What a trial that has ended reached, in one line."""
    what = f"trial {trial.number}: {', '.join(change(*item) for item in trial.params.items())}"
    if "error" in trial.user_attrs:
        return f"{what}: {trial.user_attrs['error']}"
    values = trial.intermediate_values
    pruned = ", pruned" if trial.state.name == "PRUNED" else ""
    return f"{what}: {max(values.values()):.3f} after {plural(len(values), 'epoch')}{pruned}"
