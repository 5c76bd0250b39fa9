"""What `web/models.py` writes for the page: graphs whose weights have few bits and are restored exactly."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import models
import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from packed import PackedWeights

from show_attend_tell.backends.onnx.backend import second_moments
from show_attend_tell.backends.onnx.graph import Graph, Session
from show_attend_tell.rerank.class_words import Classes
from show_attend_tell.rerank.ngrams import VisualNgrams


def run(graph: Graph, folder: Path, value: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a graph of the input "x" gives when it is read from a file with its weights beside it."""
    weights = PackedWeights()
    (folder / "graph.onnx").write_bytes(weights.written(graph))
    (folder / PackedWeights.LOCATION).write_bytes(weights.content)
    session = onnxruntime.InferenceSession(folder / "graph.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["y"], {"x": value})
    return np.asarray(found)


CHANCE = np.random.default_rng(11)
EIGHT = CHANCE.integers(-127, 128, (13, 7)).astype(np.float32)
EIGHT[:, 3] = 127
EIGHT *= CHANCE.random((13, 1), dtype=np.float32) / np.float32(127)
FOUR = CHANCE.integers(-7, 8, (13, 7)).astype(np.float32)
FOUR[:, 3] = 7
FOUR *= CHANCE.random((13, 1), dtype=np.float32) / np.float32(7)
SIXTEEN = CHANCE.standard_normal((13, 7)).astype(np.float16).astype(np.float32)
WHOLE = CHANCE.standard_normal((13, 7)).astype(np.float32)


@pytest.mark.parametrize(
    ("weight", "stored"),
    [
        (EIGHT, 13 * 7 + 13 * 4),
        (FOUR, 13 * 7 + 13 * 4),  # a byte each; compressed, they take half of it
        (SIXTEEN, 2 * 13 * 7),
        (WHOLE, 4 * 13 * 7),
        (-2 * EIGHT, 13 * 7 + 13 * 4),
    ],
    ids=range(5),
)
def test_weights_are_stored_in_the_fewest_bits_that_keep_them(weight, stored, tmp_path):
    graph = Graph()
    graph.output(graph.linear(graph.input("x", "N", 7), weight), "y", 2)
    weights = PackedWeights()
    weights.written(graph)
    assert len(weights.content) == stored
    np.testing.assert_array_equal(run(graph, tmp_path, np.eye(7, dtype=np.float32)), weight.T)


def test_the_same_weights_are_stored_once(tmp_path):
    graph = Graph()
    once = graph("Gather", graph.constant(SIXTEEN), graph("Cast", graph.input("x", "N"), to=7))
    graph.output(graph.linear(once, SIXTEEN[:-1]), "y", 2)  # tied embeddings
    weights = PackedWeights()
    weights.written(graph)
    assert len(weights.content) == SIXTEEN.size * 2
    found = run(graph, tmp_path, np.arange(13, dtype=np.float32))
    assert_allclose(found, SIXTEEN @ SIXTEEN[:-1].T, rtol=1e-5)


def test_the_graphs_of_the_classifier_and_of_the_ngrams_are_pythons():
    features = CHANCE.standard_normal((2, 9, 8)).astype(np.float32)
    classes = Classes(CHANCE.standard_normal((5, 8)), CHANCE.standard_normal(5), list("abcde"), [])
    (p,) = Session(models.classifier(classes))(annotations=features)
    assert_allclose(p, classes.probabilities(features), atol=1e-6)
    sizes = {"offset": 3, "shares": (6, 3), "prior": 6, "directions": (3, 10)}
    arrays = {name: CHANCE.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    words = np.array([[0, number, -1, -1] for number in range(6)], np.int32)
    ngrams = VisualNgrams({**arrays, "channels": np.array([0, 2, 3, 7]), "length": np.array(9.0), "ngrams": words})
    (expected,) = Session(models.expected(ngrams, 8))(annotations=features)
    backend = cast(Any, SimpleNamespace(second_moments=second_moments))
    assert_allclose(expected, ngrams.expected(backend, features), rtol=1e-4, atol=1e-5)
