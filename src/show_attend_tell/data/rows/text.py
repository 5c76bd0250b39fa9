"""The text of a file, in whatever encoding a spreadsheet or a script has left it, maybe gzipped."""

import gzip
import re
import zlib
from pathlib import Path

from show_attend_tell.errors import MissingFile, SatError
from show_attend_tell.messages import first_three

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decoded(file: Path, notes: list[str]) -> str:
    """The text of a file in UTF-8, UTF-16 or Windows-1252; ``notes`` get a line where it is the last.

    A file whose name ends in ``.gz`` is unpacked. Raises `SatError` for a damaged file.
    """
    data = _bytes_of(file)
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        if b"\0" in data[:2]:
            return data.decode("utf-16-be" if data[:1] == b"\0" else "utf-16-le")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        reason = error.reason
    text = data.decode("cp1252", "replace")
    lenient = data.decode("utf-8", "replace")
    damaged = lenient.count(REPLACEMENT)
    sound = sum(letter > "\x7f" for letter in lenient) - damaged
    if REPLACEMENT in text or sound >= damaged or "\0" in text:
        raise SatError(f"{file}: line {line} is damaged ({reason}); save it as UTF-8")
    words = dict.fromkeys(re.findall(r"\w*[^\x00-\x7f\W]\w*", text))
    notes.append(
        f"{file.name} is not UTF-8, so it is read as Windows-1252"
        + (f". Words with other letters: {first_three(words)}" if words else "")
    )
    return text


def _bytes_of(file: Path) -> bytes:
    """What a file holds, unpacked where it is gzipped."""
    try:
        data = file.read_bytes()
        return gzip.decompress(data) if file.suffix.lower() == ".gz" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SatError(f"{file} cannot be read ({error}): give a text file in UTF-8, which may be gzipped") from None
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else SatError
        raise kind(f"cannot read {file} ({error.strerror})", remedy="name a text file that exists") from None
