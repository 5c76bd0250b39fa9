"""Class words: what the encoder's own classifier sees, said by the decoder.

An encoder that was trained to tell classes apart comes with a classifier. It reads the mean annotation, so it costs
nearly nothing. WordNet (Miller 1995) says which words name a class, or are at most `LEVELS` levels above it. The score
of a path is raised when it first has such a word w:

    λ_w · max(0, log((p_w + ε) / (p̄_w + ε)))

p_w is the sum of p over the classes that have the word, p the softmax of the classifier's scores times `SHARPNESS`, and
p̄_w its mean over the training photos. A class is named once: what a path has said takes its classes out of p_w for the
words that follow. λ_w is `COMMON` for a word of many training photos. For a rare one it grows with p_w to `RARE`, if
people who saw such training photos used the word.

A share of the raise is paid at the word, and the rest is taken away at the end of a caption that has not said it. So a
path is not lost before it comes to where the word fits, which a constrained beam search (Anderson et al. 2017) reaches
by a beam for each constraint.

A word is raised only where a singular noun may stand (`noun_places`): not in "a man is scorpion" or "two slot". It is
raised after another noun only where that stands before it in a class's own name, as in "a street sign".

A class without a word in the vocabulary gets its *name*, if it is `SURE`. The decoder treats the name as the nearest
known words above it in WordNet (its *stand-ins*), and the caption shows the name: "otter" for "animal". Which of its
names a class has, `research/classes.py` chose once.

B photos · D annotation size · V classes · N class words · M classes of a photo that are probable · P′ paths · t words.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from show_attend_tell.checkpoint.arrays import read_arrays
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank.class_constants import (
    COMMON,
    LEVELS,
    NAME,
    NAME_OFFSET,
    NAME_SLOPE,
    PHOTOS_OF_RARE,
    PROBABLE,
    RARE,
    SHARPNESS,
    SURE,
    UNSEEN,
    UNUSUAL,
    USED,
)
from show_attend_tell.rerank.class_filter import ClassFilter, PhotoWords
from show_attend_tell.rerank.noun_places import NounPlaces
from show_attend_tell.search.hypotheses import ClassName
from show_attend_tell.values import Array
from show_attend_tell.vision.registry import ENCODERS

# Words above a class that say too little to stand for it.
VAGUE = frozenset(
    "article artifact being construction container covering creation cut device entity equipment fixing game good goods"
    " instrumentality instrumentation matter object organism part piece produce product protection seed structure"
    " substance system thing unit ware wear whole".split()
)


class Classes(NamedTuple):
    """The classes of a classifier, with their words."""

    weight: Array  # (V, D)
    bias: Array  # (V,)
    names: list[str]  # what people call each class
    words: list[list[tuple[str, int]]]  # of each class with the level above it in WordNet, 0 for its own

    def own_words(self) -> list[set[str]]:
        """The words of each class itself, without those above it."""
        return [{word for word, level in words if level == 0} for words in self.words]

    def probabilities(self, features: Any) -> Array:
        """p of each class (B, V), of features (B, L, D)."""
        means = np.asarray(as_array(features.mean(1)), np.float32)
        scores = SHARPNESS * (means @ self.weight.T + self.bias)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities: Array = powers / powers.sum(-1, keepdims=True)
        return probabilities


@cache
def classes_of(encoder: str) -> Classes | None:
    """The classes of an encoder, by its name; None for one without a classifier."""
    if encoder not in ENCODERS:
        return None
    folder = ENCODERS[encoder].weights.parent
    table = folder / "classes.json"
    if not table.exists():
        return None
    arrays = read_arrays(folder / "classifier.safetensors", unpacked=True)
    synsets = json.loads(table.read_text(encoding="utf-8"))
    rows = range(len(arrays["bias"]))
    names = [synsets[row][2] if len(synsets[row]) > 2 else synsets[row][0][0] for row in rows]
    words = [words_above(synsets, row) for row in rows]
    return Classes(arrays["weight"], arrays["bias"], names, words)


def words_above(synsets: Sequence[Sequence[Any]], number: int) -> list[tuple[str, int]]:
    """The words of a synset and of all above it, with their levels, by breadth.

    A synset has its words and the numbers of those above; a class whose name is not its first word has it third.
    """
    words: list[tuple[str, int]] = []
    layer, level = [number], 0
    while layer:
        above: list[int] = []
        for synset in layer:
            words += [(word, level) for word in synsets[synset][0]]
            above += synsets[synset][1]
        layer, level = list(dict.fromkeys(above)), level + 1
    return words


def class_words_of(checkpoint: Checkpoint) -> "ClassWords | None":
    """The class words of a model; None for one without. Raises `SatError` where its encoder has no classifier."""
    if checkpoint.class_words is None:
        return None
    classes = classes_of(checkpoint.encoder.name)
    if classes is None:
        raise SatError(f"the encoder {checkpoint.encoder.name} has no classifier here, and class words need one")
    return ClassWords(checkpoint.class_words, classes, checkpoint.vocabulary)


def moved(model: Checkpoint, vocabulary: Vocabulary) -> dict[str, Array] | None:
    """The class words of a model for another vocabulary, whose new words are common ones; None for one without."""
    words = class_words_of(model)
    if words is None:
        return None
    ids, having = known_words(words.classes, specific(vocabulary))
    row_of = {model.vocabulary.words[number]: row for row, number in enumerate(words.ids.tolist())}
    rows = np.array([row_of.get(vocabulary.words[number], -1) for number in ids.tolist()], dtype=np.int64)
    expected = np.minimum(words.usual_classes @ having, 1)
    return {
        **(model.class_words or {}),
        "rates": np.where(rows < 0, np.float32(COMMON), words.rates[rows]),
        "usual": np.where(rows < 0, expected, words.usual[rows]).astype(np.float32),
    }


class ClassWords:
    """The class words of a model: its vocabulary's, with what its training photos say of them."""

    def __init__(self, arrays: Mapping[str, Array], classes: Classes, vocabulary: Vocabulary) -> None:
        """Take the arrays that `fit` gives; raises `SatError` for others."""
        self.classes = classes
        self.places = NounPlaces(vocabulary.words, classes.own_words())
        known = specific(vocabulary)
        self.ids, self.having = known_words(classes, known)
        N, V = self.ids.shape, classes.bias.shape
        shapes = {"rates": N, "usual": N, "usual_classes": V, "named": V}
        for name, shape in shapes.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or not (np.isfinite(array) & (array >= 0)).all():
                raise SatError(f"these arrays are not of this model's class words ({name})")
        self.rates, self.usual, self.usual_classes, named = (arrays[name] for name in shapes)
        self.stand_ins = {row: stand_ins(classes, row, known) for row in np.flatnonzero(named).tolist()}
        self.of_word = classes_by_word(classes, vocabulary)

    def features_of_words(self, features: Any) -> list[Callable[[int], list[float]]]:
        """Whether classes have a word, and log of their p less log of its mean among training photos, of each photo."""

        def known(word: int, p: Array) -> list[float]:
            rows = self.of_word.get(word)
            if rows is None:
                return [0.0, 0.0]
            share = p[rows].sum() + UNSEEN
            usual = self.usual_classes[rows].sum() + UNSEEN
            return [1.0, float(np.log(share / usual))]

        return [partial(known, p=p) for p in self.classes.probabilities(features)]

    def filter(self, features: Any, weight: float) -> ClassFilter:
        """What raises the class words of photos by a weight, by the photos' features (B, L, D)."""
        photos = [self.photo(p) for p in self.classes.probabilities(features)]
        return ClassFilter(photos, weight, self.places)

    def photo(self, p: Array) -> PhotoWords:
        """The words of a photo, by the probabilities of its classes (V,)."""
        probable = np.flatnonzero(p > PROBABLE)
        columns = np.flatnonzero(self.having[probable].any(0))
        ids = self.ids[columns]
        having, usual, rare = self.having[np.ix_(probable, columns)].T, self.usual[columns], self.rates[columns]
        best = int(p.argmax())
        standing = self.stand_ins.get(best) if p[best] >= SURE else None
        if not standing:
            return PhotoWords(ids, having, p[probable], usual, rare, None)
        new = np.setdiff1d(standing, ids)
        ids = np.concatenate([ids, new])
        rows = np.isin(ids, standing)
        having = np.pad(having, ((0, len(new)), (0, 0))) | (rows[:, None] & (probable == best))
        usual = np.where(rows, self.usual_classes[best], np.pad(usual, (0, len(new))))
        raised = NAME * UNUSUAL / (UNUSUAL + self.usual_classes[best])
        rare = np.pad(rare, (0, len(new)))
        rare = np.where(rows, np.maximum(rare, raised), rare)
        name = ClassName(self.classes.names[best], confidence_of_name(float(p[best])), frozenset(standing))
        return PhotoWords(ids, having, p[probable], usual, rare, name)


