"""What people may decide of a row, and what becomes of it. Nothing here knows a file or a page."""

import random
import re
from collections.abc import Iterable

from show_attend_tell.data.rows.fields import BY_PEOPLE
from show_attend_tell.errors import InvalidValue
from show_attend_tell.review.table import Decided, Row, one_line
from show_attend_tell.search.hypotheses import article


def accepted(row: Row, how: str = "accepted") -> Decided:
    """The caption is right as it stands. Raises `InvalidValue` for a row without a caption in sight."""
    if row.hidden or not row.caption:
        raise InvalidValue("there is no caption to accept: write one (E)", subject=row.source)
    kept = row.reviewed in BY_PEOPLE  # whose caption is looked at again
    return row.decided._replace(reviewed=row.reviewed if kept else how, other_caption="")


def written(row: Row, text: str) -> Decided:
    """A person wrote the caption, or changed it; raises `InvalidValue` for a text without a word."""
    text = one_line(text)
    if not text:
        raise InvalidValue("a caption needs a word: write one, or leave the photo out (X)", subject=row.source)
    reviewed = "edited"
    if row.hidden or not row.model_caption or row.reviewed == "written":
        reviewed = "written"
    elif text in (row.model_caption, row.offered):
        reviewed = "accepted"
    return row.decided._replace(caption=text, reviewed=reviewed, other_caption="")


def exchanged(row: Row, place: int, word: str) -> Decided:
    """Another word in the place of a word of the caption; "a" before it becomes "an", and vice versa."""
    words = row.caption.split()
    words[place] = word
    before = max(0, place - 1)
    words[before] = article(words[before], word)
    return written(row, " ".join(words))


def choices(row: Row) -> list[str]:
    """Captions to take in the place of a row's own, by the keys 1 to 9."""
    texts = [row.decided.other_caption, row.offered, *row.alternatives, row.model_caption]
    different = dict.fromkeys(text for text in texts if text and text != row.caption)
    return [] if row.hidden else list(different)[:9]


def left_out(row: Row) -> Decided:
    """The photo is to have no caption; a photo that is left out already is taken in again."""
    return row.decided._replace(reviewed="" if row.reviewed == "left out" else "left out")


def described(row: Row, text: str, decorative: bool) -> Decided:
    """The photo's alternative text, or that it is decorative and has none."""
    return row.decided._replace(alt_text="" if decorative else one_line(text), decorative="yes" if decorative else "")


def replaced(row: Row, old: str, new: str) -> Decided:
    """A word, or several, replaced wherever they stand in the caption; whether somebody reviewed it stays.

    An accepted caption becomes an edited one. Large and small letters are the same.
    """
    pattern = rf"(?<!\w){re.escape(one_line(old))}(?!\w)"
    text = one_line(re.sub(pattern, lambda _: new, row.caption, flags=re.IGNORECASE))
    if not text or text == row.caption or row.hidden:
        return row.decided
    reviewed = "edited" if row.reviewed == "accepted" else row.reviewed
    return row.decided._replace(caption=text, reviewed=reviewed)


def drawn(rows: Iterable[Row], number: int, seed: int | None = None) -> list[Row]:
    """That many rows at random of those that nobody reviewed, or all of them."""
    waiting = [row for row in rows if not row.reviewed and not row.hidden and not row.error]
    return random.Random(seed).sample(waiting, min(number, len(waiting)))
