"""The state of an interrupted training on disk, and Ctrl-C held back until it is written.

A state is one safetensors file. Its tensors are the weights, their average, the optimizer's and the objective's own
state, and the states of the random generators. Its header has numbers in JSON: how far the training has come, and what
a resumed training must have in common with it. Nothing is unpickled.

A state may be resumed on another device than it was written on. On a processor the resumed training ends with the same
weights, to the bit, as one that was never interrupted.
"""

import hashlib
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.training.config import TrainingConfig, flat
from show_attend_tell.training.data import TrainingData

UNREADABLE = (OSError, SafetensorError, KeyError, ValueError, RuntimeError, TypeError, AttributeError)
CAPTIONS_CHANGED = "the captions, their weights, the texts or the vocabulary have changed since"


def write_state(file: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a state, whole or not at all. The header's values are plain, for JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    copied = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    texts = {name: json.dumps(value) for name, value in header.items()}
    atomic_write(file, lambda scratch: save_file(copied, scratch, metadata=texts), sync=True)


def read_state(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header of a state. Raises one of `UNREADABLE` for a damaged one."""
    with safe_open(file, framework="pt") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        return tensors, {name: json.loads(text) for name, text in (stored.metadata() or {}).items()}


def identity(config: TrainingConfig, data: TrainingData) -> dict[str, Any]:
    """What a resumed training must share with the interrupted one, as JSON has it: settings, captions, encoder.

    Nothing in it depends on the device or on the precision that the device computes in.
    """
    vocabulary = Vocabulary(data.vocabulary.words[2:], data.vocabulary.tokenizer)  # however words are spelt
    captions = json.dumps(
        [vocabulary.to_json(), list(data.captions), list(data.validation), *data.weights, *data.text_corpus]
    )
    found = {
        **config.to_dict(),
        "captions": hashlib.sha256(captions.encode()).hexdigest()[:12],
        "encoder_learning_rate": None if data.encoder is None else data.encoder_learning_rate,
        **flat({"encoder": data.encoder_record}),
    }
    del found["visual_ngrams"]  # they are fitted after the training
    del found["new_words"]  # the captions hold them
    if not data.text_corpus:
        del found["text_weight"]
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def check_identity(ours: Mapping[str, Any], theirs: Mapping[str, Any], file: Path) -> None:
    """Raise `SatError`, naming what differs, unless a state may be resumed. More epochs than before are allowed."""
    different = [
        CAPTIONS_CHANGED if name == "captions" else f"{name} was {theirs.get(name)!r}, is {value!r}"
        for name, value in ours.items()
        if theirs.get(name) != value and not (name == "epochs" and theirs.get("epochs", 0) < value)
    ]
    if different:
        raise SatError(
            f"the training in {file} had other settings or data ({'; '.join(different)}): give the same, or "
            "another --output to start afresh"
        )


def stored(file: Path, entry: str, default: Any = None) -> Any:
    """An entry of a state's header; ``default`` without such an entry or a readable state."""
    try:
        with safe_open(file, framework="pt") as state:
            return json.loads((state.metadata() or {})[entry])
    except (OSError, SafetensorError, KeyError, ValueError):
        return default


@contextmanager
def ctrl_c_held_back() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back, and give a function that says whether it was pressed, so that no step is left half done.

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
