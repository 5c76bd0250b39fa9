"""Rows of captions from a text file of any form, which its content tells, not its name.

1. A table whose first line names columns for the photo, for captions, and perhaps for the split. A row has one caption
   or as many as there are caption columns. Cells are separated by whatever of `DELIMITERS` gives these columns.
2. Lines ``PHOTO<tab>CAPTION`` or ``PHOTO,CAPTION``. PHOTO is a file's name or a number, and before a tab anything;
   ``#NUMBER`` may end it, as in Flickr's token files, or be a cell of its own behind it.
3. JSON: a list of objects or an object a line; COCO's captions; our own evaluations; Karpathy's split file.
4. Where the caller allows it, sentences: one caption a line, without its photo.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.errors import MissingFile, SatError
from show_attend_tell.files import encodable, list_of_objects
from show_attend_tell.messages import first_three, plural, quoted, shorten

PHOTO = (
    *("photo", "image", "file_name", "filename", "file", "path", "photo_path", "image_path", "image_name"),
    "source",  # of `sat caption-batch`
)
IDS = ("image_id", "cocoid", "imgid", "id")  # the photo, where no column above is; the first of these that is there
CAPTION = re.compile(r"(caption|text|description)s?[ _-]?\d*")
COMMENT = re.compile(r"comments?")  # a caption where no other column is
SPLIT = ("split",)
DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "|"}
FORMS = (
    f"a table whose first line names a column for the photo ({', '.join((*PHOTO, *IDS))}) and one for the caption (or "
    "text, description, comment), cells separated by commas, semicolons, tabs or |; lines PHOTO<tab>CAPTION or "
    "PHOTO,CAPTION; Flickr's token file; JSON lines or a JSON list of objects like "
    '{"photo": …, "caption": …}; and the JSON files of COCO, Karpathy and sat evaluate'
)
DAMAGED = 0.1  # of a table's rows that may lack cells; these are left out
LOOKED_AT = 100  # lines by which a form is told before all of them are read


class Row(NamedTuple):
    """One row of a table."""

    where: str  # for messages
    photo: str  # its name or number; empty for a sentence
    captions: list[str]
    split: str | None = None  # None: the table has no splits


class UnknownForm(SatError):
    """A file that is none of these forms."""


def caption_rows(file: Path, notes: list[str], *, sentences: bool = False, data: bytes | None = None) -> Iterator[Row]:
    """The rows of a file, or of its ``data``; adds to ``notes`` what a person should know of how it was read.

    ``sentences`` says whether a file of sentences is one. Raises `UnknownForm` before the first row, and `SatError` for
    a damaged file.
    """
    text = decoded(file, notes, data)
    if text.lstrip()[:1] in ("{", "["):
        yield from _json_rows(file, text)
    elif (found := _columns(file, text, notes)) is not None:
        yield from _cell_rows(file, text, notes, *found)
    elif (listed := _listed(file, text)) is not None:
        yield from listed
    else:
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # not splitlines(): rarer signs end no line
        if not sentences or 2 * sum(map(bool, map(_NO_SENTENCE.match, few := lines[:LOOKED_AT]))) > len(few):
            raise UnknownForm(
                f"{file}: the first line must be {'a caption, ' if sentences else ''}photo,caption or "
                f"photo,caption,split, and is {shorten(lines[0], 60)}. These forms are read: {FORMS}"
            )
        yield from (Row(f"{file}: line {number}", "", [line]) for number, line in enumerate(lines, start=1))


# Text


def decoded(file: Path, notes: list[str], data: bytes | None = None) -> str:
    """The text of a file, or of its ``data``, in UTF-8, UTF-16 or Windows-1252; the last is told in ``notes``."""
    try:
        data = file.read_bytes() if data is None else data
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else SatError
        raise kind(f"cannot read {file} ({error.strerror})", remedy="name a text file that is there") from None
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        if b"\0" in data[:2]:
            return data.decode("utf-16-be" if data[:1] == b"\0" else "utf-16-le")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number, reason = data[: error.start].count(b"\n") + 1, error.reason
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    lenient = data.decode("utf-8", "replace")
    other = sum("\x7f" < letter != "\N{REPLACEMENT CHARACTER}" for letter in lenient)
    if not text or other >= lenient.count("\N{REPLACEMENT CHARACTER}") or "\0" in text:
        raise SatError(f"{file}: line {number} is damaged ({reason}); save it as UTF-8")
    words = dict.fromkeys(re.findall(r"\w*[^\x00-\x7f\W]\w*", text))
    notes.append(
        f"{file.name} is not UTF-8, so it is read as Windows-1252"
        + (f". Words with other letters: {first_three(words)}" if words else "")
    )
    return text


# Tables


class _Columns(NamedTuple):
    names: list[str]
    photo: int
    captions: list[int]
    split: int | None


def _columns(file: Path, text: str, notes: list[str]) -> tuple[_Columns, str] | None:
    """The columns that the first line names, and what separates the cells; None where it names none."""
    _, text = _without_sep(text)
    for delimiter in DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        names = [cell.strip().lower() for cell in names]
        while names and not names[-1]:
            names.pop()
        photos, splits = ([at for at, name in enumerate(names) if name in known] for known in (PHOTO, SPLIT))
        photos = photos or [names.index(name) for name in IDS if name in names][:1]
        captions, comments = (
            [at for at, name in enumerate(names) if pattern.fullmatch(name)] for pattern in (CAPTION, COMMENT)
        )
        captions = captions or comments
        if photos and captions:
            break
    else:
        return None
    if len(photos) > 1 or len(splits) > 1 or len({names[at] for at in captions}) < len(captions):
        raise SatError(f"{file}: the first line names a column twice, and is {shorten(names)}: keep one of each")
    used = {*photos, *captions, *splits}
    if unused := [name for at, name in enumerate(names) if name and at not in used]:
        notes.append(f"not used: the columns {first_three(unused)} of {file.name}")
    return _Columns(names, photos[0], captions, splits[0] if splits else None), delimiter


def _without_sep(text: str) -> tuple[int, str]:
    """A text without a first line ``sep=;``, and how many lines that was."""
    first, end, _ = text.partition("\n")
    skipped = re.fullmatch(r'"?sep=.?"?\r?', first) is not None
    return int(skipped), text[len(first + end) :] if skipped else text


def _cell_rows(file: Path, text: str, notes: list[str], columns: _Columns, delimiter: str) -> Iterator[Row]:
    skipped, text = _without_sep(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    last = len(columns.names) - 1
    fewest = 1 + max(columns.photo, columns.captions[0], columns.split or 0)
    unquoted: list[str] = []  # rows whose caption has delimiters without quotes
    damaged: list[tuple[int, list[str]]] = []
    rows = 0
    began = 1  # the line in which a row begins
    try:
        next(reader)
        began = reader.line_num + 1
        for cells in reader:
            line, began = began + skipped, reader.line_num + 1
            where = f"{file}: line {line}"
            if any(cell.strip() for cell in cells[last + 1 :]) and columns.captions == [last]:
                cells[last:] = [delimiter.join(cells[last:]).rstrip(f"{delimiter} ")]
                unquoted.append(f"line {line}: {shorten(cells[-1].strip(), 60)}")
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if any(cells[last + 1 :]) or len(cells) < fewest or not cells[columns.photo]:
                damaged.append((line, cells))
                continue
            captions = [cells[at] for at in columns.captions if at < len(cells)]
            for caption in captions:
                _check_quotes(where, caption, delimiter, columns.photo)
            rows += 1
            yield Row(
                where,
                cells[columns.photo],
                [caption for caption in captions if caption] or [""],
                None if columns.split is None else cells[columns.split],
            )
    except csv.Error as error:
        raise SatError(
            f"{file}: line {began + skipped} is damaged: {error}; close the quotes of the row that begins there, and "
            "write a quote inside of them twice"
        ) from error
    if damaged:
        wanted = f"{', '.join(filter(None, columns.names))} (a caption with a {DELIMITERS[delimiter]} in quotes)"
        line, cells = damaged[0]
        if len(damaged) > DAMAGED * (rows + len(damaged)):
            raise SatError(f"{file}: line {line} must have the cells {wanted}, and is {shorten(cells)}")
        notes.append(
            f"left out: {plural(len(damaged), 'row')} of {file.name} without the cells {wanted}: "
            f"{first_three([f'line {line}' for line, _ in damaged])}"
        )
    if unquoted:
        notes.append(
            f"{file.name}: {plural(len(unquoted), 'row')} with more cells than the first line names; the rest of the "
            f"line is read as the caption ({first_three(unquoted)})"
        )


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

_SUFFIX = "|".join(re.escape(suffix) for suffix in PHOTO_SUFFIXES)
_PHOTO_OR_NUMBER = re.compile(rf"\d+|.*({_SUFFIX})(#\d+)?", re.IGNORECASE)
# How lines begin that are no sentences: JSON, a number with a delimiter or a long one, a photo's name, or a tab.
_NO_SENTENCE = re.compile(rf"\s*([{{\[]|\d+\s*[,;|]|\d{{4,}}\s|\S+({_SUFFIX})\b)|[^\t]+\t", re.IGNORECASE)


def _listed(file: Path, text: str) -> list[Row] | None:
    """The rows of lines that all begin with a photo; None where most do not, or where the first one does not."""
    for delimiter in (*DELIMITERS, " "):
        few = list(_cells(text.split("\n", LOOKED_AT)[:LOOKED_AT], delimiter))
        if not few or 2 * sum(_begins_with_photo(cells, delimiter) for _, cells in few) < len(few):
            continue
        every = list(_cells(text.split("\n"), delimiter))
        other = next((found for found in every if not _begins_with_photo(found[1], delimiter)), None)
        if other == every[0]:
            return None
        if other is not None:
            between = "a space" if delimiter == " " else f"a {DELIMITERS[delimiter]}"
            raise UnknownForm(
                f"{file}: line {other[0]} begins with no photo and {between}, as the others do, and is "
                f"{shorten(delimiter.join(other[1]), 60)}. These forms are read: {FORMS}"
            )
        numbered = all(len(cells) > 2 and cells[1].strip().isdigit() for _, cells in every)
        return [
            Row(
                f"{file}: line {line}",
                re.sub(r"#\d+$", "", cells[0]),
                [("" if delimiter == " " else delimiter).join(cells[1 + numbered :]).strip()],
            )
            for line, cells in every
        ]
    return None


def _cells(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not empty, with its number. Quotes count where they are whole."""
    for number, line in enumerate(lines, start=1):
        cells = line.split(None if delimiter == " " else delimiter, 1 if delimiter == " " else -1)
        if '"' in line and delimiter != " ":
            with suppress(csv.Error):
                (cells,) = csv.reader([line.strip()], delimiter=delimiter, strict=True, skipinitialspace=True)
        if line.strip():
            yield number, [cells[0].strip(), *cells[1:]]


