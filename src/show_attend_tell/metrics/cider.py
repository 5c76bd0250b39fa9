"""CIDEr-D of many captions at once, as tensors of word ids (Vedantam, Zitnick and Parikh, CVPR 2015).

B photos · P captions of a photo · R references of a photo · C words of a caption, padded · S words of a reference,
padded · U distinct n-grams.

A caption is compared with each reference by the cosine of their tf-idf vectors of n-grams, for n from 1 to 4. A count
that is higher in the caption than in the reference is cut to the reference's, and a Gaussian punishes another length.
The score is ten times the mean over n and over the references.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from show_attend_tell.errors import SatError

LONGEST = 4  # words of an n-gram
SIGMA = 6.0  # of the Gaussian on the difference of lengths
PADDING = -1  # what stands behind the last word of a caption
TOGETHER = 1 << 24  # pairs of positions in captions and references that are compared at once
BASE = 1 << 31  # above all word ids and all n-grams of the references; its square has 63 bits


class _NGrams(NamedTuple):
    """The n-grams of captions, by the position of their first word."""

    numbers: Tensor  # (..., C), equal for equal n-grams; `PADDING` where an n-gram would reach into the padding
    weights: Tensor  # (..., C), their inverse document frequencies
    norm: Tensor  # (...), of the caption's tf-idf vector


class CiderD:
    """CIDEr-D with the document frequencies of n-grams in given references.

    pycocoevalcap takes the frequencies from the references that it scores against, and so does coco-caption. As a
    reward, they come from all training references.
    """

    def __init__(self, documents: Sequence[Sequence[Sequence[int]]]) -> None:
        """``documents`` has one entry a photo: its references, each a list of word ids.

        A photo has an n-gram when any of its references has it. Raises `SatError` without references.
        """
        if not any(map(len, documents)):
            raise SatError("there are no references to count n-grams in")
        # all references in one row, with padding between them: none is padded to the length of the longest
        words = torch.tensor([word for references in documents for each in references for word in (*each, PADDING)])
        owners = torch.repeat_interleave(
            torch.arange(len(documents)),
            torch.tensor([sum(len(each) + 1 for each in references) for references in documents]),
        )
        self.log_documents = math.log(len(documents))
        self.known: list[Tensor] = []  # the `longer` numbers of the n-grams (U,), in order, for each n
        self.log_frequencies: list[Tensor] = []  # the logarithms of their document frequencies (U,), for each n
        shorter = None
        for n in range(1, LONGEST + 1):
            numbers = longer(shorter, words, n)
            there = numbers >= 0
            known, found = torch.unique(numbers[there], return_inverse=True)
            shorter = torch.full_like(numbers, PADDING).masked_scatter(there, found)
            pairs = owners[there] * max(1, len(known)) + found
            once: Tensor = torch.unique(pairs)  # an n-gram of a photo counts once
            frequencies = torch.bincount(once % max(1, len(known)), minlength=len(known))
            self.known.append(known)
            self.log_frequencies.append(frequencies.double().log())

    def __call__(self, captions: Tensor, references: Sequence[Tensor]) -> Tensor:
        """The scores (B, P), 0 to 10, of captions (B, P, C) against their photos' references, each (R, S).

        R and S differ from photo to photo. Captions and references hold word ids, and `PADDING` behind the last word. A
        reference without words is not counted.
        """
        said, start, parts = captions.cpu(), 0, []
        while start < len(said):  # as many photos together as memory allows, at least one
            end, largest, (_, P, C) = start, 0, said.shape
            while end < len(said):
                R, S = references[end].shape
                largest = max(largest, R * S * max(S, P * C))
                if end > start and (end + 1 - start) * largest > TOGETHER:
                    break
                end += 1
            parts.append(self._scores(said[start:end], _stacked(references[start:end])))
            start = end
        return torch.cat(parts).float().to(captions.device)

    def _scores(self, captions: Tensor, references: Tensor) -> Tensor:
        """The scores (B, P) of captions (B, P, C) against references (B, R, S)."""
        there = (references >= 0).any(-1)  # (B, R)
        lengths = ((captions >= 0).sum(-1) - 1).clamp_min(0)[:, :, None]  # counted in pairs, as pycocoevalcap does
        others = ((references >= 0).sum(-1) - 1).clamp_min(0)[:, None]
        total = torch.zeros(())
        shorter: Sequence[Tensor | None] = (None, None)
        for n in range(1, LONGEST + 1):
            said, wanted = self._ngrams(
                n, [longer(before, words, n) for before, words in zip(shorter, (captions, references), strict=True)]
            )
            shorter = said.numbers, wanted.numbers
            equal = said.numbers[:, :, None, :, None] == wanted.numbers[:, None, :, None]  # (B, P, R, C, S)
            equal &= (said.numbers >= 0)[:, :, None, :, None]
            in_reference = equal.sum(-1)  # how often the reference has it (B, P, R, C)
            in_caption = _counts(said.numbers)[:, :, None]  # and the caption (B, P, 1, C)
            # a sum over distinct n-grams: each of the equal ones adds its share
            shares = torch.minimum(in_caption, in_reference) * in_reference / in_caption.clamp_min(1)
            product = (shares * said.weights.square()[:, :, None]).sum(-1)  # (B, P, R)
            norms = said.norm[:, :, None] * wanted.norm[:, None]
            total = total + torch.where(norms > 0, product / norms.clamp_min(1e-300), 0.0)
        total = total / LONGEST * torch.exp(-((lengths - others).double() ** 2) / (2 * SIGMA**2))
        mean = (total * there[:, None]).sum(-1) / there.sum(-1).clamp_min(1)[:, None]
        return 10 * mean

    def _ngrams(self, n: int, raw: Sequence[Tensor]) -> list[_NGrams]:
        """The n-grams of sets of captions, by their `longer` numbers (..., C), numbered anew from 0 on.

        The references' n-grams come first in the new numbers, then those that are in none.
        """
        known, log_frequencies = self.known[n - 1], self.log_frequencies[n - 1]
        distinct = torch.unique(torch.cat([known, *(each[each >= 0] for each in raw)]))
        order = torch.full(distinct.shape, PADDING)
        order[torch.searchsorted(distinct, known)] = torch.arange(len(known))
        strange = order < 0
        order[strange] = torch.arange(len(known), len(distinct))
        weights = self.log_documents - torch.cat([log_frequencies, torch.zeros(int(strange.sum()), dtype=torch.double)])
        result = []
        for each in raw:
            there = each >= 0
            numbers = torch.full_like(each, PADDING)
            numbers[there] = order[torch.searchsorted(distinct, each[there])]
            found = torch.zeros(each.shape, dtype=torch.double)
            found[there] = weights[numbers[there]]
            # the squared tf-idf of an n-gram that is there k times is k² w²: each of the k adds k w²
            result.append(_NGrams(numbers, found, (_counts(numbers) * found.square()).sum(-1).sqrt()))
        return result


def cider(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> float:
    """CIDEr-D ×100 of N captions, with the document frequencies of their references, as pycocoevalcap computes it.

    Raises `SatError` without captions, for lists of different lengths, and without references.
    """
    if not captions or len(captions) != len(references):
        raise SatError(f"{len(captions)} captions cannot be scored against {len(references)} lists of references")
    numbers: dict[str, int] = {}
    ids = [[[numbers.setdefault(word, len(numbers)) for word in words] for words in choices] for choices in references]
    said = padded([[numbers.setdefault(word, len(numbers)) for word in words] for words in captions])
    return float(100 * CiderD(ids)(said[:, None], [padded(choices) for choices in ids]).double().mean())


def longer(shorter: Tensor | None, words: Tensor, n: int) -> Tensor:
    """A number (..., C) for the n-gram that begins at each position of captions (..., C), `PADDING` where none fits.

    It is made of the number of the n−1 words that begin there, ``shorter`` (..., C), and the word behind them.
    """
    if shorter is None:
        return words
    behind = torch.nn.functional.pad(words, (0, n - 1), value=PADDING)[..., n - 1 :]  # (..., C)
    return torch.where((shorter >= 0) & (behind >= 0), shorter * BASE + behind, PADDING)


def _counts(numbers: Tensor) -> Tensor:
    """How often the n-gram at each position (..., C) is in its caption; 0 where there is none."""
    there = numbers >= 0
    equal: Tensor = (numbers[..., :, None] == numbers[..., None, :]) & there[..., None]
    return equal.sum(-1)


def _stacked(references: Sequence[Tensor]) -> Tensor:
    """The references of several photos, each (R, S), as one tensor (B, R, S), padded to the most and the longest."""
    most, longest = (max(each.shape[dim] for each in references) for dim in (0, 1))
    result = torch.full((len(references), most, longest), PADDING)
    for row, each in enumerate(references):
        result[row, : each.shape[0], : each.shape[1]] = each
    return result


def padded(captions: Sequence[Sequence[int]]) -> Tensor:
    """Captions as one tensor (N, C), `PADDING` behind the shorter ones."""
    longest = max([1, *map(len, captions)])
    return torch.tensor([[*words, *[PADDING] * (longest - len(words))] for words in captions]).view(-1, longest)
