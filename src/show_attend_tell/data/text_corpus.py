"""Captions without photos, from a text file: a decoder learns words and phrases from them."""

import gzip
import zlib
from pathlib import Path

from show_attend_tell.data.caption_rows import caption_rows
from show_attend_tell.data.tokenizers import Tokenizer
from show_attend_tell.errors import SatError

LONGEST = 10_000  # characters of a caption; what is longer is none


def read_text_corpus(file: Path, tokenizer: Tokenizer, notes: list[str] | None = None) -> list[tuple[str, ...]]:
    """The captions of a text file of any form of `data.caption_rows`, maybe gzipped (.gz), cut into words."""
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix.lower() == ".gz" else None
    except (OSError, EOFError, zlib.error) as error:
        raise SatError(f"{file} cannot be read ({error}): give a text file in UTF-8, or one packed by gzip") from None
    found = []
    for row in caption_rows(file, [] if notes is None else notes, sentences=True, data=data):
        for text in row.captions:
            if len(text) > LONGEST:
                raise SatError(f"{row.where}: {len(text):,} characters: give one caption a line")
            if words := tuple(tokenizer.words(text)):
                found.append(words)
    if not found:
        raise SatError(f"{file} holds no captions: give one in each line")
    return found
