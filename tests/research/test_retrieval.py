"""Retrieval borrows the caption on which the captions of the most similar training photos agree."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from retrieval import Consensus, neighbors

from show_attend_tell.metrics.cider import ngrams

CAPTIONS = [
    [("a", "dog", "runs"), ("a", "brown", "dog", "runs", "on", "grass")],
    [("a", "dog", "runs", "on", "grass"), ("the", "dog", "is", "running")],
    [("a", "boy", "swims"), ("a", "child", "in", "a", "pool"), ("a", "boy", "swims")],
    [("two", "people", "walk"), ("a", "couple")],
]


def cider(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """The similarity as it is defined: cosines of tf-idf weights by n, their mean."""

    def vector(caption: tuple[str, ...], n: int) -> dict[tuple[str, ...], float]:
        counts = Counter(tuple(caption[i : i + n]) for i in range(len(caption) - n + 1))
        photos = {ngram: sum(any(ngram in set(ngrams(c)) for c in each) for each in CAPTIONS) for ngram in counts}
        return {ngram: count * math.log(len(CAPTIONS) / photos[ngram]) for ngram, count in counts.items()}

    total = 0.0
    for n in range(1, 5):
        left, right = vector(one, n), vector(other, n)
        norm = math.sqrt(sum(v * v for v in left.values()) * sum(v * v for v in right.values()))
        total += sum(value * right.get(ngram, 0) for ngram, value in left.items()) / norm if norm else 0
    return total / 4


@pytest.mark.parametrize("photos", [[0, 1], [1, 0, 2], [2, 3], [3, 2, 1, 0]])
def test_the_consensus_is_most_like_the_others(photos):
    candidates = [(photo, caption) for photo in photos for caption in CAPTIONS[photo]]
    likeness = [
        sum(cider(caption, other) for index, (_, other) in enumerate(candidates) if index != own)
        for own, (_, caption) in enumerate(candidates)
    ]
    assert Consensus(CAPTIONS)(photos) == candidates[int(np.argmax(likeness))]


def test_neighbors_are_nearest_first():
    training = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8], [-1, 0]])
    assert neighbors(torch.tensor([[0.8, 0.6], [-0.8, 0.6]]), training, 3) == [[2, 0, 1], [3, 1, 2]]
    assert [len(found) for found in neighbors(training, training, 80)] == [4, 4, 4, 4]
