"""Tables: those whose first line names the columns, and lines that each have a photo and a caption."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.data.rows.fields import FORMS, Beside, Fields, Row, UnknownForm, fields_of, telling
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural, shorten

DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "|"}
DAMAGED = 0.1  # of a table's rows that may lack cells; these are left out


@dataclass(frozen=True)
class Columns:
    """The columns that a table's first line names, and what separates the cells."""

    names: list[str]
    fields: Fields
    delimiter: str

    @property
    def fewest(self) -> int:
        """How many cells a row must have: up to its photo, its first caption and its split."""
        return 1 + max(self.fields.photo[0], self.fields.captions[0], *self.fields.split)


def named_columns(file: Path, text: str, notes: list[str]) -> Columns | None:
    """The columns that the first line names; None where it names none."""
    _, text = _without_sep(text)
    for delimiter in DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
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
    captions = {names[at] for at in fields.captions}
    if len(fields.photo) > 1 or len(fields.split) > 1 or len(captions) < len(fields.captions):
        raise SatError(f"{file}: the first line names a column twice, and is {shorten(names)}: keep one of each")
    read = {*fields.photo, *fields.captions, *fields.split, *fields.beside}
    if unused := [name for at, name in enumerate(names) if name and at not in read]:
        columns = "column" if len(unused) == 1 else "columns"
        notes.append(f"not used: the {columns} {first_three(unused)} of {file.name}")
    return Columns(names, fields, delimiter)


def _without_sep(text: str) -> tuple[int, str]:
    """A text without a first line ``sep=;``, and how many lines that was."""
    first, end, _ = text.partition("\n")
    skipped = re.fullmatch(r'"?sep=.?"?\r?', first) is not None
    return int(skipped), text[len(first + end) :] if skipped else text


@dataclass
class _Oddities:
    """The rows of a table that do not have the cells that its first line names."""

    rows: int = 0  # that have them
    lacking: list[tuple[int, list[str]]] = field(default_factory=list)  # the lines without, which are left out
    unquoted: list[str] = field(default_factory=list)  # captions with a delimiter that is not in quotes

    def notes(self, file: Path, columns: Columns) -> list[str]:
        """What a person should know of them; raises `SatError` where too many rows lack cells."""
        lines = []
        if self.lacking:
            mark = DELIMITERS[columns.delimiter]
            wanted = f"{', '.join(filter(None, columns.names))} (a caption with a {mark} in quotes)"
            line, cells = self.lacking[0]
            if len(self.lacking) > DAMAGED * (self.rows + len(self.lacking)):
                raise SatError(f"{file}: line {line} must have the cells {wanted}, and is {shorten(cells)}")
            lines.append(
                f"left out: {plural(len(self.lacking), 'row')} of {file.name} without the cells {wanted}: "
                f"{first_three([f'line {line}' for line, _ in self.lacking])}"
            )
        if self.unquoted:
            lines.append(
                f"{file.name}: {plural(len(self.unquoted), 'row')} with more cells than the first line names; the rest "
                f"of the line is read as the caption ({first_three(self.unquoted)})"
            )
        return lines


def table_rows(file: Path, text: str, columns: Columns, beside: Beside, notes: list[str]) -> Iterator[Row]:
    """The rows of a table below its first line."""
    last = len(columns.names) - 1
    caption_is_last = columns.fields.captions == (last,)
    oddities = _Oddities()
    for line, cells in _cells_below(file, text, columns.delimiter):
        if caption_is_last and any(cell.strip() for cell in cells[last + 1 :]):
            cells[last:] = [columns.delimiter.join(cells[last:]).rstrip(f"{columns.delimiter} ")]
            oddities.unquoted.append(f"line {line}: {shorten(cells[-1].strip(), 60)}")
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        if any(cells[last + 1 :]) or len(cells) < columns.fewest or not cells[columns.fields.photo[0]]:
            oddities.lacking.append((line, cells))
            continue
        oddities.rows += 1
        yield _row(f"{file}: line {line}", cells, columns, beside)
    notes += oddities.notes(file, columns)


