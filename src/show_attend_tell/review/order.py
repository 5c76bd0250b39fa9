"""Which rows are shown, and in which order."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from zlib import crc32

from show_attend_tell.review.table import Row

UNKNOWN = 0.5  # the confidence of a caption that is not judged


def trust(row: Row) -> float:
    """The confidence of a row's caption."""
    return UNKNOWN if row.confidence is None else row.confidence


def doubt(row: Row) -> tuple[object, ...]:
    """The least trusted caption first; then what is reviewed, then photos without a caption."""
    return bool(row.error), not row.caption, bool(row.reviewed), trust(row), row.key


def chance(row: Row) -> tuple[object, ...]:
    """A random order that stays the same, with what is reviewed last: for those who teach a model."""
    return bool(row.error), not row.caption, bool(row.reviewed), crc32(row.key.encode())


def change(row: Row) -> tuple[object, ...]:
    """What another model says most differently first."""
    alike = SequenceMatcher(None, row.caption.split(), row.offered.split()).ratio() if row.offered else 2.0
    return alike, row.key


SORTS: dict[str, Callable[[Row], tuple[object, ...]]] = {
    "doubt": doubt,
    "chance": chance,
    "change": change,
    "name": lambda row: (row.key,),
}


def states(row: Row) -> set[str]:
    """The states that a row is in, as the page calls them: what was done, and others."""
    decided = row.decided
    others = {
        "to review": not decided.reviewed and not row.error,
        "to write": row.hidden,
        "drawn": decided.drawn,
        "changed twice": decided.other_caption,
        "not captioned": row.error,
        "differs": row.offered not in ("", decided.caption),
    }
    return {decided.reviewed, *filter(others.get, others)}


def shown(rows: Iterable[Row], view: Mapping[str, str]) -> list[Row]:
    """The rows of a view, in order.

    A view has a ``sort`` of `SORTS`, a ``folder`` of photos in it and below it, a ``word`` of the caption, or several
    that are all in it, and one of the `states`.
    """
    folder = view.get("folder", "")
    state = view.get("state", "")
    words = view.get("word", "").split()
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in words]
    chosen = []
    for row in rows:
        inside = not folder or f"{row.source}/".startswith(f"{folder}/")
        said = not patterns or (not row.hidden and all(each.search(row.caption) for each in patterns))
        if inside and said and (not state or state in states(row)):
            chosen.append(row)
    return sorted(chosen, key=SORTS[view.get("sort", "doubt")])
