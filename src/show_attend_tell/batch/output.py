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
"""

import csv
import hashlib
import json
import uuid
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

import numpy as np
from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.batch.reading import KEY, display_name
from show_attend_tell.batch.sources import MANIFEST, Piece, file_system, pyarrow_parquet
from show_attend_tell.batch.tables import FORMS, read_rows, write_rows
from show_attend_tell.batch.work import Row
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.files import atomic_write, file_lock


class Sources:
    """The sources of rows, in 16 bytes each, and how many of the rows have an error."""

    def __init__(self, rows: Iterable[Row]) -> None:
        hashes, self.errors = bytearray(), 0
        for row in rows:
            hashes += _hash(row["source"])
            self.errors += bool(row["error"])
        self.hashes = np.sort(np.frombuffer(bytes(hashes), "S16"))

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, source: object) -> bool:
        own = np.frombuffer(_hash(str(source)), "S16")
        first, end = (np.searchsorted(self.hashes, own, side)[0] for side in ("left", "right"))
        return bool(first < end)


def _hash(source: str) -> bytes:
    return hashlib.blake2b(source.encode(), digest_size=16).digest()


def _own(row: Row) -> Row:
    """What a row says of itself: its source, its error and the version of its photo's file."""
    if not isinstance(row["source"], str):
        raise TypeError("no source")
    return {"source": row["source"], "error": row["error"], "file_version": row.get("file_version")}