def _cells_below(file: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row below the first line, with the number of the line in which it begins."""
    skipped, text = _without_sep(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    began = 1
    try:
        next(reader)
        began = reader.line_num + 1
        for cells in reader:
            yield began + skipped, cells
            began = reader.line_num + 1
    except csv.Error as error:
        raise SatError(
            f"{file}: line {began + skipped} is damaged: {error}; close the quotes of the row that begins there, and "
            "write a quote inside of them twice"
        ) from error


def _row(where: str, cells: list[str], columns: Columns, beside: Beside) -> Row:
    fields = columns.fields
    captions = [cells[at] for at in fields.captions if at < len(cells) and cells[at]]
    for caption in captions:
        _check_quotes(where, caption, columns.delimiter, fields.photo[0])
    split = cells[fields.split[0]] if fields.split else None
    marks = telling({columns.names[at]: cells[at] for at in fields.beside if at < len(cells)})
    return beside.row(where, cells[fields.photo[0]], captions, split, marks)


def _check_quotes(where: str, caption: str, delimiter: str, photo: int) -> None:
    """Raise `SatError` for a caption that holds other rows, because a pair of quotes begins too early."""
    for further, line in enumerate(caption.split("\n")[1:], start=1):
        cells = line.split(delimiter)
        if len(cells) > photo + 1 and cells[photo].strip(' "').lower().endswith(PHOTO_SUFFIXES):
            raise SatError(
                f"{where}: a pair of quotes begins in this row and holds other rows, the first of them "
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


def listed_rows(file: Path, text: str) -> list[Row] | None:
    """The rows of lines that all have a photo and a caption; None where most do not, or where the first one does not.

    The photo comes first, or last if it is a file's name or an address and the first cell is neither.
    """
    for delimiter in (*DELIMITERS, " "):
        few = list(_cells(text.split("\n", LOOKED_AT)[:LOOKED_AT], delimiter))
        caption_first = bool(few) and 2 * sum(_ends_with_photo(cells, delimiter) for _, cells in few) >= len(few)
        if caption_first or (few and 2 * sum(_begins_with_photo(cells, delimiter) for _, cells in few) >= len(few)):
            lines = list(_cells(text.split("\n"), delimiter))
            if caption_first:
                lines = [(number, [cells[-1].strip(), delimiter.join(cells[:-1])]) for number, cells in lines]
            return _rows(file, lines, delimiter)
    return None


def _rows(file: Path, lines: Sequence[Line], delimiter: str) -> list[Row] | None:
    """The rows of lines that begin with the photo; raises `UnknownForm` where one does not."""
    for number, cells in lines:
        if not _begins_with_photo(cells, delimiter):
            if number == lines[0][0]:
                return None
            between = "a space" if delimiter == " " else f"a {DELIMITERS[delimiter]}"
            raise UnknownForm(
                f"{file}: line {number} has no photo and {between}, as the others have, and is "
                f"{shorten(delimiter.join(cells), 60)}. These forms are read: {FORMS}"
            )
    numbered = all(len(cells) > 2 and cells[1].strip().isdigit() for _, cells in lines)
    return [
        Row(
            f"{file}: line {number}",
            re.sub(r"#\d+$", "", cells[0]),
            [("" if delimiter == " " else delimiter).join(cells[1 + numbered :]).strip()],
        )
        for number, cells in lines
    ]


def _cells(lines: Sequence[str], delimiter: str) -> Iterator[Line]:
    """The cells of each line that is not empty, with its number. Quotes count where they are whole."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.split(None, 1) if delimiter == " " else line.split(delimiter)
        if '"' in line and delimiter != " ":
            with suppress(csv.Error):
                (cells,) = csv.reader([line.strip()], delimiter=delimiter, strict=True, skipinitialspace=True)
        yield number, [cells[0].strip(), *cells[1:]]


def _begins_with_photo(cells: list[str], delimiter: str) -> bool:
    """Whether the cells of a line are a photo and a caption."""
    if delimiter == "\t":
        return bool(cells[0]) and (len(cells) == 2 or (len(cells) == 3 and cells[1].strip().isdigit()))
    if delimiter == " ":
        return len(cells) == 2 and cells[0].lower().endswith(PHOTO_SUFFIXES)
    return len(cells) > 1 and _PHOTO_OR_NUMBER.fullmatch(cells[0]) is not None


def _ends_with_photo(cells: list[str], delimiter: str) -> bool:
    """Whether the cells of a line are a caption and the name or address of a photo."""
    if delimiter == " " or len(cells) < 2 or (delimiter == "\t" and len(cells) > 2):
        return False
    return not _PHOTO_OR_NUMBER.fullmatch(cells[0]) and _PHOTO.fullmatch(cells[-1].strip()) is not None
