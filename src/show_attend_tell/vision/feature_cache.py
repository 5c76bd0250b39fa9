"""Annotations of many photos, encoded once and kept on disk: what a frozen encoder says does not change.

A cache belongs to one encoder (by the digest of its weights), one preprocessing, one precision and one view
of the photos: `original`, or, for augmentation, `flipped`, `crop-1` and so on (`Preprocessing`). Each has a folder of
its own:

    DIRECTORY/crop224-bfloat16-original-1a2b3c4d5e6f/
        manifest.json     the encoder, its digest, the preprocessing, precision and view; then of each photo, in
                          the order of the rows: name, and its file's size, time of change and digest
        annotations.npy   (N, L, D) half precision, mapped into memory, never read whole
        done              N bytes, 1 where the row is written
        lock              held by the process that is writing

DIRECTORY is best one per data set, a folder of `default_cache()`: `$SAT_CACHE` where that is set, otherwise
`~/.cache/show-attend-tell/features`. Photos are known by their names and contents: a file with another size or time of
change is encoded again only when its bytes are others.

A row is marked as done after it is on disk, so an interrupted run loses a batch at most and goes on from
there.

Letters in shapes: N photos, B photos asked for, L places, D annotation size.
"""

import hashlib
import io
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from show_attend_tell.data.photos import Preprocessing, check_view, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.vision.encoder import Encoder

try:
    import fcntl
except ImportError:  # Windows: two processes there must not write one cache at the same time
    fcntl = None  # type: ignore[assignment]


