"""One file of captions: Karpathy's or COCO's, or any of the forms of `data.rows`."""

from pathlib import Path

from show_attend_tell.data.datasets.coco import coco_listing, is_coco
from show_attend_tell.data.datasets.karpathy import is_karpathy, karpathy_listing
from show_attend_tell.data.datasets.listing import CaptionFile
from show_attend_tell.data.rows import caption_rows
from show_attend_tell.data.rows.records import parsed
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.messages import first_three, plural


def read_file(file: Path, *, sentences: bool = False) -> CaptionFile:
    """What a file lists, by its content; ``sentences`` says whether a file of captions alone is read, too.

    Raises `UnknownForm` for another file, and `SatError` for a damaged one.
    """
    notes: list[str] = []
    text = decoded(file, notes)
    content = parsed(text)
    if is_karpathy(content):
        listing = karpathy_listing(file, content)
    elif is_coco(content) and content["images"]:
        listing = coco_listing(file, content)
    else:
        photos = list(caption_rows(file, text, notes, sentences=sentences))
        listing = CaptionFile(file.stem, [file], photos)
        if errors := [f"{photo.name} ({photo.error})" for photo in photos if photo.error]:
            notes.append(f"{plural(len(errors), 'photo')} with an error instead of a caption: {first_three(errors)}")
    listing.notes += notes
    return listing
