"""What a search knows of a decoder: it follows paths of words, and says how they may go on.

B′ photos that are still searched · P′ paths of each that are followed · Q histories, paths without their last word ·
L locations · K vocabulary · N continuations.

A search holds NumPy arrays of words, paths and log-probabilities, which are small. States, annotations and logits stay
with the back end, whether PyTorch or ONNX Runtime computes it: each back end has its own `DecoderSession`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Scores = NDArray[np.floating[Any]]


class SessionStep(NamedTuple):
    """What a decoder attended to in one step; all but the rows are the back end's own tensors or arrays."""

    rows: Numbers  # the history of each path, its row in what follows (B′, P′)
    alpha: Any = None  # (B′, Q, L); None for a decoder without attention
    beta: Any = None  # (B′, Q); None without a gate
    locations: Any = None  # (B′, Q); None with the attention mode "mean"
    hidden: Any = None  # h and c before the step (B′, Q, n), where the back end has evidence in closed form
    memory: Any = None


class Continuations(NamedTuple):
    """The best continuations of each photo's paths, (B′, N) each, the best first."""

    scores: Scores  # of the path and its next word: their log p, and what filters added
    paths: Numbers
    words: Numbers


class DecoderSession(Protocol):
    """A decoder in the middle of some paths that all have the same number of words."""

    vocabulary_size: int  # K; this is also the id of the word before the first
    photos: int  # B, at the start
    paths: int  # P′ of each photo, at the start
    keeps_all: bool  # whether every path of every photo is followed to the end of the search, finished or not

    def step(self, words: Numbers) -> SessionStep:
        """Add the words (B′, P′) to the paths, and attend for the words after them."""
        ...

    def best(self, before: Scores, count: int, ids: Numbers, weights: Scores) -> Continuations:
        """The ``count`` best continuations of each photo's paths, or all where there are fewer.

        Gets the scores of the paths (B′, P′), and the ids of words (B′, P′, N) with the weights (B′, P′, N) that are
        added to their log p, see `filters.Filter`.
        """
        ...

    def log_probabilities(self) -> Scores:
        """log p of every word after the paths (B′, P′, K)."""
        ...

    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        """Go on with the photos that are true in ``photos`` (B′,), None for all, and with their ``paths`` (B″, P″)."""
        ...


def padded(arrays: Sequence[NDArray[Any]], value: float = 0) -> NDArray[Any]:
    """Arrays of equal rank as one (B, …), each filled up at its ends with a value."""
    sides = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    result = np.full((len(arrays), *sides), value, arrays[0].dtype if arrays else np.float64)
    for row, array in zip(result, arrays, strict=True):
        row[tuple(slice(side) for side in array.shape)] = array
    return result


def gather(part: NDArray[Any], rows: Numbers) -> NDArray[Any]:
    """The rows (B, P) of a part (B, Q) or (B, Q, ·): (B, P) or (B, P, ·)."""
    return part[np.arange(len(part))[:, None], rows]


def distinct(paths: Numbers, number: int) -> tuple[Numbers, Numbers]:
    """The different numbers (B, Q) of each photo's paths (B, P), filled up with others, and where each path's is."""
    there = np.zeros((len(paths), number), dtype=bool)
    np.put_along_axis(there, paths, True, axis=1)
    most = int(there.sum(1).max())
    return np.argsort(~there, axis=1, kind="stable")[:, :most], gather(there.cumsum(1) - 1, paths)
