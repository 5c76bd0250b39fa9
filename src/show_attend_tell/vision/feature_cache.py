"""Annotations of many photos, encoded once and kept on disk: a frozen encoder always gives the same ones.

A cache belongs to one encoder (by the digest of its weights), one preprocessing (its values, and the version of the
code that makes pixels of a photo), one precision and one view of the photos: `original`, or, for augmentation,
`flipped`, `crop-1` and so on (`Preprocessing`). Each such cache has a folder of its own:

    DIRECTORY/
        files.json            the SHA-256 of each photo's file by its path, size and time of change
        crop224-bfloat16-original-1a2b3c4d5e6f/
            manifest.json     what the cache belongs to
            annotations       N rows (L, D) in half precision, mapped into memory and never read whole
            rows              N lines: which photo the row is of, and the CRC-32 of this and of the row's bytes

A row belongs to the bytes of a photo's file, by their SHA-256. Names and paths are only used to find those bytes. So a
data set may move or be copied, two data sets may share a folder, and two photos of one name are never confused. A
random crop also depends on the photo's name, and so does its row. `files.json` only saves time: without it, the files
are read again.

DIRECTORY is a folder of `default_cache()`: `$SAT_CACHE` where that is set, otherwise
`~/.cache/show-attend-tell/features`.

A row is on disk before its line in `rows` is written. So a run that is killed loses a batch at most and goes on from
there. One process writes at a time, and the others wait (`files.file_lock`); any number of processes read.

A process compares a row with its checksum when it first reads it. A row that differs is damaged, by the disk, say. Then
all rows are compared, the lines of damaged ones become zeros, and `SatError` names the photos. The next run encodes
these photos again and no others. They are not encoded at once, because the encoder may have been trained meanwhile, and
because a disk that damages files should be noticed.

LMDB was tried instead: it has no checksums, a truncated file kills the process (SIGBUS), and its files may not lie on
network disks. Zarr has checksums, but several processes that write must take turns by themselves.

Letters in shapes: N rows, B photos asked for, L locations, D annotation size.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.data.photos import PREPROCESSING_VERSION, check_view, open_photo
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.files import atomic_write, file_lock, make_folder
from show_attend_tell.messages import first_three, plural
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import Encode, Encoder
from show_attend_tell.vision.reading import read_ahead

WAITING = "another process is writing {}; waiting for it to finish"
OTHER_CACHE = "choose another folder for the photos' features (--cache or $SAT_CACHE)"
DROPPED = b"%064x %08x\n" % (0, 0)  # the line of a damaged row in `rows`
LINE_BYTES = len(DROPPED)
MOST_BYTES = 2_000_000_000  # of `files.json`; a larger one is not read


class UnreadablePhotos(SatError):
    """Photos that cannot be read. The others are stored.

    Attributes: `problems`, what is wrong with each photo, by its name; `photos`, the number of all.
    """

    def __init__(self, problems: Mapping[str, str], photos: int) -> None:
        self.problems, self.photos = dict(problems), photos
        first = "; ".join(list(self.problems.values())[:3])
        super().__init__(
            f"{len(problems)} of {photos} photos cannot be read. First: {first}",
            remedy="replace these photos, or delete their captions; the others are stored",
        )
        self.args = (self.problems, photos)  # for pickling


def default_cache() -> Path:
    """Return where feature caches are by default: `$SAT_CACHE`, or a folder in the user's own cache."""
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


class Row(NamedTuple):
    """A stored row."""

    number: int  # from 0
    key: str  # which photo it is of, see `_row_key`
    checksum: int


