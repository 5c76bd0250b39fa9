"""Which rows are shown, and in which order."""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from difflib import SequenceMatcher

from show_attend_tell.review.table import Row

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


STATES: dict[str, Callable[[Row, Container[str]], bool]] = {
    "": lambda row, drawn: True,
    "to review": lambda row, drawn: not row.decided.reviewed and not row.error,
    "to write": lambda row, drawn: row.hidden,
    "drawn": lambda row, drawn: row.key in drawn,
    "changed twice": lambda row, drawn: bool(row.decided.other_caption),
    "not captioned": lambda row, drawn: bool(row.error),
    "differs": lambda row, drawn: bool(row.offered) and row.offered != row.decided.caption,
}


def shown(rows: Iterable[Row], view: Mapping[str, str], drawn: Container[str]) -> list[Row]:
    """The rows of a view, in order.

    A view has a ``sort`` of `SORTS`, a ``folder`` of photos in it and below it, a ``word`` of the caption, or several
    that are all in it, and a ``state`` of `STATES`, or what was done.
    """
    folder = view.get("folder", "")
    state = view.get("state", "")
    words = view.get("word", "").split()
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in words]
    known = STATES.get(state)
    chosen = []
    for row in rows:
        inside = not folder or f"{row.source}/".startswith(f"{folder}/")
        said = not patterns or (not row.hidden and all(each.search(row.decided.caption) for each in patterns))
        if inside and said and (known(row, drawn) if known else row.decided.reviewed == state):
            chosen.append(row)
    return sorted(chosen, key=SORTS[view.get("sort", "doubt")])
