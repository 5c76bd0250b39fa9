"""Annotations of many photos, encoded once and kept on disk: a frozen encoder always gives the same ones.

A cache belongs to one encoder (by the digest of its weights), one preprocessing (its values, and the version of the
code that makes pixels of a photo), one precision and one view of the photos: `original`, or, for augmentation,
`flipped`, `crop-1` and so on (`Preprocessing`). Each such cache has a folder of its own:

    DIRECTORY/
        files.json            the SHA-256 of each photo's file by its path, size and time of change
        crop224-bfloat16-original-1a2b3c4d5e6f/
            manifest.json     what the cache belongs to
            annotations       the rows, (N, L, D) in half precision, mapped into memory and never read whole
            photos            N lines, one for each row: which photo it is of
            checksums         N numbers of four bytes, one for each row: the CRC-32 of its line and of its bytes
            lock              held by the process that is writing

A row belongs to the bytes of a photo's file, by their SHA-256. Names and paths are only used to find those bytes. So a
data set may move or be copied, two data sets may share a folder, and two photos of one name are never confused. A
random crop also depends on the photo's name, and so does its row. `files.json` only saves time: without it, the files
are read again.

DIRECTORY is a folder of `default_cache()`: `$SAT_CACHE` where that is set, otherwise
`~/.cache/show-attend-tell/features`.

A row and its checksum are on disk before its line in `photos` is written. So an interrupted run loses a batch at most
and goes on from there.

A process compares a row with its checksum when it first reads it. A row that differs is damaged, by the disk, say. Then
all rows are compared, the lines of damaged ones become zeros, and `SatError` names the photos. The next run encodes
these photos again and no others, so nothing is lost. They are not encoded at once, because the encoder may have been
trained meanwhile, and because a disk that damages files should be noticed. Caches of earlier versions have no
checksums; they get them when they are opened.

Letters in shapes: N rows, B photos asked for, L places, D annotation size.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.data.photos import PREPROCESSING_VERSION, Preprocessing, check_view, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, file_lock, make_folder
from show_attend_tell.messages import first_three, plural
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import Encode, Encoder
from show_attend_tell.vision.reading import photo_readers

WAITING = "another process is writing {}; waiting for it to finish"
OTHER_CACHE = "choose another folder for the photos' features (--cache or $SAT_CACHE)"
TOGETHER = 8  # photos that are encoded at once
LINE = 65  # bytes of a line in `photos`: 64 hexadecimal digits and the line's end
DROPPED = "0" * 64  # the line of a damaged row
MOST_ROWS = 20_000_000  # of a cache; what claims to have more is not read
MOST_BYTES = 2_000_000_000  # of `files.json`


class UnreadablePhotos(SatError):
    """Photos that cannot be read. The others are stored.

    Attributes: `problems`, what is wrong with each photo, by its name; `photos`, the number of all; `what`, the message
    without its remedy.
    """

    def __init__(self, problems: Mapping[str, str], photos: int) -> None:
        self.problems, self.photos = dict(problems), photos
        first = "; ".join(list(self.problems.values())[:3])
        self.what = f"{len(problems)} of {photos} photos cannot be read. First: {first}"
        super().__init__(f"{self.what}. Replace these photos, or delete their captions; the others are stored")


def default_cache() -> Path:
    """Return where feature caches live unless told: `$SAT_CACHE`, or a folder in the user's own cache."""
    given = os.environ.get("SAT_CACHE")
    return Path(os.path.expanduser(given)) if given else Path.home() / ".cache" / "show-attend-tell" / "features"


def folder_name(dataset: str) -> str:
    """The name of a data set as one that a folder may have: letters, digits, `_`, `-` and inner dots, at most 40."""
    return re.sub(r"[^\w.-]+", "_", dataset).lstrip(".")[:40] or "data"


class PhotoFile(NamedTuple):
    """What is known of a photo's file."""

    size: int  # bytes
    changed: int  # nanoseconds
    digest: str  # SHA-256 of the bytes


class _Job(NamedTuple):
    """A photo to encode."""

    name: str
    path: Path
    file: PhotoFile


