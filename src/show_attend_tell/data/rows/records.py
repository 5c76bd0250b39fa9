"""JSON with captions: a list of objects, an object a line, or an object that holds such a list."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from show_attend_tell.data.rows.entry import PhotoEntry
from show_attend_tell.data.rows.fields import Beside, UnknownForm, fields_of
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects
from show_attend_tell.messages import first_three, quoted

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


def record_rows(file: Path, text: str, beside: Beside, notes: list[str]) -> Iterator[PhotoEntry]:
    """The photos of JSON, or of JSON lines."""
    not_read: dict[str, None] = {}  # names of fields that are captions in other files
    with_split: bool | None = None
    for where, record in _records(file, text):
        if not isinstance(record, dict):
            raise SatError(f'{where} must be an object like {{"photo": …, "caption": …}}, and is {quoted(record)}')
        key = next((key for key in CONVERSATIONS if key in record), None)
        if key:
            answers = _answers(record, key, where)
            record = {**record, "caption": answers[:1]}
            not_read |= dict.fromkeys(["answers after the first"] * (len(answers) > 1))
        entry = beside.entry(where, record)
        not_read |= dict.fromkeys(fields_of(tuple(record)).not_read)
        if with_split not in (None, entry.split is not None):
            raise SatError(f"{where}: some lines have a split and others have not: name all or none")
        with_split = entry.split is not None
        yield entry
    if not_read:
        notes.append(f"not used: {first_three(not_read)} of {file.name}")


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
    records: list[tuple[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        where = f"{file}: line {number}"
        try:
            if line.strip():
                records.append((where, json.loads(line)))
        except (ValueError, RecursionError) as wrong:
            place, reason = (where, wrong) if records else (file, error)
            raise SatError(f"{place} is not valid JSON: {reason}; get it again") from None
    return records


def _has_captions(record: Any) -> bool:
    """Whether an object is one with a caption."""
    if not isinstance(record, dict):
        return False
    return bool(fields_of(tuple(record)).captions) or any(name in record for name in CONVERSATIONS)


def _answers(record: dict[str, Any], key: str, where: str) -> list[Any]:
    """What a model says in a conversation."""
    return [
        turn.get("value", turn.get("content"))
        for turn in list_of_objects(record, key, where)
        if turn.get("from", turn.get("role")) in ANSWERS
    ]
