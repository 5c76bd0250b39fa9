"""What the fields of a row are, by the names of a table's columns or of a JSON object's keys.

One field names the photo, and one or more have its captions. Others beside them may say that a caption is not to be
used (`REJECTED`, `ACCEPTED`, `REVIEWED`), that there is none (`ERROR`), or of which kind it is (`KINDS`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural, shorten

PHOTO = ("photo", "image", "file_name", "filename", "photo_path", "image_path", "image_name")
# The photo where no field above is: the first of these that is there. "source" is that of `sat caption`.
IDS = ("source", "file", "path", "image_id", "cocoid", "imgid", "id", "url", "image_url")
# The captions are in the first of these fields that is there, also numbered ("caption1", "caption 2").
CAPTION = ("caption", "description", "text", "raw", "comment", "suffix")
ALIKE = CAPTION[:3]  # of which one is read and the others are named, since each of them is mostly a caption
ERROR = "error"  # why there is no caption
REJECTED = r"(is[_ ]?)?(rejected|precanned|spam|deleted|flagged|invalid)"
ACCEPTED = r"(is[_ ]?)?(accepted|approved)|is[_ ]?valid"
KINDS = ("lang", "language", "locale", "type", "caption_type", "source", "prefix")
MOST_KINDS = 8  # different values of a field that tells kinds of captions; with more, it tells something else
REVIEWED = "reviewed"  # what people did with a model's caption in `sat review`, in one of these words
REVIEWS = ("", "written", "edited", "accepted", "accepted in bulk", "left out")
BY_PEOPLE = ("written", "edited")  # the others are a model's captions, which would teach their own mistakes
BESIDE = "|".join((ERROR, REJECTED, ACCEPTED, REVIEWED, *KINDS))
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


@lru_cache(1000)
def fields_of(names: tuple[str, ...]) -> Fields:
    """What fields are, by their names; a file should have one of the photo, and one of the split."""

    def named(pattern: str) -> tuple[int, ...]:
        return tuple(at for at, name in enumerate(names) if re.fullmatch(pattern, name.strip().lower()))

    photo = next(filter(None, map(named, ("|".join(PHOTO), *IDS))), ())
    texts = [named(rf"{kind}s?[ _-]?\d*") for kind in CAPTION if kind != "suffix" or named("prefix")]
    captions = next(filter(None, texts), ())
    beside = set(named(BESIDE)) - {*photo}
    not_read = {at for at in named(f"({'|'.join(ALIKE)})s?") if at not in captions}
    return Fields(photo, captions, named("split"), tuple(sorted(beside)), tuple(sorted(not_read)))


def beside_fields(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a JSON object that say something of its caption."""
    names = tuple(record)
    known = (names[at] for at in fields_of(names).beside)
    return telling({name: "" if record[name] is None else str(record[name]).strip() for name in known})


def telling(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that say something: those that are not empty, and whether anybody reviewed a caption."""
    return {name: text for name, text in fields.items() if text or name.lower() == REVIEWED}


@dataclass
class Beside:
    """What stands beside the captions of a file, counted."""

    marks: Counter[str] = field(default_factory=Counter)  # captions that each field marks as not to be used
    left_out: int = 0  # captions that have such a mark
    kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def rejects(self, fields: Mapping[str, str], captions: int = 1) -> bool:
        """Whether the fields beside some captions mark them as not to be used; counts what the fields say."""
        marks = []
        for name, text in fields.items():
            plain = name.lower()
            if plain in KINDS:
                if len(self.kinds[name]) <= MOST_KINDS:
                    self.kinds[name][text] += captions
            elif plain == REVIEWED:
                if text in REVIEWS and text not in BY_PEOPLE:
                    marks.append(f"{name}: {text or 'no'}")
            elif text.lower() in (FALSE if re.fullmatch(ACCEPTED, plain) else TRUE):
                marks.append(name)
        self.marks.update(dict.fromkeys(marks, captions))
        self.left_out += captions * bool(marks)
        return bool(marks)

    def row(self, where: str, photo: str, captions: list[str], split: str | None, fields: Mapping[str, str]) -> Row:
        """A row, without its captions if the ``fields`` beside them mark them, and with an error instead of none."""
        error = "" if any(captions) else next((text for name, text in fields.items() if name.lower() == ERROR), "")
        rejected = self.rejects(fields, sum(map(bool, captions)))
        return Row(where, photo, [] if rejected or error else captions or [""], split, error)

    def notes(self) -> list[str]:
        """What a person should know of it, in lines."""
        lines = []
        if self.left_out:
            lines.append(
                f"left out: {plural(self.left_out, 'caption')} that the file marks as not to be used: "
                f"{_counted(self.marks)}"
            )
        for name, values in self.kinds.items():
            if 1 < len(values) <= MOST_KINDS:
                lines.append(f"to look at: captions differ in the field {name}, and all are read: {_counted(values)}")
        return lines


def _counted(values: Counter[str]) -> str:
    return ", ".join(f"{shorten(value, 30)} ({number:,})" for value, number in values.most_common())
