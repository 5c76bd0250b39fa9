"""JSON with captions: a list of objects, an object a line, or an object that holds such a list."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from show_attend_tell.data.rows.fields import IDS, Beside, Row, UnknownForm, beside_fields, fields_of
from show_attend_tell.errors import SatError
from show_attend_tell.files import encodable, list_of_objects
from show_attend_tell.messages import first_three, plural, quoted

LISTS = ("annotations", "results")  # of COCO's files, and of our own evaluations
CONVERSATIONS = ("conversations", "messages")  # of LLaVA and its like: what a model answers is the caption
ANSWERS = ("gpt", "assistant", "model")  # who speaks there
_BEGINS_JSON = re.compile(r'\s*(\{|\[\s*([{\]\["\d-]|$|null|true|false))')


def is_json(text: str) -> bool:
    """Whether a text is JSON by its beginning, and not a caption that begins with a bracket."""
    return _BEGINS_JSON.match(text) is not None


def parsed(text: str) -> Any:
    """What a text in JSON holds; None for another form, and for a damaged one."""
    try:
        return json.loads(text) if is_json(text) else None
    except (ValueError, RecursionError):
        return None


def record_rows(file: Path, text: str, beside: Beside, notes: list[str]) -> Iterator[Row]:
    """The rows of JSON, or of JSON lines."""
    not_read: dict[str, None] = {}  # names of fields that are captions in other files
    longer: list[str] = []  # photos of conversations with several answers
    with_split: bool | None = None
    for where, record in _records(file, text):
        if not isinstance(record, dict):
            raise SatError(f'{where} must be an object like {{"photo": …, "caption": …}}, and is {quoted(record)}')
        record, answers = _flat(record, where)
        row = _row(where, record, beside, not_read)
        if answers > 1:
            longer.append(row.photo)
        if with_split not in (None, row.split is not None):
            raise SatError(f"{where}: some lines have a split and others have not: name all or none")
        with_split = row.split is not None
        yield row
    if not_read:
        fields = "field" if len(not_read) == 1 else "fields"
        notes.append(f"not used: the {fields} {first_three(not_read)} of {file.name}")
    if longer:
        notes.append(
            f"{plural(len(longer), 'conversation')} with several answers, of which the first is read as the caption: "
            f"{first_three(longer)}"
        )


def _records(file: Path, text: str) -> list[tuple[str, Any]]:
    """The objects of a JSON file, each with where it is, for messages."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _record_lines(file, text, error)
    entry = "caption"
    if isinstance(content, dict):
        key = next((key for key in LISTS if key in content), None)
        entry = "caption" if key else "line"
        content = list_of_objects(content, key, str(file)) if key else [content]
    if content and not _has_captions(content[0]):
        raise UnknownForm(
            f'{file}: an entry must be an object like {{"photo": …, "caption": …}} (or text, or description), and '
            f"is {quoted(content[0])}"
        )
    return [(f"{file}: {entry} {number}", record) for number, record in enumerate(content, start=1)]


def _record_lines(file: Path, text: str, error: Exception) -> list[tuple[str, Any]]:
    """The objects of a file with one a line; ``error`` says why it is not JSON as a whole."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    records = []
    for number, line in lines:
        try:
            records.append((f"{file}: line {number}", json.loads(line)))
        except (ValueError, RecursionError) as wrong:
            if not records:
                raise SatError(f"{file} is not valid JSON: {error}; get it again") from None
            raise SatError(f"{file}: line {number} is not valid JSON: {wrong}") from wrong
    return records


def _has_captions(record: Any) -> bool:
    """Whether an object is one with a caption."""
    if not isinstance(record, dict):
        return False
    return bool(fields_of(tuple(record)).captions) or any(name in record for name in CONVERSATIONS)


def _flat(record: dict[str, Any], where: str) -> tuple[dict[str, Any], int]:
    """An object with its caption in a field, and how many answers it has, if it is a conversation."""
    key = next((key for key in CONVERSATIONS if key in record), None)
    if key is None:
        return record, 0
    turns = list_of_objects(record, key, where)
    answers = [
        turn.get("value", turn.get("content")) for turn in turns if turn.get("from", turn.get("role")) in ANSWERS
    ]
    return {**record, "caption": answers[:1]}, len(answers)


def _row(where: str, record: dict[str, Any], beside: Beside, not_read: dict[str, None]) -> Row:
    """The row of a JSON object."""
    names = tuple(record)
    fields = fields_of(names)
    if not fields.captions:
        raise SatError(f"{where}: 'caption' must be a text, and is missing (it may be called text or description)")
    photo = _only(record, [names[at] for at in fields.photo], where, "photo")
    captions: list[str] = []
    for name in (names[at] for at in fields.captions):
        value = record[name]
        texts = value if isinstance(value, list) else [value]
        texts = ["" if text is None or text != text else text for text in texts]  # NaN is not equal to itself
        if not all(isinstance(text, str) for text in texts):
            raise SatError(f"{where}: {name!r} must be a text or a list of texts, and is {quoted(value)}")
        captions += [encodable(text.strip(), where) for text in texts]
    not_read |= dict.fromkeys(names[at] for at in fields.not_read)
    split = _only(record, [names[at] for at in fields.split], where, "split") if fields.split else None
    return beside.row(where, photo, captions, split, beside_fields(record))


def _only(record: dict[str, Any], names: Sequence[str], where: str, what: str) -> str:
    """The one text among the fields of those names, or the number of a photo."""
    if len(names) > 1:
        raise SatError(f"{where} names the {what} twice: as {' and as '.join(names)}; keep one")
    value = record[names[0]] if names else None
    is_number = bool(names) and names[0] in IDS
    if is_number and isinstance(value, (int, float)) and value % 1 == 0:
        return str(int(value))
    if not isinstance(value, str) or not value.strip():
        kind = "a number or a file name" if is_number else "a text"
        raise SatError(f"{where}: {names[0] if names else what!r} must be {kind}, and is {quoted(value)}")
    return encodable(value.strip(), where)
