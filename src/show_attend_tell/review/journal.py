"""A journal: a file of JSON lines that only grows, in which an entry is on the disk before it counts."""

import json
import os
from contextlib import suppress
from pathlib import Path

from show_attend_tell.errors import SatError
from show_attend_tell.values import Record


class Journal:
    """Entries beside a table. A line that was cut off, because the process was killed, was never confirmed."""

    def __init__(self, file: Path) -> None:
        """Open the file, or make it. Raises `SatError` where that cannot be."""
        self.file = file
        try:
            self._handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise self._problem(error, "name a table in another folder: --output FILE.csv") from None

    def _problem(self, error: OSError, remedy: str) -> SatError:
        return SatError(f"cannot be written ({error.strerror})", subject=str(self.file), remedy=remedy)

    def entries(self) -> list[Record]:
        """All entries that are whole; what is cut off at the end is removed."""
        content = self.file.read_bytes()
        whole = content.rfind(b"\n") + 1
        os.ftruncate(self._handle, whole)
        found = []
        for line in content[:whole].splitlines():
            with suppress(ValueError):  # damaged by something else; the other lines count
                found.append(json.loads(line))
        return [entry for entry in found if isinstance(entry, dict)]

    def append(self, entry: Record) -> None:
        """Add an entry. When this returns it is on the disk; where it raises `SatError`, nothing was added."""
        left = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        before = None
        try:
            before = os.fstat(self._handle).st_size
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError as error:
            if before is not None:
                with suppress(OSError):
                    os.ftruncate(self._handle, before)
            raise self._problem(error, "make room, and decide again") from None

    def close(self) -> None:
        """Close the file; a thread that still appends to it gets a `SatError`."""
        handle = self._handle
        self._handle = -1
        os.close(handle)
