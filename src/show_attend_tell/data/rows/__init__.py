"""Rows of captions from a text file of any form, which its content tells, not its name.

1. A table (`tables`) whose first line names columns for the photo, for captions, and perhaps for the split. A row has
   one caption or as many as there are caption columns. Cells are separated by whatever of `DELIMITERS` gives these
   columns.
2. Lines ``PHOTO<tab>CAPTION`` or ``PHOTO,CAPTION``. PHOTO is a file's name, an address or a number, and
   before a tab anything; ``#NUMBER`` may end it, as in Flickr's token files, or be a cell of its own behind it. The
   caption comes first where the last cell is the photo's name or address.
3. JSON (`records`): a list of objects or an object a line; COCO's captions; our own evaluations; conversations.
4. Where the caller allows it, sentences: one caption a line, without its photo.

What the fields of a row are called, and what may stand beside a caption, is in `fields`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from show_attend_tell.data.rows.entry import PhotoEntry, with_words
from show_attend_tell.data.rows.fields import FORMS, Beside, UnknownForm
from show_attend_tell.data.rows.records import is_json, record_rows
from show_attend_tell.data.rows.tables import listed_rows, look_like_sentences, named_columns, table_rows
from show_attend_tell.messages import shorten

__all__ = ["PhotoEntry", "UnknownForm", "caption_rows", "with_words"]

_SEPARATOR_LINE = re.compile(r'"?sep=.?"?\r?\n')  # with which a spreadsheet says what separates cells


def caption_rows(file: Path, text: str, notes: list[str], *, sentences: bool = False) -> Iterator[PhotoEntry]:
    """The photos of the rows of a file with that text; ``notes`` get what a person should know of how it was read.

    ``sentences`` says whether a file of sentences is read, too. Raises `UnknownForm` before the first row, and
    `SatError` for a damaged file.
    """
    beside = Beside()
    if _SEPARATOR_LINE.match(text):
        text = _SEPARATOR_LINE.sub("\n", text, count=1)
    if is_json(text):
        yield from record_rows(file, text, beside, notes)
    elif (table := named_columns(file, text, notes)) is not None:
        yield from table_rows(file, text, *table, beside, notes)
    elif (listed := listed_rows(file, text)) is not None:
        yield from listed
    else:
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # not splitlines(): rarer signs end no line
        if not (sentences and look_like_sentences(lines)):
            raise UnknownForm(
                f"{file}: the first line must be {'a caption, ' if sentences else ''}photo,caption or "
                f"photo,caption,split, and is {shorten(lines[0], 60)}. These forms are read: {FORMS}"
            )
        name = str(file)
        for number, caption in enumerate(with_words(lines), start=1):
            yield PhotoEntry("", None, "", [caption], where=f"{name}: line {number}")
    notes += beside.notes()
