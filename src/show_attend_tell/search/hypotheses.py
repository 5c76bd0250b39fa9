"""What a search gives: captions with what the decoder saw on the way, read back from the steps of the search.

B photos · B′ those of a step · P paths, the beam · Q ≤ P paths that looked · L places · T words, end token excluded.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import pstdev
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.session import Drawn, Numbers, Scores

NEVER = float("-inf")
DIFFERENCE = 6.0  # what a caption's overlap with another costs, in standard deviations of the captions' scores


class Backpointers(NamedTuple):
    """What one step of a search leaves behind, to be read backwards from the end."""

    photos: Numbers  # which of the photos these are (B′,), in order
    words: Numbers  # said by each path (B′, P)
    parents: Numbers  # the path of the step before that each path continues (B′, P)
    rows: Numbers  # where α, β and the place of each path are in the next three (B′, P)
    alpha: Any  # (B′, Q, L) or None; the walker's own tensors or arrays, as the next two
    beta: Any  # (B′, Q) or None
    locations: Any  # (B′, Q) or None


@dataclass(frozen=True)
class Hypothesis:
    """One caption that a search found.

    What the decoder saw on the way is gathered when somebody asks for it, since most captions of a beam are never
    asked.
    """

    words: list[int]  # T word ids, end token excluded
    log_probability: float  # Σ_t log p(y_t), the end token's included when it ended
    ended: bool  # False when the longest length came before the end token
    seen: "Seen" = field(repr=False, compare=False)
    rerank_score: float | None = None  # A, with the photo, from 0; None until a reranker gives it
    doubt: float | None = None  # 0 to 1; None until a scale of doubt gives it, to the best caption

    @property
    def alpha(self) -> Any:
        """α (T, L), a tensor of PyTorch's decoders and an array of ONNX Runtime's; None without attention."""
        return self.seen.along([step.alpha for step in self.seen.backpointers])

    @property
    def beta(self) -> Any:
        """β (T,), as α; None without a gate."""
        return self.seen.along([step.beta for step in self.seen.backpointers])

    @property
    def locations(self) -> Any:
        """The places looked at (T,), as α; None when looking by expectation."""
        return self.seen.along([step.locations for step in self.seen.backpointers])


class Seen(NamedTuple):
    """Where a hypothesis finds what it saw."""

    backpointers: list[Backpointers]  # of the whole search
    photo: int
    rows: list[int]  # of each word (T,)

    def along(self, parts: list[Any]) -> Any:
        """What the path saw at each of its T words, of every step's part (B′, Q, ...)."""
        found = []
        for step, part, row in zip(self.backpointers, parts, self.rows, strict=False):
            if part is None:
                return None
            found.append(part[int(np.searchsorted(step.photos, self.photo)), row])
        if not found:
            return None if parts[0] is None else parts[0][0, :0]
        if isinstance(found[0], (np.ndarray, np.generic)):
            return np.stack(found)
        import torch

        return torch.stack(found)


def read_back(
    backpointers: list[Backpointers], scores: Scores, finished: NDArray[np.bool_], *, least: int = 1
) -> list[list[Hypothesis]]:
    """The hypotheses of every photo, from each path's log p (B, P) and whether it ended (B, P).

    A path of log p −∞ does not exist. Raises `SatError` for a photo with fewer than the ``least`` number of paths: then
    the decoder's probabilities are not finite numbers.
    """
    if bool(((scores > NEVER).sum(1) < least).any()):
        raise SatError("the decoder's probabilities are not finite numbers: its weights or the annotations are damaged")
    steps, (batch, paths) = len(backpointers), scores.shape
    words = np.full((batch, paths, steps), Vocabulary.END)
    rows = np.zeros_like(words)
    path = np.tile(np.arange(paths), (batch, 1))
    for time in reversed(range(steps)):
        step = backpointers[time]
        here, photo = path[step.photos], np.arange(len(step.photos))[:, None]
        words[step.photos, :, time] = step.words[photo, here]
        rows[step.photos, :, time] = step.rows[photo, here]
        path[step.photos] = step.parents[photo, here]
    lengths = (words != Vocabulary.END).sum(-1).tolist()  # a finished path says the end token again and again
    said, at, log_p, ended = (cast(list[Any], part.tolist()) for part in (words, rows, scores, finished))
    return [
        [
            Hypothesis(said[b][p][:T], log_p[b][p], ended[b][p], Seen(backpointers, b, at[b][p][:T]))
            for p, T in enumerate(lengths[b])
            if log_p[b][p] > NEVER
        ]
        for b in range(batch)
    ]


