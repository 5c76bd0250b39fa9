"""Where a singular noun may stand next in a caption, by the words before it.

Adjectives, colors and words on no list (`data.parts_of_speech`) are passed over. What stands before them decides: a
noun may follow an article, a preposition or "and". It does not follow another noun ("a man scorpion"), a verb
("a man is scorpion"), a quantity ("two slot") or a collective with "of" ("a pair of corkscrew"), nor does it begin a
caption without an article. A noun also follows what stands before it in a class's own name: "a street sign".

B′ photos · P′ paths · t words so far · N words.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from show_attend_tell.data.parts_of_speech import (
    COLLECTIVES,
    DETERMINERS,
    PREPOSITIONS,
    QUANTITIES,
    part_of_speech,
)
from show_attend_tell.search.filters import after_ends, last_words, mask
from show_attend_tell.search.session import Numbers

# Function words that a noun may follow, besides determiners and prepositions. "s" is that of "a man's".
ALSO_BEFORE_NOUNS = frozenset("and another any but each her no or other s some such this".split())
BEFORE_NOUNS = DETERMINERS | PREPOSITIONS | ALSO_BEFORE_NOUNS


class NounPlaces:
    """Where a singular noun may stand, by the words of a vocabulary."""

    def __init__(self, words: Sequence[str], names: Iterable[Collection[str]] = ()) -> None:
        """Take the K words, and the names of each class."""
        self.words = words
        kinds = [part_of_speech(word) for word in words]
        self.noun = mask(kinds, {"noun"})
        self.opens = mask(words, BEFORE_NOUNS)
        self.decides = self.opens | mask(words, QUANTITIES) | mask(kinds, {"noun", "verb", "function"})
        self.collective = mask(words, COLLECTIVES)
        self.of = mask(words, {"of"})
        number_of = {word: number for number, word in enumerate(words)}
        self.pairs = [
            number_of[before] * len(words) + number_of[word]
            for of_class in names
            for *_, before, word in (name.split() for name in of_class if " " in name)
            if before in number_of and word in number_of and before not in of_class  # not "a laptop computer"
        ]

    def __call__(self, history: Numbers) -> Any:
        """Whether a singular noun may come next, after the words of each path (B′, P′, t): (B′, P′)."""
        word, before = last_words(history, self.decides)
        return self.opens[word] & ~(self.of[word] & self.collective[before])

    def in_name(self, history: Numbers, ids: Numbers) -> Any:
        """Whether words (B′, 1, N) follow the last word of each path (B′, P′, t) in a class's name: (B′, P′, N)."""
        last = after_ends(history, 1)[..., -1:]
        return np.isin(last * len(self.words) + ids, self.pairs)

    def phrase(self, words: Sequence[int]) -> set[str]:
        """The adjectives and colors that words end in: black and white of "a black and white"."""
        texts: set[str] = set()
        for word in reversed(words):
            if self.decides[word] and self.words[word] != "and":
                break
            texts.add(self.words[word])
        return texts - {"and"}