@dataclass
class _Stored:
    """What a cache has on disk."""

    rows: dict[str, int]  # the row of each row key, without damaged rows
    checksums: list[int]  # of every row, damaged ones too


class FeatureCache:
    """The annotations of photos by name: `cache[names]` is (B, L, D) float16. `FeatureCache.build` makes one.

    Attributes: `folder`, and `names`, the photos in the order in which they were given.
    """

    def __init__(
        self,
        folder: Path,
        keys: Mapping[str, str],
        rows: Mapping[str, int],
        shape: tuple[int, int],
        checksums: Sequence[int],
    ) -> None:
        """A cache of rows of shape (L, D) with those checksums.

        ``keys`` gives the row key of each photo's name, and ``rows`` the row of each key.
        """
        self.folder, self.names, self._keys = folder, list(keys), dict(keys)
        self._rows = {name: rows[key] for name, key in keys.items()}
        self._checksums = np.array(checksums, dtype=np.uint32)
        self._checked = np.zeros(len(checksums), dtype=bool)
        self._annotations = _mapped(folder, len(checksums), shape)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """Return the annotations of photos by their names: (B, L, D) float16.

        Raises `SatError` for a name that the cache was not built with, and for a damaged row, which the next run
        encodes again.
        """
        if isinstance(names, str):
            raise SatError(f"give a list of names, [{names!r}], not a single one")
        for name in names:
            if name not in self._rows:
                raise SatError(f"{self.folder}: there is no photo {name!r} among the {len(self)} in this feature cache")
            if not self._checked[row := self._rows[name]]:
                if self._is_damaged(name):
                    self._drop_damaged()
                self._checked[row] = True
        return torch.from_numpy(self._annotations[[self._rows[name] for name in names]])

    def _is_damaged(self, name: str) -> bool:
        row = self._rows[name]
        return bool(_checksum(self._keys[name], self._annotations[row]) != self._checksums[row])

    def _drop_damaged(self) -> NoReturn:
        """Drop all damaged rows, so that the next run encodes their photos again; raises `SatError`."""
        names = [name for name in self.names if self._is_damaged(name)]
        damaged = f"{self.folder}: the stored annotations of {first_three(names)} are damaged (their checksums differ)"
        try:
            with (
                file_lock(self.folder, waiting=WAITING.format(self.folder)),
                open(self.folder / "photos", "r+b") as lines,
            ):
                for name in names:
                    lines.seek(self._rows[name] * LINE)
                    lines.write(DROPPED.encode())
                _to_disk(lines)
        except OSError as error:
            raise SatError(f"{damaged}, and cannot be dropped ({error.strerror}): delete this folder") from None
        raise SatError(
            f"{damaged}. They were dropped: the same command encodes {plural(len(names), 'photo')} again (sat train "
            "with --resume). If it happens again, check the disk"
        )

    @classmethod
    def build(
        cls,
        directory: Path,
        photos: Mapping[str, Path],
        encoder: Encoder,
        *,
        encode: Encode | None = None,
        view: str = "original",
        progress: bool = True,
    ) -> "FeatureCache":
        """Encode those of `photos` whose bytes are not in the cache yet, and return the cache.

        `photos` gives each photo's file by its name. A cache that is complete costs nothing; rows of earlier calls
        stay; a call that was interrupted goes on where it was. While another process writes the same cache, this one
        waits. Annotations are computed by `encode`, a faster way to do what `Encoder.annotate` does, or by the latter.
        `progress` shows bars on the terminal, with the photos done, their number, the rate and the time left.

        Raises `SatError` for annotations beyond half precision (65,504), for a disk without room, for a damaged cache,
        and, after the others are stored, `UnreadablePhotos`, saying how many and which are the first.
        """
        key = _key(encoder, view)
        folder = directory / _folder_name(key)
        files, unreadable = _known_files(directory, photos, progress)
        if not files:
            raise SatError("; ".join(["there is no photo to encode", *list(unreadable.values())[:3]]))
        wanted = {name: _row_key(file.digest, name, view) for name, file in files.items()}
        make_folder(folder, OTHER_CACHE)
        with file_lock(folder, waiting=WAITING.format(folder)):
            stored = _read_stored(folder, key, progress)
            rows = stored.rows
            jobs: dict[str, _Job] = {}
            for name, row_key in wanted.items():
                if row_key not in rows:
                    jobs.setdefault(row_key, _Job(name, photos[name], files[name]))
            failed: dict[str, str] = {}
            if jobs:
                _check_room(folder, len(jobs), key)
                distinct = len(set(wanted.values()))
                with Progress(
                    total=distinct,
                    initial=distinct - len(jobs),
                    unit="photo",
                    desc=f"{encoder.name}, {view} photos",
                    disable=not progress,
                ) as bar:
                    failed = _encode(folder, key, stored, jobs, encoder, encode or encoder.annotate, bar)
        unreadable |= {
            name: f"{photos[name]}: {failed[row_key]}" for name, row_key in wanted.items() if row_key in failed
        }
        if unreadable:
            raise UnreadablePhotos(unreadable, len(photos))
        return cls(folder, wanted, rows, tuple(key["shape"]), stored.checksums)


