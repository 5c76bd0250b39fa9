"""CIDEr-D of captions (Vedantam, Zitnick and Parikh, CVPR 2015), with document frequencies from any references.

A caption is compared with each reference by the cosine of their tf-idf vectors of n-grams, for n from 1 to 4. A count
that is higher in the caption than in the reference is cut to the reference's, and a Gaussian punishes another length.
The score is ten times the mean over n and over the references. Words may be texts or ids.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

LONGEST = 4  # words of an n-gram
SIGMA = 6.0  # of the Gaussian on the difference of lengths

Word = TypeVar("Word", bound=Hashable)
Words = Sequence[Hashable]


class _Vector(NamedTuple):
    """The tf-idf weights of a caption's n-grams."""

    weights: dict[tuple[Hashable, ...], float]
    norms: list[float]  # for each n
    pairs: int  # the length, counted in pairs of words, as pycocoevalcap does


class CiderD:
    """CIDEr-D with the document frequencies of n-grams in given references."""

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        """``documents`` has the references of each photo, which has an n-gram when any of them has it."""
        photos = Counter(ngram for references in documents for ngram in set().union(*map(ngrams, references)))
        self.log_documents = math.log(len(documents))
        # an n-gram of one photo weighs as much as one of none
        self.log_frequencies = {ngram: math.log(number) for ngram, number in photos.items() if number > 1}

    def __call__(self, caption: Words, references: Sequence[Words]) -> float:
        """The score, 0 to 10, of a caption of a photo against its references; those without words do not count."""
        said = self._vector(caption)
        wanted = [self._vector(words) for words in references if len(words)]
        return 10 * sum(_similarity(said, reference) for reference in wanted) / max(1, len(wanted))

    def _vector(self, words: Words) -> _Vector:
        weights = {}
        squares = [0.0] * LONGEST
        for ngram, times in Counter(ngrams(words)).items():
            weights[ngram] = weight = times * (self.log_documents - self.log_frequencies.get(ngram, 0.0))
            squares[len(ngram) - 1] += weight * weight
        return _Vector(weights, [math.sqrt(square) for square in squares], max(0, len(words) - 1))


def _similarity(said: _Vector, reference: _Vector) -> float:
    """The mean over n of the cosines, times the Gaussian."""
    products = [0.0] * LONGEST
    for ngram, weight in said.weights.items():
        if own := reference.weights.get(ngram):
            products[len(ngram) - 1] += min(weight, own) * own
    norms = [one * other for one, other in zip(said.norms, reference.norms, strict=True)]
    cosines = sum(product / norm for product, norm in zip(products, norms, strict=True) if norm > 0)
    return cosines / LONGEST * math.exp(-((said.pairs - reference.pairs) ** 2) / (2 * SIGMA**2))


def ngrams(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """All runs of 1 to 4 words, the single words first."""
    return chain.from_iterable(zip(*(words[start:] for start in range(n)), strict=False) for n in range(1, LONGEST + 1))


def cider(captions: Sequence[Words], references: Sequence[Sequence[Words]]) -> float:
    """CIDEr-D ×100 of N captions, with the document frequencies of their references, as pycocoevalcap has it."""
    score = CiderD(references)
    return 100 * sum(score(*each) for each in zip(captions, references, strict=True)) / len(captions)
