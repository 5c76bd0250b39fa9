"""Which rows are shown, and in which order."""

import re
from collections.abc import Callable, Container, Iterable
from difflib import SequenceMatcher
from typing import NamedTuple

from show_attend_tell.errors import InvalidValue
from show_attend_tell.review.table import REVIEWED, Row

UNKNOWN = 0.5  # the confidence of a caption that is not judged


def doubt(row: Row) -> tuple[object, ...]:
    """The least trusted caption first; then what is reviewed, then photos without a caption."""
    confidence = UNKNOWN if row.confidence is None else row.confidence
    return bool(row.error), not row.decided.caption, bool(row.decided.reviewed), confidence, row.key


def change(row: Row) -> tuple[object, ...]:
    """What another model says most differently first."""
    alike = SequenceMatcher(None, row.decided.caption.split(), row.offered.split()).ratio() if row.offered else 2.0
    return alike, row.key


SORTS: dict[str, Callable[[Row], tuple[object, ...]]] = {
    "doubt": doubt,
    "change": change,
    "name": lambda row: (row.key,),
}


class View(NamedTuple):
    """What a person has chosen to see."""

    sort: str = "doubt"
    folder: str = ""  # photos in it and below it
    word: str = ""  # of the caption; several are all in it
    state: str = ""  # one of `REVIEWED`, or of `STATES`


STATES: dict[str, Callable[[Row, Container[str]], bool]] = {
    "": lambda row, drawn: True,
    "to review": lambda row, drawn: not row.decided.reviewed and not row.error,
    "to write": lambda row, drawn: row.hidden,
    "drawn": lambda row, drawn: row.key in drawn,
    "changed twice": lambda row, drawn: bool(row.decided.other_caption),
    "not captioned": lambda row, drawn: bool(row.error),
    "differs": lambda row, drawn: bool(row.offered) and row.offered != row.decided.caption,
}


def folder_of(row: Row) -> str:
    """The folder of a photo, as the table spells it; empty for the table's own."""
    return row.source.rpartition("/")[0]


def shown(rows: Iterable[Row], view: View, drawn: Container[str]) -> list[Row]:
    """The rows of a view, in order. Raises `InvalidValue` for an order or a state that there is not."""
    if view.sort not in SORTS or view.state not in (*STATES, *REVIEWED):
        raise InvalidValue(f"there is no order {view.sort!r}, or no state {view.state!r}")
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in view.word.split()]
    found = []
    for row in rows:
        inside = not view.folder or f"{folder_of(row)}/".startswith(f"{view.folder}/")
        said = not patterns or (not row.hidden and all(each.search(row.decided.caption) for each in patterns))
        known = STATES.get(view.state)
        if inside and said and (known(row, drawn) if known else row.decided.reviewed == view.state):
            found.append(row)
    return sorted(found, key=SORTS[view.sort])