def confidence_of_name(p: float) -> float:
    """The probability that the name of a class is right, by its p."""
    odds = 1 / min(p, 1 - UNSEEN) - 1
    return 1 / (1 + math.exp(-NAME_OFFSET) * math.pow(odds, NAME_SLOPE))


def specific(vocabulary: Vocabulary) -> dict[str, int]:
    """The ids of a vocabulary's words that are not `VAGUE`."""
    return {word: number for number, word in enumerate(vocabulary.words) if word not in VAGUE}


def known_words(classes: Classes, known: Mapping[str, int]) -> tuple[Array, Array]:
    """The class words among those known (N,), in the order of their ids, and whether a class has them (V, N)."""
    pairs = [
        (known[word], row)
        for row, words in enumerate(classes.words)
        for word, level in words
        if level <= LEVELS and word in known
    ]
    ids = np.array(sorted({word for word, _ in pairs}), dtype=np.int64)
    having = np.zeros((len(classes.words), len(ids)), dtype=bool)
    if pairs:
        words, rows = np.transpose(pairs)
        having[rows, np.searchsorted(ids, words)] = True
    return ids, having


def classes_by_word(classes: Classes, vocabulary: Vocabulary) -> dict[int, list[int]]:
    """The classes that each word of a vocabulary or its singular names, on any level."""
    of_text: dict[str, list[int]] = {}
    for row, words in enumerate(classes.words):
        for word in {word for word, _ in words}:
            of_text.setdefault(word, []).append(row)
    of_word: dict[int, list[int]] = {}
    for number, word in enumerate(vocabulary.words):
        rows = of_text.get(word) or of_text.get(singular(word) or "")
        if rows:
            of_word[number] = rows
    return of_word


