"""Tables of captions: ``captions.csv``, ``.tsv``, ``.jsonl`` or ``.txt``, and ``metadata`` files of an imagefolder.

- A table has a column for the photo, one or several for captions, and may have one for the split (`PHOTO`, `CAPTION`
  and `SPLIT` are their names). Other columns are not used. One row is one caption, or as many as it has caption
  columns; a photo may have several rows.
- Cells are separated by commas, semicolons, tabs or ``|``: whichever gives the first line these columns. A first line
  ``sep=;`` is skipped. Where a table's only caption column is the last one, a caption need not have quotes.
- In ``.jsonl`` files each line is a JSON object, and a caption may be a list of captions.
- The text is UTF-8, UTF-16, or Windows-1252 as spreadsheets write it (`decoded`).
- In a Hugging Face imagefolder, photos are named from the folder of the ``metadata`` file. This file is in the data
  folder, or one is in each of the sub-folders ``train``, ``val`` (or ``validation``) and ``test``, which are the
  splits. A file in the data folder may name photos in these sub-folders instead.
- Flickr8k and Flickr30k of Kaggle are tables too: ``captions.txt``, and ``results.csv`` with ``|``.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from show_attend_tell.data.datasets.listing import SPLIT_NAMES, Listed, Listing
from show_attend_tell.data.photos import SUFFIXES as PHOTO_SUFFIXES
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.files import encodable
from show_attend_tell.messages import first_three, plural, shorten, shown

PHOTO = ("photo", "image", "file_name", "filename", "file", "path", "photo_path", "image_path", "image_name")
CAPTION = re.compile(r"(caption|text|description)s?[ _-]?\d*")
COMMENT = re.compile(r"comments?")  # a caption where no other column is
SPLIT = ("split",)
DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "|"}
SUFFIXES = (".csv", ".tsv", ".jsonl")


class Row(NamedTuple):
    """One row of a table."""

    where: str  # for messages
    photo: str
    captions: list[str]
    split: str | None  # None: the table has no splits


def read_table(folder: Path) -> Listing | None:
    """What ``captions.csv``, ``.tsv``, ``.jsonl`` or ``.txt`` in a folder lists, or else ``results.csv``, as Kaggle has
    Flickr30k; None where there is none."""
    for stem, suffixes in (("captions", SUFFIXES), ("captions", (".txt",)), ("results", (".csv",))):
        if file := the_one(folder, stem, suffixes):
            return _listing(folder, folder, [file])
    return None


def read_imagefolder(folder: Path) -> Listing | None:
    """What the ``metadata`` files of an imagefolder list; None where there are none."""
    for root in (folder, folder / "data"):
        file = the_one(root, "metadata")
        if files := _file_of_each_split(root) if file is None else [file]:
            return _listing(folder, root, files, imagefolder=True)
    return None


def _file_of_each_split(root: Path) -> list[Path]:
    """The ``metadata`` file of each sub-folder that is named like a split."""
    subfolders = sorted(path for path in root.glob("*") if path.name.lower() in SPLIT_NAMES and path.is_dir())
    found = {subfolder: the_one(subfolder, "metadata") for subfolder in subfolders}
    files = [file for file in found.values() if file is not None]
    if files and (bare := [subfolder.name for subfolder, file in found.items() if file is None]):
        raise SatError(f"{root / bare[0]} has no metadata file, and other sub-folders have: add one, or move it away")
    if len({SPLIT_NAMES[file.parent.name.lower()] for file in files}) < len(files):
        names = first_three([file.parent.name for file in files])
        raise SatError(f"{root} has several sub-folders of one split: keep one of {names}")
    return files


def the_one(folder: Path, stem: str, suffixes: tuple[str, ...] = SUFFIXES) -> Path | None:
    """The table of that name in a folder, in large or small letters, None where there is none.

    Raises `SatError` for several.
    """
    names = [f"{stem}{suffix}" for suffix in suffixes]
    files = sorted(file for file in folder.glob("*") if file.name.lower() in names and file.is_file())
    if len(files) > 1:
        raise SatError(f"{folder} holds {first_three([file.name for file in files])}; keep the one that is meant")
    return files[0] if files else None


def _listing(folder: Path, root: Path, files: list[Path], *, imagefolder: bool = False) -> Listing:
    """What tables list. In an imagefolder, a sub-folder of ``root`` that is named like a split is the split."""
    notes: list[str] = []
    photos: list[Listed] = []
    inside: list[str] = []
    outside: list[str] = []
    for file in files:
        for row in rows(file, notes):
            # One spelling per photo: "a.jpg" and "./a.jpg" are the same picture, maybe in two splits.
            path = PurePosixPath(file.parent.relative_to(root).as_posix(), row.photo.replace("\\", "/"))
            split = SPLIT_NAMES.get(path.parts[0].lower()) if imagefolder and path.parts else None
            if split is None or row.split is None:
                (outside if split is None and row.split is None else inside).append(row.photo)
                split = split or named_split(row)
            elif named_split(row) != split:
                raise SatError(
                    f"{row.where} has the split {row.split}, and {row.photo} is in {path.parts[0]}; a score would be "
                    "wrong: delete the column, or move the photos"
                )
            name = PurePosixPath(root.relative_to(folder).as_posix(), path).as_posix()
            captions = [(tuple(tokenize(caption)), caption) for caption in row.captions]
            photos.append(Listed(name, split, "", captions, where=row.where))
    if imagefolder and inside and outside:
        raise SatError(
            f"{files[0]}: some photos are in a sub-folder that is named like a split, and others are not "
            f"({first_three(outside)}): move them, or add a column split"
        )
    return Listing(folder.resolve().name, files, photos, notes=notes)


def named_split(row: Row) -> str | None:
    """The split that a row names, None where the table has none; raises `SatError` for another word."""
    if row.split is None:
        return None
    split = SPLIT_NAMES.get(row.split.lower())
    if split is None:
        raise SatError(f"{row.where} has the split {shorten(row.split)}; use train, val, test")
    return split


def rows(file: Path, notes: list[str]) -> Iterator[Row]:
    """The rows of a table, in whatever form; adds to ``notes`` what a person should know of how it was read."""
    text = decoded(file, notes)
    yield from _json_rows(file, text) if file.suffix.lower() == ".jsonl" else _cell_rows(file, text, notes)


# Text


def decoded(file: Path, notes: list[str]) -> str:
    """The text of a table in UTF-8, with or without its mark, in UTF-16, or else in Windows-1252.

    Adds to ``notes`` that a file was read as Windows-1252, with some of its words to judge by. Raises `SatError` for a
    file that cannot be read, is in none of these, or has more UTF-8 in it than errors.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SatError(f"cannot read {file}: {error.strerror}") from None
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


