"""A dict of texts, numbers, True, False and None from a pickle file, which is never executed.

Python's own `pickle.load` calls whatever functions a file names, so that a file from a stranger can do anything. Here
`pickletools` of the standard library reads the instructions and their arguments, and executes none. Only those that
make such a dict are followed; every other one is refused. All protocols are read, from 0 (what Python 2 writes) to 5.

A file cannot take more memory than a multiple of its size, which is bounded: there is one dict and no other container,
and a whole number has at most 255 bytes.
"""

import codecs
import io
import pickletools
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

LARGEST = 8 << 20  # bytes of a file, enough for 300,000 words; the authors' dictionaries have 30,000 at most
LONGEST_NUMBER = 255  # bytes

# How Python 2 writes a text with protocol 0: in quotes, with escapes for what is not printable ASCII.
QUOTED = re.compile(rb"""(['"])((?:(?!\1)[^\\]|\\[\\'"abfnrtv]|\\x[0-9a-fA-F]{2})*)\1\n""", re.DOTALL)

OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
VALUES = {  # instructions whose argument is a value
    *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "SHORT_BINSTRING", "BINSTRING"),
}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
REMEMBER, RECALL = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}, {"GET", "BINGET", "LONG_BINGET"}
IGNORED = {"PROTO", "FRAME"}
MARK = object()  # what stands in the stack before the entries of a dict


def read_dict(file: Path) -> dict[Any, Any]:
    """The dict in a pickle file.

    Python 2's texts are read as UTF-8, and as Latin-1 if they are not UTF-8. Raises `SatError` for a file that is
    missing, damaged or very large, and for one that holds anything but a dict of plain values.
    """
    try:
        with open(file, "rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror}): name another file") from None
    if len(data) > LARGEST:
        raise SatError(f"{file} has more than {LARGEST >> 20} MB: it is not a pickle of options or of a dictionary")
    try:
        return _follow(data)
    except (ValueError, struct.error, OverflowError) as error:
        raise SatError(f"{file} is not a pickle of a dict of plain values: {error}") from None
    except IndexError:
        raise SatError(f"{file} is not a pickle of a dict of plain values: an instruction lacks its value") from None


def _follow(data: bytes) -> dict[Any, Any]:
    """Follow the instructions of a pickle on a stack, up to its end; raises `ValueError` or `IndexError`."""
    found: dict[Any, Any] | None = None
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = max((place for place, value in enumerate(stack) if value is MARK), default=len(stack))
        stack[start], values = None, stack[start + 1 :]
        del stack[start:]
        return values

    for name, argument in _instructions(data):
        if name in VALUES or name in CONSTANTS:
            stack.append(CONSTANTS.get(name, argument))
        elif name == "MARK":
            stack.append(MARK)
        elif name in ("EMPTY_DICT", "DICT") and found is None:
            entries = since_mark() if name == "DICT" else []
            found = {}
            stack.append(found)
            _fill(found, found, entries)
        elif name in ("SETITEM", "SETITEMS"):
            entries = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else since_mark()
            _fill(found, stack[-1], entries)
        elif name in REMEMBER:
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in RECALL:
            if argument not in memo:
                raise ValueError(f"it recalls value {argument}, which is not there")
            stack.append(memo[argument])
        elif name not in IGNORED:
            raise ValueError(
                f"it has the instruction {name}, and only one dict of texts, numbers, True, False and None is read, "
                "because anything else could run a program. Make the file again from these types alone"
            )
    if found is None or stack != [found]:
        raise ValueError("it ends with more than one value, or with none")
    return found


def _fill(found: dict[Any, Any] | None, target: Any, entries: list[Any]) -> None:
    """Add keys and values, in turn, to the dict that was found, which has to be the target."""
    if target is not found or found is None or len(entries) % 2:
        raise ValueError("it adds an entry to what is not a dict, or half an entry")
    if any(value is found or value is MARK for value in entries):
        raise ValueError("it has a dict in itself")
    found.update(zip(entries[::2], entries[1::2], strict=True))


def _instructions(data: bytes) -> Iterator[tuple[str, Any]]:
    """The names of the instructions up to the end, with their arguments."""
    stream = io.BytesIO(data)
    while code := stream.read(1):
        opcode = OPCODES.get(code)
        if opcode is None:
            raise ValueError(f"it has the instruction 0x{code.hex()}, which there is not")
        if opcode.name == "STOP":
            return
        if opcode.name == "STRING":
            argument: Any = _old_text(_quoted(stream.readline()))
        else:
            argument = None if opcode.arg is None else opcode.arg.reader(stream)
        if opcode.name in ("SHORT_BINSTRING", "BINSTRING"):
            argument = _old_text(argument.encode("latin-1"))
        if isinstance(argument, int) and argument.bit_length() > 8 * LONGEST_NUMBER:
            raise ValueError(f"a whole number has {argument.bit_length() // 8} bytes")
        if isinstance(argument, str):
            argument.encode("utf-8")  # raises ValueError for half of a character
        yield opcode.name, argument
    raise ValueError(f"it is cut short after {stream.tell()} bytes")


def _quoted(line: bytes) -> bytes:
    """The bytes of a text as Python 2 writes it with protocol 0."""
    found = QUOTED.fullmatch(line)
    if found is None:
        raise ValueError(f"{shorten(line)} is not a text in quotes")
    return bytes(codecs.escape_decode(found[2])[0])


def _old_text(raw: bytes) -> str:
    """A text of Python 2, which is bytes of unknown encoding."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
