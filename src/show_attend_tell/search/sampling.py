"""Captions drawn at random from the decoder's distribution.

B photos · P captions of one photo · K vocabulary · L places · T words, end token excluded.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.hypotheses import NEVER, Backpointers, Hypothesis, read_back, repeating
from show_attend_tell.search.session import Drawn, Numbers, Scores


def draw(
    session: Drawn,
    *,
    seeds: list[int],
    max_length: int = 40,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    allow_repetitions: bool = True,
) -> list[list[Hypothesis]]:
    """Captions drawn word by word from p(y_t), as many a photo as the walker has paths, each photo by its own seed.

    The end token is never drawn first. Without ``allow_repetitions`` no caption has a word
    twice in a row, or the same three words in a row twice. ``temperature`` divides the logits, ``top_k`` keeps the k
    likeliest words (0: all), ``top_p`` the smallest set with that probability. `Hypothesis.log_probability` is the
    model's own, before these. Raises `SatError` for a temperature not above 0, a top_k below 0 or a top_p outside
    (0, 1].
    """
    batch, captions = session.photos, session.paths
    check_sampling(captions, temperature, top_k, top_p)
    if max_length < 1:
        raise SatError(f"the longest caption is {max_length}: give at least 1")
    photos, paths = np.arange(batch), np.tile(np.arange(captions), (batch, 1))
    words = np.full_like(paths, session.vocabulary_size)
    said = np.empty((batch, captions, 0), dtype=np.int64)  # by each path so far (B, P, t)
    scores = np.zeros((batch, captions))
    finished = np.zeros((batch, captions), dtype=bool)
    generators = [Uniforms(seed) for seed in seeds]
    backpointers: list[Backpointers] = []

    for _ in range(max_length):
        step = session.step(words)
        log_probabilities = session.log_probabilities()
        weights = narrowed(
            log_probabilities,
            temperature,
            top_k,
            top_p,
            allow_end=bool(backpointers),
            banned=repeating(said) if backpointers and not allow_repetitions else None,
        )
        uniforms = np.stack([generator(captions) for generator in generators])
        words = np.where(finished, Vocabulary.END, drawn_words(weights, uniforms))
        picked = np.take_along_axis(log_probabilities, words[..., None], axis=-1)[..., 0]
        scores += np.where(finished, 0.0, picked)
        backpointers.append(Backpointers(photos, words, paths, step.rows, *step[1:]))
        said = np.concatenate([said, words[..., None]], axis=-1)
        finished |= words == Vocabulary.END
        if finished.all():
            break
        session.reorder(None, paths)

    return read_back(backpointers, scores, finished, least=captions)


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


def check_sampling(captions: int, temperature: float, top_k: int, top_p: float) -> None:
    """Raise `SatError` for a way of drawing words that there is not."""
    if captions < 1:
        raise SatError(f"{captions} captions a photo: give at least 1")
    if not 0 < temperature < math.inf or top_k < 0 or not 0 < top_p <= 1:
        raise SatError(
            f"temperature {temperature}, top_k {top_k}, top_p {top_p}: give a temperature above 0, top_k of 0 "
            "(all words) or more, top_p above 0 and up to 1"
        )


def narrowed(
    log_probabilities: Scores,
    temperature: float,
    top_k: int,
    top_p: float,
    *,
    allow_end: bool = True,
    banned: Numbers | None = None,
) -> NDArray[Any]:
    """The distribution to draw words from (..., K), after temperature, top-k and top-p in that order.

    The unknown word and the words that a path may not say ``banned`` (..., ·) have no share in it.
    """
    with np.errstate(over="ignore"):  # what is too small divides to −∞
        logits = log_probabilities / np.asarray(max(temperature, 1e-30), dtype=log_probabilities.dtype)
    logits[..., Vocabulary.UNKNOWN] = NEVER
    if not allow_end:
        logits[..., Vocabulary.END] = NEVER
    if banned is not None:
        np.put_along_axis(logits, banned, NEVER, axis=-1)
    if 0 < top_k < logits.shape[-1]:
        others = np.argpartition(-logits, top_k - 1, axis=-1)[..., top_k:]
        np.put_along_axis(logits, others, NEVER, axis=-1)
    largest = logits.max(-1, keepdims=True)
    probabilities = np.exp(logits - np.where(np.isfinite(largest), largest, 0))
    with np.errstate(invalid="ignore"):  # of damaged weights, which `read_back` refuses
        probabilities /= probabilities.sum(-1, keepdims=True)
    if top_p < 1:
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        ordered = np.take_along_axis(probabilities, order, axis=-1)
        outside = ordered.cumsum(-1) - ordered >= top_p  # the word that crosses top_p is kept
        np.put_along_axis(probabilities, order, np.where(outside, 0.0, ordered).astype(ordered.dtype), axis=-1)
    return probabilities
