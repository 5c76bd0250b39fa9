"""The table of a review: a CSV file with a row for each photo, which spreadsheets open too.

A source is relative to the table's folder, or absolute outside of it.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten

SOURCES = ("source", "photo", "image", "file_name", "filename", "file", "path")  # names of the first column
COLUMNS = ("source", "caption", "confidence", "to_check", "reviewed", "model_caption")
REVIEWED = ("written", "edited", "accepted", "accepted in bulk", "left out")
DELIMITERS = ",;\t"
FORMULA = ("=", "+", "@", "-")  # how a cell begins that a spreadsheet computes, and that gets a space before it


class Decided(NamedTuple):
    """What people decide of a row; each is a column of that name."""

    caption: str = ""
    reviewed: str = ""  # one of `REVIEWED`, or empty
    alt_text: str = ""
    decorative: str = ""  # "yes" for a photo whose alternative text is to be empty
    other_caption: str = ""  # what another program has written, where both were changed
    split: str = ""  # "val" for a photo that judges a model


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
    alternatives: list[str] = field(default_factory=list)  # further captions of the beam, best first
    offered: str = ""  # the caption of another model, to compare
    error: str = ""  # why the photo cannot be captioned

    @property
    def hidden(self) -> bool:
        """Whether a person is to write the caption without seeing the model's."""
        return self.decided.split == "val" and not self.decided.reviewed


class Table(NamedTuple):
    """What a file holds."""

    columns: list[str]
    rows: list[Row]


def read_table(content: bytes, file: Path) -> Table:
    """The table in the content of a file. Raises `SatError` for one without the columns of a photo and of a caption.

    A caption that nobody's model made, in a table without the columns ``confidence`` and ``reviewed``, is "written".
    """
    text = _decoded(content)
    header, records = _records(text, file)
    names = [name.strip().lower() for name in header]
    source = next((name for name in SOURCES if name in names), "")
    if not source or "caption" not in names:
        raise SatError(
            f"needs the columns {SOURCES[0]} and caption, and its first line is {shorten(text.partition(chr(10))[0])}",
            subject=str(file),
            remedy="name another file for the review: --output review.csv",
        )
    by_people = "confidence" not in names and "reviewed" not in names
    times: Counter[str] = Counter()
    rows = []
    for record in records:
        cells = dict(zip(names, record, strict=False))
        if cells.get(source, "").strip():
            row = _row(cells, source, file.parent, times)
            if by_people and row.decided.caption:
                row.decided = row.decided._replace(reviewed="written")
                row.model_caption = ""
            rows.append(row)
    columns = [name for name in names if name]
    columns[columns.index(source)] = "source"
    return Table(columns, rows)


def _decoded(content: bytes) -> str:
    """A text in UTF-8, or in the encoding in which Windows' spreadsheets save."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _records(text: str, file: Path) -> tuple[list[str], list[list[str]]]:
    """The first line's cells and those of the others, by the delimiter that the first line has most often."""
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        header, *records = [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)] or [[]]
    except csv.Error as error:
        raise SatError(f"is damaged ({error})", subject=str(file), remedy="save it again as CSV") from None
    return header, records


def _row(cells: dict[str, str], source: str, folder: Path, times: "Counter[str]") -> Row:
    path = photo_path(cells.pop(source).strip(), folder)
    spelled = spelling(path, folder)
    times[spelled] += 1
    key = spelled if times[spelled] == 1 else f"{spelled}#{times[spelled]}"
    decided = Decided(*(one_line(cells.pop(name, "")) for name in Decided._fields))
    confidence = cells.pop("confidence", "").strip().replace(",", ".")  # a comma in some countries' spreadsheets
    model_caption = one_line(cells.pop("model_caption", ""))
    to_check = [word.strip() for word in cells.pop("to_check", "").split(",") if word.strip()]
    try:
        known = float(confidence)
    except ValueError:
        known = None
    if not decided.reviewed:
        model_caption = model_caption or decided.caption
    return Row(path, spelled, key, decided, model_caption, known, to_check, more=cells)


def photo_path(source: str, folder: Path) -> Path:
    """The photo that a table in a folder names: from there, from images/, or from where `sat caption` was called."""
    places = (folder / source, folder / "images" / source, Path(source))
    return next((place for place in places if place.exists()), places[0]).absolute()


def spelling(path: Path, folder: Path) -> str:
    """How a table in a folder names a photo."""
    inside = f"{folder.absolute()}{os.sep}"
    name = str(path).removeprefix(inside)  # of strings, because a path takes far longer
    return name.replace(os.sep, "/").encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """A text without line breaks and spaces around it."""
    return " ".join(text.split())


def table_bytes(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """The content of the file of a table: the columns that it had, and those of a review."""
    rows = list(rows)
    used = [name for name in Decided._fields if any(getattr(row.decided, name) for row in rows)]
    names = list(dict.fromkeys([*columns, *COLUMNS, *used]))
    judged = "split" in used
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        decided = row.decided
        if judged and not decided.split:
            decided = decided._replace(split="train")
        texts = {"model_caption": row.model_caption, **decided._asdict()}
        confidence = "" if row.confidence is None else f"{row.confidence:.6g}"
        writer.writerow(
            row.more
            | {name: f" {text}" if text.startswith(FORMULA) else text for name, text in texts.items()}
            | {"source": f"./{row.source}" if row.source.startswith(FORMULA) else row.source}
            | {"confidence": confidence, "to_check": ", ".join(row.to_check)}
        )
    text = file.getvalue()
    # a mark of UTF-8 without which Excel misreads other letters than ASCII
    return text.encode() if text.isascii() else text.encode("utf-8-sig")
