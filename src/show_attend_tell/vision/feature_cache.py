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
            lock              held by the process that is writing

A row belongs to the bytes of a photo's file, by their SHA-256. Names and paths are only used to find those bytes. So a
data set may move or be copied, two data sets may share a folder, and two photos of one name are never confused. A
random crop also depends on the photo's name, and so does its row. `files.json` only saves time: without it, the files
are read again.

DIRECTORY is a folder of `default_cache()`: `$SAT_CACHE` where that is set, otherwise
`~/.cache/show-attend-tell/features`.

A row is on disk before its line in `photos` is written. So an interrupted run loses a batch at most and goes on from
there.

Letters in shapes: N rows, B photos asked for, L places, D annotation size.
"""

import hashlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.data.photos import PREPROCESSING_VERSION, Preprocessing, check_view, open_photo
from show_attend_tell.data.progress import Progress
from show_attend_tell.errors import SatError
from show_attend_tell.files import alone, replace
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.reading import photo_readers

WAITING = "another process is writing {}; waiting for it to finish"
LINE = 65  # bytes of a line in `photos`: 64 hexadecimal digits and the line's end


class UnreadablePhotos(SatError):
    """Photos that cannot be read. The others are stored."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = list(names)


def default_cache() -> Path:
    """Return where feature caches live unless told: `$SAT_CACHE`, or a folder in the user's own cache."""
    given = os.environ.get("SAT_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "show-attend-tell" / "features"


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


class FeatureCache:
    """The annotations of photos by name: `cache[names]` is (B, L, D) float16. `FeatureCache.build` makes one.

    Attributes: `folder`, and `names`, the photos in the order in which they were given.
    """

    def __init__(self, folder: Path, rows: Mapping[str, int], shape: tuple[int, int, int]) -> None:
        """A cache of so many rows, shape (N, L, D), of which `rows` gives the row of each photo's name."""
        self.folder, self.names = folder, list(rows)
        self._rows = dict(rows)
        self._annotations: NDArray[np.float16] = np.memmap(folder / "annotations", "<f2", mode="r", shape=shape)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """Return the annotations of photos by their names: (B, L, D) float16.

        Raises `SatError` for a name that the cache was not built with.
        """
        if isinstance(names, str):
            raise SatError(f"give a list of names, [{names!r}], not a single one")
        for name in names:
            if name not in self._rows:
                raise SatError(f"{self.folder}: there is no photo {name!r} among the {len(self)} in this feature cache")
        return torch.from_numpy(self._annotations[[self._rows[name] for name in names]])

    @classmethod
    def build(
        cls,
        directory: Path,
        photos: Mapping[str, Path],
        encoder: Encoder,
        *,
        view: str = "original",
        progress: bool = True,
        batch_size: int = 8,
    ) -> "FeatureCache":
        """Encode those of `photos` whose bytes are not in the cache yet, and return the cache.

        `photos` gives each photo's file by its name. A cache that is complete costs nothing; rows of earlier calls
        stay; a call that was interrupted goes on where it was. While another process writes the same cache, this one
        waits. Annotations are computed on the encoder's device, in its precision. `progress` shows bars on the
        terminal, with the photos done, their number, the rate and the time left.

        Raises `SatError` for annotations beyond half precision (65,504), for a disk without room, for a damaged cache,
        and, after the others are stored, `UnreadablePhotos`, saying how many and which are the first.
        """
        key = _key(encoder, view)
        folder = directory / _folder_name(key)
        files, unreadable = _known_files(directory, photos, progress)
        if not files:
            raise SatError("; ".join(["there is no photo to encode", *unreadable[:3]]))
        wanted = {name: _row_key(file.digest, name, view) for name, file in files.items()}
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder, waiting=WAITING.format(folder)):
            rows = _read_rows(folder, key)
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
                    failed = _encode(folder, key, rows, jobs, encoder, batch_size, bar)
        unreadable += [f"{photos[name]}: {failed[row_key]}" for name, row_key in wanted.items() if row_key in failed]
        if unreadable:
            read = {name for name, row_key in wanted.items() if row_key not in failed}
            raise UnreadablePhotos(
                f"{len(unreadable)} of {len(photos)} photos cannot be read; the others are stored. First: "
                + "; ".join(unreadable[:3]),
                [name for name in photos if name not in read],
            )
        places, size = key["shape"]
        return cls(folder, {name: rows[row_key] for name, row_key in wanted.items()}, (len(rows), places, size))


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
    square = f"{key['preprocessing']['geometry']}{key['preprocessing']['size']}"
    return f"{square}-{key['precision']}-{key['view']}-{short}"


def _row_key(digest: str, name: str, view: str) -> str:
    """What tells one row from another, 64 hexadecimal digits: the photo, and what its random crop depends on."""
    return hashlib.sha256(f"{digest} {name}".encode("utf-8", "surrogatepass")).hexdigest() if "crop" in view else digest


def _row_bytes(key: Mapping[str, Any]) -> int:
    places, size = key["shape"]
    return 2 * int(places) * int(size)


# The files of photos


