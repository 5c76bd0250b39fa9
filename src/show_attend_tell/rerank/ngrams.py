"""Visual n-grams: the words, pairs and triples of words that a photo's captions are expected to have.

- **Input**: the second moments of the photo's annotations, Σ_i a_i a_iᵀ. They say which channels of the encoder are
  active at the same locations. Their signed square roots are scaled to length one (Carreira et al. 2012, Perronnin et
  al. 2010). The back end computes them, so that a GPU copies no annotations.
- **Prediction**: a linear map from the input to the share of captions that have each n-gram (n-grams from photos: Li et
  al. 2017; words from photos, to rank captions: Fang et al. 2015). `fit` makes it.
- **Use**: beam search makes its captions without it. Then the captions are ranked by how well they agree with the
  prediction: that is their rerank score.

B photos · L locations · D annotation size · C ≤ D channels · M = C (C + 1) / 2 second moments · R directions ·
G n-grams.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.base import Backend
from show_attend_tell.checkpoint.packing import unpack
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank import Reranker
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.values import Array

LONGEST = 3  # words of an n-gram
RAREST_SHARE = 1e-4  # share of captions; a word that is rarer counts as rare as this
UNEXPECTED = 1e-3  # share of captions; of a word that is expected less, this is what is known

Ngram = tuple[int, ...]  # how often the same words came before in the caption, then the words' ids


class VisualNgrams(Reranker):
    """E[n-gram | photo], the share of a photo's captions that are expected to have each of G n-grams."""

    word_features = 3

    def __init__(self, packed: Mapping[str, Array]) -> None:
        """Take the arrays that `fit.fit_ngrams` made, packed or not; raises `SatError` for others."""
        arrays = unpack(packed)
        try:
            self.channels, self.offset, self.shares, self.prior, self.length, ngrams = (
                arrays[name] for name in ("channels", "offset", "shares", "prior", "length", "ngrams")
            )
            (C,), (R,), (G,) = self.channels.shape, self.offset.shape, self.prior.shape
            M = C * (C + 1) // 2
            self.directions = arrays["directions"][:, :M]  # with 4 bits, an odd M is stored as M + 1
            shapes = self.directions.shape, self.shares.shape, self.length.shape, ngrams.shape
            if shapes != ((R, M), (G, R), (), (G, 1 + LONGEST)) or not (C and R and G):
                raise ValueError(f"shapes {shapes}")
            finite = all(np.isfinite(array).all() for array in arrays.values())
            if not finite or self.channels.min() < 0 or self.length < 0:
                raise ValueError("values that are not numbers, or below zero")
        except (KeyError, ValueError, IndexError) as error:
            raise SatError(f"these arrays are not visual n-grams ({error})") from error
        known: list[Ngram] = [tuple(part for part in row if part >= 0) for row in ngrams.tolist()]
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        first = [self.numbers.get((0, *ngram[1:]), number) for number, ngram in enumerate(known)]
        # (G,), shares of captions with the n-gram at least once
        self.common = np.maximum(self.prior[first], RAREST_SHARE)
        self.single = ngrams[:, 2] < 0  # (G,), which of them are words

    def expected(self, backend: Backend, features: Any) -> Array:
        """The shares of captions that are expected to have each n-gram (B, G), of features (B, L, D)."""
        if int(self.channels.max()) >= features.shape[-1]:
            raise SatError(f"the visual n-grams read annotations of another size than {features.shape[-1]}")
        moments = backend.second_moments(features, self.channels)
        return np.asarray(np.maximum(self.linear(moments), 0))

    def linear(self, moments: Array) -> Array:
        """The linear map from second moments (B, M) to the shares (B, G), which may be below zero."""
        along = (self.directions @ moments.T).T
        shares: Array = self.prior + (along - self.offset) @ self.shares.T
        return shares

    def worth(self, rare_word_exponent: float) -> Array:
        """How much each n-gram counts in the rerank score (G,): 1, and for a word more if it is rare.

        A word that a share p of the training captions has counts p^−τ times a constant, τ being the
        ``rare_word_exponent``. A word's second time in a caption counts as much as its first. By the constant, the mean
        rerank score of training captions with the mean training photo does not depend on τ.
        """
        p = self.prior[self.single].astype(np.float64)
        powers = self.common[self.single].astype(np.float64) ** -rare_word_exponent
        worth = np.ones_like(self.prior)
        worth[self.single] = powers * (p**2).sum() / max((p**2 * powers).sum(), np.finfo(p.dtype).tiny)
        return worth

    def agreements(
        self, expected: Array, captions: Sequence[Sequence[int]], rare_word_exponent: float = 0.0
    ) -> list[float]:
        """The rerank score of captions, as word ids without the end token, with the n-grams ``expected`` (G,).

        It is the mean over n = 1, 2, 3 of 2 Σ_g w_g E[g] / (N_c + N_t). g runs over the caption's n-grams, and counts
        w_g, by its `worth`. N_c is the number of these n-grams, and N_t that of a training caption of mean length. With
        an exponent of 0 this is about the share of n-grams (F1) that the caption would have in common with a person's
        caption, from 0 to about 1. An n-gram that is not expected adds nothing. The second time that a caption has an
        n-gram counts as another n-gram, whose share is that of the captions that have it twice.
        """
        shares, usual = (expected * self.worth(rare_word_exponent)).tolist(), float(self.length)
        result = []
        for words in captions:
            found = [0.0] * LONGEST
            for ngram in counted(words):
                if (number := self.numbers.get(ngram)) is not None:
                    found[len(ngram) - 2] += shares[number]
            both = [max(1.0, (len(words) + usual) / 2 - n) for n in range(LONGEST)]
            result.append(sum(have / of for have, of in zip(found, both, strict=True)) / LONGEST)
        return result

    def scores(
        self, backend: Backend, features: Any, found: Sequence[Sequence[Hypothesis]], rare_word_exponent: float
    ) -> list[list[float]]:
        """As `Reranker.scores`."""
        return [
            self.agreements(expected, [each.words for each in hypotheses], rare_word_exponent)
            for expected, hypotheses in zip(self.expected(backend, features), found, strict=True)
        ]

    def features_of_words(self, backend: Backend, features: Any) -> list[Callable[[int], list[float]]]:
        """√E, log E, and log E less the logarithm of the word's share of training captions, of its expected share E."""

        def known(word: int, expected: Array) -> list[float]:
            number = self.numbers.get((0, word))
            share = 0.0 if number is None else float(expected[number])
            usual = 0.0 if number is None else float(self.prior[number])
            log_share = math.log(max(share, UNEXPECTED))
            return [share**0.5, log_share, log_share - math.log(max(usual, UNEXPECTED))]

        return [partial(known, expected=expected) for expected in self.expected(backend, features)]


def as_rows(known: Sequence[Ngram]) -> NDArray[np.int32]:
    """N-grams (G, 1 + `LONGEST`) as `VisualNgrams` takes them, −1 where an n-gram is shorter."""
    return np.array([[*ngram, *[-1] * (1 + LONGEST - len(ngram))] for ngram in known], dtype=np.int32)


def without_end(words: Sequence[int]) -> list[int]:
    """The words of a caption, without the end token."""
    return [word for word in words if word != Vocabulary.END]


def counted(words: Sequence[int]) -> list[Ngram]:
    """The n-grams of a caption, of 1 to `LONGEST` known words without the end, each with how often it was before."""
    words = without_end(words)
    result: list[Ngram] = []
    for n in range(1, LONGEST + 1):
        before: dict[Ngram, int] = {}
        for ngram in zip(*(words[start:] for start in range(n)), strict=False):
            if Vocabulary.UNKNOWN not in ngram:
                times = before.get(ngram, 0)
                before[ngram] = times + 1
                result.append((times, *ngram))
    return result
