"""Captions without photos, from a text file: a decoder learns words and phrases from them."""

import gzip
import zlib
from pathlib import Path

from show_attend_tell.data.tokenizers import Tokenizer
from show_attend_tell.errors import SatError

LONGEST = 10_000  # characters of a line; a longer one is no caption


def read_text_corpus(file: Path, tokenizer: Tokenizer) -> list[tuple[str, ...]]:
    """The captions of a text file, one in each line, cut into words; empty lines are left out.

    The file is in UTF-8, and compressed by gzip if its name ends in .gz. Raises `SatError` for a file that cannot be
    read, a line that is no caption, and a file without captions.
    """
    found = []
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if len(line) > LONGEST:
                    raise SatError(f"{file}, line {number}: {len(line):,} characters: give one caption a line")
                if words := tuple(tokenizer.words(line)):
                    found.append(words)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise SatError(f"{file} cannot be read ({error}): give a text file in UTF-8, or one packed by gzip") from None
    if not found:
        raise SatError(f"{file} holds no captions: give one in each line")
    return found
