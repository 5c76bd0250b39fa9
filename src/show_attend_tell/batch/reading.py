"""The photos of one shard, one after the other: their names and their bytes, or why there are none.

What a shard says is not trusted. A member of a tar file is never written to a disk; its size is bounded, and so are the
headers that tell of it. A path in a Parquet column may not leave the folder of its file.
"""

import gzip
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from show_attend_tell.batch.sources import Shard, opened, pyarrow_parquet
from show_attend_tell.data.photos import SUFFIXES
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

MOST_BYTES = 256 * 2**20  # of one photo's file
MOST_HEADER = 2**20  # bytes of a header in a tar file
MOST_GROUP = 4 * 2**30  # bytes of the photos of one row group of a Parquet file, uncompressed
TOGETHER = 16  # rows of a Parquet file that are read at once

Item = tuple[str, bytes | SatError]  # what a photo is called, and its bytes or why there are none


def photos_of(shard: Shard) -> Iterator[Item]:
    """The photos of a shard, in order. One at a time is held in memory; of a Parquet file, a few.

    What cannot be read gives its `SatError`. Where a file breaks off, this is the last item.
    """
    if shard.kind == "photos":
        for name in shard.names:
            yield shown(shard.file + name), _file(shard.file + name)
        return
    items = _of_tar(shard.file) if shard.kind == "tar" else _of_parquet(shard)
    try:
        yield from items
    except SatError as error:
        yield shown(shard.file), error
    except Exception as error:  # readers of damaged files raise almost anything
        yield shown(shard.file), SatError(f"damaged: photos from here on are missing ({error})")


def shown(address: str) -> str:
    """The name of a photo in the output: an address, or a plain path for a file of this machine."""
    return address.removeprefix("file://")


def _file(address: str) -> bytes | SatError:
    try:
        with opened(address) as stream:
            return _bounded(stream.read(MOST_BYTES + 1))
    except Exception as error:  # file systems behind an address have errors of their own
        return SatError(f"cannot be read ({getattr(error, 'strerror', None) or error})")


def _bounded(content: bytes) -> bytes | SatError:
    if len(content) > MOST_BYTES:
        return SatError(f"larger than {MOST_BYTES // 2**20} MB, which no photo is")
    return content or SatError("an empty file")


# Tar files


class _Member(tarfile.TarInfo):
    """A member of a tar file, whose long names and other headers cannot take memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Member":
        member = super().frombuf(buf, encoding, errors)
        headers = (
            *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
            *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        )
        if member.type in headers and not 0 <= member.size <= MOST_HEADER:
            raise SatError(f"damaged: a header of {member.size:,} bytes; photos from here on are missing")
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


def _of_tar(file: str) -> Iterator[Item]:
    """Photos of a tar file, read from its beginning to its end, also where it cannot be rewound."""
    with opened(file) as stream:
        plain: Any = gzip.GzipFile(fileobj=stream) if file.lower().endswith("gz") else stream
        ending: Any = _Ending(plain)
        tar: Any
        with tarfile.open(fileobj=ending, mode="r|", tarinfo=_Member) as tar:
            for member in tar:
                tar.members = []  # which would grow with the file
                if not member.name.lower().endswith(SUFFIXES):
                    continue
                yield f"{shown(file)}#{brief_name(member.name)}", _of_member(tar, member)


def _of_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | SatError:
    if _leaves(member.name):
        return SatError("its name leaves the file's own folder")
    if not member.isfile() or member.issparse():
        return SatError("a link, a device or a file with holes, not a photo")
    if not 0 <= member.size <= MOST_BYTES:
        return SatError(f"{member.size:,} bytes, and no photo has more than {MOST_BYTES // 2**20} MB")
    content = tar.extractfile(member)
    assert content is not None
    return _bounded(content.read(MOST_BYTES + 1))


def brief_name(name: str) -> str:
    """A name out of a file, without signs that no name has."""
    return name.encode("utf-8", "replace").decode()


def _leaves(name: str) -> bool:
    """Whether a relative path would leave the folder that it is relative to."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or "://" in name or (len(name) > 1 and name[1] == ":")


# Parquet files


def _of_parquet(shard: Shard) -> Iterator[Item]:
    with opened(shard.file) as stream, pyarrow_parquet().ParquetFile(stream, pre_buffer=False) as found:
        metadata = found.metadata
        group = metadata.row_group(shard.group)
        first = sum(metadata.row_group(number).num_rows for number in range(shard.group))
        parts = [group.column(number) for number in range(group.num_columns)]
        size = sum(part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] == shard.column)
        if not 0 <= size <= MOST_GROUP:
            raise SatError(
                f"row group {shard.group} says that its photos have {size:,} bytes: write row groups of at most "
                f"{MOST_GROUP // 2**30} GB"
            )
        folder = shard.file.rpartition("/")[0]
        row = first
        for batch in found.iter_batches(TOGETHER, row_groups=[shard.group], columns=[shard.column], use_threads=False):
            for value in batch.column(0):
                yield f"{shown(shard.file)}#{row}", _of_value(value.as_py(), folder)
                row += 1


def _of_value(value: object, folder: str) -> bytes | SatError:
    """The photo of a row: bytes, a path below the folder of the file, or a struct of these as Hugging Face has it."""
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return _bounded(value)
    if not isinstance(value, str) or not value:
        return SatError(f"{'nothing' if value is None else shorten(value)} where a photo should be")
    if _leaves(value):
        return SatError(f"its path {shorten(value)} leaves the folder of the Parquet file")
    return _file(f"{folder}/{value}")
