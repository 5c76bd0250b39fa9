"""How well captions agree with the n-grams that a photo's captions are expected to have. Nothing here needs PyTorch.

`visual_ngrams` says what is expected, by PyTorch; `arrays` says it without.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search import Hypothesis

LONGEST = 3  # words of an n-gram
SELDOM = 1e-4  # share of captions; a word that is rarer counts as rare as this

Ngram = tuple[int, ...]  # how often the same words came before in the caption, then the words' ids


class NgramReranker:
    """What visual n-grams do once it is known which n-grams a photo's captions are expected to have."""

    numbers: dict[Ngram, int]  # of the G n-grams
    length: Any  # the mean length of training captions in words
    offset: Any  # (R,)

    def expected(self, annotations: Any) -> Any:
        """The shares of captions that are expected to have each n-gram, (B, G), of annotations (B, L, D)."""
        raise NotImplementedError

    def worth(self, rare_word_exponent: float) -> Any:
        """How much each n-gram counts in the agreement, (G,)."""
        raise NotImplementedError

    def rerank_scores(
        self, expected: Any, captions: Sequence[Sequence[int]], rare_word_exponent: float = 0.0
    ) -> list[float]:
        """The agreement of captions, as word ids without the end token, with the n-grams ``expected`` (G,) of a photo.

        The agreement is the mean over n = 1, 2, 3 of 2 Σ_g w_g E[g] / (N_c + N_t). g runs over the caption's n-grams,
        and counts w_g, by its `worth`. N_c is the number of these n-grams, and N_t that of a training caption of mean
        length. With a ``rare_word_exponent`` of 0 this is about the share of n-grams (F1) that the caption would have in common
        with a person's caption, from 0 to about 1. An n-gram that is not expected adds nothing. The second time that a
        caption has an n-gram counts as another n-gram, whose share is that of the captions that have it twice.
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

    def add_rerank_scores(
        self, annotations: Any, found: Sequence[Sequence[Hypothesis]], rare_word_exponent: float = 0.0
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each photo with their agreement, by the photos' annotations (B, L, D).

        `search.ranked` orders them by it. ``rare_word_exponent`` is that of `rerank_scores`.
        """
        return [
            [
                dataclasses.replace(hypothesis, rerank_score=rerank_score)
                for hypothesis, rerank_score in zip(
                    hypotheses,
                    self.rerank_scores(expected, [each.words for each in hypotheses], rare_word_exponent),
                    strict=True,
                )
            ]
            for expected, hypotheses in zip(self.expected(annotations), found, strict=True)
        ]

    def __str__(self) -> str:
        return f"{len(self.numbers):,} of 1 to {LONGEST} words, by {len(self.offset)} directions"


def said(words: Sequence[int]) -> list[int]:
    """The words of a caption, without the end token."""
    return [word for word in words if word != Vocabulary.END]


def counted(words: Sequence[int]) -> list[Ngram]:
    """The n-grams of a caption, of 1 to `LONGEST` words, each with how often the caption had it before.

    The end token is not counted as a word. N-grams with an unknown word are left out.
    """
    words = said(words)
    result: list[Ngram] = []
    for n in range(1, LONGEST + 1):
        before: dict[Ngram, int] = {}
        for ngram in zip(*(words[start:] for start in range(n)), strict=False):
            if Vocabulary.UNKNOWN not in ngram:
                times = before.get(ngram, 0)
                before[ngram] = times + 1
                result.append((times, *ngram))
    return result
