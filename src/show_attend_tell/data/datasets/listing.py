"""What files of captions list: photos with captions, as they are written, and what a person should know of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from show_attend_tell.data.datasets.dataset import SPLITS
from show_attend_tell.data.rows import PhotoEntry as PhotoEntry
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, shorten

SPLIT_NAMES = {
    **{name: name for name in SPLITS},
    **{"training": "train", "dev": "val", "valid": "val", "validation": "val", "testing": "test"},
}


@dataclass
class CaptionFile:
    """What the files of a data set list."""

    name: str
    sources: list[Path]  # the files; the first is named in messages
    photos: list[PhotoEntry]
    strays: Counter[str] = field(default_factory=Counter)  # captions per photo that is in no split
    notes: list[str] = field(default_factory=list)  # how the files were read, where a person should know
    form: str = "rows"  # of the file, or "karpathy" or "coco"
    custom: bool = True  # not one of the paper's data sets


def merged(photos: Iterable[PhotoEntry]) -> list[PhotoEntry]:
    """Photos of custom data, each once with the captions of all its entries in the same split."""
    entries: dict[tuple[str, str | None], PhotoEntry] = {}
    for photo in photos:
        first = entries.setdefault((photo.name, photo.split), photo)
        if first is not photo:
            first.captions += photo.captions
    return list(entries.values())


def settle_splits(photos: Sequence[PhotoEntry], file: Path, root: str | None = None) -> None:
    """Give photos the usual names of their splits, or those of the folders below ``root`` that they are in.

    Raises `SatError` for another name, for two, and where some photos are in such a folder and others are not.
    """
    for photo in photos:
        folder, slash, _ = photo.name.removeprefix(root or "").partition("/")
        of_folder = SPLIT_NAMES.get(folder.lower()) if slash and root is not None else None
        split = of_folder if photo.split is None else SPLIT_NAMES.get(photo.split.lower())
        if split is None and photo.split is not None:
            raise SatError(f"{photo.where} has the split {shorten(photo.split)}; use train, val, test")
        if of_folder not in (None, split):
            raise SatError(
                f"{photo.where} has the split {photo.split}, and {photo.name} is in {folder}; a score would be wrong: "
                "delete the column, or move the photos"
            )
        photo.split = split
    outside = [photo.name for photo in photos if photo.split is None]
    if root is not None and 0 < len(outside) < len(photos):
        raise SatError(
            f"{file}: some photos are in a sub-folder that is named like a split, and others are not "
            f"({first_three(outside)}): move them, or add a column split"
        )
