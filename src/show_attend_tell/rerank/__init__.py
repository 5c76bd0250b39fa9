"""Rerankers: they score the captions of a beam by what the photo shows, and the best score wins.

`ngrams` scores by visual n-grams, in NumPy; `fit` makes them of training photos, in PyTorch. `registry` has the kinds
of rerankers. `confidence` says how far each word can be trusted.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from show_attend_tell.backends.base import Backend
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.values import Array


class Reranker:
    """What `generation.generate` asks of a reranker; `registry.register_reranker` gives a kind its name."""

    word_features = 0  # numbers that `features_of_words` gives of a word

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Take what a model's file holds. Raises `SatError` for arrays that do not fit."""

    def scores(
        self, backend: Backend, features: Any, found: Sequence[Sequence[Hypothesis]], rare_word_exponent: float
    ) -> list[list[float]]:
        """The rerank score of each photo's hypotheses, by the photos' features (B, L, D)."""
        raise NotImplementedError

    def features_of_words(self, backend: Backend, features: Any) -> list[Callable[[int], list[float]]]:
        """For each photo of features (B, L, D), what is known of a word by its id, for the confidence of nouns."""
        return [lambda word: []] * len(features)
