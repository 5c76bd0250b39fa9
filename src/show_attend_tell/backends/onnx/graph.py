"""ONNX graphs, written here and run by ONNX Runtime.

A graph is made when a model is loaded: from its configuration, and with its weights in memory. So no second copy of the
weights is on disk. A file of ONNX is a message in the encoding of Protocol Buffers; the few messages that our graphs
need are written here in a page, because the package `onnx` would add to the installation and to each start.

B batch · L places: sizes that are not known when a graph is made have names.
"""

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, IR = 17, 8  # versions of the operators and of the file format
SMALL = 64  # values up to which a constant is written into the graph itself; ONNX Runtime wants to see shapes there
KINDS = {"float32": 1, "int8": 3, "int64": 7, "float16": 10}
Size = int | str  # of an axis: a number, or a name for any number

Value = str  # the name of a value of a graph


class Graph:
    """A graph that is being written: operators, weights, inputs and outputs."""

    def __init__(self) -> None:
        self._nodes = b""
        self._initializers = b""
        self._inputs = b""
        self._outputs = b""
        self._number = 0
        self.outputs: list[str] = []
        self.weights: dict[str, NDArray[Any]] = {}  # too large for the graph itself

    def input(self, name: str, shape: Sequence[Size], kind: str = "float32") -> Value:
        """An input of a shape and a type."""
        self._inputs += _field(11, _described(name, shape, kind))
        return name

    def output(self, value: Value, name: str, rank: int, kind: str = "float32") -> None:
        """Name a value as an output with that many axes."""
        self._nodes += _field(1, _node("Identity", [value], [name], {}))
        self._outputs += _field(12, _described(name, [f"{name}{axis}" for axis in range(rank)], kind))
        self.outputs.append(name)

    def constant(self, array: Any) -> Value:
        """A value that never changes: float32, or for whole numbers int64."""
        array = np.asarray(array)
        array = np.asarray(array, np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)
        name = self._new("constant")
        if array.size <= SMALL:
            self._initializers += _stored(name, array.dtype.name, array.shape, _field(9, array.tobytes()))
        else:
            self.weights[name] = array
        return name

    def __call__(self, operator: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        """Apply an operator of ONNX; gives the name of its value, or a list of names for several outputs."""
        names = [self._new(operator) for _ in range(outputs)]
        self._nodes += _field(1, _node(operator, inputs, names, attributes))
        return names[0] if outputs == 1 else names

    def linear(self, value: Value, weight: NDArray[Any], bias: NDArray[Any] | None = None) -> Value:
        """W x + b along the last axis, for a weight (outputs, inputs)."""
        product: Value = self("MatMul", value, self.constant(weight.T))
        return product if bias is None else self.add(product, self.constant(bias))

    def add(self, one: Value, other: Value) -> Value:
        """The sum of two values."""
        total: Value = self("Add", one, other)
        return total

    def written(self, packed: "PackedWeights | None" = None) -> bytes:
        """The file's content, without the weights: they are in memory, or ``packed`` takes them."""
        if packed is None:  # `Session` gives the values, and their place in a file is never read
            stored = [
                _stored(name, array.dtype.name, array.shape, _external(location="memory"))
                for name, array in self.weights.items()
            ]
            first = b""
        else:
            parts = [packed.add(name, array) for name, array in self.weights.items()]
            stored, first = [part for part, _ in parts], b"".join(nodes for _, nodes in parts)
        weights = b"".join(stored)
        graph = first + self._nodes + _field(2, b"graph") + self._initializers + weights + self._inputs + self._outputs
        return _number(1, IR) + _field(8, _field(1, b"") + _number(2, OPSET)) + _field(7, graph)

    def _new(self, name: str) -> str:
        self._number += 1
        return f"{name}_{self._number}"


class PackedWeights:
    """The weights of graphs as bytes for a file, each in 8, 16 or 32 bits, the fewest that keep it exactly.

    Graphs that were written with them restore float32 weights when ONNX Runtime loads them. It needs the ``content``
    under the name `LOCATION`.
    """

    LOCATION = "weights"

    def __init__(self) -> None:
        self.content = bytearray()

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
            _field(1, _node(operator, inputs, [output], attributes))
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
        location = _external(location=self.LOCATION, offset=str(offset), length=str(len(content)))
        return _stored(name, array.dtype.name, array.shape, location)


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


class Session:
    """A graph that ONNX Runtime has loaded; calling it with the inputs by name gives the outputs in order."""

    def __init__(self, graph: Graph) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as `threads` has it for PyTorch
        if number := os.environ.get("OMP_NUM_THREADS", "").strip():
            options.intra_op_num_threads = int(number) if number.isdecimal() else 0
        names = list(graph.weights)
        arrays = [np.ascontiguousarray(graph.weights[name]) for name in names]
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
        options.add_external_initializers(names, values)
        self._session: Any = onnxruntime.InferenceSession(graph.written(), options, providers=["CPUExecutionProvider"])
        self._outputs = graph.outputs

    def __call__(self, **inputs: NDArray[Any]) -> list[NDArray[Any]]:
        """Run the graph."""
        found: list[NDArray[Any]] = self._session.run(self._outputs, inputs)
        return found


# ---------------------------------------------------------------- messages of onnx.proto, in Protocol Buffers' encoding


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # a negative number is its two's complement of 64 bits
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _stored(name: str, kind: str, shape: Sequence[int], content: bytes) -> bytes:
    """A TensorProto among a graph's initializers, with the fields that say where its values are."""
    sides = b"".join(_number(1, side) for side in shape)
    return _field(5, sides + _number(2, KINDS[kind]) + _field(8, name.encode()) + content)


def _external(**location: str) -> bytes:
    """The fields of a TensorProto whose values are outside of the graph."""
    entries = b"".join(
        _field(13, _field(1, key.encode()) + _field(2, value.encode())) for key, value in location.items()
    )
    return entries + _number(14, 1)


def _described(name: str, shape: Sequence[Size], kind: str) -> bytes:
    """A ValueInfoProto."""
    sides = b"".join(
        _field(1, _number(1, side) if isinstance(side, int) else _field(2, side.encode())) for side in shape
    )
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, KINDS[kind]) + _field(2, sides)))


def _node(operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]) -> bytes:
    """A NodeProto."""
    content = b"".join(_field(1, name.encode()) for name in inputs)
    content += b"".join(_field(2, name.encode()) for name in outputs) + _field(4, operator.encode())
    for name, value in attributes.items():
        if isinstance(value, float):
            given = _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
        elif isinstance(value, int):
            given = _number(3, value) + _number(20, 2)
        elif isinstance(value, str):
            given = _field(4, value.encode()) + _number(20, 3)
        else:  # whole numbers
            given = b"".join(_number(8, each) for each in value) + _number(20, 7)
        content += _field(5, _field(1, name.encode()) + given)
    return content
