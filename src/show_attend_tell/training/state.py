"""What is told of an interrupted training by its state: whether it may go on, and what it was like.

A state is one safetensors file. Its tensors are the weights, their average, the optimizer's and the objective's own
state, and the states of the random generators. Its header has numbers in JSON: how far the training has come, and what
a resumed training must have in common with it. Nothing is unpickled.

A state may be resumed on another device than it was written on. On a processor the resumed training ends with the same
weights, to the bit, as one that was never interrupted.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.training.config import TrainingConfig, flat
from show_attend_tell.training.data import TrainingData


def identity(config: TrainingConfig, data: TrainingData) -> dict[str, Any]:
    """What a resumed training must share with the interrupted one, as JSON has it: settings, captions, encoder."""
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
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def stored(file: Path, entry: str, default: Any = None) -> Any:
    """An entry of a state's header; ``default`` without such an entry or a readable state."""
    try:
        with safe_open(file, framework="pt") as state:
            return json.loads((state.metadata() or {})[entry])
    except (OSError, SafetensorError, KeyError, ValueError):
        return default