def _begins_with_photo(cells: list[str], delimiter: str) -> bool:
    """Whether the cells of a line are a photo and a caption."""
    if delimiter == "\t":
        return bool(cells[0]) and (len(cells) == 2 or (len(cells) == 3 and cells[1].strip().isdigit()))
    if delimiter == " ":
        return len(cells) == 2 and cells[0].lower().endswith(PHOTO_SUFFIXES)
    return len(cells) > 1 and _PHOTO_OR_NUMBER.fullmatch(cells[0]) is not None


# JSON


def _json_rows(file: Path, text: str) -> Iterator[Row]:
    """The rows of JSON, or of JSON lines."""
    try:
        content, entry = json.loads(text), "caption"
        if isinstance(content, dict) and isinstance(content.get("images"), list) and "annotations" not in content:
            content = content["images"]
        elif isinstance(content, dict):
            key = next((key for key in ("annotations", "results") if key in content), None)
            content, entry = ([content], "line") if key is None else (list_of_objects(content, key, str(file)), entry)
        first = content[0] if content else {"sentences": []}
        if not isinstance(first, dict) or not any(k == "sentences" or CAPTION.fullmatch(k.lower()) for k in first):
            raise UnknownForm(
                f'{file}: an entry must be an object like {{"photo": …, "caption": …}} (or text, or description), and '
                f"is {quoted(first)}"
            )
        records = [(f"{file}: {entry} {number}", record) for number, record in enumerate(content, start=1)]
    except (ValueError, RecursionError) as error:
        lines = [(f"{file}: line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        try:
            json.loads(lines[0][1])
        except (ValueError, RecursionError):
            raise SatError(f"{file} is not valid JSON: {error}; get it again") from None
        records = [(where, _parsed(where, line)) for where, line in lines]
    with_split: bool | None = None
    for where, record in records:
        row = _of_record(where, record)
        if with_split not in (None, row.split is not None):
            raise SatError(f"{where}: some lines have a split and others have not: name all or none")
        with_split = row.split is not None
        yield row


def _parsed(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SatError(f"{where} is not valid JSON: {error}") from error


def _of_record(where: str, record: Any) -> Row:
    """The row of a JSON object; an entry of Karpathy's split file is one."""
    if not isinstance(record, dict):
        raise SatError(f'{where} must be an object like {{"photo": …, "caption": …}}, and is {quoted(record)}')
    if "sentences" in record:
        sentences = list_of_objects(record, "sentences", where)
        texts = [each.get("raw") or " ".join(map(str, each.get("tokens") or [])) for each in sentences]
        record = {**record, "caption": texts}
    named = [name for name in record if name.lower() in PHOTO] or [name for name in IDS if name in record][:1]
    photo = _only(record, named, where, "photo")
    captions: list[str] = []
    keys = [name for name in record if CAPTION.fullmatch(name.lower())]
    for name in keys:
        value = record[name]
        given = value if isinstance(value, list) else [value]
        texts = ["" if text is None or text != text else text for text in given]  # NaN is not equal to itself
        if not all(isinstance(text, str) for text in texts):
            raise SatError(f"{where}: {name!r} must be a text or a list of texts, and is {quoted(value)}")
        captions += [encodable(text.strip(), where) for text in texts]
    if not keys:
        raise SatError(f"{where}: 'caption' must be a text, and is missing (it may be called text or description)")
    splits = [name for name in record if name.lower() in SPLIT]
    return Row(where, photo, captions or [""], _only(record, splits, where, "split") if splits else None)


def _only(record: Mapping[str, Any], names: list[str], where: str, what: str) -> str:
    value = record[names[0]] if len(names) == 1 else None
    if len(names) > 1:
        raise SatError(f"{where} names the {what} twice: as {' and as '.join(names)}; keep one")
    if names and names[0] in IDS and isinstance(value, (int, float)) and value % 1 == 0:
        return str(int(value))
    if not isinstance(value, str) or not value.strip():
        kind = "a number or a file name" if names and names[0] in IDS else "a text"
        raise SatError(f"{where}: {names[0] if names else what!r} must be {kind}, and is {quoted(value)}")
    return encodable(value.strip(), where)
