"""What raises the class words of photos in a search, and names their classes in its captions.

B photos · B′ those that are still searched · P′ paths · t words so far · N class words of a photo · M its probable
classes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.rerank.class_constants import (
    AT_THE_WORD,
    CERTAIN,
    COMMON,
    EPSILON,
    POSSIBLE,
)
from show_attend_tell.rerank.noun_places import NounPlaces
from show_attend_tell.search.hypotheses import ClassName, Hypothesis
from show_attend_tell.search.session import Numbers, padded
from show_attend_tell.values import Array


class PhotoWords(NamedTuple):
    """The class words of a photo."""

    ids: Array  # (N,)
    having: Array  # whether a class has the word (N, M)
    p: Array  # of the classes (M,)
    usual: Array  # p̄ of the words (N,)
    rare: Array  # λ from p = `CERTAIN` on (N,); up to p = `POSSIBLE` it is `COMMON`
    name: ClassName | None


class ClassFilter:
    """Raises the class words of each photo on their first use in a path, see the module."""

    def __init__(self, photos: Sequence[PhotoWords], weight: float, places: NounPlaces) -> None:
        self.photos = photos
        self.weight = weight
        self.places = places
        arrays = list(zip(*photos, strict=True))
        # filled up with words of no class
        self.ids, self.having, self.p, self.usual, self.rare = map(padded, arrays[:-1])

    def __call__(self, history: Numbers, photos: Numbers) -> tuple[Any, Any]:
        """As `search.registry.Filter`."""
        ids = self.ids[photos][:, None]  # (B′, 1, N)
        having = self.having[photos]  # (B′, N, M)
        said = (history[..., None] == ids[:, :, None]).any(2)  # (B′, P′, N)
        left = np.where(said @ having, 0.0, self.p[photos][:, None])  # (B′, P′, M)
        p = np.minimum(left @ having.swapaxes(1, 2), 1)  # (B′, P′, N)
        evidence = np.maximum(np.log((p + EPSILON) / (self.usual[photos][:, None] + EPSILON)), 0)
        certain = np.clip((p - POSSIBLE) / (CERTAIN - POSSIBLE), 0, 1)
        factors = COMMON + (self.rare[photos][:, None] - COMMON) * certain
        raised = self.weight * np.where(said, 0.0, factors * evidence)
        fits = self.places(history)[..., None] | self.places.in_name(history, ids)
        at_the_word = np.where(fits, AT_THE_WORD * raised, 0.0)
        end = -(1 - AT_THE_WORD) * raised.max(-1, keepdims=True, initial=0.0)
        ids = np.concatenate([ids, np.full((*ids.shape[:2], 1), Vocabulary.END)], axis=-1)
        return ids, np.concatenate([at_the_word, end], axis=-1)

    def named(self, captions: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The captions of each photo, with the name of its class where the first of the words that stand for it is."""
        return [
            [replace(caption, names=name_in(caption.words, photo.name, self.places)) for caption in of_photo]
            for of_photo, photo in zip(captions, self.photos, strict=True)
        ]


def name_in(words: Sequence[int], name: ClassName | None, places: NounPlaces) -> dict[int, ClassName]:
    """The name of a class by its place in a caption, empty where no word stands for it, or none where a name fits.

    Of a name that repeats a word before it, the rest is shown: "a black bear" for "a black american black bear".
    """
    if name is None:
        return {}
    place = next((place for place, word in enumerate(words) if word in name.stand_ins), None)
    if place is None or not places(np.array([[words[:place]]], dtype=np.int64)).all():
        return {}
    if place + 1 < len(words) and places.noun[words[place + 1]]:  # "a dog house"
        return {}
    before = places.phrase(words[:place])
    rest = name.text.split()
    while len(rest) > 1 and any(before & set(word.split("-")) for word in rest):
        rest = rest[1:]
    return {place: name._replace(text=" ".join(rest))}
