"""From what a data file lists to a data set: photos are found and split, and everything left out is counted."""

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from show_attend_tell.data.datasets import splits
from show_attend_tell.data.datasets.dataset import REFERENCES, SPLITS, DataReport, Dataset, Example, counted
from show_attend_tell.data.photos import leaves_folder
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_json
from show_attend_tell.messages import first_three, plural, shorten

SPLIT_NAMES = {
    **{name: name for name in SPLITS},
    **{"training": "train", "dev": "val", "valid": "val", "validation": "val", "testing": "test"},
}


@dataclass
class PhotoEntry:
    """A photo as a file lists it: nothing checked yet but the form. Backslashes in its path become slashes."""

    name: str
    split: str | None  # None: the file names none
    subfolder: str  # of the folders of photos, where it is looked for first
    captions: list[tuple[tuple[str, ...], str]]  # (words, raw text)
    number: int | None = None  # by which results files name it, where the file gives one
    where: str = ""  # the file and line, for messages; empty for those of the whole file

    def __post_init__(self) -> None:
        self.name, self.subfolder = self.name.replace("\\", "/"), self.subfolder.replace("\\", "/")


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
    found = (file for file in sorted(folder.glob("*")) if file.name.lower().startswith(names) and file.is_file())
    return {file: read_json(file) for file in found if file.suffix.lower() == ".json"}


def merged(photos: Iterable[PhotoEntry]) -> list[PhotoEntry]:
    """Photos of custom data, each once with the captions of all its entries in the same split."""
    found: dict[tuple[str, str | None], PhotoEntry] = {}
    for listed in photos:
        first = found.setdefault((listed.name, listed.split), listed)
        if first is not listed:
            first.captions += listed.captions
    return list(found.values())


def assemble(listing: CaptionFile, folder: Path, roots: list[Path], *, restval: bool) -> Dataset:
    """Check what a file lists, find its photos, choose splits that are missing, and count what is left out."""
    source = listing.sources[0]
    find = _finder(roots)
    kept: dict[str, Example] = {}
    split_of: dict[str, str | None] = {}
    name_of: dict[Path, str] = {}
    missing: dict[str | None, list[str]] = {split: [] for split in (*SPLITS, None)}
    report = DataReport(
        photos=dict.fromkeys(SPLITS, 0),
        stray_photos=list(listing.strays),
        stray_captions=listing.strays.total(),
        sources=[os.path.relpath(file, folder) for file in listing.sources],
        notes=listing.notes,
    )
    for listed in listing.photos:
        where = listed.where or str(source)
        for part in (listed.subfolder, listed.name):
            if leaves_folder(part):
                raise SatError(
                    f"{where}: the photo {shorten(part)} is not below the data folder; give its path from there (a "
                    "link in the folder may lead elsewhere)"
                )
        split = "train" if restval and listed.split == "restval" else SPLIT_NAMES.get(listed.split or "")
        if split is None and listed.split is not None:
            report.other_splits[listed.split] = report.other_splits.get(listed.split, 0) + 1
            report.unused_photos.append(listed.name)
            continue
        if listed.name in split_of:
            if split_of[listed.name] != split:
                raise SatError(
                    f"{where}: the photo {listed.name!r} is in two splits, {split_of[listed.name]} "
                    f"and {split}; a score would be wrong: take it out of one"
                )
            report.duplicate_photos.append(listed.name)
            continue
        split_of[listed.name] = split

        with_words = [caption for caption in listed.captions if caption[0]]
        captions = with_words if listing.custom else with_words[:REFERENCES]
        report.empty_captions += len(listed.captions) - len(with_words)
        report.extra_references += len(with_words) - len(captions)
        report.duplicate_captions += len(captions) - len({words for words, _ in captions})
        photo = find(listed)
        if not captions:
            report.captionless_photos.append(listed.name)
        elif photo is None:
            missing[split].append(listed.name)
        else:
            if (other := name_of.setdefault(photo, listed.name)) != listed.name:
                raise SatError(
                    f"{where}: {other!r} and {listed.name!r} are one photo, {photo}; a score would be wrong: "
                    "give it one name"
                )
            kept[listed.name] = Example(listed.name, photo, split or "", *zip(*captions, strict=True))

    folders = ", ".join(str(root) for root in roots)
    if not kept:
        named = ", ".join(sorted({listed.split or "none" for listed in listing.photos})) or "none"
        lost = [name for names in missing.values() for name in names]
        which = f" ({first_three(lost)})" if lost else ""
        remedy = ". Put the photos into images/, and write their names with suffixes (dog.jpg)" if lost else ""
        raise SatError(
            f"{source} lists {plural(len(listing.photos), 'photo')}, and none can be used: "
            f"{len(report.captionless_photos)} without a caption, {len(lost)} not found in {folders}{which}; their "
            f"splits: {named}{remedy}"
        )
    for name in ("val", "test"):
        if missing[name]:
            raise SatError(
                f"{plural(len(missing[name]), 'photo')} of the split {name} not found in {folders}: "
                f"{first_three(missing[name])}; a score without them is not the split's: put them there"
            )
    if restval and not any(listed.split == "restval" for listed in listing.photos):
        listing.notes.append("no photo has the split restval, so --restval changes nothing")
    report.missing_photos = missing["train"] + missing[None]
    if listing.custom:
        kept = _in_final_splits(kept, report)
    return Dataset(listing.name, folder, tuple(kept.values()), counted(report, kept.values()), custom=listing.custom)


def _in_final_splits(examples: Mapping[str, Example], report: DataReport) -> dict[str, Example]:
    """Photos of custom data in their final splits, without copies; a photo without a split had an empty one."""
    groups = splits.with_copies({name: example.photo for name, example in examples.items()})
    final = {name: example.split for name, example in examples.items()}
    have = set(final.values())
    if have == {"train"} or "" in have:
        report.split_at_random = list(SPLITS)
        files = "the files name no splits" if have == {""} else "some files name no split"
        report.why_split_at_random = "all photos have the split train" if have == {"train"} else files
        final = splits.split_at_random(groups)
    else:
        copied = splits.copies_elsewhere(groups, final)
        report.copied_photos = [name for name in examples if name in copied]
        final = {name: split for name, split in final.items() if name not in copied}
    if have == {"train", "test"}:
        report.split_at_random, report.why_split_at_random = ["val"], "no photo has the split val"
        among = [[name for name in group if final.get(name) == "train"] for group in groups]
        final |= splits.split_at_random([group for group in among if group], splits=("train", "val"))
    return {name: replace(example, split=final[name]) for name, example in examples.items() if name in final}


def _finder(roots: Iterable[Path]) -> Callable[[PhotoEntry], Path | None]:
    """Finds photos by one listing of each folder: a query per photo takes minutes on a network disk."""

    @cache
    def files_of(folder: Path) -> dict[str, str]:
        """The files of a folder, by their names and by their names with composed letters."""
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_file()]
        except (OSError, ValueError):
            return {}
        return {_composed(name): name for name in names} | {name: name for name in names}

    def find(listed: PhotoEntry) -> Path | None:
        for root in roots:
            for path in (root / listed.subfolder / listed.name, root / listed.name):
                files = files_of(path.parent)
                if name := files.get(path.name) or files.get(_composed(path.name)):
                    return path.with_name(name)
        return None

    return find


def _composed(name: str) -> str:
    """A file's name with each letter and its accents as one character, as spreadsheets write them; macOS writes two."""
    return unicodedata.normalize("NFC", name)
