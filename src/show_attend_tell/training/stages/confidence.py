"""Stage "confidence": how far the nouns of the model's captions can be trusted, by val."""

from typing import Any

import torch
from numpy.typing import NDArray

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.generation import Decoding
from show_attend_tell.model.interface import Decoder
from show_attend_tell.rerank import confidence
from show_attend_tell.training import ranks
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.selection import BATCH_SIZE, searches


def fit_confidence(model: Checkpoint, decoder: Decoder, data: TrainingData, *, show: bool) -> None:
    """Fit the confidence of the model's captions; the first rank alone does, and the others do not wait."""
    if ranks.is_main():
        model.confidence = confidence_of(decoder, data, Decoding.of(model), show=show)


@torch.no_grad()
def confidence_of(
    decoder: Decoder,
    data: TrainingData,
    decoding: Decoding,
    *,
    show: bool = False,
) -> dict[str, NDArray[Any]] | None:
    """How far the nouns of a model's captions with this decoding can be trusted, by val; None as `fit`."""
    if len(data.validation) < confidence.PHOTOS_TO_JUDGE or data.vocabulary.tokenizer not in (KARPATHY, ENGLISH):
        return None
    names, references = zip(*data.validation, strict=True)
    parts = [range(len(names))[part] for part in data.parts or [slice(None)]]
    weights = [
        weight for part, weight in zip(parts, confidence.balanced([*map(len, parts)]), strict=True) for _ in part
    ]
    found = searches(decoder, data, names, decoding, show=show)
    batches = (
        (annotations, [*map(decoding.ranked, hypotheses)], references[at:][:BATCH_SIZE], weights[at:])
        for at, (annotations, hypotheses) in zip(range(0, len(names), BATCH_SIZE), found, strict=True)
    )
    return confidence.fit(TorchBackend(decoder), data.vocabulary, decoding.reranker, batches, decoding.class_words)
