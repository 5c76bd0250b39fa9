"""Tables: those whose first line names the columns, and lines that each have a photo and a caption."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.data.rows.entry import PhotoEntry, with_words
from show_attend_tell.data.rows.fields import FORMS, Beside, Fields, UnknownForm, fields_of
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, shorten

DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "|"}
DAMAGED = 0.1  # of a table's rows that may lack cells; these are left out


class Columns(NamedTuple):
    """The columns that a table's first line names, and what separates the cells."""

    names: list[str]
    fields: Fields
    delimiter: str


def named_columns(file: Path, text: str, notes: list[str]) -> Columns | None:
    """The columns that the first line names; None where it names none."""
    for delimiter in DELIMITERS:
        try:
            names = next(filter(None, _reader(text, delimiter)), [])
        except csv.Error:
            continue
        names = [cell.strip().lower() for cell in names]
        while names and not names[-1]:
            names.pop()
        fields = fields_of(tuple(names))
        if fields.photo and fields.captions:
            break
    else:
        return None
    read = [*fields.photo, *fields.captions, *fields.split]
    if len(fields.photo) > 1 or len(fields.split) > 1 or len(set(read)) < len(read):
        raise SatError(f"{file}: the first line names a column twice, and is {shorten(names)}: keep one of each")
    if unused := [name for name in names if name and name not in (*read, *fields.beside)]:
        notes.append(f"not used: {first_three(unused)} of {file.name}")
    return Columns(names, fields, delimiter)


def _reader(text: str, delimiter: str) -> Any:
    """The rows of a table, from its first line on."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def table_rows(file: Path, text: str, columns: Columns, beside: Beside, notes: list[str]) -> Iterator[PhotoEntry]:
    """The photos of the rows of a table below its first line; those that lack cells are left out."""
    names, fields, delimiter = columns
    needed = [names.index(name) for name in (*fields.photo, fields.captions[0], *fields.split)]
    last = len(names) - 1
    rows = 0
    lacking: list[str] = []  # lines without the cells that the first line names
    unquoted: list[str] = []  # captions with a delimiter that is not in quotes
    for line, cells in _cells_below(file, text, delimiter):
        if fields.captions == (names[last],) and any(cell.strip() for cell in cells[last + 1 :]):
            cells[last:] = [delimiter.join(cells[last:]).rstrip(f"{delimiter} ")]
            unquoted.append(f"line {line}: {shorten(cells[-1].strip(), 60)}")
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        rows += 1
        if any(cells[last + 1 :]) or len(cells) <= max(needed) or not cells[needed[0]]:
            lacking.append(f"line {line}")
            continue
        entry = beside.entry(f"{file}: line {line}", dict(zip(names, cells, strict=False)))
        _check_quotes(entry, delimiter, needed[0])
        yield entry
    if lacking:
        wanted = f"the cells {', '.join(filter(None, names))} (a caption with a {DELIMITERS[delimiter]} in quotes)"
        if len(lacking) > DAMAGED * rows:
            raise SatError(f"{file}: {lacking[0]} must have {wanted}")
        notes.append(f"left out: {plural(len(lacking), 'row')} of {file.name} without {wanted}: {first_three(lacking)}")
    if unquoted:
        notes.append(
            f"{file.name}: {plural(len(unquoted), 'row')} with more cells than the first line names; the rest of the "
            f"line is read as the caption ({first_three(unquoted)})"
        )


def _cells_below(file: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row below the first line, with the number of the line in which it begins."""
    reader = _reader(text, delimiter)
    began = 1
    try:
        next(filter(None, reader))
        began = reader.line_num + 1
        for cells in reader:
            yield began, cells
            began = reader.line_num + 1
    except csv.Error as error:
        raise SatError(
            f"{file}: line {began} is damaged: {error}; close the quotes of the row that begins there, and write a "
            "quote inside of them twice"
        ) from error


def _check_quotes(entry: PhotoEntry, delimiter: str, photo: int) -> None:
    """Raise `SatError` for captions that hold other rows, because a pair of quotes begins too early."""
    for _, caption in entry.captions:
        for further, line in enumerate(caption.split("\n")[1:], start=1):
            cells = line.split(delimiter)
            if len(cells) > photo + 1 and cells[photo].strip(' "').lower().endswith(PHOTO_SUFFIXES):
                raise SatError(
                    f"{entry.where}: a pair of quotes begins in this row and holds other rows, the first of them "
                    f"{plural(further, 'line')} further down, {shorten(line.strip(), 60)}: close the quotes in this row"
                )


