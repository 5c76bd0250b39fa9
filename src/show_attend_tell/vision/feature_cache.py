"""Annotations of many photos, encoded once and kept on disk: a frozen encoder always gives the same ones.

A cache belongs to one encoder (by the digest of its weights), one preprocessing, one precision and one view of the
photos (`Preprocessing`). Each such cache has a folder of its own, whose name ends with a hash of all this:

    DIRECTORY/
        files.json            the SHA-256 of each photo's file by its path, size and time of change
        crop224-bfloat16-original-1a2b3c4d5e6f/
            3f/3f8a…          a photo's annotations (L, D) in half precision, and their CRC-32

The file of a photo's annotations is named by the SHA-256 of the photo's bytes (and, for a view that is drawn, of the
photo's name). So a data set may move or be copied, and two photos of one name are never confused. `files.json` only
saves time.

A file gets its name when it is whole, so a run that is killed goes on from there. One process writes at a time; any
number read. Annotations are compared with their checksum when they are first read. Damaged ones are removed and named;
the next run encodes them again, and not this one, because the encoder may have been trained meanwhile.

Letters in shapes: B photos asked for, L locations, D annotation size.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from torch import Tensor

from show_attend_tell.data.photos import DRAWN, PASSED_OVER, PREPROCESSING_VERSION, open_photo
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.files import atomic_write, file_lock, make_folder, write_text
from show_attend_tell.messages import first_three, plural, read_without
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import Encode, Encoder
from show_attend_tell.vision.reading import read_ahead

logger = logging.getLogger(__name__)

WAITING = "another process is writing {}; waiting for it to finish"
OTHER_CACHE = "choose another folder for the photos' features ($SAT_CACHE)"
CHECKSUM_BYTES = 4


class UnreadablePhotos(SatError):
    """Photos that cannot be read: `problems` says why, by their names; `photos` is the number of all."""

    def __init__(self, problems: Mapping[str, str], photos: int) -> None:
        self.problems = dict(problems)
        self.photos = photos
        first = "; ".join(list(self.problems.values())[:3])
        super().__init__(
            f"{len(problems)} of {photos} photos cannot be read. First: {first}",
            remedy="replace these photos, or delete their captions; the others are stored",
        )
        self.args = (self.problems, photos)  # for pickling


def default_cache() -> Path:
    """Return where feature caches are by default: `$SAT_CACHE`, or a folder in the user's own cache."""
    return Path(os.path.expanduser(os.environ.get("SAT_CACHE") or "~/.cache/show-attend-tell/features"))


def folder_name(dataset: str) -> str:
    """The name of a data set as one that a folder may have: letters, digits, `_`, `-` and inner dots, at most 40."""
    return re.sub(r"[^\w.-]+", "_", dataset).lstrip(".")[:40] or "data"


class PhotoFile(NamedTuple):
    """What is known of a photo's file."""

    size: int  # bytes
    changed: int  # nanoseconds
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # SHA-256 of the bytes


INDEX = TypeAdapter(dict[str, PhotoFile])  # of `files.json`


