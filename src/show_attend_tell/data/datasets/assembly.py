"""From what a data file lists to a data set: photos are found and split, and everything left out is counted."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from show_attend_tell.data.datasets import splits
from show_attend_tell.data.datasets.dataset import REFERENCES, SPLITS, DataReport, Dataset, Example, counted
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.photos import leaves_folder
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, shorten


@dataclass
class _Photos:
    """The photos of a listing that are kept, and those that are missing."""

    custom: bool  # whether every caption counts
    roots: list[Path]  # folders in which photos are looked for
    report: DataReport
    kept: dict[str, Example] = field(default_factory=dict)
    missing: dict[str | None, list[str]] = field(default_factory=lambda: defaultdict(list))  # by split
    split_of: dict[str, str | None] = field(default_factory=dict)
    name_of: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.find = _finder(self.roots)

    @property
    def folders(self) -> str:
        """Where photos were looked for, for messages."""
        return ", ".join(str(root) for root in self.roots)

    def is_new(self, entry: PhotoEntry, split: str | None, where: str) -> bool:
        """Whether a photo is listed for the first time; raises `SatError` if it is in another split already."""
        if entry.name not in self.split_of:
            self.split_of[entry.name] = split
            return True
        if self.split_of[entry.name] != split:
            raise SatError(
                f"{where}: the photo {entry.name!r} is in two splits, {self.split_of[entry.name]} "
                f"and {split}; a score would be wrong: take it out of one"
            )
        self.report.duplicate_photos.append(entry.name)
        return False

    def add(self, entry: PhotoEntry, split: str | None, where: str) -> None:
        """Keep a photo with its captions, or count why it is left out."""
        captions = self._counted(entry)
        photo = self.find(entry)
        if not captions:
            self.report.captionless_photos.append(entry.name)
            return
        if photo is None:
            self.missing[split].append(entry.name)
            return
        other = self.name_of.setdefault(photo, entry.name)
        if other != entry.name:
            raise SatError(
                f"{where}: {other!r} and {entry.name!r} are one photo, {photo}; a score would be wrong: "
                "give it one name"
            )
        words, raw = zip(*captions, strict=True)
        self.kept[entry.name] = Example(entry.name, photo, split or "", words, raw)

    def _counted(self, entry: PhotoEntry) -> list[tuple[tuple[str, ...], str]]:
        """The captions of a photo that are kept; the report counts the others."""
        with_words = [caption for caption in entry.captions if caption[0]]
        captions = with_words if self.custom else with_words[:REFERENCES]
        self.report.empty_captions += len(entry.captions) - len(with_words)
        self.report.extra_references += len(with_words) - len(captions)
        self.report.duplicate_captions += len(captions) - len({words for words, _ in captions})
        return captions

    def check(self, listing: CaptionFile) -> None:
        """Raise `SatError` where no photo is kept, and where one of val or test is missing."""
        if not self.kept:
            splits_named = ", ".join(sorted({entry.split or "none" for entry in listing.photos})) or "none"
            lost = [name for names in self.missing.values() for name in names]
            which = f" ({first_three(lost)})" if lost else ""
            remedy = ". Put the photos into images/, and write their names with suffixes (dog.jpg)" if lost else ""
            raise SatError(
                f"{listing.sources[0]} lists {plural(len(listing.photos), 'photo')}, and none can be used: "
                f"{len(self.report.captionless_photos)} without a caption, {len(lost)} not found in "
                f"{self.folders}{which}; their splits: {splits_named}{remedy}"
            )
        for name in ("val", "test"):
            if names := self.missing[name]:
                raise SatError(
                    f"{plural(len(names), 'photo')} of the split {name} not found in {self.folders}: "
                    f"{first_three(names)}; a score without them is not the split's: put them there"
                )


def assemble(listing: CaptionFile, folder: Path, roots: list[Path], *, restval: bool) -> Dataset:
    """Check what a listing says, find its photos, choose splits that are missing, and count what is left out."""
    report = DataReport(
        photos=dict.fromkeys(SPLITS, 0),
        stray_photos=list(listing.strays),
        stray_captions=listing.strays.total(),
        sources=[os.path.relpath(file, folder) for file in listing.sources],
        notes=listing.notes,
    )
    photos = _Photos(listing.custom, roots, report)
    for entry in listing.photos:
        where = entry.where or str(listing.sources[0])
        _check_inside(entry, where)
        split = "train" if restval and entry.split == "restval" else SPLIT_NAMES.get(entry.split or "")
        if split is None and entry.split is not None:
            report.other_splits[entry.split] = report.other_splits.get(entry.split, 0) + 1
            report.unused_photos.append(entry.name)
        elif photos.is_new(entry, split, where):
            photos.add(entry, split, where)
    photos.check(listing)
    if restval and not any(entry.split == "restval" for entry in listing.photos):
        listing.notes.append("no photo has the split restval, so --restval changes nothing")
    report.missing_photos = photos.missing["train"] + photos.missing[None]
    kept = _in_final_splits(photos.kept, report) if listing.custom else photos.kept
    return Dataset(listing.name, folder, tuple(kept.values()), counted(report, kept.values()), custom=listing.custom)


def _check_inside(entry: PhotoEntry, where: str) -> None:
    """Raise `SatError` for a photo that is not in the data folder."""
    for path in (entry.subfolder, entry.name):
        if leaves_folder(path):
            raise SatError(
                f"{where}: the photo {shorten(path)} is not below the data folder; give its path from there (a "
                "link in the folder may lead elsewhere)"
            )


def _in_final_splits(examples: Mapping[str, Example], report: DataReport) -> dict[str, Example]:
    """Photos of custom data in their final splits, without copies; a photo without a split had an empty one."""
    groups = splits.with_copies({name: example.photo for name, example in examples.items()})
    final = {name: example.split for name, example in examples.items()}
    have = set(final.values())
    if have == {"train"} or "" in have:
        report.split_at_random = list(SPLITS)
        if have == {"train"}:
            report.why_split_at_random = "all photos have the split train"
        else:
            report.why_split_at_random = "the files name no splits" if have == {""} else "some files name no split"
        final = splits.split_at_random(groups)
    else:
        copied = splits.copies_elsewhere(groups, final)
        report.copied_photos = [name for name in examples if name in copied]
        final = {name: split for name, split in final.items() if name not in copied}
    if have == {"train", "test"}:
        report.split_at_random = ["val"]
        report.why_split_at_random = "no photo has the split val"
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

    def find(entry: PhotoEntry) -> Path | None:
        for root in roots:
            for path in (root / entry.subfolder / entry.name, root / entry.name):
                files = files_of(path.parent)
                name = files.get(path.name) or files.get(_composed(path.name))
                if name:
                    return path.with_name(name)
        return None

    return find


def _composed(name: str) -> str:
    """A file's name with each letter and its accents as one character, as spreadsheets write them; macOS writes two."""
    return unicodedata.normalize("NFC", name)
