"""What the fields of a row are, by the names of a table's columns or of a JSON object's keys.

One field names the photo, and one or more have its captions. Others beside them may say that a caption is not to be
used (`REJECTED`, `ACCEPTED`), that there is none (`ERROR`), or of which kind it is (`KINDS`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural, shorten

PHOTO = ("photo", "image", "file_name", "filename", "file", "path", "photo_path", "image_path", "image_name")
# The photo where no field above is: the first of these that is there. "source" is that of `sat caption`.
IDS = ("source", "url", "image_url", "image_id", "cocoid", "imgid", "id")
# The captions are in the first of these fields that is there, also numbered ("caption1", "caption 2").
CAPTION = ("caption", "description", "text", "raw", "comment", "suffix")
ALIKE = CAPTION[:3]  # of which one is read and the others are named, since each of them is mostly a caption
SPLIT = ("split",)
ERROR = "error"  # why there is no caption
REJECTED = re.compile(r"(is[_ ]?)?(rejected|precanned|spam|deleted|flagged|invalid)")
ACCEPTED = re.compile(r"(is[_ ]?)?(accepted|approved)|is[_ ]?valid")
KINDS = ("lang", "language", "locale", "type", "caption_type", "source", "prefix")
MOST_KINDS = 8  # different values of a field that tells kinds of captions; with more, it tells something else
TRUE = {"true", "1", "1.0", "yes", "y", "t"}
FALSE = {"false", "0", "0.0", "no", "n", "f"}
FORMS = (
    f"a table whose first line names a column for the photo ({', '.join((*PHOTO, *IDS))}) and one for the caption (or "
    "text, description, comment), cells separated by commas, semicolons, tabs or |; lines PHOTO<tab>CAPTION or "
    "PHOTO,CAPTION; Flickr's token file; JSON lines or a JSON list of objects like "
    '{"photo": …, "caption": …}; and the JSON files of COCO, Karpathy and sat evaluate'
)


class UnknownForm(SatError):
    """A file that has none of these forms."""


class Row(NamedTuple):
    """One photo's captions, as a line or an object of a file has them."""

    where: str  # for messages
    photo: str  # its name or number; empty for a sentence
    captions: list[str]
    split: str | None = None  # None: the file has no splits
    error: str = ""  # why it has no caption


class Fields(NamedTuple):
    """Where the fields of a row are, by their positions."""

    photo: tuple[int, ...]
    captions: tuple[int, ...]
    split: tuple[int, ...]
    beside: tuple[int, ...]
    not_read: tuple[int, ...]  # fields that are captions in other files


@cache
def fields_of(names: tuple[str, ...]) -> Fields:
    """What fields are, by their names in small letters; a file should have one of the photo, and one of the split."""

    def positions(known: Sequence[str]) -> tuple[int, ...]:
        return tuple(at for at, name in enumerate(names) if name in known)

    photo = positions(PHOTO) or next(filter(None, (positions([name]) for name in IDS)), ())
    texts = {kind: _numbered(kind, names) for kind in CAPTION if kind != "suffix" or "prefix" in names}
    captions = next(filter(None, texts.values()), ())
    beside = tuple(at for at, name in enumerate(names) if at not in photo and _stands_beside(name))
    not_read = tuple(at for kind in ALIKE for at in texts[kind] if at not in captions)
    return Fields(photo, captions, positions(SPLIT), beside, not_read)


def _numbered(kind: str, names: Sequence[str]) -> tuple[int, ...]:
    """Where the fields of captions of one kind are: "caption", "captions", "caption 2"."""
    pattern = re.compile(rf"{kind}s?[ _-]?\d*")
    return tuple(at for at, name in enumerate(names) if pattern.fullmatch(name))


def _stands_beside(name: str) -> bool:
    """Whether a field of this name says something of the caption beside it."""
    known = name == ERROR or name in KINDS
    return known or REJECTED.fullmatch(name) is not None or ACCEPTED.fullmatch(name) is not None


@dataclass
class Beside:
    """What stands beside the captions of a file, counted."""

    marks: Counter[str] = field(default_factory=Counter)  # captions that each field marks as not to be used
    left_out: int = 0  # captions that have such a mark
    kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def rejects(self, record: Mapping[str, Any], captions: int = 1) -> bool:
        """Whether the fields beside some captions mark them as not to be used; counts what the fields say."""
        marks = []
        for name, value in record.items():
            plain = name.strip().lower()
            text = "" if value is None else str(value).strip().lower()
            if (REJECTED.fullmatch(plain) and text in TRUE) or (ACCEPTED.fullmatch(plain) and text in FALSE):
                marks.append(name.strip())
            elif plain in KINDS and text and len(self.kinds[plain]) <= MOST_KINDS:
                self.kinds[plain][str(value).strip()] += captions
        self.marks.update(dict.fromkeys(marks, captions))
        self.left_out += captions if marks else 0
        return bool(marks)

    def notes(self) -> list[str]:
        """What a person should know of it, in lines."""
        lines = []
        if self.left_out:
            marks = ", ".join(f"{name} ({number:,})" for name, number in self.marks.most_common())
            lines.append(f"left out: {plural(self.left_out, 'caption')} that the file marks as not to be used: {marks}")
        for name, values in self.kinds.items():
            if 1 < len(values) <= MOST_KINDS:
                numbers = ", ".join(f"{shorten(value, 30)} ({number:,})" for value, number in values.most_common())
                lines.append(f"to look at: the captions differ in the field {name!r}, and all are read: {numbers}")
        return lines


def beside_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a JSON object that say something of its caption."""
    names = tuple(record)
    positions = fields_of(tuple(name.strip().lower() for name in names)).beside
    return {names[at]: record[names[at]] for at in positions}


def error_of(record: Mapping[str, Any]) -> str:
    """Why a row has no caption, in its own words; empty where it does not say so."""
    value = next((value for name, value in record.items() if name.strip().lower() == ERROR), None)
    return "" if value is None else str(value).strip()
