"""COCO's caption files: ``captions_train2014.json`` is of the split train, ``captions_val.json`` of val.

``captions_train2014.json`` and ``captions_val2014.json``, and those of 2017, are the paper's COCO.
"""

import re
from pathlib import Path
from typing import Any

from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.rows import with_words
from show_attend_tell.data.rows.fields import Beside, beside_fields
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, number_of, text_of

PAPERS_FILES = re.compile(r"captions_(train|val)20(14|17)\.json")


def is_coco(content: Any) -> bool:
    """Whether what a JSON file holds has the form of COCO's caption files."""
    return isinstance(content, dict) and all(isinstance(content.get(key), list) for key in ("images", "annotations"))


def split_of(file: Path) -> str | None:
    """The split that a file's name says, None for another name."""
    word = re.sub(r"^(captions|dataset)_|[-_\d]+$", "", file.stem.lower())
    return SPLIT_NAMES.get(word)


def coco_listing(file: Path, content: dict[str, Any]) -> CaptionFile:
    """What the ``content`` of a file of COCO's captions lists, without splits.

    Captions that the file marks as rejected, as VizWiz does, are left out and counted.
    """
    listing = CaptionFile(file.stem, [file], [], form="coco", custom=not PAPERS_FILES.fullmatch(file.name))
    by_id: dict[str, PhotoEntry] = {}
    subfolder = file.stem.removeprefix("captions_")  # "train2014"
    for index, image in enumerate(list_of_objects(content, "images", str(file))):
        where = f"{file}: images[{index}]"
        number = _id_of(image, "id", where)
        entry = PhotoEntry(text_of(image, "file_name", where), None, subfolder, [], number)
        first = by_id.setdefault(number, entry)
        if first.name != entry.name:
            raise SatError(
                f"{where}: {first.name!r} and {entry.name!r} have the same id, {number}, by which captions name their "
                "photo: give each photo its own"
            )
    listing.photos += by_id.values()
    beside = Beside()
    for index, annotation in enumerate(list_of_objects(content, "annotations", str(file))):
        where = f"{file}: annotations[{index}]"
        raw = text_of(annotation, "caption", where)
        image_id = _id_of(annotation, "image_id", where)
        if image_id not in by_id:
            listing.strays[f"id {image_id}"] += 1
        elif not beside.rejects(beside_fields(annotation)):
            by_id[image_id].captions += with_words([raw])
    listing.notes += beside.notes()
    return listing


def _id_of(record: dict[str, Any], key: str, where: str) -> str:
    """An id: a text, or a whole number as one."""
    return text_of(record, key, where) if isinstance(record.get(key), str) else str(number_of(record, key, where))
