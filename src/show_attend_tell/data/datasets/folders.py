"""Files of captions that are known by their names, each in any form that `read_file` reads.

- Karpathy's split file: ``dataset*.json``.
- COCO's files: ``captions_*.json`` and ``dataset*.json``, in the folder or in ``annotations/``. What comes after
  ``captions_`` names the split; files of other names (``captions_products.json``) have none.
- Tables: ``captions.csv``, ``.tsv``, ``.jsonl``, ``.json`` or ``.txt``, Flickr30k's of the Hugging Face hub, and
  Kaggle's.
- ``metadata`` files of a Hugging Face imagefolder. Photos are named from the folder of the file, which is the data
  folder or the sub-folder of each split (``train``, ``val``, ``test``).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from show_attend_tell.data.datasets.coco import split_of
from show_attend_tell.data.datasets.files import read_file
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, settle_splits
from show_attend_tell.data.rows import UnknownForm
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three

TABLES = (r"captions\.(csv|tsv|jsonl|json)", r"captions\.txt", r"flickr_annotations_30k\.csv", r"results\.csv")
METADATA = r"metadata\.(csv|tsv|jsonl)"


def read_karpathy(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What Karpathy's split file in a folder lists; None where there is none."""
    return _the_one(folder, r"dataset.*\.json", passed_over, "karpathy")


def read_coco(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What COCO's caption files in a folder list; None where there are none."""
    listings: list[CaptionFile] = []
    for root in (folder / "annotations", folder):
        listings = _named(root, r"(captions_|dataset).*\.json", passed_over, "coco") or listings
    if not listings:
        return None
    split_of_file = {listing.sources[0]: split_of(listing.sources[0]) for listing in listings}
    times = Counter(split_of_file.values())
    if times[None] < len(listings) and (times[None] or max(times.values()) > 1):
        raise SatError(
            f"{folder} holds {first_three([file.name for file in split_of_file])}: keep one file of each split, named "
            "after train, val or test, or only files whose names have no split"
        )
    for listing in listings:
        for photo in listing.photos:
            photo.split = split_of_file[listing.sources[0]]
    whole = _together(folder, listings)
    return whole if whole.custom else replace(whole, name="coco")


def read_table(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What a table in a folder lists; None where there is none."""
    tables = filter(None, (_the_one(folder, names, passed_over) for names in TABLES))
    return next((_of_tables(folder, [table]) for table in tables), None)


def read_imagefolder(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the ``metadata`` files of an imagefolder list; None where there are none."""
    for root in (folder, folder / "data"):
        table = _the_one(root, METADATA, passed_over)
        tables = [table] if table else _table_of_each_split(root, passed_over)
        if tables:
            return _of_tables(folder, tables, "" if root == folder else f"{root.name}/")
    return None


def _table_of_each_split(root: Path, passed_over: dict[str, str]) -> list[CaptionFile]:
    """The ``metadata`` of each sub-folder that is named like a split."""
    subfolders = sorted(path for path in root.glob("*") if path.name.lower() in SPLIT_NAMES and path.is_dir())
    table_of = {subfolder.name: _the_one(subfolder, METADATA, passed_over) for subfolder in subfolders}
    tables = [table for table in table_of.values() if table]
    bare = [name for name, table in table_of.items() if not table]
    if tables and bare:
        raise SatError(f"{root / bare[0]} has no metadata file, and other sub-folders have: add one, or move it away")
    return tables


def _of_tables(folder: Path, tables: Sequence[CaptionFile], root: str | None = None) -> CaptionFile:
    """What tables list, with one spelling for a photo: "a.jpg" and "./a.jpg" are the same, maybe in two splits.

    With ``root``, the folders below it may be named like splits (`settle_splits`).
    """
    for table in tables:
        beginning = table.sources[0].parent.relative_to(folder)
        for photo in table.photos:
            photo.name = PurePosixPath(beginning, photo.name).as_posix()
    whole = _together(folder, tables)
    settle_splits(whole.photos, whole.sources[0], root)
    return whole


def _together(folder: Path, listings: Sequence[CaptionFile]) -> CaptionFile:
    """What several files of a folder list, as one listing that has the folder's name."""
    return CaptionFile(
        folder.resolve().name,
        [file for listing in listings for file in listing.sources],
        [photo for listing in listings for photo in listing.photos],
        sum((listing.strays for listing in listings), Counter()),
        [note for listing in listings for note in listing.notes],
        custom=any(listing.custom for listing in listings),
    )


def _the_one(folder: Path, names: str, passed_over: dict[str, str], form: str = "") -> CaptionFile | None:
    """What the file of such a name lists, as `_named` has it; raises `SatError` for several."""
    listings = _named(folder, names, passed_over, form)
    if len(listings) > 1:
        files = first_three([listing.sources[0].name for listing in listings])
        raise SatError(f"{folder} holds {files}; keep the one that is meant")
    return listings[0] if listings else None


def _named(folder: Path, names: str, passed_over: dict[str, str], form: str = "") -> list[CaptionFile]:
    """What files of a folder list whose names, in small letters, match a pattern, and which have the ``form``, if any.

    Other files of such a name are noted in ``passed_over``, with the reason.
    """
    listings = []
    for file in sorted(file for file in folder.glob("*") if re.fullmatch(names, file.name.lower()) and file.is_file()):
        passed_over[file.name] = f"{file.name} has another form"
        try:
            listing = read_file(file)
        except UnknownForm as error:
            passed_over[file.name] = error.reason
        else:
            listings += [listing] if form in ("", listing.form) else []
    return listings
