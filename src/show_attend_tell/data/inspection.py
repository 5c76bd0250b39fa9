"""A look at captioned photos before training: lengths, words, languages, and what a person should look at."""

import functools
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import photos_in
from show_attend_tell.data.sides import side_words
from show_attend_tell.data.tokenizers import ENGLISH as ENGLISH_TOKENIZER
from show_attend_tell.data.tokenizers import KARPATHY, UNICODE, Tokenizer, Tokens, Unigram, tokenize
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
    pieces = [piece for text in texts for piece in text.split()] if main in SPACELESS else []
    letters = sum(map(len, pieces))
    spaces = main not in SPACELESS or SEPARATED[0] * len(texts) <= len(pieces) >= letters / SEPARATED[1]
    return Language(main, known / len(words) if words else 0.0, spaces)


def tokens_for(language: Language) -> tuple[Tokens, str]:
    """What scores of captions in a language compare, and why; "" for English."""
    if language.is_english:
        return "english", ""
    main = language.script or "no"
    if not language.spaces:
        return "characters", f"in {main} script, without spaces between words"
    return "unicode", f"not English ({main} script)"


@dataclass(frozen=True)
class Odd:
    """A caption that a person should look at."""

    photo: str
    caption: str
    why: str


@dataclass(frozen=True)
class Inspection:
    """What the captions of a data set are like."""

    lengths: list[int]  # words of the shortest caption, the quartiles, the longest
    words: int  # different words in train
    once: int  # of these, seen once
    learnt: int  # of these, in the vocabulary
    coverage: float | None  # share of the words of val captions that are in the vocabulary, each as often as it occurs
    not_covered: tuple[str, ...]  # the other words of val, the most frequent first
    language: Language
    very_long: list[Odd]
    other_language: list[Odd]
    sides: list[Odd]  # which a training does not show with the mirrored photo, see `sides`


def inspect(dataset: Dataset, vocabulary: Vocabulary, *, english: Collection[str], longest: int) -> Inspection:
    """Look at the captions of a data set, by the ``vocabulary`` of a training and common ``english`` words."""
    lengths: list[int] = []
    counts: dict[str, Counter[str]] = {"train": Counter(), "val": Counter(), "test": Counter()}
    language = language_of(dataset.texts(), english)
    odd: dict[str, list[Odd]] = {kind: [] for kind in ("very_long", "other_language", "sides")}
    for example in dataset.examples:
        for words, raw in zip(example.captions, example.raw, strict=True):
            lengths.append(len(words))
            counts[example.split].update(words)
            if len(words) >= longest:  # of which the end token is one
                odd["very_long"].append(Odd(example.name, raw, f"{len(words)} words"))
            if sides := side_words(raw):
                odd["sides"].append(Odd(example.name, raw, ", ".join(dict.fromkeys(sides))))
            own_script = script(raw)
            if own_script not in ("", language.script):
                odd["other_language"].append(Odd(example.name, raw, f"{own_script} script"))
            elif language.script == "Latin" and len(words) >= FEWEST_WORDS:
                share = sum(word in english for word in words) / len(words)
                if share < FOREIGN if language.is_english else share >= AMONG_OTHERS:
                    odd["other_language"].append(Odd(example.name, raw, f"{100 * share:.0f} % English words"))
    train = counts["train"]
    val = counts["val"]
    unknown = Counter({word: times for word, times in val.items() if word not in vocabulary})
    return Inspection(
        lengths=np.quantile(lengths, np.linspace(0, 1, 5), method="nearest").tolist(),
        words=len(train),
        once=sum(times == 1 for times in train.values()),
        learnt=sum(word in vocabulary for word in train),
        coverage=1 - unknown.total() / val.total() if val else None,
        not_covered=tuple(word for word, _ in unknown.most_common()),
        language=language,
        **odd,
    )


def choose_tokenizer(
    dataset: Dataset, *, english: Collection[str], minimum_count: int, size: int
) -> tuple[Tokenizer, str]:
    """The tokenizer for the captions of a data set, of at most ``size`` - 2 learnt pieces, and why it is this one."""
    tokens, why = tokens_for(language_of(dataset.texts(), english))
    if tokens == "english" or not dataset.custom:
        tokenizer = start_tokenizer(KARPATHY, dataset)
        if tokenizer == KARPATHY:
            return tokenizer, f"as in Karpathy's split files, since {dataset.name} is of the paper's data sets"
        return tokenizer, "English, and numbers keep their points"
    if tokens == "unicode":
        return UNICODE, f"words by the rules of Unicode, since the captions are {why}"
    learnt = Unigram.fit(dataset.texts("train"), minimum_count=minimum_count, size=size - 2)
    return learnt, (
        f"{len(learnt.scores):,} pieces of words learnt from the training captions, since these are {why}; "
        "scores count characters"
    )


def start_tokenizer(start: Tokenizer, dataset: Dataset) -> Tokenizer:
    """The tokenizer of a training from a model that has ``start``: the same, but purely custom data keep numbers."""
    papers = not dataset.custom or any(not part.dataset.custom for part in dataset.parts)
    return ENGLISH_TOKENIZER if start == KARPATHY and not papers else start


def script(text: str) -> str:
    """The script of most letters of a text, "Latin" or "East Asian" and the like; empty without letters."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else ""
    scripts = Counter(filter(None, map(letter_script, text))).most_common(1)
    return scripts[0][0] if scripts else ""


@functools.cache
def letter_script(character: str) -> str:
    """The script of a letter, empty for any other character."""
    if not character.isalpha():
        return ""
    first = unicodedata.name(character, "other").split()[0]
    return "East Asian" if first in EAST_ASIAN else first.capitalize()


def without_captions(dataset: Dataset) -> list[Path]:
    """The photos in the data folder without a caption, but for those of a name that the data set leaves out."""
    known = {example.photo for example in dataset.examples}
    left_out = {PurePosixPath(name).name for names in dataset.report.left_out.values() for name in names}
    return [photo for photo in photos_in(dataset.folder) if photo not in known and photo.name not in left_out]
