"""What `web/models.py` writes for the page: graphs whose weights have few bits and are restored exactly."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from packed import PackedWeights

from show_attend_tell.backends.onnx.graph import Graph


def run(graph: Graph, folder: Path, value: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a graph of the input "x" gives when it is read from a file with its weights beside it."""
    weights = PackedWeights()
    (folder / "graph.onnx").write_bytes(graph.written(weights.add))
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
    ids=["8 bits", "4 bits", "16 bits", "32 bits", "8 bits, turned round"],
)
def test_weights_are_stored_in_the_fewest_bits_that_keep_them(
    weight: NDArray[np.float32], stored: int, tmp_path: Path
) -> None:
    graph = Graph()
    graph.output(graph.linear(graph.input("x", ["N", 7]), weight), "y", 2)
    weights = PackedWeights()
    graph.written(weights.add)
    assert len(weights.content) == stored
    np.testing.assert_array_equal(run(graph, tmp_path, np.eye(7, dtype=np.float32)), weight.T)


def test_the_same_weights_are_stored_once(tmp_path: Path) -> None:
    graph = Graph()
    once = graph("Gather", graph.constant(SIXTEEN), graph("Cast", graph.input("x", ["N"]), to=7))
    graph.output(graph.linear(once, SIXTEEN[:-1]), "y", 2)  # tied embeddings
    weights = PackedWeights()
    graph.written(weights.add)
    assert len(weights.content) == SIXTEEN.size * 2
    found = run(graph, tmp_path, np.arange(13, dtype=np.float32))
    np.testing.assert_allclose(found, SIXTEEN @ SIXTEEN[:-1].T, rtol=1e-5)