# Cells


def _cell_rows(file: Path, text: str, notes: list[str]) -> Iterator[Row]:
    first, end, _ = text.partition("\n")
    skipped = 0
    if re.fullmatch(r'"?sep=.?"?\r?', first):
        text, skipped = text[len(first + end) :], 1
    columns, delimiter = _columns(file, text, notes)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    last = len(columns.names) - 1
    fewest = 1 + max(columns.photo, columns.captions[0], columns.split or 0)
    unquoted: list[str] = []  # rows whose caption has delimiters without quotes
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
                raise SatError(
                    f"{where} must have the cells {', '.join(filter(None, columns.names))} (a caption with a "
                    f"{DELIMITERS[delimiter]} in quotes), and is {shorten(cells)}"
                )
            captions = [cells[at] for at in columns.captions if at < len(cells)]
            for caption in captions:
                _check_quotes(where, caption, delimiter, columns.photo)
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


class _Columns(NamedTuple):
    names: list[str]
    photo: int
    captions: list[int]
    split: int | None


def _columns(file: Path, text: str, notes: list[str]) -> tuple[_Columns, str]:
    """The columns that the first line names, and what separates the cells."""
    for delimiter in DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        names = [cell.strip().lower() for cell in names]
        while names and not names[-1]:
            names.pop()
        photos, splits = ([at for at, name in enumerate(names) if name in known] for known in (PHOTO, SPLIT))
        captions, comments = (
            [at for at, name in enumerate(names) if pattern.fullmatch(name)] for pattern in (CAPTION, COMMENT)
        )
        captions = captions or comments
        if photos and captions:
            break
    else:
        raise SatError(
            f"{file}: the first line must be photo,caption or photo,caption,split, and is "
            f"{shorten(text.partition(chr(10))[0].strip())}; the photo's column may also be called "
            f"{', '.join(PHOTO[1:])}, the caption's text, description or comment, and cells may be separated by "
            "commas, semicolons, tabs or |"
        )
    if len(photos) > 1 or len(splits) > 1 or len({names[at] for at in captions}) < len(captions):
        raise SatError(f"{file}: the first line names a column twice, and is {shorten(names)}: keep one of each")
    used = {*photos, *captions, *splits}
    if unused := [name for at, name in enumerate(names) if name and at not in used]:
        notes.append(f"not used: the columns {first_three(unused)} of {file.name}")
    return _Columns(names, photos[0], captions, splits[0] if splits else None), delimiter


# JSON lines


def _json_rows(file: Path, text: str) -> Iterator[Row]:
    with_split: bool | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}: line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SatError(f"{where} is not valid JSON: {error}") from error
        if not isinstance(record, dict):
            raise SatError(f'{where} must be an object like {{"photo": …, "caption": …}}, and is {shown(record)}')
        photo = _only(record, [name for name in record if name.lower() in PHOTO], where, "photo")
        captions: list[str] = []
        named = [name for name in record if CAPTION.fullmatch(name.lower())]
        for name in named:
            value = record[name]
            given = value if isinstance(value, list) else [value]
            texts = ["" if text is None or text != text else text for text in given]  # NaN is not equal to itself
            if not all(isinstance(text, str) for text in texts):
                raise SatError(f"{where}: {name!r} must be a text or a list of texts, and is {shown(value)}")
            captions += [encodable(text.strip(), where) for text in texts]
        if not named:
            raise SatError(f"{where}: 'caption' must be a text, and is missing (it may be called text or description)")
        splits = [name for name in record if name.lower() in SPLIT]
        if with_split not in (None, bool(splits)):
            raise SatError(f"{where}: some lines have a split and others have not: name all or none")
        with_split = bool(splits)
        split = _only(record, splits, where, "split") if splits else None
        yield Row(where, photo, captions or [""], split)


def _only(record: dict[str, Any], names: list[str], where: str, what: str) -> str:
    value = record[names[0]] if len(names) == 1 else None
    if len(names) > 1:
        raise SatError(f"{where} names the {what} twice: as {' and as '.join(names)}; keep one")
    if not isinstance(value, str) or not value.strip():
        raise SatError(f"{where}: {what!r} must be a text, and is {shown(value)}")
    return encodable(value.strip(), where)
