"""What many captions of custom data have alike, which a model would learn to say: a beginning, an end, a sentence."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from show_attend_tell.data.datasets.listing import PhotoEntry
from show_attend_tell.data.parts_of_speech import part_of_speech
from show_attend_tell.messages import plural, shorten

FEWEST = 10  # captions whose beginnings and ends are compared
SHARED = 0.8  # share of the captions that begin or end alike, from which it is named
LONGEST = 12  # words of such a beginning or end
SENTENCE = 4  # words of a sentence that several photos should not have
REPEATED = 0.05  # share of the photos that have the same sentence, from which it is named
FEWEST_PHOTOS = 5  # with the same sentence
_KINDS = ((re.compile(r"#\w+"), "#…"), (re.compile(r"(https?://|www\.)\S+"), "https://…"))


def look_alike(photos: Sequence[PhotoEntry]) -> list[str]:
    """Lines that name what most captions begin or end with, and sentences that many photos have."""
    captions = [_words(raw) for photo in photos for _, raw in photo.captions if raw]
    lines = []
    if len(captions) >= FEWEST:
        for what, sequences in (("begin", captions), ("end", [words[::-1] for words in captions])):
            shared, number = _shared_beginning(sequences)
            if shared:
                text = " ".join(shared if what == "begin" else shared[::-1])
                lines.append(
                    f"to look at: {number:,} of {plural(len(captions), 'caption')} {what} with {shorten(text)}, which "
                    "a model learns to say, and for which scores are higher"
                )
    return [*lines, *_repeated(photos)]


def _words(raw: str) -> list[str]:
    """The words of a caption between spaces; hashtags and addresses count as one word each."""
    words = raw.lower().split()
    for pattern, kind in _KINDS:
        words = [kind if pattern.fullmatch(word) else word for word in words]
    return words


def _shared_beginning(captions: Sequence[Sequence[str]]) -> tuple[list[str], int]:
    """The longest sequence of words with which enough captions begin, and how many do; none for "a" and the like."""
    shared: list[str] = []
    number = 0
    alike = list(captions)
    while len(shared) < LONGEST:
        words = Counter(words[len(shared)] for words in alike if len(words) > len(shared))
        if not words:
            break
        word, times = words.most_common(1)[0]
        if times < SHARED * len(captions):
            break
        alike = [words for words in alike if words[len(shared) : len(shared) + 1] == [word]]
        shared.append(word)
        number = times
    plain = all(part_of_speech(word) == "function" or not any(map(str.isalnum, word)) for word in shared)
    return ([], 0) if plain and "#…" not in shared else (shared, number)


def _repeated(photos: Sequence[PhotoEntry]) -> list[str]:
    """Lines that name the sentences of many photos."""
    named: dict[tuple[str, ...], set[str]] = defaultdict(set)
    text_of: dict[tuple[str, ...], str] = {}
    for number, photo in enumerate(photos):
        for words, raw in photo.captions:
            if len(words) >= SENTENCE:
                named[words].add(photo.name or str(number))
                text_of.setdefault(words, raw)
    every = len({photo.name or str(number) for number, photo in enumerate(photos)})
    most = max(FEWEST_PHOTOS, REPEATED * every)
    often = sorted((words for words in named if len(named[words]) >= most), key=lambda words: -len(named[words]))
    return [
        f"to look at: {len(named[words]):,} of {plural(every, 'photo')} have the caption {shorten(text_of[words])}"
        for words in often[:3]
    ]
