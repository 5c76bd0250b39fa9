"""ONNX graphs, written here and run by ONNX Runtime.

A graph is made when a model is loaded: from its configuration, and with its weights in memory. So no second copy of the
weights is on disk. A file of ONNX is a message in the encoding of Protocol Buffers; the few messages that our graphs
need are written here in a page, because the package `onnx` would add to the installation and to each start.

B batch · L locations: sizes that are not known when a graph is made have names.
"""

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from show_attend_tell.values import Array

OPSET, IR = 17, 8  # versions of the operators and of the file format
SMALL = 64  # values up to which a constant is written into the graph itself; ONNX Runtime wants to see shapes there
KINDS = {"float32": 1, "int8": 3, "int64": 7, "float16": 10}
Size = int | str  # of an axis: a number, or a name for any number


@dataclass(frozen=True)
class Value:
    """A value of a graph. Sums, differences and products of values are operators of the graph, too."""

    graph: "Graph"
    name: str

    def __add__(self, other: Any) -> "Value":
        return self.graph("Add", self, other)

    def __sub__(self, other: Any) -> "Value":
        return self.graph("Sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self.graph("Sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return self.graph("Mul", self, other)

    def __matmul__(self, other: Any) -> "Value":
        return self.graph("MatMul", self, other)


class Graph:
    """A graph that is being written: operators, weights, inputs and outputs."""

    def __init__(self) -> None:
        self._nodes = b""
        self._initializers = b""
        self._inputs = b""
        self._outputs = b""
        self._number = 0
        self.outputs: list[str] = []
        self.weights: dict[str, Array] = {}  # too large for the graph itself

    def input(self, name: str, *shape: Size, kind: str = "float32") -> Value:
        """An input of a shape and a type."""
        self._inputs += field(11, _described(name, shape, kind))
        return Value(self, name)

    def output(self, value: Value, name: str, rank: int, kind: str = "float32") -> None:
        """Name a value as an output with that many axes."""
        self._nodes += field(1, node("Identity", [value.name], [name], {}))
        self._outputs += field(12, _described(name, [f"{name}{axis}" for axis in range(rank)], kind))
        self.outputs.append(name)

    def constant(self, array: Any) -> Value:
        """A value that never changes: float32, or for whole numbers int64."""
        array = np.asarray(array)
        array = np.asarray(array, np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)
        name = self._new("constant")
        if array.size <= SMALL:
            self._initializers += initializer(name, array.dtype.name, array.shape, field(9, array.tobytes()))
        else:
            self.weights[name] = array
        return Value(self, name)

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> Value:
        """Apply an operator of ONNX that has one output; an input that is no value of the graph is a constant."""
        return self.several(1, operator, *inputs, **attributes)[0]

    def several(self, outputs: int, operator: str, *inputs: Any, **attributes: Any) -> list[Value]:
        """Apply an operator of ONNX that has so many outputs."""
        read = [value if isinstance(value, Value) else self.constant(value) for value in inputs]
        names = [self._new(operator) for _ in range(outputs)]
        self._nodes += field(1, node(operator, [value.name for value in read], names, attributes))
        return [Value(self, name) for name in names]

    def linear(self, value: Value, weight: Array, bias: Array | None = None) -> Value:
        """W x + b along the last axis, for a weight (outputs, inputs)."""
        product = value @ weight.T
        return product if bias is None else product + bias

    def written(self, weights: bytes, restoring: bytes = b"") -> bytes:
        """The file's content, with the messages of its ``weights``, and of nodes that restore them."""
        graph = (
            restoring + self._nodes + field(2, b"graph") + self._initializers + weights + self._inputs + self._outputs
        )
        return _number(1, IR) + field(8, field(1, b"") + _number(2, OPSET)) + field(7, graph)

    def _new(self, name: str) -> str:
        self._number += 1
        return f"{name}_{self._number}"


class Session:
    """A graph that ONNX Runtime has loaded; calling it with the inputs by name gives the outputs in order."""

    def __init__(self, graph: Graph) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as `threads` has it for PyTorch
        number = os.environ.get("OMP_NUM_THREADS", "").strip()
        if number:
            options.intra_op_num_threads = int(number) if number.isdecimal() else 0
        names = list(graph.weights)
        arrays = [np.ascontiguousarray(graph.weights[name]) for name in names]
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
        options.add_external_initializers(names, values)
        # their place in a file is never read, since their values are given
        weights = [
            initializer(name, array.dtype.name, array.shape, external(location="memory"))
            for name, array in graph.weights.items()
        ]
        content = graph.written(b"".join(weights))
        self._session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._outputs = graph.outputs

    def __call__(self, **inputs: Array) -> list[Array]:
        results: list[Array] = self._session.run(self._outputs, inputs)
        return results


# ---------------------------------------------------------------- messages of onnx.proto, in Protocol Buffers' encoding


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # a negative number is its two's complement of 64 bits
    septets = bytearray()
    while number > 127:
        septets.append(number & 127 | 128)
        number >>= 7
    septets.append(number)
    return bytes(septets)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def field(number: int, content: bytes) -> bytes:
    """A field of that number with so many bytes: a text, a message, or packed values."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def initializer(name: str, kind: str, shape: Sequence[int], content: bytes) -> bytes:
    """A TensorProto among a graph's initializers, with the fields that say where its values are."""
    sides = b"".join(_number(1, side) for side in shape)
    return field(5, sides + _number(2, KINDS[kind]) + field(8, name.encode()) + content)


def external(**location: str) -> bytes:
    """The fields of a TensorProto whose values are outside of the graph."""
    entries = b"".join(field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in location.items())
    return entries + _number(14, 1)


def _described(name: str, shape: Sequence[Size], kind: str) -> bytes:
    """A ValueInfoProto."""
    sides = b"".join(field(1, _number(1, side) if isinstance(side, int) else field(2, side.encode())) for side in shape)
    return field(1, name.encode()) + field(2, field(1, _number(1, KINDS[kind]) + field(2, sides)))


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]) -> bytes:
    """A NodeProto."""
    content = b"".join(field(1, name.encode()) for name in inputs)
    content += b"".join(field(2, name.encode()) for name in outputs) + field(4, operator.encode())
    for name, value in attributes.items():
        if isinstance(value, float):
            written, kind = _varint(2 << 3 | 5) + struct.pack("<f", value), 1
        elif isinstance(value, int):
            written, kind = _number(3, value), 2
        elif isinstance(value, str):
            written, kind = field(4, value.encode()), 3
        else:  # whole numbers
            written, kind = b"".join(_number(8, number) for number in value), 7
        content += field(5, field(1, name.encode()) + written + _number(20, kind))
    return content
