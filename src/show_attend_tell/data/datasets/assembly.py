"""From what a data file lists to a data set: photos are found and split, and everything left out is counted."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from show_attend_tell.data.datasets import splits
from show_attend_tell.data.datasets.dataset import (
    COPY,
    NO_CAPTION,
    NO_WORD,
    REFERENCES,
    SPLITS,
    DataReport,
    Dataset,
    Example,
    counted,
)
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.photos import leaves_folder
from show_attend_tell.data.rows.entry import WithWords
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, shorten


def assemble(listing: CaptionFile, folder: Path, roots: list[Path], *, restval: bool) -> Dataset:
    """Check what a listing says, find its photos, choose splits that are missing, and count what is left out."""
    report = DataReport(
        sources=[os.path.relpath(file, folder) for file in listing.sources],
        notes=listing.notes,
    )
    if listing.strays:
        report.left_out[f"in no split, with {plural(listing.strays.total(), 'caption')}"] = list(listing.strays)
    find = _finder(roots)
    kept: dict[str, Example] = {}
    missing: dict[str | None, list[str]] = defaultdict(list)  # names of photos, by their split
    for entry, split in _in_splits(listing, report, restval):
        captions = _kept_captions(entry, listing.custom, report)
        photo = find(entry)
        if not captions:
            report.leave_out(NO_CAPTION, entry.name)
        elif photo is None:
            missing[split].append(entry.name)
        else:
            words, raw = zip(*captions, strict=True)
            kept[entry.name] = Example(entry.name, photo, split or "", words, raw)
    _check_found(kept, missing, listing, report, ", ".join(map(str, roots)))
    for name in missing["train"] + missing[None]:
        report.leave_out("not found", name)
    if listing.custom:
        kept = _in_final_splits(kept, report)
    return Dataset(listing.name, folder, tuple(kept.values()), counted(report, kept.values()), custom=listing.custom)


def _where(entry: PhotoEntry, listing: CaptionFile) -> str:
    """Where a photo is listed, for messages."""
    return entry.where or str(listing.sources[0])


def _in_splits(listing: CaptionFile, report: DataReport, restval: bool) -> Iterator[tuple[PhotoEntry, str | None]]:
    """The photos of a listing with their splits, each photo once; those of splits that are not used are counted.

    Raises `SatError` for a photo that is outside of the folder, or in two splits.
    """
    split_of: dict[str, str | None] = {}
    for entry in listing.photos:
        for path in (entry.subfolder, entry.name):
            if leaves_folder(path):
                raise SatError(
                    f"{_where(entry, listing)}: the photo {shorten(path)} is not below the data folder; give its path "
                    "from there (a link in the folder may lead elsewhere)"
                )
        split = "train" if restval and entry.split == "restval" else SPLIT_NAMES.get(entry.split or "")
        if split is None and entry.split is not None:
            report.leave_out(f"of the split {entry.split!r}", entry.name)
        elif entry.name not in split_of:
            split_of[entry.name] = split
            yield entry, split
        elif split_of[entry.name] != split:
            raise SatError(
                f"{_where(entry, listing)}: the photo {entry.name!r} is in two splits, {split_of[entry.name]} "
                f"and {split}; a score would be wrong: take it out of one"
            )
        else:
            report.leave_out("listed twice (the first listing is kept)", entry.name)


def _kept_captions(entry: PhotoEntry, custom: bool, report: DataReport) -> list[WithWords]:
    """The captions of a photo that are kept; the report counts the others."""
    with_words = [caption for caption in entry.captions if caption[0]]
    captions = with_words if custom else with_words[:REFERENCES]
    report.leave_out_captions(NO_WORD, len(entry.captions) - len(with_words))
    report.leave_out_captions(f"beyond {REFERENCES} of a photo", len(with_words) - len(captions))
    return captions


def _check_found(
    kept: Mapping[str, Example],
    missing: Mapping[str | None, list[str]],
    listing: CaptionFile,
    report: DataReport,
    folders: str,
) -> None:
    """Raise `SatError` where no photo is kept, and where one of val or test is not in any of the folders."""
    if not kept:
        lost = [name for names in missing.values() for name in names]
        where = f" in {folders} ({first_three(lost)})" if lost else ""
        raise SatError(
            f"{listing.sources[0]} lists {plural(len(listing.photos), 'photo')}, and none can be used: "
            f"{len(report.left_out.get(NO_CAPTION, ()))} {NO_CAPTION}, {len(lost)} not found{where}, the others of "
            "splits that are not used. Put the photos into images/, and write their names with suffixes (dog.jpg)"
        )
    for name in ("val", "test"):
        if names := missing[name]:
            raise SatError(
                f"{plural(len(names), 'photo')} of the split {name} not found in {folders}: {first_three(names)}; a "
                "score without them is not the split's: put them there"
            )


def _in_final_splits(examples: Mapping[str, Example], report: DataReport) -> dict[str, Example]:
    """Photos of custom data in their final splits, without copies; a photo without a split had an empty one."""
    groups = splits.with_copies({name: example.photo for name, example in examples.items()})
    final = {name: example.split for name, example in examples.items()}
    have = set(final.values())
    if have == {"train"} or "" in have:
        why = "all photos have the split train" if have == {"train"} else "not all photos have a split"
        report.notes.append(
            f"{why}: photos are split at random, by name, into {', '.join(SPLITS)}, 90/5/5 (val and test get at least "
            "a tenth, up to ten photos)"
        )
        final = splits.split_at_random(groups)
    else:
        copied = splits.copies_elsewhere(groups, final)
        for name in examples:
            if name in copied:
                report.leave_out(COPY, name)
        final = {name: split for name, split in final.items() if name not in copied}
    if have == {"train", "test"}:
        report.notes.append("no photo has the split val: training photos are split at random, by name, into val")
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
            # `sat caption` names a photo from where it was called, so that the folder's own name comes first
            inside = f"/{entry.name}".partition(f"/{root.absolute().name}/")[2] or entry.name
            for path in (root / entry.subfolder / entry.name, root / entry.name, root / inside):
                files = files_of(path.parent)
                name = files.get(path.name) or files.get(_composed(path.name))
                if name:
                    return path.with_name(name)
        return None

    return find


def _composed(name: str) -> str:
    """A file's name with each letter and its accents as one character, as spreadsheets write them; macOS writes two."""
    return unicodedata.normalize("NFC", name)
