"""What many captions of custom data have alike, which a model would learn to say: a beginning, an end, a sentence."""

import re
from collections import Counter
from collections.abc import Sequence

from show_attend_tell.data.datasets.listing import PhotoEntry
from show_attend_tell.data.parts_of_speech import part_of_speech
from show_attend_tell.messages import plural, shorten

FEWEST = 10  # captions whose beginnings and ends are compared
SHARED = 0.8  # share of the captions that begin or end alike, from which it is named
LONGEST = 12  # words of such a beginning or end
SENTENCE = 16  # bytes in UTF-8 of a caption that several photos should not have: 16 Latin letters, 6 Chinese signs
REPEATED = 0.05  # share of the photos that have the same caption, from which it is named
FEWEST_PHOTOS = 5  # with the same caption
NAMED = 3  # of these captions
LOOKED_AT = 5_000  # photos, the first ones; a text corpus may have millions of captions
_OF_EACH_OWN = re.compile(r"#\w+|(https?://|www\.)\S+")  # hashtags and addresses, which may all differ


def look_alike(photos: Sequence[PhotoEntry]) -> list[str]:
    """Lines that name what most captions begin or end with, and captions that many photos have."""
    photos = photos[:LOOKED_AT]
    captions = [
        _OF_EACH_OWN.sub(lambda match: "#…" if match[0][0] == "#" else "https://…", raw.lower()).split()
        for photo in photos
        for _, raw in photo.captions
        if raw
    ]
    lines = []
    for what, step in (("begin", 1), ("end", -1)):
        shared, number = _shared([words[::step] for words in captions])
        if not all(part_of_speech(word) == "function" or word in ".!?," for word in shared):
            lines.append(
                f"to look at: {number:,} of {plural(len(captions), 'caption')} {what} with "
                f"{shorten(' '.join(shared[::step]))}, which a model learns to say, and for which scores are higher"
            )
    having = {(photo.called, words) for photo in photos for words, _ in photo.captions}
    every = len({name for name, _ in having})
    sentences = (" ".join(words) for _, words in having)
    times = Counter(sentence for sentence in sentences if len(sentence.encode()) >= SENTENCE)
    return lines + [
        f"to look at: {number:,} of {plural(every, 'photo')} have the caption {shorten(text)}"
        for text, number in times.most_common(NAMED)
        if number >= max(FEWEST_PHOTOS, REPEATED * every)
    ]


def _shared(captions: Sequence[Sequence[str]]) -> tuple[Sequence[str], int]:
    """The longest beginning that enough captions share, and how many do."""
    shared: tuple[Sequence[str], int] = ((), 0)
    for length in range(1, LONGEST + 1) if len(captions) >= FEWEST else ():
        counts = Counter(tuple(words[:length]) for words in captions if len(words) >= length)
        for beginning, times in counts.most_common(1):
            if times >= SHARED * len(captions):
                shared = (beginning, times)
    return shared
