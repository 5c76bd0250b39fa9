"""Captions without photos: a decoder learns words and phrases from them."""

from pathlib import Path

from show_attend_tell.data.datasets import no_garbage_collection, read_listing
from show_attend_tell.data.tokenizers import KARPATHY, Tokenizer
from show_attend_tell.errors import SatError


@no_garbage_collection()
def read_text_corpus(file: Path, tokenizer: Tokenizer, notes: list[str]) -> list[tuple[str, ...]]:
    """The captions of a text file in any form that `read_listing` reads, maybe gzipped (.gz), cut into words.

    ``notes`` get what a person should know of how it was read.
    """
    listing = read_listing(file, sentences=True)
    captions = []
    as_read = tokenizer == KARPATHY
    for photo in listing.photos:
        for words, text in photo.captions:
            own = words if as_read else tuple(tokenizer.words(text))
            if own:
                captions.append(own)
    if not captions:
        raise SatError(f"{file} holds no captions: give one in each line")
    notes += [f"{file.name}: {note}" for note in listing.notes]
    return captions
