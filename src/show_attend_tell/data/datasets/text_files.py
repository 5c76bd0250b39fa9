"""A text file beside each photo, with its name: ``mug.txt`` has the caption of ``mug.jpg``, one a line.

That is what most trainers of image models read. Photos in sub-folders ``train``, ``val`` and ``test`` have that split.
"""

import os
from pathlib import Path

from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry, check_all_or_none, folder_split
from show_attend_tell.data.photos import counts_as_photo
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.data.tokenizers import tokenize

SUFFIXES = (".txt", ".caption")


def read_text_files(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the text files beside the photos of a folder and its sub-folders say; None where there are none.

    Files without a letter, such as the boxes of a detector's training, are noted in ``passed_over``.
    """
    notes: list[str] = []
    photos: list[PhotoEntry] = []
    file_of: dict[str, Path] = {}
    for path in _photos_in(folder):
        file = next((file for file in map(path.with_suffix, SUFFIXES) if file.is_file()), None)
        if file is None:
            continue
        raw = decoded(file, notes).strip()
        name = path.relative_to(folder).as_posix()
        file_of[name] = file
        photos.append(PhotoEntry(name, None, "", [(tuple(tokenize(raw)), raw)], where=str(file)))
    if not photos:
        return None
    if not any(letter.isalpha() for photo in photos for _, raw in photo.captions for letter in raw):
        first = next(iter(file_of.values())).name
        passed_over[first] = f"{first} and the like, beside photos, have no words"
        return None
    splits = {photo.name: folder_split(photo.name.removeprefix("images/")) for photo in photos}
    inside = [name for name, split in splits.items() if split]
    check_all_or_none(folder, inside, [name for name in splits if name not in inside])
    for photo in photos:
        photo.split = splits[photo.name]
    return CaptionFile(folder.resolve().name, list(file_of.values()), photos, notes=notes)


def _photos_in(folder: Path) -> list[Path]:
    """The photos in a folder and its sub-folders, by their suffix."""
    files = [Path(root, name) for root, _, names in os.walk(folder) for name in names]
    return sorted(file for file in files if counts_as_photo(file.relative_to(folder).as_posix()))
