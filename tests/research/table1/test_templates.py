"""Templates: the grammar of training captions, and how detected words fill it."""

import itertools
import math

import pytest
import torch
from table1 import templates
from table1.detectors import FIRST
from table1.templates import Grammar, caption

from show_attend_tell.data.vocabulary import Vocabulary

CAPTIONS = ["a dog in a red car", "a cat in a blue car", "a dog in a red ball", "the man is running", "a man"]
VOCABULARY = Vocabulary(list(dict.fromkeys(" ".join(CAPTIONS).split())))
ENCODED = [VOCABULARY.encode(text.split()) for text in CAPTIONS]


def shares_of(**likely: float) -> torch.Tensor:
    """p_w of all words, small but for the likely ones."""
    words = VOCABULARY.words[FIRST:]
    return torch.tensor([likely.get(word, 0.01 + number / 1e4) for number, word in enumerate(words)])


def test_nouns_verbs_and_colors_of_captions_are_slots() -> None:
    grammar = Grammar(ENCODED, VOCABULARY)
    told = [[part if isinstance(part, str) else VOCABULARY.words[part] for part in each] for each in grammar.templates]
    end = VOCABULARY.words[Vocabulary.END]
    assert told[0] == ["a", "noun", "in", "a", "color", "noun", end]  # that of three captions
    assert ["the", "noun", "is", "verb", end] in told and ["a", "noun", end] in told and len(told) == 3


def test_the_best_filling_is_found() -> None:
    grammar = Grammar(ENCODED, VOCABULARY)
    shares = shares_of(cat=0.9, ball=0.8, blue=0.7)
    lifts = (shares / 0.2).log()
    candidates = grammar.candidates(shares, lifts)
    assert [VOCABULARY.words[word] for word, _ in candidates["noun"]][:2] == ["cat", "ball"]
    for weight in (0.5, 2.0):
        best = grammar.fill(candidates, weight)[0]
        choices = [[(part, 0.0)] if isinstance(part, int) else candidates[part] for part in grammar.templates[0]]

        def score(chosen: tuple[tuple[int, float], ...], weight: float = weight) -> float:
            words = [word for word, _ in chosen]
            log_p = sum(grammar.log_share(word, words[:at]) for at, word in enumerate(words))
            return weight * sum(lift for _, lift in chosen) + log_p

        allowed = [each for each in itertools.product(*choices) if each[1][0] != each[5][0]]
        assert best.words == tuple(word for word, _ in max(allowed, key=score))
        assert weight * best.lift + best.log_p == pytest.approx(max(map(score, allowed)))


def test_the_caption_is_the_best_by_weight_and_length_penalty() -> None:
    short = templates.Filled((4, 0), lift=1.0, log_p=-2.0)
    long = templates.Filled((4, 5, 6, 0), lift=3.0, log_p=-5.0)
    assert caption([short, long], 0.5, 0.0) == (4,)  # −1.5 and −3.5
    assert caption([short, long], 2.0, 0.0) == (4, 5, 6)  # 0 and 1
    assert caption([short, long], 0.5, 2.0) == (4, 5, 6)  # −1.5 / 4 and −3.5 / 16


def test_the_trigram_model_is_one_of_captions() -> None:
    grammar = Grammar(ENCODED, VOCABULARY)
    total = sum(math.exp(grammar.log_share(word, ENCODED[0][:2])) for word in range(len(VOCABULARY)))
    assert total == pytest.approx(1)
