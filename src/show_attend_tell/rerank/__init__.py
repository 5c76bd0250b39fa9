"""Rerankers: they score the captions of a beam by what the photo shows, and the best score wins.

`ngrams` scores by visual n-grams, in NumPy; `fit` makes them of training photos, in PyTorch.
`confidence` says how far each word can be trusted.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from show_attend_tell.backends.base import Backend
from show_attend_tell.search.hypotheses import Hypothesis


class Reranker(Protocol):
    """What `generation.generate` asks of a reranker."""

    def scores(
        self,
        backend: Backend,
        features: Any,
        found: Sequence[Sequence[Hypothesis]],
        rare_word_exponent: float,
    ) -> list[list[float]]:
        """The rerank score of each photo's hypotheses, by the photos' features (B, L, D)."""
        ...
