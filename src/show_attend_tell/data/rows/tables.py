"""Tables: those whose first line names the columns, and lines that each have a photo and a caption."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.data.rows.entry import PhotoEntry, with_words
from show_attend_tell.data.rows.fields import FORMS, Beside, UnknownForm, fields_of
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, shorten

DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "|"}
LONGEST_HEAD = 100_000  # characters in which the names of columns are looked for
DAMAGED = 0.1  # of a table's rows that may lack cells; these are left out


def named_columns(file: Path, text: str, notes: list[str]) -> tuple[list[str], str] | None:
    """The columns that the first line names, and what separates the cells; None where it names none."""
    for delimiter in DELIMITERS:
        try:
            names: list[str] = next(filter(None, _reader(text[:LONGEST_HEAD], delimiter)), [])
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
    return names, delimiter


def _reader(text: str, delimiter: str) -> Any:
    """The rows of a table, from its first line on."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def table_rows(
    file: Path, text: str, names: list[str], delimiter: str, beside: Beside, notes: list[str]
) -> Iterator[PhotoEntry]:
    """The photos of the rows of a table below its first line; those that lack cells are left out."""
    fields = fields_of(tuple(names))
    needed = [names.index(name) for name in (*fields.photo, fields.captions[0], *fields.split)]
    last = len(names) - 1
    rows = 0
    lacking: list[str] = []  # lines without the cells that the first line names
    unquoted: list[str] = []  # captions with a delimiter that is not in quotes
    for line, cells in cells_below(file, text, delimiter):
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
            f"{plural(len(unquoted), 'row')} of {file.name} with more cells than the first line names; the rest of the "
            f"line is read as the caption ({first_three(unquoted)})"
        )


def cells_below(file: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
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


def look_like_sentences(lines: Sequence[str]) -> bool:
    """Whether most of the first lines may be sentences."""
    few = lines[:LOOKED_AT]
    return 2 * sum(_NO_SENTENCE.match(line) is not None and not _MARKER.match(line) for line in few) <= len(few)


def listed_rows(file: Path, text: str) -> list[PhotoEntry] | None:
    """The photos of lines that all have a photo and a caption; None where most, or the first one, have not.

    The photo comes first, or last if it is a file's name or an address and the first cell is neither.
    """
    first_lines = list(filter(str.strip, text.split("\n", LOOKED_AT)[:LOOKED_AT]))
    for delimiter in DELIMITERS:
        few = [_photo_and_others(line, delimiter) for line in first_lines]
        if few and few[0] and 2 * sum(map(bool, few)) >= len(few):
            return _listed(file, text, delimiter)
    return None


def _listed(file: Path, text: str, delimiter: str) -> list[PhotoEntry]:
    """The photos of lines; raises `UnknownForm` for a line without one."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        row = _photo_and_others(line, delimiter)
        if row is None and line.strip():
            raise UnknownForm(
                f"{file}: line {number} has no photo and a {DELIMITERS[delimiter]}, as the others have, and is "
                f"{shorten(line, 60)}. These forms are read: {FORMS}"
            )
        if row is not None:
            rows.append((f"{file}: line {number}", *row))
    numbered = all(len(cells) > 1 and cells[0].strip().isdigit() for _, _, cells in rows)
    return [
        PhotoEntry(re.sub(r"#\d+$", "", photo), None, "", with_words([delimiter.join(cells[numbered:])]), where=where)
        for where, photo, cells in rows
    ]


def _photo_and_others(line: str, delimiter: str) -> tuple[str, list[str]] | None:
    """The photo of a line, and its other cells; None where it has none. Quotes count where they are whole."""
    cells = line.split(delimiter)
    if '"' in line:
        with suppress(csv.Error):
            (cells,) = csv.reader([line.strip()], delimiter=delimiter, strict=True, skipinitialspace=True)
    if len(cells) < 2:
        return None
    first = cells[0].strip()
    last = cells[-1].strip()
    is_photo = _PHOTO_OR_NUMBER.fullmatch(first) is not None
    if not is_photo and _PHOTO.fullmatch(last) and (delimiter != "\t" or len(cells) == 2):
        return last, cells[:-1]
    if delimiter == "\t":
        is_photo = bool(first) and (len(cells) == 2 or (len(cells) == 3 and cells[1].strip().isdigit()))
    return (first, cells[1:]) if is_photo else None
