"""The output of a run: a table with a row for each photo, as one file or as a folder of parts.

    captions.csv              the rows
    .captions.csv.parts/      rows of a run that has not ended, and what made the file

    captions.parquet/         a folder, which Parquet's readers take for one table
        _manifest.json        what made it: the model, its settings, the sources; readers pass over names with _
        RUN-….parquet         rows; RUN is a run's own name

A part is there as a whole, or its writer was killed: then it has no valid end, and the next run removes it. So the
photos that a run still has to do are those whose sources neither the file nor a part holds, those of rows with errors,
and those whose file has another size or time than it had. At the end of a run the parts become the file, which stays as
it was until then. In a folder of parts, rows that are to be made again are taken out first.

A row whose caption a person has edited (`reading.signature`) or reviewed is never made again, and what stands in
columns of their own stays too.
"""

import csv
import hashlib
import json
import time
import uuid
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.batch.reading import KEY, SIGNED, signature, spelled
from show_attend_tell.batch.sources import MANIFEST, Piece, file_system, pyarrow_parquet
from show_attend_tell.batch.tables import FORMS, read_rows, write_rows
from show_attend_tell.batch.work import Row
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.files import atomic_write, file_lock

SECONDS = 30.0  # of work that a command loses at most when it is killed
ANOTHER = "name another output, or give --overwrite, which keeps a copy"


class Sources:
    """The sources of rows, as hashes of 16 bytes, and how many of the rows have an error."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.hashes: set[bytes] = set()
        self.errors = 0
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Add the source of a row."""
        self.hashes.add(_hash(row["source"]))
        self.errors += bool(row.get("error"))

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, source: object) -> bool:
        return _hash(str(source)) in self.hashes


def _hash(source: str) -> bytes:
    return hashlib.blake2b(spelled(source).encode(), digest_size=16).digest()


def _own(row: Row) -> Row:
    """What a row says of itself: its source, its error, the version of its photo's file, and whether it was edited."""
    if not isinstance(row["source"], str):
        raise TypeError("no source")
    caption = row.get("caption") or ""
    version, signed, _ = (row.get("file_version") or "").partition(SIGNED)
    edited = not row["file_version"].endswith(signature(caption)) if signed else bool(caption and row["error"])
    edited = edited or bool(row.get("reviewed"))  # in `sat review`
    return {
        "source": row["source"],
        "error": None if edited else row["error"],
        "file_version": None if edited else version,
        "edited": edited,
    }


