"""Plain values from a pickle file, which is never executed.

Python's own `pickle.load` calls whatever functions a file names, so that a file from a stranger can do anything. Here
`pickletools` of the standard library reads the instructions and their arguments, and executes none. Only those that
make a dict, list, tuple, text, bytes, number, bool or None are followed; every other one is refused. All protocols are
read, from 0 (what Python 2 writes) to 5.

A file cannot take more memory than a multiple of its size, which is bounded: a list, dict or tuple cannot be used
twice, so values cannot contain themselves or double at each level; a whole number has at most 255 bytes; and there are
at most 10,000 lists, dicts and tuples.
"""

import codecs
import io
import pickletools
import re
import struct
from pathlib import Path
from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

LARGEST = 8 << 20  # bytes of a file, enough for 300,000 words; the authors' dictionaries have 30,000 at most
MOST_CONTAINERS = 10_000  # lists, dicts and tuples; options and dictionaries are one dict each
LONGEST_NUMBER = 255  # bytes

# How Python 2 writes a text with protocol 0: in quotes, with escapes for what is not printable ASCII.
QUOTED = re.compile(rb"""(['"])((?:(?!\1)[^\\]|\\[\\'"abfnrtv]|\\x[0-9a-fA-F]{2})*)\1""", re.DOTALL)

OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
ARGUMENTS = {  # instructions that put their argument on the stack
    *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
}
PYTHON_2 = {"STRING", "SHORT_BINSTRING", "BINSTRING"}  # texts that are bytes of unknown encoding
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}  # of that many values from the stack
REMEMBER, RECALL = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}, {"GET", "BINGET", "LONG_BINGET"}
IGNORED = {"PROTO", "FRAME"}


def read_plain(file: Path) -> Any:
    """The first value of a pickle file.

    Python 2's texts are read as UTF-8, and as Latin-1 if they are not UTF-8. Raises `SatError` for a file that is
    missing, damaged or very large, and for one that holds anything but plain values.
    """
    try:
        with open(file, "rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror}): name another file") from None
    if len(data) > LARGEST:
        raise SatError(f"{file} has more than {LARGEST >> 20} MB: it is not a pickle of options or of a dictionary")
    try:
        return _Reader(data).value()
    except (ValueError, struct.error, OverflowError) as error:
        raise SatError(f"{file} is not a pickle of plain values: {error}") from None


