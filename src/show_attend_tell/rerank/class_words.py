"""Class words: what the encoder's own classifier sees, said by the decoder.

An encoder that was trained to tell classes apart comes with a classifier. It reads the mean annotation, so it costs
nearly nothing. WordNet (Miller 1995) says which words name a class, or are at most `LEVELS` levels above it. The score
of a path is raised when it first has such a word w:

    λ_w · clip(log((p_w + ε) / (p̄_w + ε)), 0, `CLIP`)

p_w is the sum of p over the classes that have the word, p the softmax of the classifier's scores times `SHARPNESS`, and
p̄_w its mean over the training photos. A class is named once: what a path has said takes its classes out of p_w for the
words that follow. λ_w is `COMMON` for a word of many training photos. For a rare one it grows with p_w to `RARE`, if
people who saw such training photos used the word.

A share of the raise is paid at the word, and the rest is taken away at the end of a caption that has not said it. So a
path is not lost before it comes to where the word fits, which a constrained beam search (Anderson et al. 2017) reaches
by a beam for each constraint.

A class without a word in the vocabulary gets its *name*, if it is `SURE`. The decoder treats the name as the nearest
known words above it in WordNet (its *stand-ins*), and the caption shows the name: "otter" for "animal".

B photos · D annotation size · V classes · N class words · M classes of a photo that are probable · P′ paths · t words.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.arrays import read_arrays
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.session import Numbers, padded
from show_attend_tell.vision.registry import ENCODERS

LEVELS = 2  # above a class in WordNet
SHARPNESS = 2.0
EPSILON = 1e-6
CLIP = 12.0  # nats
COMMON, RARE, PHOTOS_OF_RARE = 0.3, 1.7, 20  # λ of a common word and of a rare one; training photos of the latter
POSSIBLE, CERTAIN = 0.3, 0.8  # probabilities between which λ of a rare word grows from `COMMON`
SURE = 0.5  # probability from which on a class counts as seen, and its name is said
USED = 0.4  # share of training photos of a class of which people use its word, below which it is not raised as rare
AT_THE_WORD = 0.75  # share of the raise that is paid at the word
SELDOM_SEEN = 1e-3  # probability that counts as none, for the confidence
PROBABLE = 3e-3  # a class that is less probable than this is left out
NAME, UNUSUAL = 1.5, 0.0025  # λ of a name whose class no training photo shows, and p̄ from which on it is the half
# Words above a class that say too little to stand for it.
VAGUE = frozenset(
    "article artifact being construction container covering creation cut device entity equipment fixing game good goods"
    " instrumentality instrumentation matter object organism part piece produce product protection seed structure"
    " substance system thing unit ware wear whole".split()
)

Array = NDArray[Any]


class Classes(NamedTuple):
    """The classes of a classifier, with their words."""

    weight: Array  # (V, D)
    bias: Array  # (V,)
    names: list[str]  # of each class
    words: list[list[tuple[str, int]]]  # of each class with the level above it in WordNet, 0 for its own

    def probabilities(self, features: Any) -> Array:
        """p of each class (B, V), of features (B, L, D)."""
        means = np.asarray(as_array(features.mean(1)), np.float32)
        scores = SHARPNESS * (means @ self.weight.T + self.bias)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        found: Array = powers / powers.sum(-1, keepdims=True)
        return found


@cache
def read_classes(folder: Path) -> Classes | None:
    """The classes of the encoder whose files are in a folder; None where it has no classifier."""
    table = folder / "classes.json"
    if not table.exists():
        return None
    arrays = read_arrays(folder / "classifier.safetensors", unpacked=True)
    synsets: list[tuple[list[str], list[int]]] = json.loads(table.read_text(encoding="utf-8"))
    words = [words_above(synsets, number) for number in range(len(arrays["bias"]))]
    return Classes(arrays["weight"], arrays["bias"], [each[0][0] for each in words], words)


def words_above(synsets: Sequence[tuple[list[str], list[int]]], number: int) -> list[tuple[str, int]]:
    """The words of a synset and of all above it, with their levels, by breadth."""
    found, level, layer = [], 0, [number]
    while layer:
        found += [(word, level) for each in layer for word in synsets[each][0]]
        layer, level = list(dict.fromkeys(above for each in layer for above in synsets[each][1])), level + 1
    return found


def class_words_of(checkpoint: Checkpoint) -> "ClassWords | None":
    """The class words of a model; None for one without. Raises `SatError` where its encoder has no classifier."""
    if checkpoint.class_words is None:
        return None
    if (classes := classes_of(checkpoint.encoder.name)) is None:
        raise SatError(f"the encoder {checkpoint.encoder.name} has no classifier here, and class words need one")
    return ClassWords(checkpoint.class_words, classes, checkpoint.vocabulary)


def classes_of(encoder: str) -> Classes | None:
    """The classes of an encoder, by its name; None for one without a classifier."""
    return read_classes(ENCODERS[encoder].weights.parent) if encoder in ENCODERS else None


def moved(model: Checkpoint, vocabulary: Vocabulary) -> dict[str, Array] | None:
    """The class words of a model for another vocabulary, whose new words are common ones; None for one without."""
    if (words := class_words_of(model)) is None:
        return None
    ids, having = known_words(words.classes, specific(vocabulary))
    row_of = {model.vocabulary.words[number]: row for row, number in enumerate(words.ids.tolist())}
    rows = np.array([row_of.get(vocabulary.words[number], -1) for number in ids.tolist()], dtype=np.int64)
    common, expected = np.float32(COMMON), np.minimum(words.usual_classes @ having, 1)
    return {
        **(model.class_words or {}),
        "rates": np.where(rows < 0, common, words.rates[rows]),
        "usual": np.where(rows < 0, expected, words.usual[rows]).astype(np.float32),
    }


class ClassWords:
    """The class words of a model: its vocabulary's, with what its training photos say of them."""

    def __init__(self, arrays: Mapping[str, Array], classes: Classes, vocabulary: Vocabulary) -> None:
        """Take the arrays that `fit` gives; raises `SatError` for others."""
        self.classes = classes
        try:
            self.rates, self.usual, self.usual_classes, named = (
                arrays[name] for name in ("rates", "usual", "usual_classes", "named")
            )
            known = specific(vocabulary)
            self.ids, self.having = known_words(classes, known)
            numbers = self.rates, self.usual, self.usual_classes
            shapes = [each.shape for each in (*numbers, named)]
            if shapes != [self.ids.shape] * 2 + [classes.bias.shape] * 2:
                raise ValueError(f"shapes {shapes}")
            if not all(np.isfinite(each).all() and each.min(initial=0) >= 0 for each in numbers):
                raise ValueError("values that are no numbers, or below zero")
        except (KeyError, ValueError) as error:
            raise SatError(f"these arrays are not of this model's class words ({error})") from error
        kinds = map(part_of_speech, vocabulary.words)
        self.nouns_and_verbs = frozenset(number for number, kind in enumerate(kinds) if kind in ("noun", "verb"))
        self.stand_ins = {number: stand_ins(classes, number, known) for number in np.flatnonzero(named).tolist()}
        self.of_word: dict[int, list[int]] = {}  # the classes that a word or its singular names, on any level
        of_text: dict[str, list[int]] = {}
        for row, words in enumerate(classes.words):
            for word in {word for word, _ in words}:
                of_text.setdefault(word, []).append(row)
        for number, word in enumerate(vocabulary.words):
            if rows := of_text.get(word) or of_text.get(singular(word) or ""):
                self.of_word[number] = rows

    def features_of_words(self, features: Any) -> list[Callable[[int], list[float]]]:
        """Whether classes have a word, and log of their p less log of its mean among training photos, of each photo."""

        def known(word: int, p: Array) -> list[float]:
            if (rows := self.of_word.get(word)) is None:
                return [0.0, 0.0]
            share, usual = p[rows].sum() + SELDOM_SEEN, self.usual_classes[rows].sum() + SELDOM_SEEN
            return [1.0, float(np.log(share / usual))]

        return [partial(known, p=p) for p in self.classes.probabilities(features)]

    def filter(self, features: Any, weight: float) -> "ClassFilter":
        """What raises the class words of photos by a weight, by the photos' features (B, L, D)."""
        return ClassFilter([self.photo(each) for each in self.classes.probabilities(features)], weight)

    def photo(self, p: Array) -> "PhotoWords":
        """The words of a photo, by the probabilities of its classes (V,)."""
        probable = np.flatnonzero(p > PROBABLE)
        words = np.flatnonzero(self.having[probable].any(0))
        ids, having = self.ids[words].tolist(), self.having[np.ix_(probable, words)].T
        common, rare, usual = np.full(len(words), COMMON), self.rates[words], self.usual[words]
        best, name = int(p.argmax()), None
        if p[best] >= SURE and (standing := self.stand_ins.get(best)):
            name = Name(self.classes.names[best], frozenset(standing), self.nouns_and_verbs)
            new = [word for word in standing if word not in ids]
            rows = [(ids + new).index(word) for word in standing]
            ids += new
            having = np.concatenate([having, np.zeros((len(new), len(probable)), bool)])
            common, rare, usual = (np.append(each, np.zeros(len(new))) for each in (common, rare, usual))
            having[np.ix_(rows, probable == best)] = True
            usual[rows] = self.usual_classes[best]
            rare[rows] = np.maximum(rare[rows], NAME * UNUSUAL / (UNUSUAL + self.usual_classes[best]))
        return PhotoWords(np.array(ids, np.int64), having, p[probable], usual, common, rare, name)


