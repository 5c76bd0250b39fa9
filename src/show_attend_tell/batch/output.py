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
from show_attend_tell.batch.work import Row, as_table
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.files import atomic_write, file_lock

FORMS = ("parquet", "jsonl")
MANIFEST = "_manifest.json"


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
        first, end = (np.searchsorted(self.hashes, own, side)[0] for side in ("left", "right"))
        return bool(first < end)


def _hash(source: str) -> bytes:
    return hashlib.blake2b(source.encode(), digest_size=16).digest()


class Output:
    """A folder of rows, on this machine or behind an address.

    Raises `SatError` for a name of another ending, for Parquet without pyarrow, and for an address that cannot be
    opened.
    """

    def __init__(self, address: str, columns: Mapping[str, str]) -> None:
        self.address, self.columns = address.rstrip("/"), {"source": "string", **columns}
        self.form = self.address.rpartition(".")[2].lower()
        if self.form not in FORMS:
            raise InvalidValue("an output's name ends in .parquet or .jsonl", subject=address)
        if self.form == "parquet":
            pyarrow_parquet()
        self.system, self.folder = file_system(self.address)
        self.run = uuid.uuid4().hex[:12]
        self.written = 0  # files, by `write`
        self.earlier: set[str] = set()  # the files of earlier runs

    @contextmanager
    def opened(self, manifest: Mapping[str, Any]) -> Iterator[Sources]:
        """The sources that it holds already; other processes of this machine are kept out meanwhile.

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
            self.earlier = self._files()
            yield self._sources()

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
        elif self.system.exists(self.folder) and self.system.ls(self.folder, detail=False):
            raise SatError("the folder has files, and no run made it: name another output", subject=self.address)
        self._put(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode())

    def finish(self) -> Sources:
        """The sources of all rows at the end of a run.

        What a worker of an earlier run has finished meanwhile, which was killed without it, is removed: its photos were
        done again.
        """
        for name in self._files() - self.earlier:
            if not name.startswith(self.run):
                self.system.rm_file(f"{self.folder}/{name}")
        return self._sources()

    def _files(self) -> set[str]:
        """The names of the files that hold rows."""
        self.system.invalidate_cache()
        names = (str(path).rpartition("/")[2] for path in self.system.ls(self.folder, detail=False))
        return {name for name in names if name.endswith(f".{self.form}") and name[0] not in "._"}

    def _sources(self) -> Sources:
        return Sources(row for name in self._files() for row in self._rows(f"{self.folder}/{name}"))

    def _rows(self, path: str) -> list[tuple[str, bool]]:
        """The sources of a file's rows, and whether they have errors. A file that was not finished is removed."""
        try:
            with self.system.open(path, "rb") as stream:
                rows: Iterable[Row] = map(json.loads, stream)
                if self.form == "parquet":
                    rows = pyarrow_parquet().ParquetFile(stream).read(["source", "error"]).to_pylist()
                return [(row["source"], row["error"] is not None) for row in rows]
        except (KeyError, TypeError):
            raise SatError(f"{path} has rows that no run wrote: name another output") from None
        except ValueError:  # pyarrow's error for a file without its end is one
            self.system.rm_file(path)
            return []

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows as a file of their own. Raises `SatError` when it cannot be written."""
        content = io.BytesIO()
        if self.form == "jsonl":
            for row in rows:
                text = json.dumps(row, ensure_ascii=False, default=lambda held: base64.b64encode(held).decode())
                content.write(text.encode() + b"\n")
        else:
            pyarrow_parquet().write_table(as_table(rows, self.columns), content)
        self._put(f"{self.run}-{self.written:06}.{self.form}", content.getvalue())
        self.written += 1

    def _put(self, name: str, content: bytes) -> None:
        path = f"{self.folder}/{name}"
        if isinstance(self.system, LocalFileSystem):
            atomic_write(Path(path), lambda scratch: scratch.write_bytes(content), sync=True)
        else:  # whose files appear when they are whole
            self.system.pipe_file(path, content)
