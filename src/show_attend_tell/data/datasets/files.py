"""One file of captions: Karpathy's or COCO's, or any of the forms of `data.rows`."""

from pathlib import Path

from show_attend_tell.data.datasets.coco import coco_photos, is_coco, papers_coco
from show_attend_tell.data.datasets.dataset import PAPERS
from show_attend_tell.data.datasets.karpathy import is_karpathy, karpathy_photos
from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry
from show_attend_tell.data.rows import UnknownForm, caption_rows
from show_attend_tell.data.rows.records import parsed
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.messages import first_three, plural


def read_file(file: Path, *, sentences: bool = False) -> CaptionFile:
    """What a file lists, by its content; ``sentences`` says whether a file of captions alone is read, too.

    Raises `UnknownForm` for another file, and `SatError` for a damaged one.
    """
    notes: list[str] = []
    text = decoded(file, notes)
    content = parsed(text)
    if is_karpathy(content):
        photos, name = karpathy_photos(file, content)
        return CaptionFile(name, [file], photos, notes=notes, custom=name not in PAPERS)
    if is_coco(content) and content["images"]:
        photos, strays = coco_photos(file, content=content, notes=notes)
        return CaptionFile(file.stem, [file], photos, strays, notes, custom=not papers_coco(file))
    photos = []
    for row in caption_rows(file, text, notes, sentences=sentences):
        captions = [(tuple(tokenize(caption)), caption) for caption in row.captions]
        photos.append(PhotoEntry(row.photo, row.split, "", captions, where=row.where, error=row.error))
    if errors := [f"{photo.name} ({photo.error})" for photo in photos if photo.error]:
        notes.append(f"{plural(len(errors), 'photo')} with an error instead of a caption: {first_three(errors)}")
    return CaptionFile(file.stem, [file], photos, notes=notes)


def is_caption_file(file: Path) -> bool:
    """Whether the content of a file has one of the forms that are read, also where it is damaged further down."""
    text = decoded(file, [])
    try:
        next(caption_rows(file, text, []), None)
    except UnknownForm:
        return False
    return True
