"""A text file beside each photo, with its name: ``mug.txt`` has the caption of ``mug.jpg``, or one a line.

That is what most trainers of image models read. Photos in sub-folders ``train``, ``val`` and ``test`` have that split.
"""

from pathlib import Path

from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry, settle_splits
from show_attend_tell.data.photos import photos_in
from show_attend_tell.data.rows import with_words
from show_attend_tell.data.rows.text import decoded

SUFFIXES = (".txt", ".caption")


def read_text_files(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the text files beside the photos of a folder and its sub-folders say; None where there are none.

    Files without a letter, such as the boxes of a detector's training, are noted in ``passed_over``.
    """
    listing = CaptionFile(folder.resolve().name, [], [])
    for photo in photos_in(folder):
        file = next(filter(Path.is_file, map(photo.with_suffix, SUFFIXES)), None)
        if file:
            name = photo.relative_to(folder).as_posix()
            captions = with_words([decoded(file, listing.notes)])
            listing.photos.append(PhotoEntry(name, None, "", captions, where=str(file)))
            listing.sources.append(file)
    if not listing.photos:
        return None
    if not any(letter.isalpha() for photo in listing.photos for _, raw in photo.captions for letter in raw):
        first = listing.sources[0].name
        passed_over[first] = f"{first} and the like, beside photos, contain no words"
        return None
    settle_splits(listing.photos, folder, "images/")
    return listing
