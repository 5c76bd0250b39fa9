"""Captions drawn at random from the decoder's distribution.

B photos · P captions of one photo · K vocabulary · L locations · T words, end token excluded.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import NEVER, apply
from show_attend_tell.search.hypotheses import Backpointers, Hypothesis, read_back
from show_attend_tell.search.registry import Filter
from show_attend_tell.search.session import DecoderSession, Numbers, Scores


def sample(
    session: DecoderSession, config: GenerationConfig, seeds: Sequence[int], filters: Sequence[Filter]
) -> list[list[Hypothesis]]:
    """Captions drawn word by word from p(y_t), as many a photo as the session has paths, each photo by its own seed.

    What the filters give is added to log p (`filters.word_filters`), ``temperature`` divides the sum, ``top_k`` keeps
    the k most probable words (0: all), ``top_p`` the smallest set with that probability. `Hypothesis.log_probability`
    is the model's own, before these.
    """
    batch = session.photos
    captions = session.paths
    photos = np.arange(batch)
    paths = np.tile(np.arange(captions), (batch, 1))
    words = np.full_like(paths, session.vocabulary_size)
    history = np.empty((batch, captions, 0), dtype=np.int64)  # the words of each path (B, P, t)
    scores = np.zeros((batch, captions))
    filtered = np.zeros((batch, captions))
    finished = np.zeros((batch, captions), dtype=bool)
    generators = [Uniforms(seed) for seed in seeds]
    backpointers: list[Backpointers] = []

    for _ in range(config.max_length):
        step = session.step(words)
        log_probabilities = session.log_probabilities()
        added = apply(filters, history, photos)
        weights = narrowed(added.onto(log_probabilities), config)
        uniforms = np.stack([generator(captions) for generator in generators])
        words = np.where(finished, Vocabulary.END, drawn_words(weights, uniforms))
        picked = np.take_along_axis(log_probabilities, words[..., None], axis=-1)[..., 0]
        scores += np.where(finished, 0.0, picked)
        filtered += np.where(finished, 0.0, added.to(paths, words))
        backpointers.append(Backpointers(photos, words, paths, scores.copy(), step.rows, step))
        history = np.concatenate([history, words[..., None]], axis=-1)
        finished |= words == Vocabulary.END
        if finished.all():
            break
        session.reorder(None, paths)

    return read_back(backpointers, scores, filtered, finished, least=captions)


class Uniforms:
    """Numbers from 0 to 1 by a seed: those that PyTorch's generator draws on a CPU, so that both back ends draw alike.

    PyTorch takes the lower 24 of the 32 bits that a Mersenne twister gives, and ignores the higher bits of a seed.
    """

    def __init__(self, seed: int) -> None:
        self.twister = np.random.MT19937()
        self.twister._legacy_seeding(seed & 0xFFFFFFFF)

    def __call__(self, number: int) -> NDArray[np.float32]:
        """The next numbers (N,)."""
        bits = np.atleast_1d(self.twister.random_raw(number))
        return (bits & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24)


def drawn_words(weights: Scores, uniforms: Scores) -> Numbers:
    """Words (B, P), each drawn in proportion to its weights (B, P, K) by a number from 0 to 1 (B, P)."""
    cumulative = weights.cumsum(-1)
    below = cumulative <= uniforms[..., None] * cumulative[..., -1:]
    words: Numbers = np.minimum(below.sum(-1), weights.shape[-1] - 1)
    return words


def narrowed(log_probabilities: Scores, config: GenerationConfig) -> NDArray[Any]:
    """The distribution to draw words from (..., K), after temperature, top_k and top_p in that order."""
    with np.errstate(over="ignore"):  # what is too small divides to −∞
        logits = log_probabilities / np.asarray(max(config.temperature, 1e-30), dtype=log_probabilities.dtype)
    if 0 < config.top_k < logits.shape[-1]:
        others = np.argpartition(-logits, config.top_k - 1, axis=-1)[..., config.top_k :]
        np.put_along_axis(logits, others, NEVER, axis=-1)
    largest = logits.max(-1, keepdims=True)
    probabilities = np.exp(logits - np.where(np.isfinite(largest), largest, 0))
    with np.errstate(invalid="ignore"):  # of damaged weights, which `read_back` refuses
        probabilities /= probabilities.sum(-1, keepdims=True)
    if config.top_p < 1:
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        ordered = np.take_along_axis(probabilities, order, axis=-1)
        outside = ordered.cumsum(-1) - ordered >= config.top_p  # the word that crosses top_p is kept
        np.put_along_axis(probabilities, order, np.where(outside, 0.0, ordered).astype(ordered.dtype), axis=-1)
    return probabilities