class FeatureCache:
    """The annotations of photos by name: `cache[names]` is (B, L, D) float16. `FeatureCache.build` makes one.

    Attributes: `folder`, and `names`, the photos in the order in which they were given.
    """

    def __init__(self, store: "_Store", keys: Mapping[str, str]) -> None:
        """``keys`` gives the key of each photo's row by the photo's name."""
        self.folder, self.names = store.folder, list(keys)
        self._rows = {name: store.rows[key] for name, key in keys.items()}
        self._annotations = store.annotations()
        self._checked: set[int] = set()  # numbers of rows

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """Return the annotations of photos by their names: (B, L, D) float16.

        Raises `SatError` for a name that the cache was not built with, and for a damaged row, which the next run
        encodes again.
        """
        for name in names:
            if name not in self._rows:
                raise SatError(f"{self.folder}: there is no photo {name!r} among the {len(self)} in this feature cache")
            row = self._rows[name]
            if row.number not in self._checked:
                if self._is_damaged(row):
                    self._drop_damaged()
                self._checked.add(row.number)
        return torch.from_numpy(self._annotations[[self._rows[name].number for name in names]])

    def _is_damaged(self, row: Row) -> bool:
        return _checksum(row.key, self._annotations[row.number]) != row.checksum

    def _drop_damaged(self) -> NoReturn:
        """Drop all damaged rows, so that the next run encodes their photos again; raises `SatError`."""
        damaged = {name: row for name, row in self._rows.items() if self._is_damaged(row)}
        with (
            contextlib.suppress(OSError),  # then they are found again
            file_lock(self.folder, waiting=WAITING.format(self.folder)),
            open(self.folder / "rows", "r+b") as rows,
        ):
            for row in damaged.values():
                rows.seek(row.number * LINE_BYTES)
                rows.write(DROPPED)
            _to_disk(rows)
        raise SatError(
            f"the stored annotations of {first_three(damaged)} are damaged (their checksums differ)",
            subject=str(self.folder),
            remedy=f"the same command encodes {plural(len(damaged), 'photo')} again (sat train with --resume). If it "
            "happens again, delete this folder, and check the disk",
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
        batch_size: int = 8,
        progress: bool = True,
    ) -> "FeatureCache":
        """Encode those of `photos` whose bytes are not in the cache yet, and return the cache.

        `photos` gives each photo's file by its name. A cache that is complete costs nothing; rows of earlier calls
        stay; a call that was interrupted goes on where it was. While another process writes the same cache, this one
        waits. `encode` is a faster way to do what `Encoder.annotate` does, which is the default. `progress` shows bars
        on the terminal, with the photos done, their number, the rate and the time left.

        Raises `SatError` for annotations beyond half precision (65,504), for a disk without room, for a damaged cache,
        and, after the others are stored, `UnreadablePhotos`, saying how many and which are the first.
        """
        key = _key(encoder, view)
        folder = directory / _folder_name(key)
        files, problems = _known_files(directory, photos, progress)
        if not files:
            raise SatError("; ".join(["there is no photo to encode", *list(problems.values())[:3]]))
        wanted = {name: _row_key(file.digest, name, view) for name, file in files.items()}

        def pixels(name: str) -> Tensor:
            read = encoder.preprocessing(open_photo(photos[name]), view, name)
            state = os.stat(photos[name])
            if (state.st_size, state.st_mtime_ns) != files[name][:2]:  # the row would belong to the former bytes
                raise PhotoError("changed while the photos were encoded; encode them again", subject=str(photos[name]))
            return read

        make_folder(folder, OTHER_CACHE)
        with file_lock(folder, waiting=WAITING.format(folder)):
            store = _Store(folder, key)
            missing = {row_key: name for name, row_key in wanted.items() if row_key not in store.rows}
            if missing:
                store.check_room(len(missing))
                total = len(set(wanted.values()))
                with Progress(
                    total=total,
                    initial=total - len(missing),
                    unit="photo",
                    desc=f"{encoder.name}, {view} photos",
                    disable=not progress,
                ) as bar:
                    failed = _encode(store, missing, pixels, encode or encoder.annotate, batch_size, bar)
                problems |= {
                    name: f"{photos[name]}: {failed[row_key]}" for name, row_key in wanted.items() if row_key in failed
                }
        if problems:
            raise UnreadablePhotos(problems, len(photos))
        return cls(store, wanted)


def _encode(
    store: "_Store",
    missing: Mapping[str, str],
    pixels: Callable[[str], Tensor],
    encode: Encode,
    batch_size: int,
    bar: Progress,
) -> dict[str, str]:
    """Encode and store the photos in ``missing``, names by row keys; return why photos failed, by their row keys.

    ``pixels`` reads a photo by its name, (3, S, S). Raises `SatError` for a disk that is full or cannot be written.
    """
    failed: dict[str, str] = {}
    before = store.count
    found = zip(missing, read_ahead(pixels, missing.values(), ahead=2 * batch_size), strict=True)
    try:
        while batch := list(islice(found, batch_size)):
            failed |= {row_key: read.reason for row_key, read in batch if isinstance(read, SatError)}
            if good := {row_key: read for row_key, read in batch if isinstance(read, Tensor)}:
                annotations = torch.as_tensor(encode(torch.stack(list(good.values()))))
                store.append(list(good), _half(annotations, [missing[row_key] for row_key in good]))
                bar.update(len(good))
    except OSError as error:
        raise SatError(
            f"{store.folder} cannot be written ({error.strerror}). {store.count - before} of {len(missing)} photos "
            "were stored: make room, or choose another folder (--cache), and the same command goes on"
        ) from error
    return failed


def _half(annotations: Tensor, names: Sequence[str]) -> NDArray[np.float16]:
    """Round annotations (B, L, D) to half precision; raises `SatError` for what it cannot hold."""
    half = annotations.half().cpu()
    for name, photo, rounded in zip(names, annotations, half, strict=True):
        if not rounded.isfinite().all():
            raise SatError(
                f"{name}: annotations as large as {photo.abs().max().item():g}, but half precision ends at"
                " 65504; the annotations of this encoder cannot be cached"
            )
    return half.numpy()


# What a cache and its rows belong to


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


