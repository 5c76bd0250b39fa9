"""The output of a run: a folder with a row for each photo, which Parquet's readers take for one table.

    captions.parquet/
        _manifest.json    what made it: the model, its settings, the sources; readers pass over names that begin with _
        RUN-….parquet     rows; RUN is a run's own name

A file is there as a whole, or its writer was killed: then it has no valid end, and the next run removes it. So the
photos that a run still has to do are those whose sources no file holds. The name of an output may end in .jsonl; then
each file has a JSON object a line.
"""

import base64
import hashlib
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.batch.sources import file_system, pyarrow_parquet
from show_attend_tell.batch.work import Kind, Row, arrow_schema
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.files import atomic_write, file_lock

FORMS = ("parquet", "jsonl")
MANIFEST = "_manifest.json"
NAMES = {
    **{"version": "version of this program", "sources": "sources", "recursive": "subfolders (--recursive)"},
    **{"column": "column", "work": "model or settings", "files": "content of source files"},
}


class Sources:
    """The sources of rows, in 16 bytes each, and how many of the rows have an error."""

    def __init__(self, rows: Iterable[tuple[str, bool]]) -> None:
        hashes, self.errors = bytearray(), 0
        for source, has_error in rows:
            hashes += _hash(source)
            self.errors += has_error
        self.hashes = np.sort(np.frombuffer(bytes(hashes), "S16"))

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, source: object) -> bool:
        own = np.frombuffer(_hash(str(source)), "S16")
        place = np.searchsorted(self.hashes, own)[0]
        return bool(place < len(self.hashes) and self.hashes[place] == own[0])


def _hash(source: str) -> bytes:
    return hashlib.blake2b(source.encode(), digest_size=16).digest()


class Output:
    """A folder of rows, on this machine or behind an address.

    Raises `SatError` for a name of another ending, for Parquet without pyarrow, and for an address that cannot be
    opened.
    """

    def __init__(self, address: str, columns: Mapping[str, Kind]) -> None:
        self.address, self.columns = address.rstrip("/"), {"source": "text", **columns}
        self.form = self.address.rpartition(".")[2].lower()
        if self.form not in FORMS:
            raise InvalidValue("an output's name ends in .parquet or .jsonl", subject=address)
        if self.form == "parquet":
            pyarrow_parquet()
        self.system, self.folder = file_system(self.address)
        self.run = uuid.uuid4().hex[:12]
        self.written = 0  # files, by `write`

    @contextmanager
    def opened(self, manifest: Mapping[str, Any]) -> Iterator[None]:
        """The output, begun or gone on with by a run of this manifest; other processes of this machine are kept out.

        Raises `SatError` for an output of another manifest, for a folder of other files, and where another process
        writes.
        """
        if self.system.isfile(self.folder):
            raise SatError("a file: name another output, which becomes a folder of files", subject=self.address)
        self.system.makedirs(self.folder, exist_ok=True)
        with ExitStack() as held:
            if isinstance(self.system, LocalFileSystem):
                refusal = f"another process writes {self.address}: wait for it, or name another output"
                held.enter_context(file_lock(Path(self.folder), refusal=refusal))
                for left in Path(self.folder).glob(".*.part"):  # by a process that was killed
                    left.unlink()
            self._check(json.loads(json.dumps(manifest)))
            yield

    def _check(self, manifest: dict[str, Any]) -> None:
        file = f"{self.folder}/{MANIFEST}"
        if self.system.exists(file):
            before = json.loads(self.system.cat_file(file))
            files = {**before["files"], **manifest["files"]}
            if files == {**manifest["files"], **before["files"]}:  # those that were there have their size still
                before["files"] = manifest["files"] = files
            if changed := [title for name, title in NAMES.items() if before.get(name) != manifest[name]]:
                raise SatError(
                    f"begun with other {' and '.join(changed)}: give the same, or name another output",
                    subject=self.address,
                )
        elif self.system.exists(self.folder) and self.system.ls(self.folder, detail=False):
            raise SatError("the folder has files, and no run made it: name another output", subject=self.address)
        self._put(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode())

    def files(self) -> set[str]:
        """The names of the files that hold rows."""
        self.system.invalidate_cache()
        names = (str(path).rpartition("/")[2] for path in self.system.ls(self.folder, detail=False))
        return {name for name in names if name.endswith(f".{self.form}") and name[0] not in "._"}

    def sources(self, files: Iterable[str]) -> Sources:
        """The sources of the rows in files. Files that were not finished are removed."""
        return Sources(row for name in files for row in self._checked(f"{self.folder}/{name}"))

    def finish(self, before: set[str]) -> Sources:
        """The sources of all rows at the end of a run that began with those files.

        What a worker of an earlier run has finished meanwhile, which was killed without it, is removed: its photos were
        done again.
        """
        late = {name for name in self.files() - before if not name.startswith(self.run)}
        for name in late:
            self.system.rm_file(f"{self.folder}/{name}")
        return self.sources(self.files() - late)

    def _checked(self, path: str) -> list[tuple[str, bool]]:
        try:
            with self.system.open(path, "rb") as stream:
                return list(self._rows(stream))
        except ValueError:  # pyarrow's error for a file without its end is one
            self.system.rm_file(path)
            return []

    def _rows(self, stream: Any) -> Iterator[tuple[str, bool]]:
        if self.form == "jsonl":
            rows = (json.loads(line) for line in stream)
            yield from ((row["source"], row["error"] is not None) for row in rows)
        else:
            for batch in pyarrow_parquet().ParquetFile(stream).iter_batches(columns=["source", "error"]):
                yield from zip(batch["source"].to_pylist(), batch["error"].is_valid().to_pylist(), strict=True)

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows as a file of their own. Raises `SatError` when it cannot be written."""
        content = io.BytesIO()
        if self.form == "jsonl":
            for row in rows:
                plain = {
                    name: base64.b64encode(row[name]).decode() if isinstance(row[name], bytes) else row[name]
                    for name in self.columns
                }
                content.write(json.dumps(plain, ensure_ascii=False).encode() + b"\n")
        else:
            import pyarrow

            table = pyarrow.Table.from_pylist(rows, arrow_schema(self.columns))
            pyarrow_parquet().write_table(table, content)
        self._put(f"{self.run}-{self.written:06}.{self.form}", content.getvalue())
        self.written += 1

    def _put(self, name: str, content: bytes) -> None:
        path = f"{self.folder}/{name}"
        if isinstance(self.system, LocalFileSystem):
            atomic_write(Path(path), lambda scratch: scratch.write_bytes(content), sync=True)
        else:  # whose files appear when they are whole
            self.system.pipe_file(path, content)