def repeating(said: Numbers) -> Numbers:
    """The words that would repeat what paths have said, of their t ≥ 1 words (..., t): (..., max(1, t − 1)).

    They are a path's last word, and each word that followed the path's last two words before. A caption that has none
    of them at any step has no word twice in a row and no three words in a row twice (`scoring.metrics.repeats`). The
    last word fills up the rest.
    """
    last = said[..., -1:]
    before = (said[..., :-2] == said[..., -2:-1]) & (said[..., 1:-1] == last)  # where the last two words are
    return np.concatenate([last, np.where(before, said[..., 2:], last)], axis=-1)


def teacher_forced(session: Drawn, words: list[int]) -> Hypothesis:
    """A caption, with its end token, told along the one path of one photo, as if a search had found it."""
    only = np.zeros((1, 1), dtype=np.int64)
    backpointers, log_p, previous = [], 0.0, session.vocabulary_size
    for word in words:
        step = session.step(np.full_like(only, previous))
        log_p += float(session.log_probabilities()[0, 0, word])
        backpointers.append(Backpointers(only[0], np.full_like(only, word), only, *step))
        session.reorder(None, only)
        previous = word
    ((found,),) = read_back(backpointers, np.full((1, 1), log_p), np.ones((1, 1), dtype=bool))
    return found


def ranked(hypotheses: list[Hypothesis], length_penalty: float, rerank_weight: float = 0.0) -> list[Hypothesis]:
    """Order the captions of one photo, the best first: by log p / length^γ + ω A.

    Captions that ended come before those that did not, and an empty caption comes last.

    γ is ``length_penalty``, 0 for none; the end token counts. ω, ``rerank_weight``, weighs the agreement A with
    the photo that a reranker gave each caption, where one did.
    """

    def key(hypothesis: Hypothesis) -> tuple[bool, bool, float]:
        return bool(hypothesis.words), hypothesis.ended, score(hypothesis, length_penalty, rerank_weight)

    return sorted(hypotheses, key=key, reverse=True)


def score(hypothesis: Hypothesis, length_penalty: float, rerank_weight: float) -> float:
    """log p / length^γ + ω A, see `ranked`."""
    length = len(hypothesis.words) + hypothesis.ended
    normalized: float = hypothesis.log_probability / max(1, length) ** length_penalty
    return normalized + rerank_weight * (hypothesis.rerank_score or 0.0)


def different(
    hypotheses: list[Hypothesis], num_captions: int, length_penalty: float, rerank_weight: float
) -> list[Hypothesis]:
    """Of one photo's `ranked` captions, the best one and others that are good and say something else.

    They are ``num_captions``, or fewer where fewer captions ended. Each caption after the first has the largest `score` less
    μ times its overlap with the most similar one before it (maximal marginal relevance, Carbonell and Goldstein 1998).
    The overlap is the share of words and pairs of words that two captions have in common, from 0 to 1. μ is
    `DIFFERENCE` times the standard deviation of the photo's scores.
    """
    left = [hypothesis for hypothesis in hypotheses if hypothesis.words and hypothesis.ended] or hypotheses[:1]
    scores = [score(hypothesis, length_penalty, rerank_weight) for hypothesis in left]
    content = [{*hypothesis.words, *pairwise(hypothesis.words)} for hypothesis in left]
    penalty, closest = DIFFERENCE * pstdev(scores), [0.0] * len(left)
    chosen = [0]
    while len(chosen) < min(num_captions, len(left)):
        last = content[chosen[-1]]
        overlaps = [2 * len(each & last) / max(1, len(each) + len(last)) for each in content]
        closest = list(map(max, closest, overlaps))
        others = [number for number in range(len(left)) if number not in chosen]
        chosen.append(max(others, key=lambda number: scores[number] - penalty * closest[number]))
    return [left[number] for number in chosen]