def _known_files(
    directory: Path, photos: Mapping[str, Path], progress: bool
) -> tuple[dict[str, PhotoFile], dict[str, str]]:
    """What is known of each photo's file, by the photo's name, and a line for each that cannot be read, by its name.

    A file's bytes are read only when it is new or has another size or time of change than when they were last read.
    """
    index = directory / "files.json"
    before = _read_index(index)
    known: dict[str, PhotoFile] = {}
    problems: dict[str, str] = {}
    new: dict[str, tuple[int, int]] = {}
    for name, path in photos.items():
        try:
            state = os.stat(path)
        except OSError:
            problems[name] = f"{path}: no such file"
            continue
        old = before.get(os.path.abspath(path))
        if old is not None and old[:2] == (state.st_size, state.st_mtime_ns):
            known[name] = old
        else:
            new[name] = (state.st_size, state.st_mtime_ns)
    if new:
        found = zip(new, read_ahead(_digest, [photos[name] for name in new]), strict=True)
        few = len(new) <= 1000
        for name, digest in Progress(
            found, total=len(new), desc="files of photos", unit="file", disable=few or not progress
        ):
            if isinstance(digest, SatError):
                problems[name] = str(digest)
            else:
                known[name] = PhotoFile(*new[name], digest)
        entries = {os.path.abspath(photos[name]): known[name] for name in new if name in known}
        make_folder(directory, OTHER_CACHE)
        with (
            file_lock(directory, waiting=WAITING.format(directory)),
            contextlib.suppress(SatError),  # the index only saves time
        ):
            _write(index, json.dumps(_read_index(index) | entries, indent=0))
    return {name: known[name] for name in photos if name in known}, problems


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


class _Store:
    """The files of a cache, for the one process that may write them."""

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        """Read which rows are stored: none in a folder that is new.

        Raises `SatError` for a cache that is damaged or belongs to something else than its folder's name promises.
        """
        self.folder, self.shape = folder, tuple(key["shape"])
        self.row_bytes = 2 * math.prod(self.shape)
        if not (folder / "manifest.json").exists():
            (folder / "rows").unlink(missing_ok=True)  # nobody knows what those rows belong to
            _write(folder / "manifest.json", json.dumps(key, indent=1))
        try:
            with open(folder / "manifest.json", encoding="utf-8") as file:
                same = json.loads(file.read(1_000_000)) == key
            size = os.path.getsize(folder / "rows") if (folder / "rows").exists() else 0
            self.count = size // LINE_BYTES  # a line that was cut short does not count
            stored = os.path.getsize(folder / "annotations") // self.row_bytes if self.count else 0
            lines = (folder / "rows").read_bytes()[: self.count * LINE_BYTES] if 0 < self.count <= stored else b""
        except (OSError, ValueError, RecursionError) as error:
            raise SatError(f"{folder}: the feature cache is damaged ({error}); delete this folder") from None
        if not same:
            raise SatError(
                f"{folder}: the feature cache belongs to another encoder or preprocessing; delete this folder"
            )
        if len(lines) < self.count * LINE_BYTES or not re.fullmatch(rb"([0-9a-f]{64} [0-9a-f]{8}\n)*", lines):
            raise SatError(f"{folder}: the feature cache is damaged, rows of it are lost; delete this folder")
        self.rows: dict[str, Row] = {}  # by their keys, without damaged ones
        for number, line in enumerate(lines.splitlines(keepends=True)):
            if line != DROPPED:
                row_key, checksum = line.decode().split()
                self.rows[row_key] = Row(number, row_key, int(checksum, 16))

    def append(self, keys: Sequence[str], annotations: NDArray[np.float16]) -> None:
        """Store annotations (B, L, D) as the rows of those keys. What an interrupted run left behind is dropped."""
        rows = [
            Row(number, row_key, _checksum(row_key, row))
            for number, (row_key, row) in enumerate(zip(keys, annotations, strict=True), start=self.count)
        ]
        lines = "".join(f"{row.key} {row.checksum:08x}\n" for row in rows)
        for name, size, content in (
            ("annotations", self.row_bytes, annotations.tobytes()),
            ("rows", LINE_BYTES, lines.encode()),
        ):
            with open(self.folder / name, "ab") as file:
                file.truncate(self.count * size)
                file.write(content)
                _to_disk(file)
        self.rows |= {row.key: row for row in rows}
        self.count += len(rows)

    def annotations(self) -> NDArray[np.float16]:
        """All rows (N, L, D), mapped into memory."""
        mapped: NDArray[np.float16] = np.memmap(
            self.folder / "annotations", "<f2", mode="r", shape=(self.count, *self.shape)
        )
        return mapped

    def check_room(self, photos: int) -> None:
        """Raise `SatError` for a disk without room for so many more photos."""
        needed, free = photos * (self.row_bytes + LINE_BYTES), shutil.disk_usage(self.folder).free
        if needed > free:
            raise SatError(
                f"{self.folder}: {plural(photos, 'photo')} need {needed / 1e6:,.1f} MB more, and the disk has only "
                f"{free / 1e6:,.1f} MB free; make room or choose another folder (--cache)"
            )


def _checksum(row_key: str, row: NDArray[np.float16]) -> int:
    return zlib.crc32(row.tobytes(), zlib.crc32(row_key.encode()))


def _write(file: Path, text: str) -> None:
    atomic_write(file, lambda scratch: scratch.write_bytes(text.encode()), sync=True)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
