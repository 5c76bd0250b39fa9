"""Which words of a caption are hidden: one, or all nouns that have a confidence."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from show_attend_tell.caption import Caption
from show_attend_tell.errors import InvalidValue, PhotoError

NOUNS = "nouns"  # instead of a word


def hide_words(
    captioner: Any, captions: Iterable[Caption | PhotoError], word: str, log: Callable[[str], object]
) -> Iterator[Caption | PhotoError]:
    """Captions by a `Captioner`, each with what came out when a word (or its number), or each noun, was hidden.

    ``log`` gets why a word cannot be hidden.
    """
    for caption in captions:
        if isinstance(caption, PhotoError):
            yield caption
            continue
        judged = np.flatnonzero(~np.isnan(np.array(caption.word_confidence, float)))
        if word == NOUNS and not judged.size:
            log(f"no noun of “{caption}” has a confidence: name a word")
        answers = []
        for number in judged.tolist() if word == NOUNS else [word]:
            try:
                answers.append(captioner.hide(caption, number).to_dict())
            except InvalidValue as error:
                log(f"{caption.source or caption}: {error}")
        yield dataclasses.replace(caption, hidden=answers)
