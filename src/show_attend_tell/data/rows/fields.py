"""What the fields of a row are, by the names of a table's columns or of a JSON object's keys.

One field names the photo, and one or more have its captions. Others beside them may say that a caption is not to be
used (`REJECTED`, `ACCEPTED`, `REVIEWED`), that there is none (`ERROR`), or of which kind it is (`KINDS`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from show_attend_tell.data.rows.entry import PhotoEntry, with_words
from show_attend_tell.errors import SatError
from show_attend_tell.files import encodable
from show_attend_tell.messages import plural, quoted, shorten

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


class Fields(NamedTuple):
    """The names of the fields of a row, by what they are."""

    photo: tuple[str, ...]
    captions: tuple[str, ...]
    split: tuple[str, ...]
    beside: tuple[str, ...]
    not_read: tuple[str, ...]  # fields that are captions in other files


@lru_cache(1000)
def fields_of(names: tuple[str, ...]) -> Fields:
    """What fields are, by their names; a file should have one of the photo, and one of the split."""

    def named(pattern: str) -> tuple[str, ...]:
        return tuple(name for name in names if re.fullmatch(pattern, name.strip().lower()))

    photo = next(filter(None, map(named, ("|".join(PHOTO), *IDS))), ())
    texts = [named(rf"{kind}s?[ _-]?\d*") for kind in CAPTION if kind != "suffix" or named("prefix")]
    captions = next(filter(None, texts), ())
    beside = tuple(name for name in named(BESIDE) if name not in photo)
    not_read = tuple(name for name in named(f"({'|'.join(ALIKE)})s?") if name not in captions)
    return Fields(photo, captions, named("split"), beside, not_read)


def beside_fields(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a record that say something of its caption, by their names in small letters.

    These are the ones that are not empty, and whether anybody reviewed it.
    """
    known = fields_of(tuple(record)).beside
    texts = {name.lower(): "" if record[name] is None else str(record[name]).strip() for name in known}
    return {name: text for name, text in texts.items() if text or name == REVIEWED}


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
            if name in KINDS:
                if len(self.kinds[name]) <= MOST_KINDS:
                    self.kinds[name][text] += captions
            elif name == REVIEWED:
                if text in REVIEWS and text not in BY_PEOPLE:
                    marks.append(f"{name}: {text or 'no'}")
            elif text.lower() in (FALSE if re.fullmatch(ACCEPTED, name) else TRUE):
                marks.append(name)
        self.marks.update(dict.fromkeys(marks, captions))
        self.left_out += captions * bool(marks)
        return bool(marks)

    def entry(self, where: str, record: Mapping[str, Any]) -> PhotoEntry:
        """The photo of a record, without its captions if the fields beside them mark them."""
        fields = fields_of(tuple(record))
        if not fields.captions:
            raise SatError(f"{where}: 'caption' must be a text, and is missing (it may be called text or description)")
        photo = _only(record, fields.photo, where, "photo")
        split = _only(record, fields.split, where, "split") if fields.split else None
        texts = [text for name in fields.captions for text in _texts(record, name, where)]
        beside = beside_fields(record)
        rejected = self.rejects(beside, len(texts))
        error = "" if texts else beside.get(ERROR, "")
        captions = [] if rejected or error else with_words(texts or [""])
        return PhotoEntry(photo, split, "", captions, where=where, error=error)

    def notes(self) -> list[str]:
        """What a person should know of it, in lines."""
        lines = []
        if self.left_out:
            lines.append(
                f"left out: {plural(self.left_out, 'caption')} that the file says not to use: {_counted(self.marks)}"
            )
        for name, values in self.kinds.items():
            of_each = name == "source" and max(values.values()) == 1  # the photo's own path
            if 1 < len(values) <= MOST_KINDS and not of_each:
                lines.append(f"to look at: captions differ in the field {name}, and all are read: {_counted(values)}")
        return lines


def _counted(values: Counter[str]) -> str:
    return ", ".join(f"{shorten(value, 30)} ({number:,})" for value, number in values.most_common())


def _only(record: Mapping[str, Any], names: Sequence[str], where: str, what: str) -> str:
    """The one text among the fields of those names, or the number of a photo."""
    if len(names) > 1:
        raise SatError(f"{where} names the {what} twice: as {' and as '.join(names)}; keep one")
    name = names[0] if names else what
    value = record.get(name)
    if name in IDS and isinstance(value, (int, float)) and value % 1 == 0:
        return str(int(value))
    if not isinstance(value, str) or not value.strip():
        kind = "a number or a file name" if name in IDS else "a text"
        raise SatError(f"{where}: {name!r} must be {kind}, and is {quoted(value)}")
    return encodable(value.strip(), where)


def _texts(record: Mapping[str, Any], name: str, where: str) -> list[str]:
    """The texts of a field of captions that are not empty."""
    value = record[name]
    texts = value if isinstance(value, list) else [value]
    texts = [text for text in texts if text is not None and text == text]  # NaN is not equal to itself
    if not all(isinstance(text, str) for text in texts):
        raise SatError(f"{where}: {name!r} must be a text or a list of texts, and is {quoted(value)}")
    return [encodable(text, where) for text in texts if text.strip()]
