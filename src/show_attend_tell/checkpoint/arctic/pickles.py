"""Plain values from a pickle file, which is never executed.

Python's own `pickle.load` calls whatever functions a file names, so that a file from a stranger can do anything. The
reader here knows only the instructions that make a dict, list, tuple, text, bytes, number, bool or None. It refuses
every other instruction. It reads all protocols, from 0 (what Python 2 writes) to 5.

A file cannot take more memory than a multiple of its size, which is bounded:

- a size that the file states is compared with the bytes that are left, before anything is read;
- a list, dict or tuple cannot be used twice, so values cannot contain themselves or double at each level;
- a whole number has at most 255 bytes;
- there are at most 10,000 lists, dicts and tuples, and a million values that are remembered for a second use.
"""

import codecs
import pickletools
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

LARGEST = 8 << 20  # bytes of a file, enough for 300,000 words; the authors' dictionaries have 30,000 at most
MOST_REMEMBERED = 1_000_000  # values
MOST_CONTAINERS = 10_000  # lists, dicts and tuples; options and dictionaries are one dict each
LONGEST_NUMBER = 255  # bytes or digits

# How Python 2 writes a text with protocol 0: in quotes, with escapes for what is not printable ASCII.
QUOTED = re.compile(rb"""(['"])((?:(?!\1)[^\\]|\\[\\'"abfnrtv]|\\x[0-9a-fA-F]{2})*)\1""", re.DOTALL)


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
    except _Damaged as error:
        raise SatError(f"{file} is not a pickle of plain values: {error}") from None


class _Damaged(Exception):
    """What is wrong with a file, for its message."""


def old_text(raw: bytes) -> str:
    """A text of Python 2, which is bytes of unknown encoding."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def new_text(raw: bytes) -> str:
    """A text of Python 3, or Python 2's unicode."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Damaged(f"a text is not UTF-8 ({error.reason})") from None


def written_text(line: bytes) -> str:
    """Python 2's text as it is written with protocol 0."""
    quoted = QUOTED.fullmatch(line)
    if quoted is None:
        raise _Damaged(f"{shorten(line)} is not a text in quotes")
    raw, _ = codecs.escape_decode(quoted[2])
    return old_text(bytes(raw))


def escaped_text(line: bytes) -> str:
    """Python 2's unicode as it is written with protocol 0."""
    try:
        text = line.decode("raw-unicode-escape")
        text.encode("utf-8")
    except UnicodeError as error:
        raise _Damaged(f"a text cannot be decoded ({error})") from None
    return text


def written_whole(line: bytes) -> int | bool:
    """A whole number as it is written with protocol 0; 00 and 01 are False and True."""
    if line in (b"00", b"01"):
        return line == b"01"
    line = line.removesuffix(b"L")
    if len(line) > LONGEST_NUMBER or not re.fullmatch(rb"[+-]?[0-9]+", line):
        raise _Damaged(f"{shorten(line)} is not a whole number")
    return int(line)


def written_number(line: bytes) -> float:
    """A floating-point number as it is written with protocol 0."""
    try:
        return float(line)
    except ValueError:
        raise _Damaged(f"{shorten(line)} is not a number") from None


def long_whole(raw: bytes) -> int:
    """A whole number of any size."""
    if len(raw) > LONGEST_NUMBER:
        raise _Damaged(f"a whole number has {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


# The instructions by their opcodes. Each of the first three kinds puts one value on the stack.
CONSTANTS: dict[bytes, Callable[[], Any]] = {
    b"N": lambda: None,
    b"\x88": lambda: True,
    b"\x89": lambda: False,
    b"}": dict,
    b"]": list,
    b")": tuple,
}
FIXED = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}  # numbers: their layouts
LINES: dict[bytes, Callable[[bytes], Any]] = {  # what stands in a line of its own
    b"S": written_text,
    b"V": escaped_text,
    b"I": written_whole,
    b"L": written_whole,
    b"F": written_number,
}
SIZED: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {  # a size, and that many bytes
    b"U": ("<B", old_text),
    b"T": ("<i", old_text),
    b"\x8c": ("<B", new_text),
    b"X": ("<I", new_text),
    b"\x8d": ("<Q", new_text),
    b"C": ("<B", bytes),
    b"B": ("<I", bytes),
    b"\x8e": ("<Q", bytes),
    b"\x8a": ("<B", long_whole),
    b"\x8b": ("<i", long_whole),
}
CONTAINERS = b"}])ldt\x85\x86\x87"  # instructions that make a list, dict or tuple
TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}  # of that many values from the stack
REMEMBER = {b"q": "<B", b"r": "<I"}  # the layout of the number under which the last value is remembered
RECALL = {b"h": "<B", b"j": "<I"}
IGNORED = {b"\x80": 1, b"\x95": 8}  # the protocol and a frame: so many bytes to skip
NAMES = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes}


