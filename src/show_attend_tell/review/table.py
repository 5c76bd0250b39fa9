"""The table of a review: a CSV file with a row for each photo, which spreadsheets open too.

A source stays as the table spells it; `sat caption` spells it from where it was called. New ones are relative to the
table's folder, or absolute outside of it.
"""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from show_attend_tell.batch.output import mark_utf8
from show_attend_tell.batch.tables import write_rows
from show_attend_tell.data.rows.fields import fields_of
from show_attend_tell.data.rows.tables import cells_below, named_columns
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.messages import shorten

COLUMNS = ("source", "caption", "confidence", "to_check", "reviewed", "model_caption")


class Decided(NamedTuple):
    """What people decide of a row; each is a column of that name."""

    caption: str = ""
    reviewed: str = ""  # see `data.rows.fields.REVIEWS`
    alt_text: str = ""
    decorative: str = ""  # "yes" for a photo whose alternative text is to be empty
    other_caption: str = ""  # what another program has written, where both were changed
    split: str = ""  # "val" for a photo that judges a model; empty for one that teaches it
    drawn: str = ""  # "yes" for a photo that was drawn at random, to be checked


NOTHING = Decided()


@dataclass
class Row:
    """A caption of a photo."""

    path: Path  # of the photo
    source: str  # how the table spells it
    key: str  # the source; with #2 for the photo's second caption
    decided: Decided = NOTHING
    model_caption: str = ""
    confidence: float | None = None  # of the model's caption
    to_check: list[str] = field(default_factory=list)  # words of it
    more: dict[str, str] = field(default_factory=dict)  # other columns
    # What the table does not hold:
    number: int = 0  # its place among the rows of a review, where it stays
    alternatives: Sequence[str] = ()  # further captions of the beam, best first
    instead: dict[str, list[str]] = field(default_factory=dict)  # other words, by each word to be checked
    offered: str = ""  # the caption of another model, to compare
    error: str = ""  # why the photo cannot be captioned

    @property
    def caption(self) -> str:
        """The caption as it is decided."""
        return self.decided.caption

    @property
    def reviewed(self) -> str:
        """What people did with the caption."""
        return self.decided.reviewed

    @property
    def hidden(self) -> bool:
        """Whether a person is to write the caption without seeing the model's."""
        return self.decided.split == "val" and not self.reviewed


class Table(NamedTuple):
    """What a file holds."""

    columns: list[str]
    rows: list[Row]


def read_table(file: Path) -> Table:
    """The table in a file. Raises `SatError` for one without the columns of a photo and of a caption.

    A caption that nobody's model made, in a table without the columns ``confidence`` and ``reviewed``, is "written".
    """
    text = decoded(file, [])
    named = named_columns(file, text, [])
    if named is None:
        raise SatError(
            f"needs the columns source and caption, and its first line is {shorten(text.partition(chr(10))[0])}",
            subject=str(file),
            remedy="give a table of captions, or begin another: sat review FOLDER --output review.csv",
        )
    names, delimiter = named
    fields = fields_of(tuple(names))
    names[names.index(fields.photo[0])] = "source"
    names[names.index(fields.captions[0])] = "caption"
    by_people = "confidence" not in names and "reviewed" not in names
    times: Counter[str] = Counter()
    rows = []
    for _, record in cells_below(file, text, delimiter):
        cells = dict(zip(names, record, strict=False))
        source = cells.pop("source", "").strip()
        if source:
            times[source] += 1
            key = source if times[source] == 1 else f"{source}#{times[source]}"
            rows.append(_row(Row(photo_path(source, file.parent), source, key), cells, by_people))
    return Table([name for name in names if name], rows)


def _row(row: Row, cells: dict[str, str], by_people: bool) -> Row:
    """A row with what its cells say."""
    decided = Decided(*(one_line(cells.pop(name, "")) for name in Decided._fields))
    if decided.split == "train":
        decided = decided._replace(split="")
    if by_people and decided.caption:
        decided = decided._replace(reviewed="written")
    row.decided = decided
    row.model_caption = one_line(cells.pop("model_caption", "")) or ("" if decided.reviewed else decided.caption)
    with suppress(ValueError):
        row.confidence = float(cells.pop("confidence", "").replace(",", "."))  # a comma in some countries' spreadsheets
    row.to_check = [word.strip() for word in cells.pop("to_check", "").split(",") if word.strip()]
    row.more = cells
    return row


def photo_path(source: str, folder: Path) -> Path:
    """The photo that a table in a folder names.

    It is looked for from there, from images/, from the working directory, and by what follows the folder's own name.
    """
    inside = f"/{source}".partition(f"/{folder.name}/")[2]
    join = os.path.join  # of strings, because a path takes far longer
    places = (join(folder, source), join(folder, "images", source), source, join(folder, inside))
    return Path(next(filter(os.path.isfile, places), places[0])).absolute()


def spelling(path: Path, folder: Path) -> str:
    """How a table in a folder names a photo."""
    inside = f"{folder.absolute()}{os.sep}"
    name = str(path).removeprefix(inside)
    return name.replace(os.sep, "/").encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """A text without line breaks and spaces around it."""
    return " ".join(text.split())


def write_table(file: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write a table, whole or not at all: the columns that it had, and those of a review."""
    used = [name for name in Decided._fields if any(getattr(row.decided, name) for row in rows)]
    names = dict.fromkeys([*columns, *COLUMNS, *used], "string")

    def write(scratch: Path) -> None:
        with scratch.open("wb") as stream:
            records = ({name: cells.get(name) for name in names} for cells in map(_cells, rows))
            write_rows(stream, records, names, "csv")
        mark_utf8(scratch)

    atomic_write(file, write, sync=True)


def _cells(row: Row) -> dict[str, str]:
    return {
        **row.more,
        **row.decided._asdict(),
        "source": row.source,
        "confidence": "" if row.confidence is None else f"{row.confidence:.6g}",
        "to_check": ", ".join(row.to_check),
        "model_caption": row.model_caption,
        "split": row.decided.split or "train",
        # what `sat caption` tries again
        "error": "" if any(row.decided) else row.error or row.more.get("error") or "not captioned yet",
    }
