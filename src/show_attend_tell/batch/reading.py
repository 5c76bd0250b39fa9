"""The photos of one piece, one after the other: their names, and their bytes or where their files lie.

A photo's own file is read where it is captioned. What a file says is not trusted. A member of a tar file is never
written to a disk; its size is bounded, and so are the headers that tell of it. A path in a Parquet column may not leave
the folder of its file.
"""

import base64
import binascii
import bz2
import gzip
import lzma
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from show_attend_tell.batch.sources import Piece, opened, pyarrow_parquet
from show_attend_tell.data.photos import SUFFIXES, counts_as_photo, leaves_folder
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.files import STDIN
from show_attend_tell.messages import shorten, unreadable

MEGABYTE = 2**20
MOST_HEADER = MEGABYTE  # bytes of a header in a tar file
MOST = 256 * MEGABYTE  # bytes of a photo's file
SHORTEST_BASE64 = 100  # characters, of which no path is that has none but the letters of Base64
ROWS = 16  # of a Parquet file that are read at once
UNPACK: dict[str, Callable[[Any], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}  # by the ends of names
BATCH = 32  # photos that a worker gets at once
SIGNED = " caption:"  # how a `signature` begins

KEY = {"source": "string", "file_version": "string"}  # the first columns of each row, with Arrow's names of their types


class Item(NamedTuple):
    """A photo: ``source``, which says where it lies, and its file or the bytes of it, or why there are none."""

    source: str  # the photo's file; with #MEMBER for one of a tar file, and #ROW for one of a Parquet file
    content: bytes | Path | str | SatError  # an address is a text
    file_version: str | None = None  # of a file of its own, by which a changed one is told, see `sources.version_of`

    def row(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """What was made of it, behind the columns `KEY`; the version says by `signature` what the caption was."""
        version = self.file_version
        if version and made.get("caption"):
            version += signature(made["caption"])
        return {"source": self.source, "file_version": version, **made}


def signature(caption: str) -> str:
    """What stands behind a file's version in its row, and tells a caption that a person has edited since."""
    return f"{SIGNED}{zlib.crc32(caption.encode('utf-8', 'replace')):08x}"


def photos_of(piece: Piece) -> Iterator[Item]:
    """The photos of a piece, in order; of a tar or Parquet file, what cannot be read gives its `SatError`."""
    if piece.kind == "photos":
        for name, file, version in zip(piece.names, piece.files, piece.versions, strict=True):
            yield Item(name, _place(file), version)
        return
    (file,) = piece.files
    (name,) = piece.names
    number = 0
    try:
        for item in _of_tar(file, name) if piece.kind == "tar" else _of_parquet(file, name, piece.column):
            yield item
            number += 1
    except Exception as error:  # readers of damaged files raise almost anything
        if not isinstance(error, SatError):
            error = PhotoError(f"photos from here on are missing: {unreadable(error)}")
        yield Item(f"{name}#{number}" if piece.rows else name, error)


def sources_of(piece: Piece) -> Iterator[str]:
    """The sources of a piece's photos; only a tar file is read to find them."""
    if piece.kind == "tar":
        return (item.source for item in photos_of(piece))
    if piece.kind == "parquet" and piece.rows:
        return (f"{piece.names[0]}#{row}" for row in range(piece.rows))
    return iter(piece.names)


def batches_left(pieces: Iterable[Piece], done: Container[str]) -> Iterator[list[Item]]:
    """The photos of pieces whose sources are not ``done``, in batches. Tar and Parquet files are read to find them."""
    items = (
        item
        for piece in pieces
        if piece.kind == "tar" or any(source not in done for source in sources_of(piece))
        for item in photos_of(piece)
        if item.source not in done
    )
    while batch := list(islice(items, BATCH)):
        yield batch


def expected(pieces: Sequence[Piece]) -> int:
    """How many photos the pieces have; of tar files an estimate, from the mean size of the first photos in them."""
    known = sum(len(piece.files) if piece.kind == "photos" else piece.rows for piece in pieces)
    tars = [piece for piece in pieces if piece.kind == "tar"]
    if not tars:
        return known
    sizes = [len(item.content) for item in islice(photos_of(tars[0]), ROWS) if isinstance(item.content, bytes)]
    mean = sum(sizes) / max(1, len(sizes)) + 2 * tarfile.BLOCKSIZE  # with its header and what fills the last block
    return known + round(sum(piece.size for piece in tars) / mean)


def spelled(name: str) -> str:
    """A name in which bytes that are not UTF-8 are spelled out, as tables have it."""
    return name.encode("utf-8", "backslashreplace").decode()


def _place(address: str) -> bytes | Path | str | SatError:
    """Where a file lies: its path on this machine, or its address; of standard input, what it holds."""
    if address == STDIN:
        return sys.stdin.buffer.read() or PhotoError("standard input is empty: cat dog.jpg | sat caption -")
    return Path(address.removeprefix("file://")) if address.startswith("file://") else address


# Tar files

HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _Member(tarfile.TarInfo):
    """A member of a tar file, whose header is whole, and whose long names and other headers cannot take memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Member":
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):  # at the end
                raise
            raise PhotoError(f"damaged: {error}; photos from here on are missing") from None
        if member.type in HEADERS and not 0 <= member.size <= MOST_HEADER:
            raise PhotoError(f"damaged: a header of {member.size:,} bytes; photos from here on are missing")
        return member


class _Ending:
    """A stream that says when it ends, so that nothing waits for a member that is longer than its file."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def read(self, size: int) -> bytes:
        content: bytes = self.stream.read(size)
        if not content:
            raise EOFError("the file ends too early")
        return content


def _of_tar(file: str, name: str) -> Iterator[Item]:
    """Photos of a tar file, read from its beginning to its end; a name that comes again gets a number."""
    seen = Counter[int]()
    with opened(file) as stream:
        unpacked = next((unpack for end, unpack in UNPACK.items() if file.lower().endswith(end)), None)
        ending: Any = _Ending(unpacked(stream) if unpacked else stream)
        with tarfile.open(fileobj=ending, mode="r|", tarinfo=_Member) as tar:
            for member in tar:
                tar.members = []  # type: ignore[attr-defined]  # which would grow with the file
                if not counts_as_photo(member.name):
                    continue
                source = f"{name}#{member.name.encode('utf-8', 'replace').decode()}"
                seen[hash(source)] += 1
                again = seen[hash(source)]
                yield Item(source if again == 1 else f"{source}#{again}", _of_member(tar, member))


def _of_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | SatError:
    if leaves_folder(member.name):
        return PhotoError("its name leaves the file's own folder")
    if not member.isfile() or member.issparse():
        return PhotoError("a link, a device or a file with holes, not a photo")
    if not 0 <= member.size <= MOST:
        return PhotoError(f"larger than {MOST:,} bytes, which no photo is")
    content = tar.extractfile(member)
    assert content is not None
    return content.read()


# Parquet files


def _of_parquet(file: str, name: str, column: str | None) -> Iterator[Item]:
    folder = file.rpartition("/")[0]
    row = 0
    with opened(file) as stream, pyarrow_parquet().ParquetFile(stream, pre_buffer=False) as table:
        for batch in table.iter_batches(ROWS, columns=[column], use_threads=False):
            for value in batch.column(0):
                yield Item(f"{name}#{row}", _of_value(value.as_py(), folder))
                row += 1


def _of_value(value: object, folder: str) -> bytes | Path | str | SatError:
    """The photo of a row: bytes, Base64, a path below the file's folder, or a struct as Hugging Face has it."""
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value:
        return PhotoError(f"{'nothing' if value is None else shorten(value)} where a photo should be")
    if (content := from_base64(value)) is not None:
        return content
    if leaves_folder(value):
        return PhotoError(f"its path {shorten(value)} leaves the folder of the Parquet file")
    return _place(f"{folder}/{value}")


def from_base64(text: str) -> bytes | None:
    """The bytes that a text spells in Base64, also as a data URI; None for another text, such as a path."""
    uri, _, data = text.rpartition(";base64,")
    if not uri and (len(text) < SHORTEST_BASE64 or text.lower().endswith(SUFFIXES)):
        return None
    with suppress(binascii.Error, ValueError):
        return base64.b64decode("".join(data.split()).translate({ord("-"): "+", ord("_"): "/"}), validate=True)
    return None
