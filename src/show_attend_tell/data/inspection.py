"""A look at captioned photos before training: lengths, words, languages, and what a person should look at."""

import functools
import os
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.data.photos import SUFFIXES
from show_attend_tell.data.sides import side_words
from show_attend_tell.data.tokenizers import ENGLISH as ENGLISH_TOKENIZER
from show_attend_tell.data.tokenizers import KARPATHY, UNICODE, Tokenizer, Unigram, tokenize
from show_attend_tell.data.vocabulary import Vocabulary

ENGLISH = 0.35  # least share of known English words in all captions together, for the language to be called English
FOREIGN = 0.25  # share of known English words below which a caption among English ones is of another language
AMONG_OTHERS = 0.75  # share from which a caption among others is English
FEWEST_WORDS = 4  # of a caption whose language is judged
EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}  # scripts that are written together
SPACELESS = {"East Asian", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}  # scripts without spaces between words
SEPARATED = 3.0, 4.0  # least words a caption, and most letters a word, by which captions of these scripts have spaces


@dataclass(frozen=True)
class Language:
    """What texts are written in, as far as letters and common words tell."""

    script: str  # of most texts: "Latin", "Cyrillic", …; empty for texts without letters
    english: float  # share of known English words, 0 for another script
    spaces: bool  # False for a script without spaces between words whose texts have none, or few

    @property
    def is_english(self) -> bool:
        """Whether the texts count as English, by the share of known English words."""
        return self.english >= ENGLISH


def language_of(texts: Sequence[str], english: Collection[str]) -> Language:
    """Judge the language of texts; ``english`` are common English words."""
    scripts = Counter(filter(None, map(script, texts))).most_common(1)
    main = scripts[0][0] if scripts else ""
    words = [word for text in texts for word in tokenize(text)] if main == "Latin" else []
    known = sum(word in english for word in words)
    parts = [part for text in texts for part in text.split()] if main in SPACELESS else []
    letters = sum(map(len, parts))
    spaces = main not in SPACELESS or SEPARATED[0] * len(texts) <= len(parts) >= letters / SEPARATED[1]
    return Language(main, known / len(words) if words else 0.0, spaces)


@dataclass(frozen=True)
class Odd:
    """A caption that a person should look at."""

    photo: str
    caption: str
    why: str


@dataclass(frozen=True)
class Inspection:
    """What the captions of a data set are like."""

    lengths: tuple[int, int, int, int, int]  # words of the shortest caption, the quartiles, the longest
    words: int  # different words in train
    once: int  # of these, seen once
    learnt: int  # of these, in the vocabulary
    coverage: float | None  # share of the words of val captions that are in the vocabulary, each as often as it occurs
    not_covered: tuple[str, ...]  # the other words of val, the most frequent first
    language: Language
    very_long: tuple[Odd, ...]
    other_language: tuple[Odd, ...]
    repetitive: tuple[Odd, ...]
    sides: tuple[Odd, ...]  # which a training does not show with the mirrored photo, see `sides`


def inspect(dataset: Dataset, vocabulary: Vocabulary, *, english: Collection[str], longest: int) -> Inspection:
    """Look at the captions of a data set. ``vocabulary`` is what a training would learn.

    ``english`` are common English words, by which the language is judged. ``longest`` is the number of words that a
    model says at most: longer captions are listed.
    """
    lengths = sorted(len(words) for example in dataset.examples for words in example.captions)
    train = Counter(word for words in captions(dataset.examples, "train") for word in words)
    val = Counter(word for words in captions(dataset.examples, "val") for word in words)
    unknown = Counter({word: times for word, times in val.items() if word not in vocabulary})
    language = language_of(dataset.texts(), english)
    very_long: list[Odd] = []
    other: list[Odd] = []
    repetitive: list[Odd] = []
    sides: list[Odd] = []
    for example in dataset.examples:
        for words, raw in zip(example.captions, example.raw, strict=True):
            if len(words) > longest:
                very_long.append(Odd(example.name, raw, f"{len(words)} words"))
            if twice := repeated(words):
                repetitive.append(Odd(example.name, raw, f"{' '.join(twice)} twice"))
            if found := side_words(raw):
                sides.append(Odd(example.name, raw, ", ".join(dict.fromkeys(found))))
            if (its := script(raw)) and its != language.script:
                other.append(Odd(example.name, raw, f"{its} script"))
            elif language.script == "Latin" and len(words) >= FEWEST_WORDS:
                part = sum(word in english for word in words) / len(words)
                if part < FOREIGN if language.is_english else part >= AMONG_OTHERS:
                    other.append(Odd(example.name, raw, f"{100 * part:.0f} % English words"))
    return Inspection(
        lengths=quartiles(lengths),
        words=len(train),
        once=sum(times == 1 for times in train.values()),
        learnt=sum(word in vocabulary for word in train),
        coverage=1 - unknown.total() / val.total() if val else None,
        not_covered=tuple(word for word, _ in unknown.most_common()),
        language=language,
        very_long=tuple(very_long),
        other_language=tuple(other),
        repetitive=tuple(repetitive),
        sides=tuple(sides),
    )