# What a cache belongs to


def _key(encoder: Encoder, view: str) -> dict[str, Any]:
    """What tells one cache from another, as it stands in the manifest."""
    rows, columns = encoder.grid
    return {
        "digest": encoder.digest,
        "preprocessing": encoder.preprocessing.to_dict(),
        "preprocessing_version": PREPROCESSING_VERSION,
        "precision": encoder.precision,
        "view": check_view(view),
        "shape": [rows * columns, encoder.annotation_size],
    }


def _folder_name(key: Mapping[str, Any]) -> str:
    short = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    square = f"{key['preprocessing']['resize']}{key['preprocessing']['size']}"
    return f"{square}-{key['precision']}-{key['view']}-{short}"


def _row_key(digest: str, name: str, view: str) -> str:
    """What tells one row from another, 64 hexadecimal digits: the photo, and what its random crop depends on."""
    return hashlib.sha256(f"{digest} {name}".encode("utf-8", "surrogatepass")).hexdigest() if "crop" in view else digest


def _row_bytes(key: Mapping[str, Any]) -> int:
    locations, size = key["shape"]
    return 2 * int(locations) * int(size)


# The files of photos


def _known_files(
    directory: Path, photos: Mapping[str, Path], progress: bool
) -> tuple[dict[str, PhotoFile], dict[str, str]]:
    """What is known of each photo's file, by the photo's name, and a line for each that cannot be read, by its name.

    A file's bytes are read only when it is new or has another size or time of change than when they were last read.
    """
    index = directory / "files.json"
    before = _read_index(index)
    known: dict[str, PhotoFile] = {}
    unreadable: dict[str, str] = {}
    new: dict[str, tuple[int, int]] = {}
    for name, path in photos.items():
        try:
            state = os.stat(path)
        except OSError:
            unreadable[name] = f"{path}: no such file"
            continue
        old = before.get(os.path.abspath(path))
        if old is not None and old[:2] == (state.st_size, state.st_mtime_ns):
            known[name] = old
        else:
            new[name] = (state.st_size, state.st_mtime_ns)
    pool = photo_readers()
    try:
        reading = {name: pool.submit(_digest, photos[name]) for name in new}
        bar = Progress(reading.items(), desc="files of photos", unit="file", disable=not (progress and len(new) > 1000))
        for name, future in bar:
            try:
                known[name] = PhotoFile(*new[name], future.result())
            except OSError as error:
                unreadable[name] = f"{photos[name]}: cannot be read ({error.strerror})"
    finally:
        pool.shutdown(cancel_futures=True)
    if new:
        make_folder(directory, OTHER_CACHE)
        found = {os.path.abspath(photos[name]): known[name] for name in new if name in known}
        with (
            file_lock(directory, waiting=WAITING.format(directory)),
            contextlib.suppress(SatError),
        ):  # it only saves time
            _write(index, json.dumps(_read_index(index) | found, indent=0))
    return {name: known[name] for name in photos if name in known}, unreadable