class Name(NamedTuple):
    """The name of a photo's class, and the words that stand for it in the search."""

    text: str
    stand_ins: frozenset[int]
    not_after: frozenset[int]  # nouns and verbs: "sign" does not stand for a name in "a stop sign"


class PhotoWords(NamedTuple):
    """The class words of a photo."""

    ids: Array  # (N,)
    having: Array  # whether a class has the word (N, M)
    p: Array  # of the classes (M,)
    usual: Array  # p̄ of the words (N,)
    common: Array  # λ up to p = `POSSIBLE` (N,)
    rare: Array  # λ from p = `CERTAIN` on (N,)
    name: Name | None


class ClassFilter:
    """Raises the class words of each photo on their first use in a path, see the module."""

    def __init__(self, photos: Sequence[PhotoWords], weight: float) -> None:
        self.photos, self.weight = photos, weight
        self.ids = padded([each.ids for each in photos], -1)  # −1 fills up: no word of a history is it
        self.having, self.p, self.usual, self.common, self.rare = (
            padded([getattr(each, name).astype(float) for each in photos], float(name == "usual"))
            for name in ("having", "p", "usual", "common", "rare")
        )

    def __call__(self, history: Numbers, photos: Numbers) -> tuple[Any, Any]:
        """As `search.filters.Filter`."""
        ids, having = self.ids[photos][:, None], self.having[photos]  # (B′, 1, N), (B′, N, M)
        said = (history[..., None] == ids[:, :, None]).any(2)  # (B′, P′, N)
        left = np.where(said @ having > 0, 0.0, self.p[photos][:, None])  # (B′, P′, M)
        p = np.minimum(left @ having.swapaxes(1, 2), 1)  # (B′, P′, N)
        evidence = np.clip(np.log((p + EPSILON) / (self.usual[photos][:, None] + EPSILON)), 0, CLIP)
        common, rare = self.common[photos][:, None], self.rare[photos][:, None]
        each = common + (rare - common) * np.clip((p - POSSIBLE) / (CERTAIN - POSSIBLE), 0, 1)
        raised = self.weight * np.where(said, 0.0, each * evidence)
        end = -(1 - AT_THE_WORD) * raised.max(-1, keepdims=True, initial=0.0)
        ids = np.concatenate([np.maximum(ids, 0), np.full((*ids.shape[:2], 1), Vocabulary.END)], axis=-1)
        return ids, np.concatenate([AT_THE_WORD * raised, end], axis=-1)

    def named(self, found: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The captions of each photo, with the name of its class where the first of the words that stand for it is."""
        return [
            [dataclasses.replace(caption, names=name_in(caption.words, each.name)) for caption in captions]
            for captions, each in zip(found, self.photos, strict=True)
        ]


def name_in(words: Sequence[int], name: Name | None) -> dict[int, str]:
    """The name of a class by its place in a caption, empty where no word stands for it."""
    if name is None:
        return {}
    place = next((place for place, word in enumerate(words) if word in name.stand_ins), None)
    return {} if place is None or (place and words[place - 1] in name.not_after) else {place: name.text}


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


def stand_ins(classes: Classes, row: int, known: Mapping[str, int]) -> list[int]:
    """The known words that stand for a class without a known word of its own: the nearest above it; none if it has one.

    They are those of the three levels above the class, or of the first level that has one, and the last word of its
    name ("bus" of "school bus").
    """
    above = [(level, known[word]) for word, level in classes.words[row] if word in known]
    if not above or above[0][0] == 0:
        return []
    last = classes.names[row].split()[-1]
    found = [word for level, word in above if level <= max(3, above[0][0])]
    return list(dict.fromkeys([*([known[last]] if last in known else []), *found]))


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
    own = [[f" {word} " for word, level in words if level == 0] for words in classes.words]
    number = {word: column for column, word in enumerate(ids.tolist())}
    usual, usual_classes = np.zeros(len(ids)), np.zeros(len(own))
    times, sure, used = np.zeros(len(ids)), np.ones(len(ids)) * 2, np.ones(len(ids))
    sure_classes, used_classes, count = np.ones(len(own)) * 2, np.ones(len(own)), 0
    for p, captions in photos:
        of_words = np.minimum(p @ having, 1)
        said = np.zeros(len(ids), dtype=bool)
        said[[number[word] for each in captions for word in vocabulary.encode(each) if word in number]] = True
        certain = np.where(of_words >= SURE, of_words, 0.0)
        usual, usual_classes, count = usual + of_words, usual_classes + p, count + 1
        times, sure, used = times + said, sure + certain, used + certain * said
        text = " . ".join(" ".join(["", *each, ""]) for each in captions)
        if p[best := int(p.argmax())] >= SURE:
            sure_classes[best] += p[best]
            used_classes[best] += p[best] * any(word in text for word in own[best])
    rare = COMMON + (RARE - COMMON) * PHOTOS_OF_RARE / (PHOTOS_OF_RARE + times)
    return {
        "rates": np.where(used / sure >= USED, rare, COMMON).astype(np.float32),
        "usual": (usual / max(1, count)).astype(np.float32),
        "usual_classes": (usual_classes / max(1, count)).astype(np.float32),
        "named": used_classes / sure_classes >= USED,
    }