def repeated(words: Sequence[str]) -> tuple[str, ...]:
    """What a caption says twice: two words in a row, or the word on both sides of "and"; empty if nothing.

    >>> repeated("a cat sits on top of a cat".split()), repeated("a white and white bird".split())
    (('a', 'cat'), ('white',))
    """
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if word == "and" and before == after:
            return (before,)
    counts = Counter(pairwise(words))
    return next((pair for pair, times in counts.items() if times > 1), ())


def choose_tokenizer(
    dataset: Dataset, *, english: Collection[str], minimum_count: int, size: int
) -> tuple[Tokenizer, str]:
    """The tokenizer for the captions of a data set, and why it is this one.

    ``english`` are common English words. A tokenizer for a script without spaces learns at most ``size`` - 2 pieces
    from the training captions, of characters that are seen ``minimum_count`` times. Raises `SatError` when it cannot.
    """
    language = language_of(dataset.texts(), english)
    if language.is_english or not dataset.custom:
        tokenizer = start_tokenizer(KARPATHY, dataset)
        if tokenizer == KARPATHY:
            return tokenizer, f"as in Karpathy's split files, since {dataset.name} is of the paper's data sets"
        return tokenizer, "English, and numbers keep their points"
    main = language.script or "no"
    if main not in SPACELESS:
        return UNICODE, f"words by the rules of Unicode, since the captions are not English ({main} script)"
    if language.spaces:
        return UNICODE, f"words at their spaces; {main} script is usually written without, but these captions have them"
    learnt = Unigram.fit(dataset.texts("train"), minimum_count=minimum_count, size=size - 2)
    return learnt, (
        f"{len(learnt.scores):,} pieces of words learnt from the training captions, since {main} script has no spaces "
        "between words; scores count characters"
    )


def start_tokenizer(start: Tokenizer, dataset: Dataset) -> Tokenizer:
    """The tokenizer of a training on a data set from a model that has the tokenizer ``start``.

    It is the model's. But custom data keep their numbers: instead of Karpathy's tokenizer they have the English one,
    whose other words are the same. Data sets with one of the paper's keep Karpathy's, for their scores to be compared.
    """
    papers = not dataset.custom or any(not part.dataset.custom for part in dataset.parts)
    return ENGLISH_TOKENIZER if start == KARPATHY and not papers else start


def captions(examples: Sequence[Example], split: str | None = None) -> Iterator[tuple[str, ...]]:
    """The words of each caption, of one split or of all."""
    return (words for example in examples if split in (None, example.split) for words in example.captions)


def script(text: str) -> str:
    """The script of most letters of a text, "Latin" or "Cyrillic" and the like; empty for a text without letters.

    It is the first word of the letters' Unicode names. Han, Hiragana and Katakana together are "East Asian".
    """
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else ""
    found = Counter(filter(None, map(letter_script, text)))
    return found.most_common(1)[0][0] if found else ""


@functools.cache
def letter_script(character: str) -> str:
    """The script of a letter, empty for any other character."""
    if not character.isalpha():
        return ""
    first = unicodedata.name(character, "other").split()[0]
    return "East Asian" if first in EAST_ASIAN else first.capitalize()


def quartiles(numbers: Sequence[int]) -> tuple[int, int, int, int, int]:
    """The smallest of numbers in order, the quartiles, and the largest."""
    last = len(numbers) - 1
    smallest, low, middle, high, largest = (numbers[round(last * part / 4)] for part in range(5))
    return smallest, low, middle, high, largest


def without_captions(dataset: Dataset) -> list[Path]:
    """The photos in the data folder that no caption is of, by their suffix. Links to folders are not followed.

    Photos that the data set leaves out for another reason are not among them.
    """
    report = dataset.report
    known = {os.path.realpath(example.photo) for example in dataset.examples}
    skipped = {*report.captionless_photos, *report.copied_photos, *report.stray_photos, *report.unused_photos}
    found = []
    for folder, subfolders, files in os.walk(dataset.folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(files):
            photo = Path(folder) / name
            if photo.suffix.lower() not in SUFFIXES or name.startswith("."):
                continue
            path = photo.relative_to(dataset.folder).as_posix()
            names = (path, path.removeprefix("images/"), name)  # by which a file of captions may call it
            if skipped.isdisjoint(names) and os.path.realpath(photo) not in known and photo.is_file():
                found.append(photo)
    return found
