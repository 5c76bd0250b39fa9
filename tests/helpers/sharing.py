"""Trainings of random data for `tests/training/test_ranks.py`, which runs this file in several processes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from builders import D, Tuned, fitted, random_data, small_config
from trainers import acting, learn, take

from show_attend_tell.checkpoint.packing import weights_digest
from show_attend_tell.errors import SatError
from show_attend_tell.training import ranks
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.trainer import Trainer

EPOCHS = 3
SCENARIOS = {
    # the batch sizes leave a rank without a row in some of the batches
    "soft": {"batch_size": 6, "clip": 0.5, "averaging": 0.9, "scheduled_sampling": 0.5},
    "hard": {"decoder": {"attention": "hard"}, "batch_size": 5, "hard": HardObjective(samples=2)},
    "both": {"decoder": {"attention": "hard"}, "hard": HardObjective(coin="both", reward="to_go")},
    "nats": {"selected_by": "nats", "optimizer": "rmsprop", "schedule": "cosine", "warmup": 3},
    "encoder": {"batch_size": 6, "clip": 1.0},
    "one caption": {"batch_size": 1, "averaging": 0.9},  # so that the second rank never has a row
    "dropout": {"decoder": {"dropout": 0.5}, "scheduled_sampling": 0.3, "batch_size": 6},
}


def data_of(scenario: str) -> TrainingData:
    """Random data, of two views."""
    data = random_data(photos=9, views=2)
    if scenario == "encoder":
        torch.manual_seed(3)
        data.encoder = torch.nn.Linear(D, D)
        data.encoder.unused = torch.nn.Linear(2, 2)
        data.encoder_learning_rate = 1e-3
        data.views = [Tuned(view, data.encoder) for view in data.views]
    return data


def trainer_of(scenario: str, kind: type[Trainer] = Trainer, **changes: Any) -> Trainer:
    """A training that has not started; always in float32, since bfloat16 would hide what is compared."""
    data = data_of(scenario)
    config = small_config(**{"epochs": EPOCHS, "learning_rate": 3e-3, **SCENARIOS[scenario], **changes})
    return kind(fitted(config, data), data, device=torch.device("cpu"))


def losses_of(scenario: str, steps: int) -> dict[str, Any]:
    """What a training goes through: the loss of each step, the scores on val afterwards, and what the weights are."""
    trainer = trainer_of(scenario)
    losses = []
    while len(losses) < steps:
        trainer.epoch = len(losses)
        losses += [take(trainer, batch)["loss"] for batch in trainer.batches()]
    return {"losses": losses[:steps], "scores": trainer.validate(), "weights": digest(trainer)}


def digest(trainer: Trainer) -> str:
    """The hash of a training's weights."""
    found = {
        f"{number}.{name}": weight.numpy()
        for number, network in enumerate((trainer.decoder, trainer.average))
        for name, weight in network.state_dict().items()
    }
    return weights_digest(found)


def epochs_of(
    output: Path | None, kind: type[Trainer] = Trainer, resume: bool = False, **changes: Any
) -> tuple[Trainer, list[dict[str, Any]]]:
    """A whole training, and its epochs."""
    config = small_config(**{"epochs": EPOCHS, "learning_rate": 3e-3, **SCENARIOS["one caption"], **changes})
    return learn(config, data_of("one caption"), kind, output, resume=resume)


def die(number: int, trainer: Trainer) -> None:
    """End the second rank in the second epoch, before a step."""
    if trainer.epoch == 1 and ranks.rank() == 1:
        os._exit(7)


def main() -> None:
    """The losses of some scenarios, SCENARIO=STEPS, and epochs, into found.json; then one process dies."""
    folder, *scenarios = sys.argv[1:]
    with ranks.process_group(torch.device("cpu")):
        steps = (each.split("=") for each in scenarios)
        found = {name: losses_of(name, int(number)) for name, number in steps}
        trainer, epochs = epochs_of(Path(folder, "model"), epochs=EPOCHS - 1)
        reached = [{**epoch, "seconds": 0.0} for epoch in epochs]
        found["epochs"] = {"reached": reached, "weights": digest(trainer)}
        try:
            epochs_of(Path(folder, "refused"), learning_rate=0.01 * (1 + ranks.rank()))
        except SatError as error:
            found["refused"] = str(error)
        everyone = ranks.gathered(found)
        if ranks.is_main():
            Path(folder, "found.json").write_text(json.dumps(everyone), encoding="utf-8")
        epochs_of(Path(folder, "dying"), acting(die))


if __name__ == "__main__":
    try:
        main()
    except SatError as error:
        sys.exit(f"sat: {error}")