def default_cache() -> Path:
    """Return where feature caches live unless told: `$SAT_CACHE`, or a folder in the user's own cache."""
    given = os.environ.get("SAT_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "show-attend-tell" / "features"


class _Entry(NamedTuple):
    """What the manifest says of one row: the photo, and its file's state, to notice when it changes."""

    name: str
    size: int  # bytes
    changed: int  # nanoseconds
    digest: str = ""  # SHA-256 of the bytes; empty until it is known


class FeatureCache:
    """The annotations of a set of photos, by name or by row: `cache[names]` is (B, L, D) float16.

    `FeatureCache.build` makes or completes one, `FeatureCache.open` opens one. `names` are the photos in the
    order of the rows; rows never move. `grid` is the rows and columns of places, `precision` what they were
    computed in.
    """

    def __init__(self, folder: Path) -> None:
        """Open the cache in its own `folder`; `open` finds that folder and checks that it is right."""
        manifest = _read_manifest(folder)
        self.folder = folder
        self.encoder_digest: str = manifest["digest"]
        self.precision: str = manifest["precision"]
        self.grid: tuple[int, int] = tuple(manifest["grid"])
        self.names = [entry.name for entry in manifest["photos"]]
        self._row = {name: row for row, name in enumerate(self.names)}
        try:
            self._done = (folder / "done").read_bytes()
            self._annotations = np.load(folder / "annotations.npy", mmap_mode="r")  # (N, L, D)
        except (OSError, ValueError, EOFError) as error:
            raise SatError(f"{folder}: damaged ({error}); delete this folder and build it again") from None
        if min(len(self._done), len(self._annotations)) < len(self):
            raise SatError(f"{folder}: damaged, with fewer rows than photos; delete this folder and build again")

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Return the row of a photo by its name. Raises `SatError` for a photo that was never put in."""
        if name not in self._row:
            raise SatError(f"{self.folder}: no photo {name!r} among the {len(self)} in this feature cache")
        return self._row[name]

    def __getitem__(self, photos: Sequence[str] | Sequence[int] | Tensor | NDArray[np.integer[Any]]) -> Tensor:
        """Return the annotations of photos, by name or by row: (B, L, D) float16.

        Raises `SatError` for a photo that is not there or not encoded yet.
        """
        if isinstance(photos, str):
            raise SatError(f"give a list of names, [{photos!r}], not a single one")
        rows = [self.index(photo) if isinstance(photo, str) else int(photo) for photo in photos]
        for row in rows:
            if not 0 <= row < len(self):
                raise SatError(f"{self.folder}: no row {row} among the {len(self)} in this feature cache")
            if not self._done[row]:
                raise SatError(f"{self.folder}: {self.names[row]} is not encoded yet; build the feature cache again")
        return torch.from_numpy(self._annotations[rows])

    @classmethod
    def open(
        cls, directory: Path, encoder_digest: str, preprocessing: Preprocessing, view: str = "original"
    ) -> "FeatureCache":
        """Open the cache of one encoder, preprocessing and view in `directory` (float32's, if there are two).

        Raises `SatError`, saying what is there instead, when there is none: a decoder must not be fed the
        annotations of an encoder other than its own.
        """
        for precision in ("float32", "bfloat16"):
            key = _key(encoder_digest, preprocessing, precision, view)
            folder = _folder(directory, key)
            if (folder / "manifest.json").exists():
                _check_key(folder, key)
                return cls(folder)
        others = sorted(_describe(_read_manifest(path.parent)) for path in directory.glob("*/manifest.json"))
        raise SatError(
            f"{directory}: no annotations by {_describe(key)}, but {'; '.join(others) or 'none at all'}."
            " Encode the photos with this encoder (sat features)"
        )

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
        """Encode those of `photos` that are not in the cache or have changed since; return the cache.

        `photos` gives each photo's file by its name. A cache that is complete costs nothing; photos of
        earlier calls stay; a call that was interrupted goes on where it was. While another process writes the
        same cache, this one waits. Annotations are computed on the encoder's device, in its precision.
        `progress` shows a bar on the terminal, with photos per second and the time left.

        Raises `SatError` for annotations beyond half precision (65,504), for a disk without room, and, after
        the others are stored, for photos that cannot be read, saying how many and which are the first.
        """
        key = _key(encoder.digest, encoder.preprocessing, encoder.precision, view)
        folder = _folder(directory, key)
        files, unreadable = _stat(photos)
        if not files:
            raise SatError("; ".join(["there is no photo to encode", *unreadable[:3]]))
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            entries, todo = _plan(folder, key, encoder, files, photos)
            with (
                tqdm(
                    total=len(files),
                    initial=len(files) - len(todo),
                    unit="photo",
                    desc=f"{encoder.name}, {view} photos",
                    disable=not (progress and todo),
                ) as bar,
                open(folder / "annotations.npy", "r+b") as store,
                open(folder / "done", "r+b") as marks,
            ):
                start = len(_header(len(entries), encoder))
                rows = {row: (entries[row].name, photos[entries[row].name]) for row in todo}
                for batch, pixels, failures in _read_batches(rows, encoder.preprocessing, view, batch_size):
                    unreadable += failures
                    if batch:
                        half = _half(encoder.annotate(pixels), [entries[row].name for row in batch])
                        for row, annotations in zip(batch, half, strict=True):
                            store.seek(start + row * annotations.nbytes)
                            store.write(annotations.tobytes())
                        _to_disk(store)
                        _mark(marks, batch, 1)
                        bar.update(len(batch))
        if unreadable:
            raise SatError(
                f"{len(unreadable)} of {len(photos)} photos cannot be read; the others are stored. First: "
                + "; ".join(unreadable[:3])
            )
        return cls(folder)


def _key(digest: str, preprocessing: Preprocessing, precision: str, view: str) -> dict[str, Any]:
    """Return what tells one cache from another, as it stands in the manifest."""
    square = preprocessing.to_dict()
    return {"digest": digest, "preprocessing": square, "precision": precision, "view": check_view(view)}


def _folder(directory: Path, key: Mapping[str, Any]) -> Path:
    short = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    square = f"{key['preprocessing']['geometry']}{key['preprocessing']['size']}"
    return directory / f"{square}-{key['precision']}-{key['view']}-{short}"


def _describe(key: Mapping[str, Any]) -> str:
    square = key["preprocessing"]
    return (
        f"encoder {key['digest'][:12]} ({square['geometry']} to {square['size']}, mean {square['mean']}, "
        f"std {square['std']}, {key['view']})"
    )


def _check_key(folder: Path, key: Mapping[str, Any]) -> dict[str, Any]:
    """Read the manifest and refuse it when it is not the one that the folder's name promises."""
    manifest = _read_manifest(folder)
    if any(manifest[name] != value for name, value in key.items()):
        raise SatError(
            f"{folder}: holds annotations by {_describe(manifest)}, not {_describe(key)}; delete this folder"
        )
    return manifest


def _stat(photos: Mapping[str, Path]) -> tuple[dict[str, _Entry], list[str]]:
    """Return the state of each photo's file by name, and a line for each that is missing."""
    files, missing = {}, []
    for name, path in photos.items():
        try:
            state = os.stat(path)
        except OSError:
            missing.append(f"{path}: no such file")
            continue
        files[name] = _Entry(name, state.st_size, state.st_mtime_ns)
    return files, missing


def _file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or nothing for one that cannot be read: that is said when it is encoded."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _plan(
    folder: Path,
    key: Mapping[str, Any],
    encoder: Encoder,
    files: Mapping[str, _Entry],
    photos: Mapping[str, Path],
) -> tuple[list[_Entry], list[int]]:
    """Make room for new photos, unmark those that changed; return all entries and the rows to do.

    The order matters, since the process may end at any line: rows exist before the manifest names them, and a
    row is unmarked before the manifest forgets that its file was another.
    """
    before: list[_Entry] = []
    if not (folder / "manifest.json").exists():
        (folder / "done").unlink(missing_ok=True)  # nobody knows any more of which photos those rows were
    else:
        before = _check_key(folder, key)["photos"]
        FeatureCache(folder)  # refuses one that lost rows; _grow would make them anew, as zeros
    entries = list(before)
    row_of = {entry.name: row for row, entry in enumerate(entries)}
    changed = []
    for name, found in files.items():
        row = row_of.setdefault(name, len(entries))
        old = entries[row] if row < len(before) else None
        untouched = old is not None and old[:3] == found[:3]
        if old is not None and untouched and old.digest:
            continue
        found = found._replace(digest=_file_digest(photos[name]))
        if old is None:
            entries.append(found)
            continue
        if not untouched and (not found.digest or found.digest != old.digest):
            changed.append(row)
        entries[row] = found
    if entries != before:
        _grow(folder, len(entries), encoder)
        with open(folder / "done", "r+b") as marks:
            _mark(marks, changed, 0)
        about = {"encoder": encoder.name, **key, "grid": encoder.grid, "photos": entries}
        _write(folder / "manifest.json", json.dumps(about, indent=1))
    done = (folder / "done").read_bytes()
    return entries, [row_of[name] for name in files if not done[row_of[name]]]


def _grow(folder: Path, photos: int, encoder: Encoder) -> None:
    """Lengthen the annotations and their marks to so many rows, or create them; no row is lost."""
    header, path = _header(photos, encoder), folder / "annotations.npy"
    with open(path, "r+b" if path.exists() else "w+b") as store:
        rows, columns = encoder.grid
        wanted = len(header) + 2 * photos * rows * columns * encoder.annotation_size
        more, free = wanted - os.path.getsize(path), shutil.disk_usage(folder).free
        if more > free:
            raise SatError(
                f"{folder}: {photos} photos need {more / 1e9:.1f} GB more, and the disk has only"
                f" {free / 1e9:.1f} GB free; make room or choose another folder"
            )
        if more > 0:
            store.truncate(wanted)
        store.write(header)
    with open(folder / "done", "ab") as marks:
        marks.truncate(photos)


def _header(photos: int, encoder: Encoder) -> bytes:
    """Return the .npy file's beginning, which NumPy pads to the same length for any number of rows."""
    rows, columns = encoder.grid
    shape = (photos, rows * columns, encoder.annotation_size)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f2", "fortran_order": False, "shape": shape})
    return header.getvalue()


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _mark(marks: BinaryIO, rows: Sequence[int], value: int) -> None:
    for row in rows:
        marks.seek(row)
        marks.write(bytes([value]))
    _to_disk(marks)


def _read_batches(
    rows: Mapping[int, tuple[str, Path]], preprocessing: Preprocessing, view: str, batch_size: int
) -> Iterator[tuple[list[int], Tensor, list[str]]]:
    """Yield batches of rows with their pixels (B, 3, size, size), and a line for each photo not readable.

    ``rows`` gives each row's name and file. Two threads read two batches ahead of the encoder.
    """

    def read(name: str, path: Path) -> Tensor:
        return preprocessing(open_photo(path), view, name)

    def collect(reading: Mapping[int, Future[Tensor]]) -> tuple[list[int], Tensor, list[str]]:
        batch, failures = {}, []
        for row, future in reading.items():
            try:
                batch[row] = future.result()
            except SatError as error:
                failures.append(str(error))
        return list(batch), torch.stack(list(batch.values())) if batch else torch.empty(0), failures

    pool = ThreadPoolExecutor(max_workers=2)
    try:
        ahead: deque[dict[int, Future[Tensor]]] = deque()
        todo = list(rows)
        for start in range(0, len(todo), batch_size):
            ahead.append({row: pool.submit(read, *rows[row]) for row in todo[start : start + batch_size]})
            if len(ahead) > 2:
                yield collect(ahead.popleft())
        while ahead:
            yield collect(ahead.popleft())
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


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        manifest["photos"] = [_Entry(*entry) for entry in manifest["photos"]]
        if missing := {"digest", "preprocessing", "precision", "view", "grid"} - manifest.keys():
            raise KeyError(*sorted(missing))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SatError(f"{folder}: not a feature cache, or damaged ({error}); delete it and build it again") from None
    return manifest


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(text.encode())
        _to_disk(file)
    os.replace(temporary, path)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Wait until no other process writes this cache, then keep others out."""
    with open(folder / "lock", "w") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"another process is writing {folder}; waiting for it to finish", file=sys.stderr)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