class FeatureCache:
    """The annotations of photos by name: `cache[names]` is (B, L, D) float16. `FeatureCache.build` makes one."""

    def __init__(self, shape: tuple[int, int], files: Mapping[str, Path]) -> None:
        """``files`` gives each photo's stored file by the photo's name; the shape of its annotations is (L, D)."""
        self.shape = shape
        self.files = dict(files)
        self._checked: set[str] = set()  # names of photos

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """The annotations of photos by their names: (B, L, D) float16; raises `SatError` for damaged ones."""
        annotations = np.empty((len(names), *self.shape), "<f2")
        for name, row in zip(names, annotations, strict=True):
            if not self._read(name, row):
                self._drop_damaged()
        return torch.from_numpy(annotations)

    def _read(self, name: str, into: NDArray[np.float16]) -> bool:
        """Read annotations; returns whether they are as they were stored."""
        stored = self.files[name]
        try:
            with open(stored, "rb") as file:
                file.readinto(into.data.cast("B"))
                checksum = file.read(CHECKSUM_BYTES)
        except OSError:
            return False
        whole = (
            checksum == _checksum(stored.name, into) if name not in self._checked else len(checksum) == CHECKSUM_BYTES
        )
        self._checked.add(name)
        return whole

    def _drop_damaged(self) -> NoReturn:
        """Remove all damaged annotations, so that the next run encodes their photos again; raises `SatError`."""
        self._checked.clear()
        row = np.empty(self.shape, "<f2")
        damaged = [name for name in self.files if not self._read(name, row)]
        for name in damaged:
            with contextlib.suppress(OSError):  # then they are found again
                self.files[name].unlink(missing_ok=True)
        raise SatError(
            f"the stored annotations of {first_three(damaged)} are damaged (their checksums differ)",
            subject=str(self.files[damaged[0]].parents[1]),
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
        """Encode those of `photos` (files by name) whose bytes are not in the cache yet, and return the cache.

        While another process writes the same cache, this one waits. `encode` is a faster way to do what
        `Encoder.annotate` does. Raises `UnreadablePhotos` after the others are stored.
        """
        rows, columns = encoder.grid
        shape = (rows * columns, encoder.annotation_size)
        size = 2 * math.prod(shape) + CHECKSUM_BYTES  # of a photo's stored file
        folder = directory / _folder_name(encoder, view)
        files, problems = _known_files(directory, photos, progress)
        keys = {name: _key(file.digest, name, view) for name, file in files.items()}

        passed_over: dict[str, str] = {}  # what was left out of photos' files, by their names

        def pixels(name: str) -> Tensor:
            photo = open_photo(photos[name])
            if PASSED_OVER in photo.info:
                passed_over[name] = photo.info[PASSED_OVER]
            read = encoder.preprocessing(photo, view, name)
            if _state(photos[name]) != files[name][:2]:  # these would be stored for the former bytes
                raise PhotoError("changed while the photos were encoded; encode them again", subject=str(photos[name]))
            return read

        make_folder(folder, OTHER_CACHE)
        with file_lock(folder, waiting=WAITING.format(folder)):
            files_of = (os.scandir(part) for part in folder.glob("??"))  # a file of another size is not whole
            stored = {file.name for files_there in files_of for file in files_there if file.stat().st_size == size}
            missing = {key: name for name, key in keys.items() if key not in stored}
            if missing:
                _check_room(folder, len(missing), size)
            readings = zip(missing.items(), read_ahead(pixels, missing.values(), ahead=2 * batch_size), strict=True)
            failed: dict[str, str] = {}  # why photos cannot be read, by their keys
            what = f"{encoder.name}, {view} photos"
            with Progress(total=len(missing), unit="photo", desc=what, disable=not (progress and missing)) as bar:
                while batch := list(islice(readings, batch_size)):
                    failed |= {key: read.reason for (key, _), read in batch if isinstance(read, SatError)}
                    pixels_of = {photo: read for photo, read in batch if isinstance(read, Tensor)}
                    if pixels_of:
                        stacked = torch.stack(list(pixels_of.values()))
                        annotations = torch.as_tensor((encode or encoder.annotate)(stacked))  # arrays of ONNX Runtime
                        for (key, name), of_photo in zip(pixels_of, annotations, strict=True):
                            _write(folder, key, _half(of_photo, name))
                        bar.update(len(pixels_of))
        if passed_over and view == "original":
            logger.info(read_without(passed_over))
        problems |= {name: f"{photos[name]}: {failed[key]}" for name, key in keys.items() if key in failed}
        if problems:
            raise UnreadablePhotos(problems, len(photos))
        return cls(shape, {name: _file(folder, key) for name, key in keys.items()})


def _half(annotations: Tensor, name: str) -> NDArray[np.float16]:
    """Round a photo's annotations (L, D) to half precision; raises `SatError` for what it cannot hold."""
    half = annotations.half().cpu()
    if not half.isfinite().all():
        raise SatError(
            f"{name}: annotations as large as {annotations.abs().max().item():g}, but half precision ends at"
            " 65504; the annotations of this encoder cannot be cached"
        )
    return half.numpy()


# What a cache and its files belong to


def _folder_name(encoder: Encoder, view: str) -> str:
    """The name of a cache's folder, with all that tells one cache from another."""
    rows, columns = encoder.grid
    key = {
        "digest": encoder.digest,
        "preprocessing": encoder.preprocessing.to_dict(),
        "preprocessing_version": PREPROCESSING_VERSION,
        "precision": encoder.precision,
        "view": view,
        "shape": [rows * columns, encoder.annotation_size],
    }
    short = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    return f"{encoder.preprocessing.resize}{encoder.preprocessing.size}-{encoder.precision}-{view}-{short}"


def _key(digest: str, name: str, view: str) -> str:
    """The name of a stored file, 64 hexadecimal digits: the photo, and what a view that is drawn depends on."""
    drawn = view.startswith(DRAWN)
    return hashlib.sha256(f"{digest} {name}".encode("utf-8", "surrogatepass")).hexdigest() if drawn else digest


def _state(photo: str | Path) -> tuple[int, int]:
    """The size of a file in bytes, and its time of change in nanoseconds."""
    state = os.stat(photo)
    return state.st_size, state.st_mtime_ns


def _known_files(
    directory: Path, photos: Mapping[str, Path], progress: bool
) -> tuple[dict[str, PhotoFile], dict[str, str]]:
    """What is known of each photo's file, and why others cannot be read, by name; only changed files are read."""
    index = directory / "files.json"
    before = _read_index(index)

    def look(name: str) -> PhotoFile:
        path = os.path.abspath(photos[name])
        state = _state(path)
        if path in before and before[path][:2] == state:
            return before[path]
        with open(path, "rb") as file:
            return PhotoFile(*state, hashlib.file_digest(file, "sha256").hexdigest())

    known: dict[str, PhotoFile] = {}
    problems: dict[str, str] = {}
    bar = Progress(photos, desc="files of photos", unit="file", delay=2.0, disable=not progress)
    for name, file_or_error in zip(bar, read_ahead(look, photos), strict=True):
        if isinstance(file_or_error, SatError):
            problems[name] = f"{photos[name]}: {file_or_error.reason}"
        else:
            known[name] = file_or_error
    entries = {os.path.abspath(photos[name]): file for name, file in known.items()}
    if not entries.items() <= before.items():
        make_folder(directory, OTHER_CACHE)
        with contextlib.suppress(SatError):  # it only saves time
            write_text(index, json.dumps(before | entries, indent=0))
    return known, problems


def _read_index(file: Path) -> dict[str, PhotoFile]:
    """The index of files; an empty one if there is none or it is damaged, since it only saves time."""
    try:
        return INDEX.validate_json(file.read_bytes())
    except (OSError, ValueError):
        return {}


# Stored files


def _file(folder: Path, key: str) -> Path:
    return folder / key[:2] / key


def _write(folder: Path, key: str, annotations: NDArray[np.float16]) -> None:
    content = annotations.astype("<f2").tobytes() + _checksum(key, annotations)
    make_folder(_file(folder, key).parent, OTHER_CACHE)
    atomic_write(_file(folder, key), lambda scratch: scratch.write_bytes(content))


def _checksum(key: str, annotations: NDArray[np.float16]) -> bytes:
    """The CRC-32 of annotations and of what they belong to."""
    return zlib.crc32(annotations.data, zlib.crc32(key.encode())).to_bytes(CHECKSUM_BYTES)


def _check_room(folder: Path, photos: int, size: int) -> None:
    """Raise `SatError` for a disk without room for so many more photos, each of ``size`` bytes."""
    needed = photos * size
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SatError(
            f"{folder}: {plural(photos, 'photo')} need {needed / 1e6:,.1f} MB more, and the disk has only "
            f"{free / 1e6:,.1f} MB free; make room or choose another folder ($SAT_CACHE)"
        )
