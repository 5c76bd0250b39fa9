"""Stage "confidence": how far the nouns of the model's captions can be trusted, by photos that it has not seen."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.generation import Decoding
from show_attend_tell.model.interface import Decoder
from show_attend_tell.rerank import confidence
from show_attend_tell.rerank.confidence import Batch, Confidence, feature_count
from show_attend_tell.training import ranks
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import BATCH_SIZE, searches
from show_attend_tell.values import Array


def fit_confidence(
    model: Checkpoint,
    decoder: Decoder,
    data: TrainingData,
    start: Checkpoint | None,
    by_halves: Mapping[str, Any] | None,
) -> None:
    """Give the model its confidence: the one ``by_halves`` where it fits, raised by val, else one by val.

    Only the first rank does; the others do not wait. Where val is small, the confidence is drawn to that of the
    ``start``, a model; None where there is none to heed.
    """
    if not ranks.is_main():
        return
    decoding = Decoding.of(model)
    drawn_to = None
    if start is not None and len(data.validation) < confidence.PHOTOS_TO_JUDGE:
        drawn_to = Decoding.of(start).confidence
    val = decoder, data, decoding
    of_halves = if_it_fits(by_halves, decoding)
    if of_halves is None:
        model.confidence = confidence_of([val], drawn_to)
    else:
        with torch.no_grad():
            model.confidence = confidence.raise_confidence(of_halves, model.vocabulary, batches_of(*val))
    if model.confidence is None:
        log(
            "the model cannot tell how far its nouns can be trusted: that takes English captions of "
            f"{confidence.FEW_TO_JUDGE} photos that no training has seen, {confidence.PHOTOS_TO_JUDGE} without a start"
        )


def if_it_fits(by_halves: Mapping[str, Any] | None, decoding: Decoding) -> dict[str, Array] | None:
    """The confidence as arrays; None where the model has other parts than the models that it was fitted to."""
    if by_halves is None or len(by_halves["weights"]) != feature_count(decoding.reranker, decoding.class_words):
        return None
    return {name: np.array(value, "int32" if name == "words" else "float32") for name, value in by_halves.items()}


@torch.no_grad()
def confidence_of(
    cases: Sequence[tuple[Decoder, TrainingData, Decoding]], start: Confidence | None
) -> dict[str, Array] | None:
    """How far nouns can be trusted: each case is a model, data whose val it has not seen, and how it captions.

    Where there is a ``start``, the confidence is drawn to that of the start, and needs fewer photos. None for too few
    photos, for other tokenizers, and where `fit` gives None.
    """
    photos = sum(len(data.validation) for _, data, _ in cases)
    least = confidence.PHOTOS_TO_JUDGE if start is None else confidence.FEW_TO_JUDGE
    vocabulary = cases[0][1].vocabulary
    if photos < least or vocabulary.tokenizer not in (KARPATHY, ENGLISH):
        return None
    return confidence.fit(vocabulary, (batch for case in cases for batch in batches_of(*case)), start)


def batches_of(decoder: Decoder, data: TrainingData, decoding: Decoding) -> Iterator[Batch]:
    """The captions of the validation photos, beside people's."""
    names, references = zip(*data.validation, strict=True)
    parts = [range(len(names))[part] for part in data.parts or [slice(None)]]
    weights = [
        weight for part, weight in zip(parts, confidence.balanced([*map(len, parts)]), strict=True) for _ in part
    ]
    model = TorchBackend(decoder), decoding.reranker, decoding.class_words
    found = searches(decoder, data, names, decoding)
    for at, (annotations, hypotheses) in zip(range(0, len(names), BATCH_SIZE), found, strict=True):
        part = slice(at, at + BATCH_SIZE)
        yield *model, annotations, [*map(decoding.ranked, hypotheses)], references[part], weights[part]