class Output:
    """A table of rows, on this machine or behind an address; with ``folder`` it is one of parts."""

    def __init__(self, address: str, columns: Mapping[str, str], *, folder: bool) -> None:
        self.address, self.columns = address.rstrip("/"), {**KEY, **columns}
        self.form = self.address.rpartition(".")[2].lower()
        forms = FORMS if not folder and "binary" not in columns.values() else ("jsonl", "parquet")
        if self.form not in forms:
            raise InvalidValue(f"its name must end in .{', .'.join(forms)}: name another output", subject=address)
        if self.form == "parquet":
            pyarrow_parquet()
        self.system, path = file_system(self.address)
        self.file = None if folder else path
        self.folder = path if folder else "{0}/.{2}.parts".format(*path.rpartition("/"))
        self.part_form = "parquet" if self.form == "parquet" else "jsonl"
        self.run = uuid.uuid4().hex[:12]
        self.written = 0  # files, by `write`
        self.earlier: set[str] = set()  # the files of earlier runs
        self.again = 0  # rows that are to be made again

    @contextmanager
    def opened(self, manifest: Mapping[str, Any], pieces: Sequence[Piece]) -> Iterator[Sources]:
        """The sources that it holds already; other processes of this machine are kept out meanwhile.

        Rows with errors, and of files in ``pieces`` that have changed since, are to be done again.
        """
        if self.file is None and self.system.isfile(self.folder):
            raise SatError("a file: name another output, which becomes a folder of files", subject=self.address)
        if self.file is not None and self.system.isdir(self.file):
            remedy = f"give {self.address}/ for a folder of parts, or name another output"
            raise SatError("a folder", subject=self.address, remedy=remedy)
        self.system.makedirs(self.folder, exist_ok=True)
        with ExitStack() as held:
            if isinstance(self.system, LocalFileSystem):
                refusal = f"another process writes {self.address}: wait for it, or name another output"
                held.enter_context(file_lock(Path(self.folder), refusal=refusal))
                for left in Path(self.folder).glob(".*.part"):  # by a process that was killed
                    left.unlink()
            self._check(json.loads(json.dumps(manifest)))
            self._note_versions(pieces)
            self._take_out()
            self.earlier = self._files()
            yield self._done()

    def _check(self, manifest: dict[str, Any]) -> None:
        file = f"{self.folder}/{MANIFEST}"
        if self.system.exists(file):
            try:
                before = json.loads(self.system.cat_file(file))
                sizes = {**before["file_sizes"], **manifest["file_sizes"]}
            except (ValueError, KeyError, TypeError):
                raise SatError(f"its {MANIFEST} is damaged: name another output", subject=self.address) from None
            if sizes == {**manifest["file_sizes"], **before["file_sizes"]}:  # files may come, and none has changed
                before["file_sizes"] = manifest["file_sizes"] = sizes
            if changed := [name.replace("_", " ") for name in manifest if before.get(name) != manifest[name]]:
                raise SatError(
                    f"begun with other {' and '.join(changed)}: give the same, or name another output",
                    subject=self.address,
                )
        elif self.file is not None and self.system.exists(self.file):
            raise SatError("is there already, and no run made it: name another output", subject=self.address)
        elif self.system.ls(self.folder, detail=False):
            raise SatError("the folder has files, and no run made it: name another output", subject=self.address)
        content = json.dumps(manifest, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._put(file, lambda stream: stream.write(content))

    def finish(self, *, ended: bool = True) -> Sources:
        """Make the file of its parts, and return the sources of all rows; if not ``ended``, of those done so far.

        A row is replaced by one of the same source; one to be made again that was not stays until a run has ended: then
        its photo is gone.
        """
        for name in self._files() - self.earlier:
            if not name.startswith(self.run):  # of a worker of an earlier run: its photos were done again
                self.system.rm_file(f"{self.folder}/{name}")
        if self.file is not None and ((paths := self._parts()) or (ended and self.again)):
            new = Sources(self._rows(*paths))
            found = (row for row in self._read(self.file, self.form) if row["source"] not in new)
            kept = (row for row in found if not ended or self._stands(row))
            made = chain.from_iterable(self._read(path, self.part_form) for path in paths)
            self._put(self.file, lambda stream: write_rows(stream, chain(kept, made), self.columns, self.form))
            for path in paths:
                self.system.rm_file(path)
        rows = self._rows(*self._parts(), *([self.file] if self.file is not None else []))
        return Sources(rows if ended else filter(self._stands, rows))

    def _files(self) -> set[str]:
        """The names of the files with parts of the rows."""
        self.system.invalidate_cache()
        names = (str(path).rpartition("/")[2] for path in self.system.ls(self.folder, detail=False))
        return {name for name in names if name.endswith(f".{self.part_form}") and name[0] not in "._"}

    def _parts(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in sorted(self._files())]

    def _note_versions(self, pieces: Sequence[Piece]) -> None:
        """Keep the files of photos, and these with their versions, for `_stands`."""
        photos = [piece for piece in pieces if piece.versions]
        self.listed = Sources({"source": display_name(file), "error": None} for piece in photos for file in piece.files)
        self.unchanged = Sources(
            {"source": f"{display_name(file)}\0{version}", "error": None}
            for piece in photos
            for file, version in zip(piece.files, piece.versions, strict=True)
        )

    def _stands(self, row: Row) -> bool:
        """Whether a row is not to be made again: it has no error, and its photo's file is as it was."""
        source, version = row["source"], row.get("file_version")
        same = not version or f"{source}\0{version}" in self.unchanged or source not in self.listed
        return same and not row["error"]

    def _take_out(self) -> None:
        """Remove the rows that are to be made again from the parts that hold them."""
        for path in self._parts():
            stand = [self._stands(row) for row in self._rows(path)]
            self.again += stand.count(False)
            if True in stand and False in stand:
                self._write(path, list(filter(self._stands, self._read(path, self.part_form))))
            elif stand and True not in stand:
                self.system.rm_file(path)

    def _done(self) -> Sources:
        """The sources of rows that are not to be made again, after `_take_out`; others of the file are counted."""
        parts = self._parts()
        made = Sources(self._rows(*parts))

        def of_file() -> Iterator[Row]:
            for row in self._rows(self.file) if self.file is not None else ():
                if row["source"] not in made:  # a row of a part is newer
                    if self._stands(row):
                        yield row
                    else:
                        self.again += 1

        return Sources(chain(self._rows(*parts), of_file()))

    def _rows(self, *paths: str) -> Iterator[Row]:
        """What the rows of files say of themselves. A part that was not finished is removed."""
        for path in paths:
            try:
                found = self._read(path, self.form if path == self.file else self.part_form, [*KEY, "error"])
                rows = map(_own, found)
                yield from rows if path == self.file else list(rows)  # of a part that breaks off, none
            except (KeyError, TypeError, AttributeError):
                raise SatError(f"{path} has rows that no run wrote: name another output") from None
            except (ValueError, csv.Error):  # pyarrow's error for a file without its end is one
                if path == self.file:
                    raise SatError(f"{path} is damaged: mend it, or name another output") from None
                self.system.rm_file(path)

    def _read(self, path: str, form: str, names: list[str] | None = None) -> Iterator[Row]:
        """The rows of a file, none of one that is not there."""
        if self.system.exists(path):
            with self.system.open(path, "rb") as stream:
                yield from read_rows(stream, form, names)

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows as a part. Raises `SatError` when it cannot be written."""
        self._write(f"{self.folder}/{self.run}-{self.written:06}.{self.part_form}", rows)
        self.written += 1

    def _write(self, path: str, rows: Sequence[Row]) -> None:
        self._put(path, lambda stream: write_rows(stream, rows, self.columns, self.part_form))

    def _put(self, path: str, write: Callable[[IO[bytes]], object]) -> None:
        def opened(scratch: Path) -> None:
            with scratch.open("wb") as stream:
                write(stream)
            if (path, self.form) == (self.file, "csv") and not (content := scratch.read_bytes()).isascii():
                scratch.write_bytes(BOM_UTF8 + content)  # without the mark Excel misreads other letters than ASCII

        if isinstance(self.system, LocalFileSystem):
            atomic_write(Path(path), opened, sync=True)
        else:  # the file that is there may be read meanwhile
            with NamedTemporaryFile() as scratch:
                opened(Path(scratch.name))
                self.system.put_file(scratch.name, path)
