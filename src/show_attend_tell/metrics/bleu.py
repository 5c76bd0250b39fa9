"""BLEU of a corpus (Papineni et al. 2002), ×100.

N captions, one of each photo.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from show_attend_tell.metrics.bootstrap import Array
from show_attend_tell.metrics.cider import ngrams

# pycocoevalcap's guards against a division by zero, kept so that the figures agree to the last digit.
_TINY = 1e-15
_SMALL = 1e-9


def bleu(
    captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], *, brevity: bool = True
) -> list[float]:
    """BLEU-1 to BLEU-4 of captions over the whole corpus, x100, with brevity penalty or, not ``brevity``, without it.

    `captions` are N lists of words and `references` N lists of captions. BLEU-n is the geometric mean of the precisions
    of 1- to n-grams, counted over all captions and clipped by the reference that has the n-gram most often. The penalty
    compares the summed length with that of the closest references. Equals pycocoevalcap's `Bleu` on the same words.
    """
    counts = bleu_counts(captions, references).sum(0)
    values: list[float] = (precisions(counts) * (brevity_penalty(counts) if brevity else 1)).tolist()
    return values


def bleu_counts(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Array:
    """What each caption adds to BLEU (N, 10): right 1- to 4-grams, all of them, its length, the closest reference's."""
    rows = []
    for words, choices in zip(captions, references, strict=True):
        guessed = Counter(ngrams(words))
        allowed = Counter[tuple[str, ...]]()
        for choice in choices:
            allowed |= Counter(ngrams(choice))
        right = Counter(map(len, (guessed & allowed).elements()))
        every = Counter(map(len, guessed.elements()))
        closest = min(map(len, choices), key=lambda n: (abs(n - len(words)), n))
        rows.append([*(counts[n] for counts in (right, every) for n in range(1, 5)), len(words), closest])
    return np.array(rows, dtype=float)


def precisions(counts: Array) -> Array:
    """BLEU-1 to BLEU-4 without penalty (..., 4), x100, of summed counts (..., 10)."""
    found: Array = 100 * np.cumprod((counts[..., :4] + _TINY) / (counts[..., 4:8] + _SMALL), axis=-1) ** (
        1 / np.arange(1, 5)
    )
    return found


def brevity_penalty(counts: Array) -> Array:
    """The factor (..., 1), from 0 to 1, of summed counts (..., 10)."""
    ratio = (counts[..., 8:9] + _TINY) / (counts[..., 9:] + _SMALL)
    return np.exp(np.minimum(0, 1 - 1 / ratio))