class Output:
    """A table of rows, on this machine or behind an address; with ``folder`` it is one of parts."""

    together = 1000  # rows of a part, at most

    def __init__(self, address: str, columns: Mapping[str, str], *, folder: bool) -> None:
        self.address = address.rstrip("/")
        self.columns = {**KEY, **columns}
        self.form = self.address.rpartition(".")[2].lower()
        forms = FORMS if not folder and "binary" not in columns.values() else ("jsonl", "parquet")
        if self.form not in forms:
            raise InvalidValue(f"its name must end in .{', .'.join(forms)}: name another output", subject=address)
        if self.form == "parquet":
            pyarrow_parquet()
        self.system, path = file_system(self.address)
        self.file = None if folder else path
        self.folder = path if folder else _parts_of(path)
        self.part_form = "parquet" if self.form == "parquet" else "jsonl"
        self.run = uuid.uuid4().hex[:12]
        self.written = 0  # parts of this run
        self.waiting: list[Row] = []  # for the next part
        self.due = time.monotonic() + SECONDS  # when it is written at the latest
        self.earlier: set[str] = set()  # the parts of earlier runs
        self.done = Sources()  # the sources of rows that are not to be made again
        self.again = 0  # rows that are to be made again
        self.copy = ""  # what was there and was set aside

    def __contains__(self, source: object) -> bool:
        return source in self.done

    def __len__(self) -> int:
        return len(self.done)

    @contextmanager
    def opened(
        self, manifest: Mapping[str, Any], pieces: Sequence[Piece], *, overwrite: bool = False
    ) -> Iterator[None]:
        """Find out what is ``done``; other processes of this machine are kept out meanwhile.

        Rows with errors, and of files in ``pieces`` that have changed since, are to be done again. With ``overwrite``,
        an output of another manifest is set aside. Raises `SatError` for one without it.
        """
        if self.file is None and self.system.isfile(self.folder):
            raise SatError("a file: name another output, which becomes a folder of files", subject=self.address)
        if self.file is not None and self.system.isdir(self.file):
            remedy = f"give {self.address}/ for a folder of parts, or name another output"
            raise SatError("a folder", subject=self.address, remedy=remedy)
        with ExitStack() as locks:
            self._lock(locks)
            plain = json.loads(json.dumps(manifest))
            if why := self._differs(plain):
                if not overwrite:
                    with suppress(OSError):  # it is not empty, or an object store has no folders
                        self.system.rmdir(self.folder)
                    raise SatError(why, subject=self.address, remedy=ANOTHER)
                self.copy = self.set_aside()
                self._lock(locks)
            content = json.dumps(plain, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")
            self.put(f"{self.folder}/{MANIFEST}", lambda stream: stream.write(content))
            self.versions = {  # of the files of photos, by the hashes of their sources
                _hash(name): version
                for piece in pieces
                for name, version in zip(piece.names, piece.versions, strict=False)  # tar files have none
            }
            self._take_out()
            self.earlier = self._files()
            self.done = self._find_done()
            try:
                yield
            finally:
                self._write_waiting()

    def _lock(self, locks: ExitStack) -> None:
        """Make the folder, keep other processes of this machine out of it, and remove what a killed one has left."""
        self.system.makedirs(self.folder, exist_ok=True)
        if isinstance(self.system, LocalFileSystem):
            refusal = f"another process writes {self.address}: wait for it, or name another output"
            locks.enter_context(file_lock(Path(self.folder), refusal=refusal))
            for left in Path(self.folder).glob(".*.part"):
                left.unlink()

    def _differs(self, manifest: dict[str, Any]) -> str:
        """Why this run cannot go on with what is there, or nothing; takes the sizes of files that came since over."""
        if not self.has_manifest:
            if self.file is not None and self.system.exists(self.file):
                return "exists already, and was not made by a run"
            files = self.system.ls(self.folder, detail=False)
            return "the folder has files that no run made" if files else ""
        try:
            before = json.loads(self.system.cat_file(f"{self.folder}/{MANIFEST}"))
            sizes = {**before["file_sizes"], **manifest["file_sizes"]}
            if before["file_sizes"].items() <= sizes.items():  # files may come, and none has changed
                before["file_sizes"] = sizes
                manifest["file_sizes"] = sizes
        except (ValueError, KeyError, TypeError):
            return f"its {MANIFEST} is damaged"
        changed = [
            name.replace("_", " ") for name in sorted({*before, *manifest}) if before.get(name) != manifest.get(name)
        ]
        return f"begun with other {' and '.join(changed)}" if changed else ""

    @property
    def has_manifest(self) -> bool:
        """Whether a run that can be resumed made it."""
        return bool(self.system.exists(f"{self.folder}/{MANIFEST}"))

    def set_aside(self) -> str:
        """Give what is there another name, captions-1.csv for captions.csv, and return it."""
        path = self.file or self.folder
        stem, dot, ending = path.rpartition(".")
        names = (f"{stem}-{number}{dot}{ending}" for number in count(1))
        copy = next(name for name in names if not any(map(self.system.exists, (name, _parts_of(name)))))
        if self.system.exists(path):
            self.system.mv(path, copy, recursive=True)
        if self.file is not None and self.system.exists(self.folder):
            self.system.mv(self.folder, _parts_of(copy), recursive=True)
        return copy

    def finish(self, *, ended: bool = True) -> Sources:
        """Make the file of its parts, and return the sources of all rows; if not ``ended``, of those done so far.

        A row is replaced by one of the same source, unless a person edited it. One to be made again that was not stays
        until a run has ended: then its photo is gone.
        """
        self._write_waiting()
        for name in self._files() - self.earlier:
            if not name.startswith(self.run):  # of a worker of an earlier run: its photos were done again
                self.remove(f"{self.folder}/{name}")
        if self.file is not None and ((paths := self._parts()) or (ended and self.again)):
            rows = self._merged(self.file, paths, ended=ended)
            self.put(self.file, lambda stream: write_rows(stream, rows, self.columns, self.form))
            for path in paths:
                self.remove(path)
        rows = self._rows(*self._parts(), self.file)
        return Sources(rows if ended else filter(self._stands, rows))

    def _merged(self, file: str, paths: Sequence[str], *, ended: bool) -> Iterator[Row]:
        """The rows of the file that stay, and then those of the parts, with what a person wrote into other columns."""
        new = Sources(self._rows(*paths))
        edited: set[str] = set()
        others: Row = {}  # the columns of a person
        replaced: dict[str, Row] = {}  # what they say of photos whose rows are replaced
        for row in self.read(file, self.form):
            own = _own(row)
            more = {name: value for name, value in row.items() if name not in self.columns}
            others |= dict.fromkeys(more)
            if row["source"] in new and not own["edited"]:
                replaced[row["source"]] = more
            elif own["edited"] or not ended or self._stands(own):
                edited |= {row["source"]} if own["edited"] else set()
                yield row
        for path in paths:
            for row in self.read(path, self.part_form):
                if row["source"] not in edited:
                    yield {**row, **others, **replaced.get(row["source"], {})}

    def _files(self) -> set[str]:
        """The names of the files with parts of the rows."""
        self.system.invalidate_cache()
        names = (str(path).rpartition("/")[2] for path in self.system.ls(self.folder, detail=False))
        return {name for name in names if name.endswith(f".{self.part_form}") and name[0] not in "._"}

    def _parts(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in sorted(self._files())]

    def _stands(self, row: Row) -> bool:
        """Whether a row, as `_own` has it, is not to be made again: no error, and its photo's file is as it was."""
        version = row["file_version"]
        same = not version or self.versions.get(_hash(row["source"]), version) == version
        return same and not row["error"]

    def _take_out(self) -> None:
        """Remove the rows that are to be made again from the parts that hold them."""
        for path in self._parts():
            stand = [self._stands(row) for row in self._rows(path)]
            self.again += stand.count(False)
            if True in stand and False in stand:
                self._write(path, [row for row in self.read(path, self.part_form) if self._stands(_own(row))])
            elif stand and True not in stand:
                self.remove(path)

    def _find_done(self) -> Sources:
        """The sources of rows that are not to be made again, after `_take_out`; others of the file are counted."""
        done = Sources(self._rows(*self._parts()))
        for row in self._rows(self.file):
            if row["source"] in done:  # a part has a newer one
                continue
            if self._stands(row):
                done.add(row)
            else:
                self.again += 1
        return done

    def _rows(self, *paths: str | None) -> Iterator[Row]:
        """What the rows of files say of themselves. A part that was not finished is removed."""
        for path in filter(None, paths):
            try:
                names = [name for name in (*KEY, "caption", "error") if name in self.columns]
                rows = map(_own, self.read(path, self.form if path == self.file else self.part_form, names))
                yield from rows if path == self.file else list(rows)  # of a part that breaks off, none
            except (KeyError, TypeError, AttributeError):
                raise SatError(f"{path} has rows that no run wrote: name another output") from None
            except (ValueError, csv.Error) as error:  # pyarrow's error for a file without its end is one
                if path == self.file:
                    raise SatError(f"{path} is damaged ({error}): mend it, or name another output") from None
                self.remove(path)

    def read(self, path: str, form: str, names: list[str] | None = None) -> Generator[Row]:
        """The rows of a file, none of one that is not there."""
        if self.system.exists(path):
            with self.system.open(path, "rb") as stream:
                yield from read_rows(stream, form, names)

    def write(self, rows: Iterable[Row]) -> None:
        """Write rows, as a part when there are enough or it is time. Raises `SatError` when it cannot be written."""
        self.waiting += [stored(row, self.columns) for row in rows]
        if len(self.waiting) >= self.together or time.monotonic() > self.due:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self.waiting:
            self._write(f"{self.folder}/{self.run}-{self.written:06}.{self.part_form}", self.waiting)
            self.written += 1
            self.waiting = []
        self.due = time.monotonic() + SECONDS

    def _write(self, path: str, rows: Sequence[Row]) -> None:
        self.put(path, lambda stream: write_rows(stream, rows, self.columns, self.part_form))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.system.rm_file(path)

    def put(self, path: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file as a whole; the table in CSV with the mark that Excel needs."""

        def opened(scratch: Path) -> None:
            with scratch.open("wb") as stream:
                write(stream)
            if path == self.file and self.form == "csv":
                mark_utf8(scratch)

        if isinstance(self.system, LocalFileSystem):
            atomic_write(Path(path), opened, sync=True)
        else:  # the file that is there may be read meanwhile
            with NamedTemporaryFile() as scratch:
                opened(Path(scratch.name))
                self.system.put_file(scratch.name, path)


def _parts_of(path: str) -> str:
    """The folder of the parts of a file."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.parts"


def stored(row: Row, columns: Iterable[str]) -> Row:
    """A row as it is stored: with its columns alone, and a source that is text in UTF-8."""
    return {**{name: row.get(name) for name in columns}, "source": spelled(row["source"])}


def mark_utf8(file: Path) -> None:
    """Put the mark of UTF-8 before a table in CSV: without it Excel misreads other letters than ASCII."""
    content = file.read_bytes()
    if not content.isascii():
        file.write_bytes(BOM_UTF8 + content)
