"""The files of output: one for each shard, and beside it one with the photos that failed.

    out.parquet/                      a folder that Parquet's readers take for one table
        _plan.json, _plan.jsonl       the plan of all shards (`engine`); the readers pass over names with _ first
        part-00000.parquet            of the first shard
    out-quarantine.parquet/
        part-00000.parquet            source and reason of each photo of the first shard that failed

A file is written under another name, and then renamed. So a shard is done if its file is there, and each photo is in
the output once, however often a shard was begun. Rows are written as they are made.
"""

import base64
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from show_attend_tell.data.shards.sources import pyarrow_parquet
from show_attend_tell.errors import SatError

Kind = Literal["text", "number", "flag", "bytes"]
Row = Mapping[str, Any]
FORMS = ("parquet", "jsonl")
SCRATCH = ".writing-"  # how the name of a file begins that is not whole yet
ROWS = 256  # that are held before they are written
QUARANTINE: dict[str, Kind] = {"source": "text", "reason": "text"}


def form_of(output: Path) -> str:
    """The form of the files of output, by its name's ending. Raises `SatError` for another one."""
    form = output.suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise SatError(f"{output}: name an output that ends in .{' or .'.join(FORMS)}")
    if form == "parquet":
        pyarrow_parquet()
    return form


def quarantine_of(output: Path) -> Path:
    """The folder of the photos that failed."""
    return output.with_name(f"{output.stem}-quarantine{output.suffix}")


def part_name(number: int, form: str) -> str:
    """The name of a shard's file."""
    return f"part-{number:05d}.{form}"


def failures(output: Path, shards: int) -> int:
    """How many photos of the first shards failed."""
    form = form_of(output)
    files = [quarantine_of(output) / part_name(number, form) for number in range(shards)]
    return sum(_rows_of(file) for file in files if file.exists())


def _rows_of(file: Path) -> int:
    if file.suffix == ".parquet":
        return int(pyarrow_parquet().read_metadata(file).num_rows)
    with open(file, "rb") as lines:
        return sum(1 for _ in lines)


class Part(Protocol):
    """A file of rows that is being written."""

    def add(self, row: Row) -> None:
        """Write a row, now or soon."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...

    def leave(self) -> None:
        """Let go of the file."""
        ...


class _Lines:
    """Rows as JSON, one a line; bytes in base64."""

    def __init__(self, file: Path, columns: Mapping[str, Kind], note: str) -> None:
        self.file = open(file, "w", encoding="utf-8")  # noqa: SIM115
        self.columns = columns

    def add(self, row: Row) -> None:
        plain = {
            name: base64.b64encode(row[name]).decode() if kind == "bytes" else row[name]
            for name, kind in self.columns.items()
        }
        self.file.write(json.dumps(plain, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def leave(self) -> None:
        self.file.close()


class _Table:
    """Rows of a Parquet file."""

    def __init__(self, file: Path, columns: Mapping[str, Kind], note: str) -> None:
        import pyarrow

        parquet = pyarrow_parquet()
        kinds = {"text": pyarrow.string(), "number": pyarrow.float64(), "flag": pyarrow.bool_()}
        kinds["bytes"] = pyarrow.binary()
        fields = [(name, kinds[kind]) for name, kind in columns.items()]
        self.schema = pyarrow.schema(fields, metadata={"show_attend_tell": note})
        self.file = open(file, "wb")  # noqa: SIM115
        self.writer = parquet.ParquetWriter(self.file, self.schema)
        self.batch, self.rows = pyarrow.RecordBatch, list[Row]()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if len(self.rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        self.writer.write_batch(self.batch.from_pylist(self.rows, schema=self.schema))
        self.rows = []

    def close(self) -> None:
        if self.rows:
            self._flush()
        self.writer.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def leave(self) -> None:
        try:
            self.writer.close()  # otherwise it would be closed after its file
        finally:
            self.file.close()


class ShardFile:
    """The files of one shard: rows go to one, failures to the other. `finish` puts both in their places."""

    def __init__(self, output: Path, number: int, columns: Mapping[str, Kind], note: str) -> None:
        self.form = form_of(output)
        self.files = [folder / part_name(number, self.form) for folder in (output, quarantine_of(output))]
        self.columns: list[Mapping[str, Kind]] = [columns, QUARANTINE]
        self.note, self.written = note, [0, 0]
        own = uuid.uuid4().hex[:12]  # another worker may write the same shard
        self.scratch = [file.with_name(f"{SCRATCH}{own}-{file.name}") for file in self.files]
        self.parts: list[Part | None] = [None, None]

    def add(self, row: Row) -> None:
        """Keep what was made of a photo."""
        self._add(0, row)

    def fail(self, source: str, reason: str) -> None:
        """Keep why nothing was made of a photo."""
        self._add(1, {"source": source, "reason": reason})

    def _part(self, which: int) -> Part:
        part = self.parts[which]
        if part is None:
            self.files[which].parent.mkdir(parents=True, exist_ok=True)
            kind = _Table if self.form == "parquet" else _Lines
            part = self.parts[which] = kind(self.scratch[which], self.columns[which], self.note)
        return part

    def _add(self, which: int, row: Row) -> None:
        with self._told():
            self._part(which).add({name: _writable(row[name]) for name in self.columns[which]})
        self.written[which] += 1

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Make an error of the disk one that names the file."""
        try:
            yield
        except OSError as error:
            raise SatError(
                f"{self.files[0]} cannot be written ({error.strerror or error}): make room, and give the command again"
            ) from error

    def finish(self) -> None:
        """Put the files in their places: first that of the failures, since the other one says that all is done."""
        with self._told():
            self._part(0)
            for part in self.parts:
                if part is not None:
                    part.close()
            if self.parts[1] is None:
                self.files[1].unlink(missing_ok=True)  # of an earlier attempt
            else:
                os.replace(self.scratch[1], self.files[1])
            os.replace(self.scratch[0], self.files[0])
        self.parts = [None, None]

    def drop(self) -> None:
        """Leave nothing behind of a shard that was not finished."""
        for part in self.parts:
            if part is not None:
                with suppress(OSError):  # a full disk, say: what was not written is not needed
                    part.leave()
        for scratch in self.scratch:
            scratch.unlink(missing_ok=True)


def _writable(value: Any) -> Any:
    """A text that can be written: a file's name may hold bytes that are not UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def sweep(output: Path) -> None:
    """Remove what workers that were killed have left half written."""
    for folder in (output, quarantine_of(output)):
        for scratch in folder.glob(f"{SCRATCH}*"):
            scratch.unlink(missing_ok=True)
