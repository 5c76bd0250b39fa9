"""A text file beside each photo, with its name: ``mug.txt`` has the caption of ``mug.jpg``, or one a line.

That is what most trainers of image models read. Photos in sub-folders ``train``, ``val`` and ``test`` have that split.
"""

import os
from pathlib import Path

from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry, settle_splits
from show_attend_tell.data.photos import counts_as_photo
from show_attend_tell.data.rows import with_words
from show_attend_tell.data.rows.text import decoded

SUFFIXES = (".txt", ".caption")


def read_text_files(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the text files beside the photos of a folder and its sub-folders say; None where there are none.

    Files without a letter, such as the boxes of a detector's training, are noted in ``passed_over``.
    """
    listing = CaptionFile(folder.resolve().name, [], [])
    files = {Path(root, name).relative_to(folder) for root, _, names in os.walk(folder) for name in names}
    for path in sorted(file for file in files if counts_as_photo(file.as_posix())):
        file = next((folder / text for text in map(path.with_suffix, SUFFIXES) if text in files), None)
        if file:
            captions = with_words([decoded(file, listing.notes)])
            listing.photos.append(PhotoEntry(path.as_posix(), None, "", captions, where=str(file)))
            listing.sources.append(file)
    if not listing.photos:
        return None
    if not any(letter.isalpha() for photo in listing.photos for _, raw in photo.captions for letter in raw):
        first = listing.sources[0].name
        passed_over[first] = f"{first} and the like, beside photos, contain no words"
        return None
    settle_splits(listing.photos, folder, "images/")
    return listing
