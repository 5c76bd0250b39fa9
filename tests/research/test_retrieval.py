"""Retrieval borrows the caption on which the captions of the most similar training photos agree."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import retrieval
import torch
from builders import D, shape_folder, small_encoder
from retrieval import Consensus, neighbors

from show_attend_tell.data.datasets import read_dataset
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
def test_the_consensus_is_most_like_the_others(photos: list[int]) -> None:
    candidates = [(photo, caption) for photo in photos for caption in CAPTIONS[photo]]
    likeness = [
        sum(cider(caption, other) for index, (_, other) in enumerate(candidates) if index != own)
        for own, (_, caption) in enumerate(candidates)
    ]
    assert Consensus(CAPTIONS)(photos) == candidates[int(np.argmax(likeness))]


def test_neighbors_are_nearest_first() -> None:
    training = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8], [-1, 0]])
    assert neighbors(torch.tensor([[0.8, 0.6], [-0.8, 0.6]]), training, 3) == [[2, 0, 1], [3, 1, 2]]
    assert [len(found) for found in neighbors(training, training, 80)] == [4, 4, 4, 4]


@pytest.mark.usefixtures("small")
def test_a_split_is_captioned_and_scored(tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    dataset = read_dataset(shape_folder(tmp_path / "shapes", captions=2))
    encoder = small_encoder()
    found = retrieval.evaluate(dataset, encoder, "test", cache=tmp_path / "cache", show=False)
    assert (found.settings["model"], found.settings["split"]) == ("retrieval", "test")
    chosen = found.settings["retrieval"]
    assert len(chosen["validation_bleu_4"]) == 2 * len(retrieval.NEIGHBORS)
    kind = f"{retrieval.named(chosen['whitened'])}, {chosen['neighbors']}"
    assert chosen["validation_bleu_4"][kind] == max(chosen["validation_bleu_4"].values())
    by_name = {example.name: example for example in dataset.examples}
    assert [entry["photo"] for entry in found.results] == [example.name for example in dataset.split("test")]
    for entry in found.results:
        source = by_name[entry["borrowed_from"]]
        assert source.split == "train" and tuple(entry["words"]) in source.captions
        assert entry["caption"] == " ".join(entry["words"]) and Path(entry["file"]).is_file()
    means = retrieval.mean_annotations(dataset, encoder, dataset.split("val"), tmp_path / "cache", show=False)
    assert means.shape == (3, D)
