"""Where photos lie, and the pieces in which they are read.

A source is a folder of photos, a photo, a Parquet file with a column of photos, or a tar file of photos, as webdataset
has them; each on this machine or behind an address that fsspec opens, such as ``s3://bucket/photos``. A folder may hold
Parquet and tar files too. Only the names of photos and the footers of Parquet files are read here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import IO, Any, Literal, NamedTuple

from fsspec.core import url_to_fs

from show_attend_tell.data.photos import QUOTES, LeftOut, counts_as_photo
from show_attend_tell.errors import InvalidValue, MissingFile, MissingPackage, SatError
from show_attend_tell.files import STDIN
from show_attend_tell.messages import install_command, shorten, unreadable

TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
PARQUET = (".parquet", ".pq")
COLUMNS = (  # usual names of columns with photos or, after these, with their paths
    "image bytes photo jpg jpeg png webp image_bytes content image_base64 base64 "
    "path file_name filename file image_path"
).split()
TOGETHER = 64  # files of photos that are one piece
MANIFEST = "_manifest.json"  # of a run, with which its output is no source


class Piece(NamedTuple):
    """What is read from its beginning to its end: files of photos, a tar file, or a Parquet file."""

    kind: Literal["photos", "tar", "parquet"]
    files: tuple[str, ...]  # addresses
    versions: tuple[str, ...] = ()  # of photos: the sizes and times of their files
    size: int = 0  # bytes of a tar or Parquet file
    column: str | None = None  # of a Parquet file, with the photos
    rows: int = 0  # of a Parquet file; 0 of one that cannot be read
    folder: str = ""  # that names are relative to, where the source was a relative path

    @property
    def names(self) -> list[str]:
        """What the files are called in the output: addresses, or paths as their source was spelled."""
        paths = [file.removeprefix("file://") for file in self.files]
        return [os.path.relpath(path, self.folder) for path in paths] if self.folder else paths


def find_pieces(
    sources: Sequence[str], *, recursive: bool = False, column: str | None = None, skipped: LeftOut | None = None
) -> list[Piece]:
    """The pieces of all sources, in a fixed order; a file that two sources have is read once.

    ``column`` is the Parquet column with the photos or their paths, by default one with a usual name. What folders hold
    besides is counted in ``skipped``.
    """
    pieces: list[Piece] = []
    taken: set[str] = set()
    for source in sources:
        if source == STDIN:
            pieces.append(Piece("photos", (STDIN,), ("",)))
            continue
        system, path = file_system(source)
        relative = "://" not in source and not os.path.isabs(os.path.expanduser(source))
        try:
            versions = {
                system.unstrip_protocol(entry["name"]): version_of(entry)
                for entry in _entries(system, path, recursive, skipped or LeftOut())
            }
            if not versions and system.isdir(path):
                hint = "" if recursive else " (--recursive reads subfolders)"
                raise MissingFile(f"no photo in this folder, and no Parquet or tar file{hint}", subject=source)
            if not versions:
                reason = "no such photo, and no photo matches it as a pattern"
                raise MissingFile(reason, subject=source, remedy=QUOTES)
            new = {file: version for file, version in versions.items() if file not in taken}
            folder = os.getcwd() if relative else ""
            pieces += [piece._replace(folder=folder) for piece in _pieces(system, new, column)]
        except SatError:
            raise
        except Exception as error:  # file systems behind an address have errors of their own
            raise SatError(unreadable(error), subject=source) from None
        taken.update(versions)
    if column is not None and not any(piece.kind == "parquet" for piece in pieces):
        raise InvalidValue(
            "no source is or contains a Parquet file", subject=f"--column {column}", remedy="leave it out"
        )
    return pieces


def _entries(system: Any, path: str, recursive: bool, skipped: LeftOut) -> Iterator[dict[str, Any]]:
    """The files of a source: itself, those that match it as a pattern, or the photos in it as a folder."""
    if system.isdir(path):
        entries = system.ls(path, detail=True)
    elif system.exists(path):
        known: dict[str, Any] = {}
        with suppress(Exception):  # of a system that tells nothing about a file
            known = system.info(path)
        yield {**known, "name": path}
        return
    else:
        entries = system.glob(path, detail=True).values()
    for entry in sorted(entries, key=itemgetter("name")):
        folder, _, name = entry["name"].rpartition("/")
        manifests = (f"{folder}/{made}/{MANIFEST}" for made in (name, f".{name}.parts"))  # of a run's output
        if not name or name.startswith(".") or (name.lower().endswith(PARQUET) and any(map(system.exists, manifests))):
            continue
        if entry["type"] != "directory" and (counts_as_photo(name) or name.lower().endswith((*TAR, *PARQUET))):
            yield entry
        elif entry["type"] != "directory":
            skipped.add(name)
        elif recursive:
            yield from _entries(system, entry["name"], recursive, skipped)
        else:
            skipped.folders += 1


def version_of(entry: Mapping[str, Any]) -> str:
    """The size of a file and when it was written, as far as its file system tells; empty where it tells neither."""
    written = next((entry[key] for key in ("mtime", "LastModified", "last_modified", "ETag") if entry.get(key)), None)
    return " ".join(str(value) for value in (entry.get("size"), written) if value is not None)


def _pieces(system: Any, files: Mapping[str, str], column: str | None) -> Iterator[Piece]:
    """The pieces of files, of which the versions are given."""
    photos = []
    for file in files:
        if file.lower().endswith(TAR):
            yield Piece("tar", (file,), size=system.size(file))
        elif file.lower().endswith(PARQUET):
            yield _of_parquet(Piece("parquet", (file,), size=system.size(file), column=column))
        else:
            photos.append(file)
    for start in range(0, len(photos), TOGETHER):
        together = tuple(photos[start : start + TOGETHER])
        yield Piece("photos", together, tuple(files[file] for file in together))


def _of_parquet(piece: Piece) -> Piece:
    """The piece with its column and its number of rows, unless the file is damaged, of which its reader says why."""
    parquet = pyarrow_parquet()
    (file,) = piece.files
    try:
        with opened(file) as stream, parquet.ParquetFile(stream) as table:
            rows = table.metadata.num_rows
            names = table.schema_arrow.names
    except (OSError, ValueError):  # pyarrow's own errors are both
        return piece
    column = piece.column or next((name for name in COLUMNS if name in names), None)
    if column not in names:
        missing = f"no column {column!r}" if column else "no column of photos or their paths with a usual name"
        raise InvalidValue(missing, subject=file, remedy=f"give --column, one of {shorten(names)}")
    return piece._replace(column=column, rows=rows)


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address or a path, and the path in it. Raises `SatError` where nothing opens it."""
    scheme, mark, rest = address.partition("://")
    try:
        system, path = url_to_fs(scheme.lower() + mark + rest if mark else os.path.abspath(os.path.expanduser(address)))
    except ImportError as error:
        protocol = scheme.lower().replace("https", "http")
        raise MissingPackage(str(error), subject=address, remedy=f"pip install 'fsspec[{protocol}]'") from None
    except ValueError as error:
        raise InvalidValue(f"cannot be opened ({error})", subject=address) from None
    return system, path


def opened(address: str) -> IO[bytes]:
    """A file behind an address, or of this machine, opened for reading bytes."""
    system, path = file_system(address)
    stream: IO[bytes] = system.open(path, "rb")
    return stream


def pyarrow_parquet() -> Any:
    """pyarrow's module for Parquet. Raises `MissingPackage` where it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingPackage("Parquet files need pyarrow", remedy=install_command("scale")) from None
    return parquet
