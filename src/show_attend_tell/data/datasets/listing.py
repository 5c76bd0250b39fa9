"""What files of captions list: photos with captions, as they are written, and what a person should know of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from show_attend_tell.data.datasets.dataset import SPLITS
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_json
from show_attend_tell.messages import first_three

SPLIT_NAMES = {
    **{name: name for name in SPLITS},
    **{"training": "train", "dev": "val", "valid": "val", "validation": "val", "testing": "test"},
}


@dataclass
class PhotoEntry:
    """A photo as a file lists it: nothing checked yet but the form. Its path has slashes and begins with no ``./``."""

    name: str  # empty for a sentence without its photo
    split: str | None  # None: the file names none
    subfolder: str  # of the folders of photos, where it is looked for first
    captions: list[tuple[tuple[str, ...], str]]  # (words, raw text)
    number: int | str | None = None  # by which results files name it, where the file gives one
    where: str = ""  # the file and line, for messages; empty for those of the whole file
    error: str = ""  # why the file has no caption of it, where it says so

    def __post_init__(self) -> None:
        self.name = self.name.replace("\\", "/").removeprefix("./")
        self.subfolder = self.subfolder.replace("\\", "/")


@dataclass
class CaptionFile:
    """What the files of a data set list."""

    name: str
    sources: list[Path]  # the files; the first is named in messages
    photos: list[PhotoEntry]
    strays: Counter[str] = field(default_factory=Counter)  # captions per photo that is in no split
    notes: list[str] = field(default_factory=list)  # how the files were read, where a person should know
    custom: bool = True  # not one of the paper's data sets


def json_files(folder: Path, *names: str) -> dict[Path, Any]:
    """What JSON files of a folder hold, of those whose names, in small letters, begin with one of ``names``."""
    files = (file for file in sorted(folder.glob("*")) if file.name.lower().startswith(names) and file.is_file())
    return {file: read_json(file) for file in files if file.suffix.lower() == ".json"}


def merged(photos: Iterable[PhotoEntry]) -> list[PhotoEntry]:
    """Photos of custom data, each once with the captions of all its entries in the same split."""
    entries: dict[tuple[str, str | None], PhotoEntry] = {}
    for photo in photos:
        first = entries.setdefault((photo.name, photo.split), photo)
        if first is not photo:
            first.captions += photo.captions
    return list(entries.values())


def folder_split(path: str) -> str | None:
    """The split that the first folder of a photo's path names; None where it names none."""
    folder, slash, _ = path.partition("/")
    return SPLIT_NAMES.get(folder.lower()) if slash else None


def check_all_or_none(file: Path, inside: Iterable[str], outside: Iterable[str]) -> None:
    """Raise `SatError` where some photos are in sub-folders that are named like splits, and others are not."""
    inside, outside = list(inside), list(outside)
    if inside and outside:
        raise SatError(
            f"{file}: some photos are in a sub-folder that is named like a split, and others are not "
            f"({first_three(outside)}): move them, or add a column split"
        )
