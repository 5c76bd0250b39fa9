"""Where photos lie, and the shards that they are dealt into.

A source is a folder of photos, a photo, a Parquet file with a column of photos, or a tar file of photos, as webdataset
has them; each on this machine, or behind an address that fsspec opens, such as ``s3://bucket/photos``. A folder may
hold Parquet and tar files, too.

Nothing is read but the names of photos and the footers of Parquet files, and no more is held than the names in one
folder.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.data.photos import SUFFIXES, Found
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

TAR = (".tar", ".tar.gz", ".tgz")
PARQUET = (".parquet", ".pq")
BYTES = ("image", "bytes", "photo", "jpg", "jpeg", "png", "webp", "image_bytes", "content")  # usual names of columns
PATHS = ("path", "file_name", "filename", "photo", "image", "file", "image_path")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """What one worker does at a time."""

    kind: Literal["photos", "tar", "parquet"]
    file: str  # a tar or Parquet file; of photos, their folder
    names: Sequence[str] = ()  # of photos, in that folder
    group: int = 0  # row group of a Parquet file
    column: str = ""  # with the photos

    def to_line(self) -> str:
        """This shard as a line of JSON."""
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Shard":
        """The shard that `to_line` wrote."""
        return cls(**json.loads(line))


def shards_of(
    sources: Sequence[str],
    *,
    size: int,
    recursive: bool = False,
    column: str | None = None,
    left_out: Found | None = None,
) -> Iterator[Shard]:
    """The shards of sources, in a fixed order.

    A shard has at most ``size`` photos of a folder, or a whole tar file, or a row group of a Parquet file. ``column``
    is the Parquet column with the photos or their paths; by default one with a usual name. What folders hold besides is
    counted in ``left_out``. Raises `SatError` for a source that does not exist or has no photos, for two that have the
    same photos, and for a ``column`` without a Parquet file.
    """
    left_out = left_out or Found()
    taken: dict[str, str] = {}  # the source that has a file or folder, by its address
    around: dict[str, str] = {}  # a source that is in a folder, by the folder's address
    parquet = False
    for source in sources:
        system, folder, files = _find(source)
        for location in files if folder is None else [folder]:
            address = system.unstrip_protocol(location).rstrip("/")
            folders = _folders_around(address, recursive=recursive, is_folder=folder is not None)
            both = [taken.get(each) for each in (address, *folders)] + [around.get(address)]
            if other := next((each for each in both if each is not None), None):
                raise SatError(f"{source} and {other} have photos in common: leave one of them out")
            taken[address] = source
            around |= dict.fromkeys(folders, source)
        found = False
        for shard in (
            _of_files(system, "", files, size, column)
            if folder is None
            else _of_folder(system, folder, size, recursive, column, left_out)
        ):
            found = True
            parquet |= shard.kind == "parquet"
            yield shard
        if not found:
            raise SatError(
                f"{source}: no photo, Parquet or tar file here{'' if recursive else ' (--recursive reads subfolders)'}"
            )
    if column is not None and not parquet:
        raise SatError(f"--column {column}: no source is a Parquet file or has one, so leave it out")


def _find(source: str) -> tuple[Any, str | None, list[str]]:
    """The file system of a source, and its folder, or else its files."""
    system, path = _system(source)
    try:
        if any(sign in path for sign in "*?[") and not system.exists(path):
            return system, None, [location for location in sorted(system.glob(path)) if system.isfile(location)]
        if system.isdir(path):
            return system, path, []
        if system.exists(path):
            return system, None, [path]
    except (OSError, ValueError) as error:
        raise SatError(f"{source}: cannot be read ({error})") from None
    raise SatError(f"{source}: there is nothing of that name")


def _folders_around(address: str, *, recursive: bool, is_folder: bool) -> list[str]:
    """The addresses of the folders that give what is at an address, if they are sources: without ``recursive``, a
    folder gives its own files only."""
    folders = []
    while (address := address.rpartition("/")[0]) and not address.endswith("/"):
        folders.append(address)
    return folders if recursive else [] if is_folder else folders[:1]


def _of_folder(
    system: Any, folder: str, size: int, recursive: bool, column: str | None, left_out: Found
) -> Iterator[Shard]:
    try:
        files, folders, others = _inside(system, folder)
    except (OSError, ValueError) as error:
        raise SatError(f"{folder}: the folder cannot be read ({error})") from None
    left_out.files += others
    yield from _of_files(system, folder, files, size, column)
    if not recursive:
        left_out.folders += len(folders)
        return
    for inner in folders:
        yield from _of_folder(system, f"{folder.rstrip('/')}/{inner}", size, recursive, column, left_out)


def _inside(system: Any, folder: str) -> tuple[list[str], list[str], int]:
    """The files of a folder that may have photos, its subfolders, both sorted, and the number of its other files.

    Links to folders are not followed.
    """
    if isinstance(system, LocalFileSystem):  # which would hold much more than names
        with os.scandir(folder) as entries:
            inside = [(e.name, e.is_dir(), e.is_file()) for e in entries if not (e.is_symlink() and e.is_dir())]
    else:
        entries = system.ls(folder, detail=True)
        named = [(str(e["name"]).rstrip("/").rpartition("/")[2], e["type"]) for e in entries]
        inside = [(name, kind == "directory", kind == "file") for name, kind in named]
    kept = sorted(entry for entry in inside if not entry[0].startswith("."))
    files = [name for name, _, is_file in kept if is_file and name.lower().endswith((*SUFFIXES, *TAR, *PARQUET))]
    folders = [name for name, is_folder, _ in kept if is_folder]
    return files, folders, len(kept) - len(files) - len(folders)


def _of_files(system: Any, folder: str, files: Sequence[str], size: int, column: str | None) -> Iterator[Shard]:
    """The shards of files, named within a folder; without a folder, by whole paths."""
    base = f"{system.unstrip_protocol(folder).rstrip('/')}/" if folder else ""
    photos: list[str] = []
    for file in files:
        address = base + file if base else system.unstrip_protocol(file)
        if file.lower().endswith(TAR):
            yield Shard(kind="tar", file=address)
        elif file.lower().endswith(PARQUET):
            yield from _of_parquet(address, column)
        else:
            photos.append(address.removeprefix(base))
    for start in range(0, len(photos), size):
        yield Shard(kind="photos", file=base, names=photos[start : start + size])


def _of_parquet(file: str, column: str | None) -> Iterator[Shard]:
    parquet = pyarrow_parquet()
    try:
        with opened(file) as stream, parquet.ParquetFile(stream) as found:
            chosen = photo_column(found.schema_arrow, file, column)
            for group in range(found.metadata.num_row_groups):
                yield Shard(kind="parquet", file=file, group=group, column=chosen)
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise SatError(f"{file}: the Parquet file cannot be read ({error})") from None


def photo_column(schema: Any, file: str, wanted: str | None) -> str:
    """The name of the column with the photos, their bytes or their paths."""
    import pyarrow

    kinds = {field.name: field.type for field in schema}
    if wanted is not None:
        if wanted not in kinds:
            raise SatError(f"{file}: there is no column {wanted!r}: choose one of {', '.join(map(repr, kinds))}")
        return wanted

    def holds_bytes(kind: Any) -> bool:
        if pyarrow.types.is_struct(kind):
            return any(kind.field(number).name == "bytes" for number in range(kind.num_fields))
        return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))

    def holds_text(kind: Any) -> bool:
        return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))

    for usual, holds in ((BYTES, holds_bytes), (PATHS, holds_text)):
        for name in usual:
            if name in kinds and holds(kinds[name]):
                return str(name)
    binary = [name for name, kind in kinds.items() if holds_bytes(kind)]
    if len(binary) == 1:
        return str(binary[0])
    raise SatError(
        f"{file}: which column has the photos, or their paths? (Addresses are not fetched.) Give --column, one of "
        f"{shorten(list(kinds))}"
    )


def pyarrow_parquet() -> Any:
    """pyarrow's module for Parquet. Raises `SatError` where it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise SatError("Parquet files need pyarrow: pip install 'show-attend-tell[scale]'") from None
    return parquet


def _system(source: str) -> tuple[Any, str]:
    """The file system of a source, and the source's path in it."""
    try:
        system, path = url_to_fs(source if "://" in source else os.path.abspath(os.path.expanduser(source)))
    except ImportError as error:
        protocol = source.partition("://")[0].replace("https", "http")
        raise SatError(f"{source}: cannot be opened ({error}): pip install 'fsspec[{protocol}]'") from None
    except ValueError as error:
        raise SatError(f"{source}: cannot be opened ({error})") from None
    return system, path


def opened(address: str) -> IO[bytes]:
    """A file behind an address, or of this machine, opened for reading bytes."""
    if address.startswith("file://"):
        return open(Path(address.removeprefix("file://")), "rb")
    stream: IO[bytes] = fsspec.open(address, "rb").open()
    return stream
