"""What an interrupted training goes on from: its state on disk, and Ctrl-C held back until it can be written.

A state is one safetensors file. Its tensors are the weights, their average, the optimizer's and the objective's own
state, and the states of the random generators. Its header has numbers in JSON: how far the training has come, and what
a resumed training must have in common with it. Nothing is unpickled.

A state may be resumed on another device than it was written on. On a processor the resumed training ends with the same
weights, to the bit, as one that was never interrupted.
"""

import hashlib
import json
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.training.config import flat

if TYPE_CHECKING:
    from show_attend_tell.training.loop import Trainer


CAPTIONS_CHANGED = "the captions, their weights, the texts or the vocabulary have changed since"


def save_state(trainer: "Trainer", file: Path) -> None:
    """Write the whole state of a training, whole or not at all."""
    tensors = {f"decoder.{name}": value for name, value in trainer.decoder.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in trainer.average.state_dict().items()}
    if trainer.data.encoder is not None:
        tensors |= {f"encoder.{name}": value for name, value in trainer.data.encoder.state_dict().items()}
    for index, entry in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in entry.items()}
    tensors |= {f"objective.{name}": value for name, value in trainer.objective.state_dict().items()}
    tensors |= {"random.global": torch.get_rng_state(), "random.training": trainer.generator.get_state()}
    if trainer.device.type == "cuda":  # dropout draws there
        tensors["random.cuda"] = torch.cuda.get_rng_state(trainer.device)
    header = {
        "identity": json.dumps(identity(trainer)),
        "progress": json.dumps(
            [trainer.epoch, trainer.batch, trainer.taken, trainer.best, trainer.best_epoch, *trainer.restart]
        ),
        "init_from": json.dumps(trainer.started_from),
    }
    copies = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(file, lambda scratch: save_file(copies, scratch, metadata=header), sync=True)


def load_state(trainer: "Trainer", file: Path) -> None:
    """Let a training go on from the state in ``file``.

    The training may have more epochs than the one of the state. If that one had ended, `Trainer.restart` is set.
    Otherwise its schedules are stretched. Raises `SatError` when the state is damaged or belongs to a training with
    other settings or data.
    """
    try:
        with safe_open(file, framework="pt") as stored:
            header = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        ours, theirs = json.loads(json.dumps(identity(trainer))), json.loads(header["identity"])
        before = theirs.get("epochs", 0)
        if before < ours["epochs"]:
            del ours["epochs"]
        different = [
            CAPTIONS_CHANGED if name == "captions" else f"{name} was {theirs.get(name)!r}, is {ours[name]!r}"
            for name in ours
            if theirs.get(name) != ours[name]
        ]
        if different:
            raise SatError(
                f"the training in {file} had other settings or data ({'; '.join(different)}): give the same, or "
                "another --output to start afresh"
            )
        restore(trainer, tensors)
        progress = json.loads(header["progress"])
        if len(progress) not in (5, 7) or not all(isinstance(each, int) for each in (*progress[:3], *progress[4:])):
            raise ValueError(f"its counters are {progress!r}")
        trainer.epoch, trainer.batch, trainer.taken, trainer.best, trainer.best_epoch, *restart = progress
        trainer.restart = (restart[0], restart[1]) if restart else (0, 0)
        if "epochs" not in ours and trainer.ended(before):
            trainer.restart = trainer.taken, trainer.epoch
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        raise SatError(
            f"the training state {file} cannot be read ({error}): give another --output to start afresh"
        ) from error


def stored_epochs(file: Path) -> int | None:
    """The number of epochs of the training whose state is in ``file``, None where there is no state to read."""
    identity = stored(file, "identity")
    epochs = identity.get("epochs") if isinstance(identity, dict) else None
    return epochs if isinstance(epochs, int) else None


def check_origin(file: Path, started_from: str | None) -> None:
    """Raise `SatError` when the training whose state is in ``file`` started from another model than ``started_from``.

    None is random weights. A state of an earlier version does not say it, and passes.
    """
    before = stored(file, "init_from", started_from)
    if before != started_from:
        raise SatError(
            f"the training in {file} started from {before or 'none'}, and this command starts from "
            f"{started_from or 'none'}: give --init-from {before or 'none'}"
        )


def stored(file: Path, entry: str, default: Any = None) -> Any:
    """An entry of the header of a state, and ``default`` where there is no such entry or no state to read."""
    try:
        with safe_open(file, framework="pt") as state:
            return json.loads((state.metadata() or {})[entry])
    except (OSError, SafetensorError, KeyError, ValueError):
        return default


def restore(trainer: "Trainer", tensors: dict[str, Tensor]) -> None:
    """Take over the tensors that `save_state` wrote, on whatever device."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    trainer.decoder.load_state_dict(part("decoder."))
    trainer.average.load_state_dict(part("average."))
    if trainer.data.encoder is not None:
        trainer.data.encoder.load_state_dict(part("encoder."))
    entries: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for name, value in part("optimizer.").items():
        index, _, entry = name.partition(".")
        entries[int(index)][entry] = value
    optimizer = trainer.optimizer
    optimizer.load_state_dict({"state": dict(entries), "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state in optimizer.state.items():  # the fused step needs the layout of the weights,
        for name, value in state.items():  # which an encoder may have in channels_last
            if value.shape == parameter.shape:
                state[name] = torch.empty_like(parameter).copy_(value)
    trainer.objective.load_state_dict(part("objective."))
    torch.set_rng_state(tensors["random.global"])
    trainer.generator.set_state(tensors["random.training"])
    if trainer.device.type == "cuda" and "random.cuda" in tensors:  # without: from another device, so the seed's
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.device)


def identity(trainer: "Trainer") -> dict[str, Any]:
    """What a resumed training must share with the interrupted one: settings, captions, and the encoder.

    Nothing in it depends on the device or on the precision that the device computes in.
    """
    data = trainer.data
    captions = json.dumps(
        [data.vocabulary.to_json(), list(data.captions), list(data.validation), *data.weights, *data.text_corpus]
    )
    found = {
        **trainer.config.to_dict(),
        "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
        "encoder_learning_rate": None if data.encoder is None else data.encoder_learning_rate,
        **flat({"encoder": data.encoder_record}),
    }
    del found["visual_ngrams"]  # they are fitted after the training, and have no part in it
    del found["new_words"]  # the captions hold them
    if not data.text_corpus:
        del found["text_weight"]
    return found


@contextmanager
def between_batches() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back, and say whether it was pressed, so that it never cuts a step of the optimizer in two.

    A second Ctrl-C raises KeyboardInterrupt at once. In a thread other than the main one, which Ctrl-C does not reach,
    nothing changes.
    """
    times = 0

    def press(*_: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread
        yield lambda: False
        return
    try:
        yield lambda: times > 0
    finally:
        signal.signal(signal.SIGINT, before)
