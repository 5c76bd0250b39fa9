"""COCO's caption files: any ``captions_*.json``, in the folder or in ``annotations/``.

What comes after ``captions_`` names the split: ``captions_train2014.json`` is train and ``captions_val.json`` val.
Files of other names (``captions_products.json``) have no splits. ``captions_train2014.json`` and
``captions_val2014.json``, and those of 2017, are the paper's COCO.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry, json_files
from show_attend_tell.data.rows.fields import Beside, beside_fields
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, number_of, read_object, text_of
from show_attend_tell.messages import first_three

PAPERS_FILES = re.compile(r"captions_(train|val)20(14|17)\.json")


def read_coco(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What COCO's caption files in a folder list; None where there are none.

    Files of such a name with other content are noted in ``passed_over``.
    """
    for root in (folder, folder / "annotations"):
        contents = json_files(root, "captions_", "dataset")
        files = [file for file in contents if is_coco(contents[file])]
        for name in (file.name for file in contents if file not in files):
            passed_over.setdefault(name, f"{name} has no lists 'images' and 'annotations'")
        if files:
            break
    else:
        return None
    splits = {file: split_of(file) for file in files}
    times = Counter(splits.values())
    if times[None] < len(files) and (times[None] or max(times.values()) > 1):
        raise SatError(
            f"{root} holds {first_three([file.name for file in files])}: keep one file of each split, named after "
            "train, val or test, or only files whose names have no split"
        )
    photos: list[PhotoEntry] = []
    strays: Counter[str] = Counter()
    notes: list[str] = []
    for file in sorted(files, key=lambda file: ("train", "val", "test", None).index(splits[file])):
        listed, without_photo = coco_photos(file, splits[file], contents[file], notes)
        photos += listed
        strays += without_photo
    papers = all(papers_coco(file) for file in files)
    return CaptionFile("coco" if papers else folder.resolve().name, files, photos, strays, notes, custom=not papers)


def is_coco(content: Any) -> bool:
    """Whether what a JSON file holds has the form of COCO's caption files."""
    return isinstance(content, dict) and all(isinstance(content.get(key), list) for key in ("images", "annotations"))


def papers_coco(file: Path) -> bool:
    """Whether a file is one of those with which the COCO data set comes, by its name."""
    return PAPERS_FILES.fullmatch(file.name) is not None


def split_of(file: Path) -> str | None:
    """The split that a file's name says, None for another name."""
    return SPLIT_NAMES.get(
        file.stem.lower().removeprefix("captions_").removeprefix("dataset_").rstrip("0123456789").strip("_-")
    )


def coco_photos(
    file: Path, split: str | None = None, content: Any = None, notes: list[str] | None = None
) -> tuple[list[PhotoEntry], Counter[str]]:
    """What a file of COCO's captions, or its ``content``, lists, and the captions for each photo it does not list.

    Captions that the file marks as rejected, as VizWiz does, are left out; ``notes`` get a line that counts them.
    """
    content = read_object(file, "images") if content is None else content
    photos: list[PhotoEntry] = []
    by_id: dict[int | str, PhotoEntry] = {}
    strays: Counter[str] = Counter()
    subfolder = file.stem.removeprefix("captions_")  # "train2014"
    for index, image in enumerate(list_of_objects(content, "images", str(file))):
        where = f"{file}: images[{index}]"
        name = text_of(image, "file_name", where)
        number = _id_of(image, "id", where)
        entry = PhotoEntry(name, split, subfolder, [], number)
        first = by_id.setdefault(number, entry)
        if first.name != entry.name:
            raise SatError(
                f"{where}: {first.name!r} and {name!r} have the same id, {number}, by which captions name their "
                "photo: give each photo its own"
            )
        photos.append(first)
    beside = Beside()
    for index, annotation in enumerate(list_of_objects(content, "annotations", str(file))):
        where = f"{file}: annotations[{index}]"
        raw = text_of(annotation, "caption", where)
        image_id = _id_of(annotation, "image_id", where)
        if image_id not in by_id:
            strays[f"id {image_id}"] += 1
        elif not beside.rejects(beside_fields(annotation)):
            by_id[image_id].captions.append((tuple(tokenize(raw)), raw.strip()))
    if notes is not None:
        notes += beside.notes()
    return photos, strays


def _id_of(record: dict[str, Any], key: str, where: str) -> int | str:
    """An id: a whole number, also in quotes, or another text."""
    value = record.get(key)
    if not isinstance(value, str):
        return number_of(record, key, where)
    return int(value) if value.isascii() and value.isdigit() else text_of(record, key, where)
