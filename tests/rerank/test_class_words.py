"""Class words: what the encoder's classifier sees raises words in the search, and gives names."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from documents import ROOT
from numpy.typing import NDArray

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.generation import explain
from show_attend_tell.rerank import class_words
from show_attend_tell.rerank.class_constants import (
    AT_THE_WORD,
    CERTAIN,
    COMMON,
    EPSILON,
    NAME,
    NAME_OFFSET,
    PHOTOS_OF_RARE,
    POSSIBLE,
    RARE,
)
from show_attend_tell.rerank.class_filter import ClassFilter
from show_attend_tell.rerank.class_words import Classes, ClassWords, fit
from show_attend_tell.search.hypotheses import Hypothesis, article

# Two kinds of dog, an otter, whose word the vocabulary lacks, and a boat.
CLASSES = Classes(
    weight=np.eye(4, dtype=np.float32),
    bias=np.zeros(4, dtype=np.float32),
    names=["pug", "poodle", "otter", "boat"],
    words=[
        [("pug", 0), ("dog", 1)],
        [("poodle", 0), ("toy poodle", 0), ("dog", 1)],
        [("otter", 0), ("swimmer", 1), ("animal", 3)],
        [("boat", 0)],
    ],
)
VOCABULARY = Vocabulary("a an dog poodle animal boat red toy is two group of and with".split())
WORD = {word: number for number, word in enumerate(VOCABULARY.words)}
P = np.array([0.1, 0.6, 0.0, 0.3])
ARRAYS = {
    "rates": np.array([COMMON, RARE, COMMON], dtype=np.float32),  # dog, poodle, boat
    "usual": np.full(3, 0.1, dtype=np.float32),
    "usual_classes": np.full(4, 0.01, dtype=np.float32),
    "named": np.ones(4, dtype=bool),
}


def ids(text: str) -> list[int]:
    return [WORD[word] for word in text.split()]


def made(**changed: NDArray[Any]) -> ClassWords:
    """Class words with p̄ of 0.1 and the rare words' λ for poodle alone."""
    return ClassWords(ARRAYS | changed, CLASSES, VOCABULARY)


def added(path: str, p: NDArray[np.float64] = P, words: ClassWords | None = None) -> dict[str, float]:
    """What is added to each word after a path, by the probabilities of the classes."""
    words = words or made()
    filter = ClassFilter([words.photo(p)], 1.0, words.places)
    named, weights = filter(np.array([[ids(path)]], dtype=np.int64), np.array([0]))
    return {VOCABULARY.words[i]: w for i, w in zip(named[0, 0].tolist(), weights[0, 0].tolist(), strict=True)}


def evidence(p: float, usual: float = 0.1) -> float:
    return max(0, math.log((p + EPSILON) / (usual + EPSILON)))


def test_a_class_raises_its_words_once_by_hand():
    rare = COMMON + (RARE - COMMON) * (0.6 - POSSIBLE) / (CERTAIN - POSSIBLE)
    raised = {"dog": COMMON * evidence(0.7), "poodle": rare * evidence(0.6), "boat": COMMON * evidence(0.3)}
    end = {"<end>": -(1 - AT_THE_WORD) * raised["poodle"]}
    at_the_word = {word: AT_THE_WORD * weight for word, weight in raised.items()}
    assert added("a") == pytest.approx(at_the_word | end)
    after = added("a poodle with a")  # the pug alone is left of the dogs: 0.1, as usual
    end = {"<end>": -(1 - AT_THE_WORD) * raised["boat"]}
    assert after == pytest.approx(at_the_word | {"dog": 0, "poodle": 0} | end, abs=1e-6)
    assert added("dog with a")["poodle"] == 0


@pytest.mark.parametrize(
    ("paths", "word", "fits"),
    [
        ("a|a red|a red and|with|a boat and two and|a toy", "poodle", True),
        ("|red|a boat|a boat red|a boat is|two|two red|a group of|a group of red|a poodle toy", "boat", False),
        ("a toy", "boat", False),
    ],
)
def test_a_class_raises_its_words_where_a_noun_stands(paths, word, fits):
    """Also after a noun that is before it in a name: a "toy poodle"."""
    for path in paths.split("|"):
        after = added(path)
        assert (after[word] > 0) == fits and after["<end>"] < 0, path


def test_the_confidence_knows_what_classes_say_of_a_word():
    features = np.log(np.array([[[1.0, 8.0, 1.0, 2.0]]], dtype=np.float32)) / 2  # p is 1/12, 8/12, 1/12 and 2/12
    (of_word,) = made().features_of_words(features)
    assert of_word(WORD["red"]) == [0, 0]
    assert of_word(WORD["dog"]) == pytest.approx([1, math.log((9 / 12 + 1e-3) / (0.02 + 1e-3))], rel=1e-5)
    assert of_word(WORD["animal"])[1] == pytest.approx(math.log((1 / 12 + 1e-3) / (0.01 + 1e-3)), rel=1e-5)


