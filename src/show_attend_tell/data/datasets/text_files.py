"""A text file beside each photo, with its name: ``mug.txt`` has the caption of ``mug.jpg``, or one a line.

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
    files = {Path(root, name).relative_to(folder) for root, _, names in os.walk(folder) for name in names}
    for path in sorted(file for file in files if counts_as_photo(file.as_posix())):
        for file in [path.with_suffix(suffix) for suffix in SUFFIXES if path.with_suffix(suffix) in files][:1]:
            raw = decoded(folder / file, notes).strip()
            name = path.as_posix()
            split = folder_split(name.removeprefix("images/"))
            photos.append(PhotoEntry(name, split, "", [(tuple(tokenize(raw)), raw)], where=str(folder / file)))
    if not photos:
        return None
    if not any(letter.isalpha() for photo in photos for _, raw in photo.captions for letter in raw):
        first = Path(photos[0].where).name
        passed_over[first] = f"{first} and the like, beside photos, have no words"
        return None
    inside = [photo.name for photo in photos if photo.split]
    check_all_or_none(folder, inside, [photo.name for photo in photos if not photo.split])
    return CaptionFile(folder.resolve().name, [Path(photo.where) for photo in photos], photos, notes=notes)