class _Reader:
    """A machine with a stack that follows the instructions of one pickle."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []  # places in the stack where the content of a list or dict begins
        self.memo: dict[int, Any] = {}
        self.containers = 0

    def value(self) -> Any:
        """Follow the instructions up to the end of the first value."""
        while (code := self.take(1)) != b".":
            self.containers += code in CONTAINERS
            if self.containers > MOST_CONTAINERS:
                raise _Damaged(f"it has more than {MOST_CONTAINERS:,} lists, dicts and tuples")
            if code in CONSTANTS:
                self.stack.append(CONSTANTS[code]())
            elif code in FIXED:
                self.stack.append(self.number(FIXED[code]))
            elif code in LINES:
                self.stack.append(LINES[code](self.line()))
            elif code in SIZED:
                layout, read = SIZED[code]
                self.stack.append(read(self.take(int(self.number(layout)))))
            elif code in IGNORED:
                self.take(IGNORED[code])
            elif not self.remembered(code):
                self.assemble(code)
        if len(self.stack) != 1 or self.marks:
            raise _Damaged("it ends with more than one value, or with none")
        return self.stack[0]

    def remembered(self, code: bytes) -> bool:
        """Follow an instruction that remembers or recalls a value; False for another instruction."""
        if code in REMEMBER:
            self.remember(int(self.number(REMEMBER[code])))
        elif code == b"p":
            self.remember(written_whole(self.line()))
        elif code == b"\x94":
            self.remember(len(self.memo))
        elif code in RECALL:
            self.recall(int(self.number(RECALL[code])))
        elif code == b"g":
            self.recall(written_whole(self.line()))
        else:
            return False
        return True

    def remember(self, number: int) -> None:
        """Remember the last value under a number."""
        if len(self.memo) == MOST_REMEMBERED:
            raise _Damaged(f"it remembers more than {MOST_REMEMBERED:,} values")
        self.memo[number] = self.top()

    def recall(self, number: int) -> None:
        """Put the value that was remembered under a number on the stack again."""
        if number not in self.memo:
            raise _Damaged(f"it recalls value {number}, which is not there")
        if isinstance(self.memo[number], (dict, list, tuple)):
            raise _Damaged(f"it uses one {type(self.memo[number]).__name__} in two places, which is not read here")
        self.stack.append(self.memo[number])

    def assemble(self, code: bytes) -> None:
        """Follow an instruction that makes or fills a list, tuple or dict."""
        if code == b"(":
            self.marks.append(len(self.stack))
        elif code in TUPLES:
            self.stack.append(tuple(self.last(TUPLES[code])))
        elif code == b"t":
            self.stack.append(tuple(self.since_mark()))
        elif code == b"l":
            self.stack.append(self.since_mark())
        elif code == b"d":
            entries = self.since_mark()
            self.stack.append({})
            self.fill_dict(entries)
        elif code == b"a":
            self.fill_list(self.last(1))
        elif code == b"e":
            self.fill_list(self.since_mark())
        elif code == b"s":
            self.fill_dict(self.last(2))
        elif code == b"u":
            self.fill_dict(self.since_mark())
        else:
            name = NAMES.get(code, f"0x{code.hex()}")
            raise _Damaged(
                f"it has the instruction {name}, and only dict, list, tuple, text, bytes, numbers, True, False and "
                "None are read, because anything else could run a program. Make the file again from these types alone"
            )

    def fill_list(self, values: list[Any]) -> None:
        """Add values to the list that is the last value of the stack."""
        if not isinstance(self.top(), list):
            raise _Damaged("it adds a value to what is not a list")
        self.stack[-1].extend(values)

    def fill_dict(self, values: list[Any]) -> None:
        """Add keys and values, in turn, to the dict that is the last value of the stack."""
        if not isinstance(self.top(), dict) or len(values) % 2:
            raise _Damaged("it adds an entry to what is not a dict, or half an entry")
        for key in values[::2]:
            if isinstance(key, (dict, list, tuple)):
                raise _Damaged(f"a key of a dict is a {type(key).__name__}")
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise _Damaged(f"it breaks off after {len(self.data)} bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def line(self) -> bytes:
        """The bytes up to the end of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise _Damaged(f"it breaks off after {len(self.data)} bytes")
        line = self.data[self.at : end]
        self.at = end + 1
        return line

    def number(self, layout: str) -> int | float:
        """The next number, of that layout."""
        found: int | float = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return found

    def top(self) -> Any:
        """The last value of the stack, which stays there."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise _Damaged("an instruction lacks its value")
        return self.stack[-1]

    def last(self, number: int) -> list[Any]:
        """That many values from the end of the stack."""
        if len(self.stack) - number < (self.marks[-1] if self.marks else 0):
            raise _Damaged("an instruction lacks its values")
        values = self.stack[-number:]
        del self.stack[-number:]
        return values

    def since_mark(self) -> list[Any]:
        """The values from the last mark to the end of the stack."""
        if not self.marks:
            raise _Damaged("an instruction lacks its values")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values
