"""Whether photos and captions look like what the model to start from knows, before any training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.backends.torch import build_decoder, second_moments
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities
from show_attend_tell.rerank.ngrams import VisualNgrams

# Measured on 12 photos of each draw, from `everyday-soft`: photos of Flickr8k's and COCO's val, which it has not seen,
# have 2.7 to 3.1 nats a word; generated scenes 4.9, charts 5.2.
KNOWN, NEW = 3.4, 4.2
SHIFTED = 0.7


@dataclass(frozen=True)
class Likeness:
    """How well a model knows photos and captions like some."""

    nats: float  # a word of the captions, given the words before it
    # how far the mean of these photos' features lies from that of its training photos, in distances of one of these
    # photos; None without visual n-grams
    shift: float | None

    @property
    def expect(self) -> Literal["little", "something", "much"]:
        """What a training from this model is going to gain."""
        if self.nats > NEW:
            return "much"
        return "little" if self.nats < KNOWN and (self.shift or 0) < SHIFTED else "something"


@torch.no_grad()
def likeness(start: Checkpoint, examples: Sequence[Example], annotations: Tensor) -> Likeness:
    """The likeness of some examples, of which the annotations (N, L, D) are given, to what a model has learnt."""
    decoder, nats, words, shift = build_decoder(start).to(annotations.device), 0.0, 0, None
    captions = [
        (start.vocabulary.encode(words), row) for row, each in enumerate(examples) for words in each.captions[:2]
    ]
    for length in sorted({len(ids) for ids, _ in captions}):
        alike = [(ids, row) for ids, row in captions if len(ids) == length]
        forced = torch.tensor([ids for ids, _ in alike], device=annotations.device)
        logits = teacher_forcing(decoder, annotations[[row for _, row in alike]], forced).logits
        known = forced != Vocabulary.UNKNOWN
        nats -= float(word_log_probabilities(logits, forced)[:, 0][known].sum())
        words += int(known.sum())
    if start.reranker is not None and start.reranker.kind == "ngrams":
        ngrams = VisualNgrams(start.reranker.arrays)
        channels = torch.from_numpy(ngrams.channels).to(annotations.device)
        along = as_array(second_moments(annotations, channels).float()) @ ngrams.directions.T - ngrams.offset  # (N, R)
        shift = float(np.linalg.norm(along.mean(0)) / np.linalg.norm(along, axis=1).mean())
    return Likeness(nats / max(1, words), shift)
