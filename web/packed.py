"""Weights of graphs in the fewest bits that keep them exactly, for the files of the page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.graph import KINDS, Graph, external, field, initializer, node


class PackedWeights:
    """The weights of graphs as bytes for a file, each in 8, 16 or 32 bits, the fewest that keep it exactly.

    Graphs that were written with them restore float32 weights when ONNX Runtime loads them. It needs the ``content``
    under the name `LOCATION`.
    """

    LOCATION = "weights"

    def __init__(self) -> None:
        self.content = bytearray()

    def written(self, graph: Graph) -> bytes:
        """The file of a graph, whose weights are added."""
        messages = [self.add(name, array) for name, array in graph.weights.items()]
        stored = b"".join(message for message, _ in messages)
        return graph.written(stored, b"".join(nodes for _, nodes in messages))

    def add(self, name: str, array: NDArray[Any]) -> tuple[bytes, bytes]:
        """Store an array; gives the messages of what is stored, and the nodes that restore the array under its name."""
        turned = array.ndim == 2 and not array.flags.c_contiguous  # W of `Graph.linear` is stored as it was given
        array = array.T if turned else array
        short, scales = f"{name}_short", f"{name}_scales"
        if found := in_8bit(array):
            values, scale = found
            stored = self._stored(short, values) + self._stored(scales, scale.reshape(-1, *[1] * (array.ndim - 1)))
            nodes: list[tuple[str, list[str], dict[str, Any]]] = [("Cast", [short], {"to": KINDS["float32"]})]
            nodes.append(("Mul", [f"{name}_0", scales], {}))
        else:
            stored = self._stored(short, in_16bit(array))
            nodes = [("Cast", [short], {"to": KINDS[array.dtype.name]})]
        if turned:
            nodes.append(("Transpose", [f"{name}_{len(nodes) - 1}"], {"perm": [1, 0]}))
        names = [*(f"{name}_{number}" for number in range(len(nodes) - 1)), name]
        written = [
            field(1, node(operator, inputs, [output], attributes))
            for (operator, inputs, attributes), output in zip(nodes, names, strict=True)
        ]
        return stored, b"".join(written)

    def _stored(self, name: str, array: NDArray[Any]) -> bytes:
        """Keep an array's bytes, unless they are there already; gives its message."""
        content = np.ascontiguousarray(array).tobytes()
        offset = self.content.find(content)
        if offset < 0:
            offset = len(self.content)
            self.content += content
        location = external(location=self.LOCATION, offset=str(offset), length=str(len(content)))
        return initializer(name, array.dtype.name, array.shape, location)


def in_8bit(array: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """Weights that were in 8 or 4 bits as whole numbers with a scale for each row, see `packing.pack`.

    None where 8 bits would not give exactly these weights.
    """
    if array.dtype != np.float32 or array.ndim < 2:
        return None
    rows = array.reshape(len(array), -1)
    for largest in (127, 7):
        scale = np.abs(rows).max(axis=1) / np.float32(largest)
        scale[scale == 0] = 1
        values = (rows / scale[:, None]).round().astype(np.int8)
        if np.array_equal(values * scale[:, None], rows):
            return values.reshape(array.shape), scale
    return None


def in_16bit(array: NDArray[Any]) -> NDArray[Any]:
    """Weights in float16, or as they are where 16 bits would not give exactly these weights."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if array.dtype == np.float32 and np.array_equal(half, array) else array