def _known_files(directory: Path, photos: Mapping[str, Path], progress: bool) -> tuple[dict[str, PhotoFile], list[str]]:
    """What is known of each photo's file, by the photo's name, and a line for each file that cannot be read.

    A file's bytes are read only when it is new or has another size or time of change than when they were last read.
    """
    index = directory / "files.json"
    before = _read_index(index)
    known: dict[str, PhotoFile] = {}
    unreadable, new = [], {}
    for name, path in photos.items():
        try:
            state = os.stat(path)
        except OSError:
            unreadable.append(f"{path}: no such file")
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
                unreadable.append(f"{photos[name]}: cannot be read ({error.strerror})")
    finally:
        pool.shutdown(cancel_futures=True)
    if new:
        directory.mkdir(parents=True, exist_ok=True)
        found = {os.path.abspath(photos[name]): known[name] for name in new if name in known}
        with alone(directory, waiting=WAITING.format(directory)):
            _write(index, json.dumps(_read_index(index) | found, indent=0))
    return {name: known[name] for name in photos if name in known}, unreadable


def _read_index(file: Path) -> dict[str, PhotoFile]:
    """The index of files; an empty one if there is none or it is damaged, since it only saves time."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {
            path: PhotoFile(int(size), int(changed), re.fullmatch("[0-9a-f]{64}", digest).group())  # type: ignore[union-attr]
            for path, (size, changed, digest) in entries.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The files of a cache


def _read_rows(folder: Path, key: Mapping[str, Any]) -> dict[str, int]:
    """The row of each photo that is stored, and no rows for a cache that has yet to be made.

    Raises `SatError` for a cache that is damaged or belongs to something else than its folder's name promises.
    """
    if not (folder / "manifest.json").exists():
        (folder / "photos").unlink(missing_ok=True)  # nobody knows what those rows belong to
        _write(folder / "manifest.json", json.dumps(key, indent=1))
    try:
        same = json.loads((folder / "manifest.json").read_text(encoding="utf-8")) == key
        lines = (folder / "photos").read_bytes() if (folder / "photos").exists() else b""
        stored = os.path.getsize(folder / "annotations") if lines else 0
    except (OSError, ValueError) as error:
        raise SatError(f"{folder}: the feature cache is damaged ({error}); delete this folder") from None
    if not same:
        raise SatError(f"{folder}: the feature cache belongs to another encoder or preprocessing; delete this folder")
    count = len(lines) // LINE  # a line that was cut short does not count
    if not re.fullmatch(rb"([0-9a-f]{64}\n)*", lines[: count * LINE]) or stored < count * _row_bytes(key):
        raise SatError(f"{folder}: the feature cache is damaged, rows of it are lost; delete this folder")
    return {lines[row * LINE : (row + 1) * LINE - 1].decode(): row for row in range(count)}


def _check_room(folder: Path, photos: int, key: Mapping[str, Any]) -> None:
    """Raise `SatError` for a disk without room for so many more photos."""
    more, free = photos * _row_bytes(key), shutil.disk_usage(folder).free
    if more > free:
        raise SatError(
            f"{folder}: {photos} photos need {more / 1e9:.1f} GB more, and the disk has only {free / 1e9:.1f} GB free;"
            " make room or choose another folder (--cache)"
        )


@contextmanager
def _appended(path: Path, end: int) -> Iterator[BinaryIO]:
    """A file to write on from its byte number `end`; what an interrupted run left behind it is dropped."""
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.truncate(end)
        file.seek(end)
        yield file


def _write(file: Path, text: str) -> None:
    def write(scratch: Path) -> None:
        with open(scratch, "wb") as opened:
            opened.write(text.encode())
            _to_disk(opened)

    replace(file, write)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _encode(
    folder: Path,
    key: Mapping[str, Any],
    rows: dict[str, int],
    jobs: Mapping[str, _Job],
    encoder: Encoder,
    batch_size: int,
    bar: Any,
) -> dict[str, str]:
    """Encode and store the photo of each row key in ``jobs``, adding it to ``rows``; return why a photo failed, by its
    row key."""
    failed: dict[str, str] = {}
    with (
        _appended(folder / "annotations", len(rows) * _row_bytes(key)) as store,
        _appended(folder / "photos", len(rows) * LINE) as lines,
    ):
        for batch, pixels in _read_batches(jobs, encoder.preprocessing, key["view"], batch_size, failed):
            half = _half(encoder.annotate(pixels), [jobs[row_key].name for row_key in batch])
            store.write(half.tobytes())
            _to_disk(store)
            lines.write("".join(f"{row_key}\n" for row_key in batch).encode())
            _to_disk(lines)
            rows |= {row_key: len(rows) + place for place, row_key in enumerate(batch)}
            bar.update(len(batch))
    return failed


def _read_batches(
    jobs: Mapping[str, _Job], preprocessing: Preprocessing, view: str, batch_size: int, failed: dict[str, str]
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
        for start in range(0, len(todo), batch_size):
            ahead.append({row_key: pool.submit(read, jobs[row_key]) for row_key in todo[start : start + batch_size]})
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
