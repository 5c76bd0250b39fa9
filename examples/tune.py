"""A search for better settings of a training, by Optuna: copy this file and change what it searches.

    pip install -e '.[torch]' optuna
    python examples/tune.py flickr8k/ --output tuned --trials 20 --resize squash
    python examples/tune.py flickr8k/ --output tuned --trials 40 --resize squash    # goes on

A trial is a training with other values of `searched`, which Optuna chooses by what earlier trials reached on val. One
that is worse than the median after as many epochs is ended. tuned/trials.db keeps all trials (optuna-dashboard shows
them), tuned/trial-N has the model of each, and the last line is the `sat train` with the best values.

One seed decides little between close trials: models of Flickr8k differ by about 0.4 BLEU-4 points on val between seeds.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

import optuna

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.training.config import TrainingPlan, changed
from show_attend_tell.training.presets import preset
from show_attend_tell.training.run import train
from show_attend_tell.training.start import load_start
from show_attend_tell.training.trainer import Trainer


def searched(trial: optuna.Trial) -> dict[str, Any]:
    """The values of a trial; `sat train . --output x --set x` lists the names of all settings."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 3e-4, 4e-3, log=True),
        "decoder.dropout": trial.suggest_float("decoder.dropout", 0.2, 0.7),
        "soft.label_smoothing": trial.suggest_float("soft.label_smoothing", 0.0, 0.2),
        "batch_size": trial.suggest_categorical("batch_size", [32, 64, 128]),
    }


def main(given: list[str] | None = None) -> None:
    """Go on until the study has that many trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of captioned photos")
    parser.add_argument("--output", type=Path, required=True, help="folder of the study")
    parser.add_argument("--trials", type=int, default=20, help="trials of the whole study")
    parser.add_argument("--encoder", default="vgg19", help="encoder, as for sat train")
    parser.add_argument("--resize", default="crop", help="shape of the encoder's square, as for sat train")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE, a setting of all trials")
    options = parser.parse_args(given)
    dataset, base = read_dataset(options.data), changed(preset("flickr8k"), options.set)
    start = load_start(None, encoder=options.encoder, resize=options.resize)

    def objective(trial: optuna.Trial) -> float:
        reached = []

        class Watched(Trainer):
            def validate(self, **more: Any) -> dict[str, float]:
                scores = super().validate(**more)
                reached.append(self.selection(scores))
                trial.report(reached[-1], len(reached))
                if trial.should_prune():
                    raise optuna.TrialPruned
                return scores

        config = changed(base, [f"{name}={value}" for name, value in searched(trial).items()])
        folder = options.output / f"trial-{trial.number}"
        train(TrainingPlan(dataset=dataset, start=start, config=config, output=folder), trainer=Watched)
        return max(reached)

    options.output.mkdir(parents=True, exist_ok=True)
    storage = f"sqlite:///{options.output / 'trials.db'}"
    study = optuna.create_study(study_name="sat", storage=storage, direction="maximize", load_if_exists=True)
    ended = [trial for trial in study.trials if trial.state.is_finished() and trial.value is not None]
    study.optimize(objective, n_trials=max(0, options.trials - len(ended)), catch=SatError)
    best = [*options.set, *(f"{name}={value:.6g}" for name, value in study.best_params.items())]
    how = ["--preset", "flickr8k", "--encoder", options.encoder, "--resize", options.resize]
    how += [part for setting in best for part in ("--set", setting)]
    print(f"best: {study.best_value:.3f}, trial {study.best_trial.number}; train with it:")
    print(shlex.join(["sat", "train", str(options.data), *how, "--output", "MODEL"]))


if __name__ == "__main__":
    main()
