"""What a search adds to the log-probabilities of words: rules that forbid some, and weights that make them likelier.

A filter is small: it names some words for each path, and the back end adds their weights to log p. The search follows
the sum. `Hypothesis.filter_score` has what was added to a caption, and its `log_probability` stays the decoder's own.

B′ photos that are still searched · P′ paths of each that are followed · t words so far · N words that are named.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.registry import FILTERS, Filter
from show_attend_tell.search.session import Numbers, Scores, gather

NEVER = float("-inf")
UNKNOWN, END = np.array([Vocabulary.UNKNOWN]), np.array([Vocabulary.END])


class Added(NamedTuple):
    """What all filters add to log p of the next words."""

    ids: Numbers  # (B′, P′, N)
    weights: Scores  # (B′, P′, N)

    def to(self, paths: Numbers, words: Numbers) -> Scores:
        """What finite weights add to words that continue paths, (B′, P) each."""
        finite = np.where(self.weights > NEVER, self.weights, 0.0)
        if not finite.any():
            return np.zeros(words.shape)
        found: Scores = np.where(gather(self.ids, paths) == words[..., None], gather(finite, paths), 0.0).sum(-1)
        return found

    def onto(self, log_probabilities: Scores) -> Scores:
        """log p of every word (B′, P′, K) with what is added."""
        total, (photos, paths) = log_probabilities.copy(), self.ids.shape[:2]
        np.add.at(total, (np.arange(photos)[:, None, None], np.arange(paths)[:, None], self.ids), self.weights)
        return total


def apply(filters: Sequence[Filter], history: Numbers, photos: Numbers) -> Added:
    """What the filters add, for the words of each path (B′, P′, t) of these photos (B′,)."""
    found = [each for one in filters if (each := one(history, photos)) is not None]
    ends = np.cumsum([0, *(np.shape(ids)[-1] for ids, _ in found)])
    shape = (*history.shape[:2], ends[-1])
    added = Added(np.empty(shape, np.int64), np.empty(shape, np.float32))
    for (ids, weights), start, end in zip(found, ends, ends[1:], strict=False):
        added.ids[..., start:end], added.weights[..., start:end] = ids, weights
    return added


def word_filters(config: GenerationConfig) -> list[Filter]:
    """The filters that need neither the vocabulary nor the photo: a new one is added here."""
    filters: list[Filter] = [no_unknown]
    if config.do_sample or config.beam_size == 1:  # a wider beam has other captions, and its empty one comes last
        filters.append(no_empty)
    if not config.allow_repetitions:
        filters.append(no_repetitions)
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


@FILTERS.register("repetition_cost")
class SecondUse:
    """What a second use of the same noun or color costs a path: "a desk with a laptop and a desk"."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Find the nouns and colors of a vocabulary (`data.parts_of_speech`); a noun is the same in its plural."""
        groups: dict[str, list[int]] = {}
        for number, word in enumerate(vocabulary.words):
            if noun_or_color := word if part_of_speech(word) == "color" else singular(word):
                groups.setdefault(noun_or_color, []).append(number)
        most = max(map(len, groups.values()), default=1)
        self.forms = np.full((len(vocabulary), most), -1)  # of each word that is a noun or color (K, ·); −1 for none
        for same in groups.values():
            self.forms[same, : len(same)] = same

    def __call__(self, cost: float) -> Filter:
        """The filter by which each further use of a word costs so many nats."""

        def used_before(history: Numbers, photos: Numbers) -> tuple[Any, Any] | None:
            forms = self.forms[history].reshape(*history.shape[:2], -1)
            return (np.maximum(forms, 0), np.where(forms < 0, 0.0, -cost)) if forms.size else None

        return used_before
