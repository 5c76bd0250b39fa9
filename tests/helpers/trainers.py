"""Training loops for the tests, which stop, fail or watch where a test needs it, and what a training logs."""

import json
import logging
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from builders import fitted, small_config, small_encoder
from torch import Tensor

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import DataReport, Dataset
from show_attend_tell.training import ranks
from show_attend_tell.training.config import Start, TrainingConfig, TrainingPlan
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import LOGGER
from show_attend_tell.training.run import train
from show_attend_tell.training.selection import Chosen, Grid, choose_generation, usual_generation
from show_attend_tell.training.trainer import Trainer
from show_attend_tell.vision.encoder import Encoder

FEW = partial(choose_generation, grid=Grid((1, 2), (3,), (0.0, 0.5), (0.0, 32.0)))


class Killed(BaseException):
    """The process is killed here, as far as a test is concerned."""


def take(trainer: Trainer, indices: list[int]) -> dict[str, float]:
    """One step with these captions; the loss of all ranks, and what this rank watches in it."""
    with ThreadPoolExecutor() as reader:
        watch = trainer.step(trainer.mini_batch(indices, reader))
    watch["loss"] = ranks.all_reduce_sum(watch["loss"].clone()) / ranks.world_size()
    return {name: value.item() for name, value in watch.items()}


def acting(before: Callable[[int, Trainer], object], method: str = "take") -> type[Trainer]:
    """A training loop that calls a function before each call of one of its methods, with the number of the call."""
    numbers = count(1)

    def acted(self: Trainer, *arguments: Any, **options: Any) -> Any:
        before(next(numbers), self)
        return getattr(Trainer, method)(self, *arguments, **options)

    return type("Acting", (Trainer,), {method: acted})


def interrupting(at: int, method: str = "take") -> type[Trainer]:
    """A training loop during which the user presses Ctrl-C, before one call of a method."""
    return acting(lambda number, _: signal.raise_signal(signal.SIGINT) if number == at else None, method)


def killing(at: int, method: str = "take") -> type[Trainer]:
    """A training loop that is killed before one call of a method."""

    def kill(number: int, _: Trainer) -> None:
        if number == at:
            raise Killed

    return acting(kill, method)


def scoring(*scores: dict[str, float]) -> type[Trainer]:
    """A training loop whose epochs have these scores on val."""
    left = iter(scores)
    return type("Scoring", (Trainer,), {"validate": lambda self, **_: next(left)})


def rounding_of(gradient: Tensor) -> float:
    """How far a gradient may be from the same one whose terms are added in another order, in the tests' precision.

    It is a sum over at most 8 captions, 6 words and 15 locations of values that have gone through about 8 operations.
    float32 rounds each to 2⁻²⁴ of the largest. bfloat16 has sums over captions and locations in float32, and rounds
    to 2⁻⁸ of the largest what each word gives and its sum with the other words.
    """
    rounding = 12 * 2**-8 if small_config().precision == "bfloat16" else 8 * 6 * 15 * 8 * 2**-24
    return rounding * max(1.0, float(gradient.abs().max()))


def trainer_of(data: TrainingData, config: TrainingConfig | None = None, **changes: Any) -> Trainer:
    """A training that has not started, with these settings or those of `small_config` with ``changes``."""
    config = fitted(config or small_config(**changes), data)
    return Trainer(config, data, device=torch.device("cpu"))


def plan_of(
    dataset: Dataset,
    config: TrainingConfig,
    output: Path,
    *,
    encoder: Encoder | None = None,
    init_from: Checkpoint | None = None,
    **options: Any,
) -> TrainingPlan:
    """The plan of a training on the CPU by a small encoder; its feature cache is beside the output."""
    start = Start(encoder or small_encoder(), init_from, None if init_from is None else "start")
    given = {"cache": output.parent / "cache", "device": "cpu", **options}
    return TrainingPlan(dataset=dataset, start=start, config=config, output=output, **given)


def learn(
    config: TrainingConfig,
    data: TrainingData,
    kind: type[Trainer] = Trainer,
    output: Path | None = None,
    **more: Any,
) -> tuple[Trainer, list[dict[str, Any]]]:
    """A whole training on data in memory, by `run.train`: its trainer, and what it logged of each epoch."""
    made = []
    usual = usual_generation(config)  # chosen in no time

    def noted(*arguments: Any, **options: Any) -> Trainer:
        made.append(kind(*arguments, **options))
        return made[0]

    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset("memory", Path(), (), DataReport(photos={}, captions={}))
        plan = plan_of(dataset, fitted(config, data), output or Path(folder, "model"), **more)
        train(plan, data, trainer=noted, choose=lambda *_, **__: Chosen(usual, {}, usual, 0.0), show=False)
        return made[0], [json.loads(line) for line in (plan.output / "training" / "log.jsonl").read_text().splitlines()]


@contextmanager
def killed_at(message: str) -> Iterator[None]:
    """The process is killed when the package logs this message."""

    def emit(record: logging.LogRecord) -> None:
        if record.getMessage() == message:
            raise Killed

    handler = logging.Handler()
    handler.emit = emit  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    try:
        with logged():
            yield
    finally:
        LOGGER.removeHandler(handler)


@contextmanager
def logged() -> Iterator[list[str]]:
    """The messages that the package logs meanwhile."""
    texts = []
    handler = logging.Handler()
    level = LOGGER.level
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield texts
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