class _Reader:
    """A machine with a stack that follows the instructions of one pickle; raises `ValueError` for a wrong one."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)
        self.stack: list[Any] = []
        self.marks: list[int] = []  # where in the stack the content of a list, tuple or dict begins
        self.memo: dict[int, Any] = {}
        self.containers = 0

    def value(self) -> Any:
        """Follow the instructions up to the end of the first value."""
        while (name := self.instruction()) != "STOP":
            if name in CONSTANTS:
                self.stack.append(CONSTANTS[name])
            elif name in EMPTY:
                self.stack.append(self.container(EMPTY[name]()))
            elif name in ARGUMENTS or name in PYTHON_2:
                self.stack.append(plain(self.argument))
            elif name in REMEMBER:
                self.memo[len(self.memo) if name == "MEMOIZE" else self.argument] = self.top()
            elif name in RECALL:
                self.recall(self.argument)
            elif name not in IGNORED:
                self.assemble(name)
        if len(self.stack) != 1 or self.marks:
            raise ValueError("it ends with more than one value, or with none")
        return self.stack[0]

    def instruction(self) -> str:
        """Read an instruction and its argument; gives its name."""
        code = self.stream.read(1)
        if not code:
            raise ValueError(f"it is cut short after {self.stream.tell()} bytes")
        opcode = OPCODES.get(code)
        if opcode is None:
            raise ValueError(f"it has the instruction 0x{code.hex()}, which there is not")
        if opcode.name == "STRING":
            self.argument: Any = old_text(quoted(self.stream.readline()))
        else:
            self.argument = None if opcode.arg is None else opcode.arg.reader(self.stream)
        if opcode.name in PYTHON_2 - {"STRING"}:
            self.argument = old_text(self.argument.encode("latin-1"))
        return opcode.name

    def container(self, made: Any) -> Any:
        """Count a new list, dict or tuple."""
        self.containers += 1
        if self.containers > MOST_CONTAINERS:
            raise ValueError(f"it has more than {MOST_CONTAINERS:,} lists, dicts and tuples")
        return made

    def recall(self, number: int) -> None:
        """Put the value that was remembered under a number on the stack again."""
        if number not in self.memo:
            raise ValueError(f"it recalls value {number}, which is not there")
        if isinstance(self.memo[number], (dict, list, tuple)):
            raise ValueError(f"it uses one {type(self.memo[number]).__name__} in two places, which is not read here")
        self.stack.append(self.memo[number])

    def assemble(self, name: str) -> None:
        """Follow an instruction that makes or fills a list, tuple or dict."""
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name in TUPLES:
            self.stack.append(self.container(tuple(self.last(TUPLES[name]))))
        elif name == "TUPLE":
            self.stack.append(self.container(tuple(self.since_mark())))
        elif name == "LIST":
            self.stack.append(self.container(self.since_mark()))
        elif name == "DICT":
            entries = self.since_mark()
            self.stack.append(self.container({}))
            self.fill_dict(entries)
        elif name in ("APPEND", "APPENDS"):
            self.fill_list(self.last(1) if name == "APPEND" else self.since_mark())
        elif name in ("SETITEM", "SETITEMS"):
            self.fill_dict(self.last(2) if name == "SETITEM" else self.since_mark())
        else:
            raise ValueError(
                f"it has the instruction {name}, and only dict, list, tuple, text, bytes, numbers, True, False and "
                "None are read, because anything else could run a program. Make the file again from these types alone"
            )

    def fill_list(self, values: list[Any]) -> None:
        """Add values to the list that is the last value of the stack."""
        if not isinstance(self.top(), list):
            raise ValueError("it adds a value to what is not a list")
        self.stack[-1].extend(values)

    def fill_dict(self, values: list[Any]) -> None:
        """Add keys and values, in turn, to the dict that is the last value of the stack."""
        if not isinstance(self.top(), dict) or len(values) % 2:
            raise ValueError("it adds an entry to what is not a dict, or half an entry")
        for key in values[::2]:
            if isinstance(key, (dict, list, tuple)):
                raise ValueError(f"a key of a dict is a {type(key).__name__}")
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def top(self) -> Any:
        """The last value of the stack, which stays there."""
        (value,) = self.last(1)
        self.stack.append(value)
        return value

    def last(self, number: int) -> list[Any]:
        """That many values from the end of the stack."""
        start = len(self.stack) - number
        if start < (self.marks[-1] if self.marks else 0):
            raise ValueError("an instruction lacks its value")
        values, self.stack[start:] = self.stack[start:], []
        return values

    def since_mark(self) -> list[Any]:
        """The values from the last mark to the end of the stack."""
        if not self.marks:
            raise ValueError("an instruction lacks its value")
        return self.last(len(self.stack) - self.marks.pop())


def plain(value: Any) -> Any:
    """A value as it was read. Raises `ValueError` for a very large number and for half of a character."""
    if isinstance(value, int) and value.bit_length() > 8 * LONGEST_NUMBER:
        raise ValueError(f"a whole number has {value.bit_length() // 8} bytes")
    if isinstance(value, str):
        value.encode("utf-8")
    return value


def quoted(line: bytes) -> bytes:
    """The bytes of a text as Python 2 writes it with protocol 0."""
    found = QUOTED.fullmatch(line.removesuffix(b"\n"))
    if found is None or not line.endswith(b"\n"):
        raise ValueError(f"{shorten(line)} is not a text in quotes")
    return bytes(codecs.escape_decode(found[2])[0])


def old_text(raw: bytes) -> str:
    """A text of Python 2, which is bytes of unknown encoding."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