def _read_index(file: Path) -> dict[str, PhotoFile]:
    """The index of files; an empty one if there is none or it is damaged, since it only saves time."""
    try:
        if file.stat().st_size > MOST_BYTES:
            return {}
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {
            path: PhotoFile(int(size), int(changed), re.fullmatch("[0-9a-f]{64}", digest).group())  # type: ignore[union-attr]
            for path, (size, changed, digest) in entries.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The files of a cache


def _read_stored(folder: Path, key: Mapping[str, Any], progress: bool) -> _Stored:
    """The rows that are stored, and none for a cache that has yet to be made.

    Raises `SatError` for a cache that is damaged or belongs to something else than its folder's name promises.
    """
    if not (folder / "manifest.json").exists():
        (folder / "photos").unlink(missing_ok=True)  # nobody knows what those rows belong to
        _write(folder / "manifest.json", json.dumps(key, indent=1))
    try:
        with open(folder / "manifest.json", encoding="utf-8") as file:
            same = json.loads(file.read(1_000_000)) == key
        size = os.path.getsize(folder / "photos") if (folder / "photos").exists() else 0
        if size > MOST_ROWS * LINE:
            raise ValueError(f"it claims to have {size // LINE:,} rows")
        lines = (folder / "photos").read_bytes() if size else b""
        stored = os.path.getsize(folder / "annotations") if lines else 0
    except (OSError, ValueError, RecursionError) as error:
        raise SatError(f"{folder}: the feature cache is damaged ({error}); delete this folder") from None
    if not same:
        raise SatError(f"{folder}: the feature cache belongs to another encoder or preprocessing; delete this folder")
    whole = len(lines) // LINE  # a line that was cut short does not count
    if not re.fullmatch(rb"([0-9a-f]{64}\n)*", lines[: whole * LINE]) or stored < whole * _row_bytes(key):
        raise SatError(f"{folder}: the feature cache is damaged, rows of it are lost; delete this folder")
    row_keys = [lines[row * LINE : (row + 1) * LINE - 1].decode() for row in range(whole)]
    rows = {row_key: row for row, row_key in enumerate(row_keys) if row_key != DROPPED}
    return _Stored(rows, _read_checksums(folder, row_keys, key, progress))


def _read_checksums(folder: Path, row_keys: Sequence[str], key: Mapping[str, Any], progress: bool) -> list[int]:
    """The checksum of each row; those of a cache of an earlier version are made now."""
    file, wanted = folder / "checksums", len(row_keys)
    checksums: list[int] = np.fromfile(file, "<u4", wanted).tolist() if file.exists() else []
    if len(checksums) < wanted:
        rows = _mapped(folder, wanted, tuple(key["shape"]))
        todo = range(len(checksums), wanted)
        bar = Progress(todo, desc="checksums", unit="photo", disable=not (progress and len(todo) > 1000))
        checksums += [_checksum(row_keys[row], rows[row]) for row in bar]
        whole = np.array(checksums, "<u4").tobytes()
        with contextlib.suppress(SatError):  # a folder that cannot be written can still be read
            atomic_write(file, lambda scratch: scratch.write_bytes(whole))
    return checksums


def _mapped(folder: Path, rows: int, shape: tuple[int, int]) -> NDArray[np.float16]:
    """The rows of a cache (N, L, D), mapped into memory."""
    mapped: NDArray[np.float16] = np.memmap(folder / "annotations", "<f2", mode="r", shape=(rows, *shape))
    return mapped


def _checksum(row_key: str, row: NDArray[np.float16]) -> int:
    return zlib.crc32(row.tobytes(), zlib.crc32(row_key.encode()))


def _check_room(folder: Path, photos: int, key: Mapping[str, Any]) -> None:
    """Raise `SatError` for a disk without room for so many more photos."""
    more, free = photos * _row_bytes(key), shutil.disk_usage(folder).free
    if more > free:
        raise SatError(
            f"{folder}: {plural(photos, 'photo')} need {more / 1e6:,.1f} MB more, and the disk has only "
            f"{free / 1e6:,.1f} MB free; make room or choose another folder (--cache)"
        )


@contextmanager
def _appended(path: Path, end: int) -> Iterator[BinaryIO]:
    """A file to write on from its byte number `end`; what an interrupted run left behind it is dropped."""
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.truncate(end)
        file.seek(end)
        yield file


def _write(file: Path, text: str) -> None:
    atomic_write(file, lambda scratch: scratch.write_bytes(text.encode()), sync=True)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _encode(
    folder: Path,
    key: Mapping[str, Any],
    stored: _Stored,
    jobs: Mapping[str, _Job],
    encoder: Encoder,
    encode: Encode,
    bar: Any,
) -> dict[str, str]:
    """Encode and store the photo of each row key in ``jobs``, adding it to ``stored``; return why a photo failed, by
    its row key. Raises `SatError` for a disk that is full or cannot be written."""
    failed: dict[str, str] = {}
    before = len(stored.checksums)
    try:
        with (
            _appended(folder / "annotations", before * _row_bytes(key)) as store,
            _appended(folder / "checksums", before * 4) as checksums,
            _appended(folder / "photos", before * LINE) as lines,
        ):
            for batch, pixels in _read_batches(jobs, encoder.preprocessing, key["view"], failed):
                half = _half(encode(pixels), [jobs[row_key].name for row_key in batch])
                made = [_checksum(row_key, row) for row_key, row in zip(batch, half, strict=True)]
                store.write(half.tobytes())
                _to_disk(store)
                checksums.write(np.array(made, "<u4").tobytes())
                _to_disk(checksums)
                lines.write("".join(f"{row_key}\n" for row_key in batch).encode())
                _to_disk(lines)
                stored.rows |= {row_key: len(stored.checksums) + location for location, row_key in enumerate(batch)}
                stored.checksums += made
                bar.update(len(batch))
    except OSError as error:
        raise SatError(
            f"{folder} cannot be written ({error.strerror}). {len(stored.checksums) - before} of {len(jobs)} photos "
            "were stored: make room, or choose another folder (--cache), and the same command goes on"
        ) from error
    return failed


def _read_batches(
    jobs: Mapping[str, _Job], preprocessing: Preprocessing, view: str, failed: dict[str, str]
) -> Iterator[tuple[list[str], Tensor]]:
    """Yield batches of row keys with their pixels (B, 3, size, size); say in ``failed`` why a photo cannot be read.

    Photos are read two batches ahead of the encoder.
    """

    def read(job: _Job) -> Tensor:
        pixels = preprocessing(open_photo(job.path), view, job.name)
        state = os.stat(job.path)
        if (state.st_size, state.st_mtime_ns) != job.file[:2]:
            raise SatError("changed while the photos were encoded; encode them again")
        return pixels

    def collect(reading: Mapping[str, Future[Tensor]]) -> Iterator[tuple[list[str], Tensor]]:
        batch = {}
        for row_key, future in reading.items():
            try:
                batch[row_key] = future.result()
            except (SatError, OSError) as error:
                failed[row_key] = str(error).removeprefix(f"{jobs[row_key].path}: ")
        if batch:
            yield list(batch), torch.stack(list(batch.values()))

    pool = photo_readers()
    try:
        ahead: deque[dict[str, Future[Tensor]]] = deque()
        todo = list(jobs)
        for start in range(0, len(todo), TOGETHER):
            ahead.append({row_key: pool.submit(read, jobs[row_key]) for row_key in todo[start : start + TOGETHER]})
            if len(ahead) > 2:
                yield from collect(ahead.popleft())
        while ahead:
            yield from collect(ahead.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _half(annotations: Tensor, names: Sequence[str]) -> NDArray[np.float16]:
    """Round annotations (B, L, D) to half precision, refusing what it cannot hold."""
    half = annotations.half().cpu()
    for name, photo, rounded in zip(names, annotations, half, strict=True):
        if not rounded.isfinite().all():
            raise SatError(
                f"{name}: annotations as large as {photo.abs().max().item():g}, but half precision ends at"
                " 65504; the annotations of this encoder cannot be cached"
            )
    return half.numpy()