def stand_ins(classes: Classes, row: int, known: Mapping[str, int]) -> list[int]:
    """The known words that stand for a class without a known word of its own: the nearest above it.

    There are none for a class that has a known word or no name. They are those of the three levels above the class, or
    of the first level that has one, and the last word of its name ("bus" of "school bus").
    """
    above = [(level, known[word]) for word, level in classes.words[row] if word in known]
    if not above or above[0][0] == 0 or not classes.names[row]:
        return []
    highest = max(3, above[0][0])
    nearest = [word for level, word in above if level <= highest]
    last = classes.names[row].split()[-1]
    if last in known:
        nearest.insert(0, known[last])
    return list(dict.fromkeys(nearest))


def fit(
    classes: Classes, vocabulary: Vocabulary, photos: Iterable[tuple[Array, Sequence[Sequence[str]]]]
) -> dict[str, Array]:
    """What `ClassWords` takes, of training photos: p of each class (V,), and the captions that people wrote.

    A word's λ from p = `CERTAIN` on is `COMMON` + (`RARE` − `COMMON`) · s / (s + n), with s = `PHOTOS_OF_RARE` and n
    training photos that have it in a caption. It stays `COMMON` if people use the word for fewer than a share `USED` of
    the photos that surely have it, of which a half is assumed for two photos. In the same way, it is found which
    classes are named.
    """
    ids, having = known_words(classes, specific(vocabulary))
    N = len(ids)
    column = {word: number for number, word in enumerate(ids.tolist())}
    own_words = [
        [f" {word} " for word in words | {name}] for name, words in zip(classes.names, classes.own_words(), strict=True)
    ]
    count = 0
    expected = np.zeros(N + len(own_words))  # of each word, then of each class
    times = np.zeros(len(expected))  # photos that have it in a caption
    sure, used = np.full(len(expected), 2.0), np.ones(len(expected))
    for p, captions in photos:
        shares = np.concatenate([np.minimum(p @ having, 1), p])
        certain = np.where(shares >= SURE, shares, 0.0)
        said = np.zeros(len(shares), dtype=bool)
        said[[column[word] for words in captions for word in vocabulary.encode(words) if word in column]] = True
        text = " . ".join(" ".join(["", *words, ""]) for words in captions)
        for row in np.flatnonzero(p >= SURE):
            said[N + row] = any(word in text for word in own_words[row])
        count += 1
        expected += shares
        times += said
        sure += certain
        used += certain * said
    rare = COMMON + (RARE - COMMON) * PHOTOS_OF_RARE / (PHOTOS_OF_RARE + times[:N])
    often = used / sure >= USED
    means = (expected / max(1, count)).astype(np.float32)
    return {
        "rates": np.where(often[:N], rare, COMMON).astype(np.float32),
        "usual": means[:N],
        "usual_classes": means[N:],
        "named": often[N:],
    }
