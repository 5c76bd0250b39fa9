"""Nouns, colors, verbs and function words of photo captions: short lists, one class a word, no context.

They hold 97 of 100 words of the shipped models' captions. A word with several uses is in the class that it mostly has.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal

PartOfSpeech = Literal["noun", "color", "verb", "function"]

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
IRREGULAR_PLURALS: dict[str, str] = _WORDS.pop("irregular_plurals")
RELATED = frozenset(frozenset(pair.split("/")) for pair in _WORDS.pop("related").split())


def _listed(name: str) -> frozenset[str]:
    """The words of a class."""
    return frozenset(_WORDS[name].split())


COLORS = _listed("color")
SHADES = _listed("shade")
DETERMINERS = _listed("determiner")
PREPOSITIONS = _listed("preposition")
CONJUNCTIONS = _listed("conjunction")
FUNCTION_WORDS = DETERMINERS | PREPOSITIONS | CONJUNCTIONS | _listed("function")
QUANTITIES = _listed("quantity")
COLLECTIVES = _listed("collective")
VERBS = _listed("verb")
NOUNS = _listed("noun")


def part_of_speech(word: str) -> PartOfSpeech | None:
    """The class of a lower-case word, or None for a word on no list; nouns are found in their plural too."""
    if word in COLORS:
        return "color"
    if word in FUNCTION_WORDS:
        return "function"
    if word in VERBS:
        return "verb"
    return "noun" if singular(word) is not None else None


def singular(word: str) -> str | None:
    """A noun on the list in its singular: "dog" of "dog" and of "dogs". None for a word that is not a noun there."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    candidates = [word]
    for ending, replacement in (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f")):
        if word.endswith(ending):
            candidates.append(word.removesuffix(ending) + replacement)
    return next((candidate for candidate in candidates if candidate in NOUNS), None)


def renames(one: str, other: str) -> bool:
    """Whether two nouns in the singular are synonyms by WordNet, or one of them names a direct kind of the other."""
    return frozenset((one, other)) in RELATED
