"""Whether a word of a caption is gone from another caption, stays, or is renamed; singular and plural are the same."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from show_attend_tell.data.parts_of_speech import renames, singular
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.search.hypotheses import Hypothesis


class Word(NamedTuple):
    """A word as a caption shows it, and the vocabulary's word in its place: "dog" for the name "german shepherd"."""

    shown: str
    known: str


class Verdict(NamedTuple):
    """What became of a word."""

    kind: Literal["gone", "stays", "renamed"]
    word: str | None = None  # the new word, where it is renamed


def words_of(caption: Hypothesis, vocabulary: Vocabulary) -> list[Word]:
    """The words of a caption, in lower case and nouns in the singular."""
    shown, known = caption.said(vocabulary, compared=True), vocabulary.decode(caption.words)
    return [Word(plain(one), plain(other)) for one, other in zip(shown, known, strict=True)]


def judge(word: Word, before: Sequence[Word], after: Sequence[Word]) -> Verdict:
    """What became of a word of the caption ``before`` in the caption ``after``.

    It is renamed where a word is new that the same word of the vocabulary stands for, or that WordNet relates to it
    (`renames`).
    """
    if word.shown in [each.shown for each in after]:
        return Verdict("stays")
    there = {each.shown for each in before}
    for each in after:
        if each.shown not in there and (each.known == word.known or renames(each.shown, word.shown)):
            return Verdict("renamed", each.shown)
    return Verdict("gone")


def plain(word: str) -> str:
    """A word in lower case, a noun in the singular."""
    return singular(word.lower()) or word.lower()
