"""Lines without names of columns, each a photo and a caption, and lines that are sentences."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.data.rows.fields import FORMS, Row, UnknownForm
from show_attend_tell.data.rows.tables import DELIMITERS
from show_attend_tell.messages import shorten

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
