"""What two states of a training have in common if one may go on from the other."""

import hashlib
import json
from typing import Any

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
