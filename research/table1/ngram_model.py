"""A smoothed n-gram model of captions, for the systems that put detected words together.

A context c of C words in training, T different ones, is followed by w with (Witten and Bell 1991)

    p(w | c) = (count(c, w) + s T p(w | c′)) / (C + s T),

where c′ is the context without its first word. Below the empty context, all words are equally likely.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

SMOOTHING = 3.0  # s, of 1, 2 and 3 the best on val of Flickr8k

Context = tuple[int, ...]  # the words before, the last one first


class NgramModel:
    """A model of captions as word ids, of a vocabulary of that size; its id is the word before the first."""

    def __init__(self, captions: Sequence[Sequence[int]], size: int, *, orders: int) -> None:
        """``orders`` is the length of the longest context."""
        self.size, self.orders = size, orders
        self.counts: dict[Context, Counter[int]] = defaultdict(Counter)
        for caption in captions:
            words = [*[size] * orders, *caption]
            for end in range(orders, len(words)):
                for order in range(orders + 1):
                    self.counts[tuple(words[end - order : end][::-1])][words[end]] += 1
        self.share = cache(self._share)

    def _share(self, word: int, context: Context) -> float:
        """p(w | c); a longer context than the longest must not be given."""
        below = self.share(word, context[:-1]) if context else 1 / self.size
        following = self.counts.get(context)
        if following is None:
            return below
        smooth = SMOOTHING * len(following)
        return (following[word] + smooth * below) / (following.total() + smooth)

    def log_share(self, word: int, context: Context) -> float:
        """log p(w | c)."""
        return math.log(self.share(word, context))

    def ngrams(self) -> Iterator[tuple[Context, int, int, float]]:
        """Every context of at least one word, a word that followed it, count(c, w), and that over s T p(w | c′)."""
        for context, following in self.counts.items():
            if context:
                for word, times in following.items():
                    yield context, word, times, times / (SMOOTHING * len(following) * self.share(word, context[:-1]))
