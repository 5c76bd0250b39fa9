"""The classes of the words that captions say most."""

import itertools

import pytest

from show_attend_tell.data.parts_of_speech import (
    COLORS,
    FUNCTION_WORDS,
    IRREGULAR_PLURALS,
    NOUNS,
    PARTS,
    VERBS,
    part_of_speech,
    singular,
)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            "noun",
            "greyhounds dogs man men woman children bench benches puppy puppies scarf scarves grass shorts field water",
        ),
        ("color", "red blue black white brown orange tan gray grey blond"),
        ("verb", "runs running jumps sitting stands wearing holding catches rides smiles plays slides"),
        ("function", "a an the of in on with and is are their its front next through"),
        (None, "two three young little large snowy zyx <unk> s-curve"),
    ],
)
def test_common_words_are_classified(part: str | None, words: str) -> None:
    assert {word: part_of_speech(word) for word in words.split()} == dict.fromkeys(words.split(), part)


def test_a_word_is_on_one_list_only_and_as_captions_are_written() -> None:
    lists = (COLORS, FUNCTION_WORDS, VERBS, NOUNS, frozenset(IRREGULAR_PLURALS))
    for one, other in itertools.combinations(lists, 2):
        assert not one & other
    assert all(word.isalpha() and word == word.lower() for words in lists for word in words)
    assert {part_of_speech(word) for words in lists for word in words} == set(PARTS)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *[("dog", "dog"), ("dogs", "dog"), ("benches", "bench"), ("puppies", "puppy"), ("scarves", "scarf")],
        *[("men", "man"), ("children", "child"), ("glasses", "glasses"), ("shorts", "shorts"), ("bus", "bus")],
        *[("runs", None), ("red", None), ("zyxs", None)],
    ],
)
def test_the_singular_of_a_noun(word: str, expected: str | None) -> None:
    assert singular(word) == expected