# Lines without names of columns

LOOKED_AT = 100  # lines by which a form is told before all of them are read
_SUFFIX = "|".join(re.escape(suffix) for suffix in PHOTO_SUFFIXES)
_PHOTO = re.compile(rf".*({_SUFFIX})(#\d+)?|\w+://\S+", re.IGNORECASE)  # a file's name or an address
_PHOTO_OR_NUMBER = re.compile(rf"\d+|{_PHOTO.pattern}", re.IGNORECASE)
# How lines begin that are no sentences: JSON, a number with a delimiter or a long one, a photo's name, or a tab.
_NO_SENTENCE = re.compile(rf"\s*([{{\[]|\d+\s*[,;|]|\d{{4,}}\s|\S+({_SUFFIX})\b)|[^\t]+\t", re.IGNORECASE)
_MARKER = re.compile(r"\[[A-Za-z]+\]\s")  # of a caption's begin, as "[CLS] a dog", which is no JSON

Line = tuple[int, list[str]]  # its number, and its cells


def look_like_sentences(lines: Sequence[str]) -> bool:
    """Whether most of the first lines may be sentences."""
    few = lines[:LOOKED_AT]
    return 2 * sum(_NO_SENTENCE.match(line) is not None and not _MARKER.match(line) for line in few) <= len(few)


def listed_rows(file: Path, text: str) -> list[PhotoEntry] | None:
    """The rows of lines that all have a photo and a caption; None where most do not, or where the first one does not.

    The photo comes first, or last if it is a file's name or an address and the first cell is neither.
    """
    for delimiter in DELIMITERS:
        few = list(_cells(text.split("\n", LOOKED_AT)[:LOOKED_AT], delimiter))
        caption_first = bool(few) and 2 * sum(_ends_with_photo(cells, delimiter) for _, cells in few) >= len(few)
        if caption_first or (few and 2 * sum(_begins_with_photo(cells, delimiter) for _, cells in few) >= len(few)):
            lines = list(_cells(text.split("\n"), delimiter))
            if caption_first:
                lines = [(number, [cells[-1].strip(), delimiter.join(cells[:-1])]) for number, cells in lines]
            return _rows(file, lines, delimiter)
    return None


def _rows(file: Path, lines: Sequence[Line], delimiter: str) -> list[PhotoEntry] | None:
    """The rows of lines that begin with the photo; raises `UnknownForm` where one does not."""
    for number, cells in lines:
        if not _begins_with_photo(cells, delimiter):
            if number == lines[0][0]:
                return None
            raise UnknownForm(
                f"{file}: line {number} has no photo and a {DELIMITERS[delimiter]}, as the others have, and is "
                f"{shorten(delimiter.join(cells), 60)}. These forms are read: {FORMS}"
            )
    numbered = all(len(cells) > 2 and cells[1].strip().isdigit() for _, cells in lines)
    entries = []
    for number, cells in lines:
        text = delimiter.join(cells[1 + numbered :])
        name = re.sub(r"#\d+$", "", cells[0])
        entries.append(PhotoEntry(name, None, "", with_words([text]), where=f"{file}: line {number}"))
    return entries


def _cells(lines: Sequence[str], delimiter: str) -> Iterator[Line]:
    """The cells of each line that is not empty, with its number. Quotes count where they are whole."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.split(delimiter)
        if '"' in line:
            with suppress(csv.Error):
                (cells,) = csv.reader([line.strip()], delimiter=delimiter, strict=True, skipinitialspace=True)
        yield number, [cells[0].strip(), *cells[1:]]


def _begins_with_photo(cells: list[str], delimiter: str) -> bool:
    """Whether the cells of a line are a photo and a caption."""
    if delimiter == "\t":
        return bool(cells[0]) and (len(cells) == 2 or (len(cells) == 3 and cells[1].strip().isdigit()))
    return len(cells) > 1 and _PHOTO_OR_NUMBER.fullmatch(cells[0]) is not None


def _ends_with_photo(cells: list[str], delimiter: str) -> bool:
    """Whether the cells of a line are a caption and the name or address of a photo."""
    if len(cells) < 2 or (delimiter == "\t" and len(cells) > 2):
        return False
    return not _PHOTO_OR_NUMBER.fullmatch(cells[0]) and _PHOTO.fullmatch(cells[-1].strip()) is not None
