"""What a search adds to the log-probabilities of words: rules that forbid some, and weights that make them likelier.

A filter is small: it names some words for each path, and the back end adds their weights to log p. The search follows
the sum. `Hypothesis.filter_score` has what was added to a caption, and its `log_probability` stays the decoder's own.

B′ photos that are still searched · P′ paths of each that are followed · t words so far · N words that are named.
"""

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.parts_of_speech import (
    COLORS,
    CONJUNCTIONS,
    DETERMINERS,
    PREPOSITIONS,
    SHADES,
    part_of_speech,
    singular,
)
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.registry import FILTERS, Filter
from show_attend_tell.search.session import Numbers, Scores, gather, padded

NEVER = float("-inf")
LAST_RESORT = -1000.0  # nats: such a word is taken only where every other one is forbidden
UNKNOWN = np.array([Vocabulary.UNKNOWN])
END = np.array([Vocabulary.END])


class Added(NamedTuple):
    """What all filters add to log p of the next words."""

    ids: Numbers  # (B′, P′, N)
    weights: Scores  # (B′, P′, N)

    def to(self, paths: Numbers, words: Numbers) -> Scores:
        """What finite weights add to words that continue paths, (B′, P) each."""
        weights = gather(self.weights, paths)
        named = (gather(self.ids, paths) == words[..., None]) & (weights > NEVER)
        total: Scores = weights.sum(-1, where=named)
        return total


def apply(filters: Sequence[Filter], history: Numbers, photos: Numbers) -> Added:
    """What the filters add, for the words of each path (B′, P′, t) of these photos (B′,)."""
    every_path = np.empty((*history.shape[:2], 1))
    ids = [np.empty((*history.shape[:2], 0), np.int64)]
    weights = [np.empty((*history.shape[:2], 0), np.float32)]
    for one in filters:
        added = one(history, photos)
        if added is not None:
            of_paths = np.broadcast_arrays(*added, every_path)
            ids.append(of_paths[0])
            weights.append(of_paths[1])
    return Added(np.concatenate(ids, -1), np.concatenate(weights, -1, dtype=np.float32))


def word_filters(config: GenerationConfig, vocabulary: Vocabulary | None = None) -> list[Filter]:
    """The filters that have no setting of their own: a new one is added here.

    With an English ``vocabulary``, no caption ends in the air.
    """
    filters: list[Filter] = [no_unknown]
    if config.beam_size == 1:  # a wider beam has other captions, and its empty one comes last
        filters.append(no_empty)
    if not config.allow_repetitions:
        filters.append(no_repetitions)
    if vocabulary is not None and vocabulary.tokenizer in (KARPATHY, ENGLISH):
        complete = complete_end(vocabulary.words, config.max_length)
        if complete.unfinished.size:
            filters.append(complete)
    return filters


def no_unknown(history: Numbers, photos: Numbers) -> tuple[Any, Any]:
    """The unknown word is never said."""
    return UNKNOWN, NEVER


def no_empty(history: Numbers, photos: Numbers) -> tuple[Any, Any] | None:
    """The end token is not the first word."""
    return None if history.shape[-1] else (END, NEVER)


def no_repetitions(history: Numbers, photos: Numbers) -> tuple[Any, Any] | None:
    """No word twice in a row, and no three words in a row twice: the last word, and what followed the last two before.

    Of t words it names max(1, t − 1): one at a place where the last two words are not repeated is the last word again.
    """
    if not history.shape[-1]:
        return None
    last = history[..., -1:]
    before = (history[..., :-2] == history[..., -2:-1]) & (history[..., 1:-1] == last)  # where the last two words are
    return np.concatenate([last, np.where(before, history[..., 2:], last)], axis=-1), NEVER


class CompleteEnd:
    """No caption ends in the air: "in front of a", "a red hat and a black and white".

    The end token does not follow a determiner, a preposition or a conjunction (`data.parts_of_speech`), nor colors that
    a determiner stands before. "A cat that is black" may end. The last word that ``max_length`` leaves room for is none
    of these words either.
    """

    def __init__(self, words: Sequence[str], max_length: int) -> None:
        """Take the K words of an English vocabulary, and how many words a caption has at most."""
        self.max_length = max_length
        self.determiner = mask(words, DETERMINERS)
        self.before_others = mask(words, DETERMINERS | PREPOSITIONS | CONJUNCTIONS)
        self.color = mask(words, COLORS)
        self.among_colors = mask(words, COLORS | SHADES | {"and", "or"})
        self.unfinished = np.flatnonzero(self.before_others | self.color)

    def __call__(self, history: Numbers, photos: Numbers) -> tuple[Any, Any]:
        """As `search.registry.Filter`."""
        end = np.where(self.in_the_air(history), LAST_RESORT, 0.0)[..., None]  # (B′, P′, 1)
        if history.shape[-1] < self.max_length - 1:
            return END, end
        last = np.full((*end.shape[:-1], len(self.unfinished)), LAST_RESORT)
        return np.concatenate([END, self.unfinished]), np.concatenate([end, last], axis=-1)

    def in_the_air(self, history: Numbers) -> Any:
        """Whether each path (B′, P′, t) cannot end after its last word (B′, P′)."""
        last, _ = last_words(history, np.ones_like(self.color))
        before_colors, _ = last_words(history, ~self.among_colors)
        return self.before_others[last] | (self.color[last] & self.determiner[before_colors])


complete_end = lru_cache(maxsize=16)(CompleteEnd)


def mask(words: Sequence[str | None], listed: Container[str | None]) -> NDArray[np.bool_]:
    """Which words are listed (K,)."""
    return np.array([word in listed for word in words])


def after_ends(history: Numbers, number: int) -> Numbers:
    """The words of each path (B′, P′, t) after so many end tokens: (B′, P′, number + t)."""
    ends = np.full((*history.shape[:-1], number), Vocabulary.END)
    return np.concatenate([ends, history], axis=-1)


def last_words(history: Numbers, counted: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """The last word of each path (B′, P′, t) that is ``counted`` (K,), and the one before it: (B′, P′) each.

    Where there is none it is the end token.
    """
    words = after_ends(history, 2)
    there = counted[words]
    there[..., 1] = True
    place = words.shape[-1] - 1 - there[..., ::-1].argmax(-1)[..., None]
    last, before = (np.take_along_axis(words, each, -1)[..., 0] for each in (place, place - 1))
    return last, before


@FILTERS.register("repetition_cost")
class SecondUse:
    """What a second use of the same noun or color costs a path: "a desk with a laptop and a desk"."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Find the nouns and colors of a vocabulary (`data.parts_of_speech`); a noun is the same in its plural."""
        words = vocabulary.words
        nouns_and_colors = [word if part_of_speech(word) == "color" else singular(word) for word in words]
        forms: dict[str | None, list[int]] = {}
        for number, word in enumerate(nouns_and_colors):
            forms.setdefault(word, []).append(number)
        forms[None] = []
        # of each word that is a noun or color (K, ·); −1 fills up
        self.forms = padded([np.array(forms[word], np.int64) for word in nouns_and_colors], -1)

    def __call__(self, cost: float) -> Filter:
        """The filter by which each further use of a word costs so many nats."""

        def used_before(history: Numbers, photos: Numbers) -> tuple[Any, Any] | None:
            forms = self.forms[history].reshape(*history.shape[:2], -1)
            return (np.maximum(forms, 0), np.where(forms < 0, 0.0, -cost)) if forms.size else None

        return used_before