def test_a_sure_class_without_a_word_of_its_own_gets_its_name():
    words, p = made(), np.array([0.0, 0.0, 0.9, 0.1])
    raised = AT_THE_WORD * NAME / 5 * evidence(0.9, 0.01)
    assert added("a", p, words)["animal"] == pytest.approx(raised)
    assert "animal" not in added("a", p, made(named=np.zeros(4, dtype=bool)))


@pytest.mark.parametrize(
    "damaged", [np.zeros(2), np.zeros((3, 1)), np.array([0.1, np.nan, 0.1]), np.array([0.1, -1.0, 0.1])]
)
def test_arrays_of_others_are_refused(damaged):
    with pytest.raises(SatError, match="class words"):
        made(usual=damaged)


def shown(caption: str, p: NDArray[np.float64], words: ClassWords) -> str:
    """A caption with the name of the photo's class."""
    filter = ClassFilter([words.photo(p)], 1.0, words.places)
    ((named,),) = filter.named([[Hypothesis(ids(caption), 0.0, True, None)]])  # type: ignore[arg-type]
    return " ".join(named.said(VOCABULARY))


@pytest.mark.parametrize(
    ("name", "caption", "expected"),
    [
        ("otter", "a red animal", "a red otter"),
        ("otter", "a animal", "an otter"),
        ("otter", "a animal with a animal", "an otter with an animal"),
        ("otter", "two animal", "two animal"),
        ("otter", "a dog is animal", "a dog is animal"),
        ("otter", "a boat animal", "a boat animal"),
        ("otter", "an animal dog", "an animal dog"),
        ("otter", "animal", "animal"),
        ("red otter", "a red animal", "a red otter"),
        ("american red otter", "a red animal", "a red otter"),
        ("red-footed otter", "a red animal", "a red otter"),
        ("red otter", "a toy and red animal", "a toy and red otter"),
        ("american otter", "a red animal", "a red american otter"),
        ("", "a red animal", "a red animal"),
    ],
)
def test_a_name_stands_where_a_noun_stands_and_repeats_no_word(name, caption, expected):
    names = CLASSES._replace(names=["pug", "poodle", name, "boat"])
    words = ClassWords(ARRAYS, names, VOCABULARY)
    assert shown(caption, np.array([0.0, 0.0, 0.9, 0.1]), words) == expected


def test_a_name_is_as_sure_as_the_classifier():
    possible, sure, certain = map(class_words.confidence_of_name, (0.5, 0.9, 1.0))
    assert 1 / (1 + math.exp(-NAME_OFFSET)) == pytest.approx(possible) and possible < sure < certain < 1


@pytest.mark.parametrize("phrase", ["an otter", "a boat", "a unicycle", "an umbrella", "the otter"])
def test_the_article_fits_the_word_after_it(phrase):
    word, after = phrase.split()
    assert article({"an": "a", "a": "an"}.get(word, word), after) == word


def test_a_rare_word_is_raised_more_if_people_use_it():
    photo = np.array([0.0, 1.0, 0.0, 0.0])
    for caption, rate, named in ((["a", "poodle"], RARE, True), (["a", "dog"], COMMON, False)):
        fitted = fit(CLASSES, VOCABULARY, [(photo, [caption])] * 3)
        expected = COMMON + (rate - COMMON) * PHOTOS_OF_RARE / (PHOTOS_OF_RARE + 3)
        assert fitted["rates"][1] == pytest.approx(expected)
        assert fitted["usual"].tolist() == [1, 1, 0] and fitted["named"][1] == named


def test_the_score_of_classes_stays_apart_from_log_p():
    plain = Captioner.from_pretrained("everyday-soft")
    checkpoint = plain.checkpoint
    classes = class_words.classes_of(checkpoint.encoder.name)
    assert classes is not None and classes.names[504] == "coffee mug"
    checkpoint.class_words = fit(classes, checkpoint.vocabulary, [])
    captioner = Captioner(checkpoint, plain.backend)
    photo = captioner.backend.encoder.preprocessing.pixels(open_photo(ROOT / "examples" / "coffee.jpg"))
    features = captioner.backend.encode(photo[None])
    config = captioner.resolve_config(beam_size=3, class_weight=1.0)
    ((best, *_),) = captioner.generate(features, config, seeds=[0])
    assert best.filter_score != 0 and {"coffee", "cup"} & set(best.said(checkpoint.vocabulary))
    forced = explain(captioner.backend, features, [*best.words, Vocabulary.END], config, 0)
    assert best.log_probability == pytest.approx(forced.log_probability, abs=1e-4)
    without = dataclasses.replace(checkpoint, class_words=None, confidence=None)
    with pytest.raises(SatError, match="class_weight"):
        Captioner(without, plain.backend).resolve_config(class_weight=1.0)
