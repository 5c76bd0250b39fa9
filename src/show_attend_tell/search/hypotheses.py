"""The captions of a search, read back from its steps, and how they are ordered.

B photos · B′ those of a step · P paths, the beam · Q ≤ P histories · L locations · C words at most · K vocabulary ·
T words, end token excluded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import pstdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.search.filters import NEVER
from show_attend_tell.search.session import DecoderSession, Numbers, Scores, SessionStep, gather

# How words begin that are spelt with a consonant's sound, though with a vowel, as "uniform" is.
LIKE_CONSONANTS = ("eu", "one", "ufo", "uni", "us", "ut")
ONLY = np.zeros(1, dtype=np.int64)  # the number of the one photo
DIVERSITY = 6.0  # what a caption's overlap with another costs, in standard deviations of the captions' scores

Steps = list[tuple[Numbers, SessionStep]]  # of a search: which photos it attended to (B′,), and what

# What a search knows of a path after each word: the word's id, the path's history as a row of what was attended to, and
# log p so far, the decoder's own. A path that ended goes on with end tokens.
PATH = np.dtype([("word", np.int64), ("row", np.int64), ("score", np.float64)])
Paths = NDArray[np.void]  # (B, P, C) of these


class ClassName(NamedTuple):
    """The name of a photo's class as a caption shows it."""

    text: str
    confidence: float  # the probability that it is right
    stand_ins: frozenset[int]  # the words that stand for it in the search


@dataclass(frozen=True)
class Hypothesis:
    """One caption that a search found."""

    words: list[int]  # T word ids, end token excluded
    log_probability: float  # Σ_t log p(y_t), the end token's included when it ended
    ended: bool  # False when the caption was truncated: max_length came before the end token
    trace: "Trace" = field(repr=False, compare=False)  # reads what was attended to, only when it is asked for
    filter_score: float = 0.0  # what `filters` added to log p of its words, where the search followed the sum
    rerank_score: float | None = None  # None until a reranker gives it
    evidence: Any = None  # ∂ log p(y_t) / ∂ e_ti (T, L), an array, in nats; None unless asked for
    word_confidence: Any = None  # of each word, 0 to 1 or NaN (T,); None until `rerank.confidence` gives it
    unlike: bool = False  # whether the photo is far from those that the confidence was fitted to
    names: Mapping[int, ClassName] | None = None  # by the places of their stand-ins; None without classes

    def said(self, vocabulary: Vocabulary, *, compared: bool = False) -> list[str]:
        """The words with names of classes and articles that fit, and, unless captions are ``compared``, capitals."""
        words = vocabulary.decode(self.words) if compared else vocabulary.written(self.words)
        if self.names is None:
            return words
        for place, name in self.names.items():
            words[place] = name.text
        return [article(word, after) for word, after in zip(words, [*words[1:], ""], strict=False)]

    @property
    def alpha(self) -> Any:
        """α (T, L), a tensor of PyTorch's decoders and an array of ONNX Runtime's; None without attention."""
        return self.trace.along("alpha")

    @property
    def beta(self) -> Any:
        """β (T,), as α; None without a gate."""
        return self.trace.along("beta")

    @property
    def locations(self) -> Any:
        """The locations attended to (T,), as α; None with the attention mode "mean"."""
        return self.trace.along("locations")

    @property
    def word_log_probabilities(self) -> list[float]:
        """log p(y_t | the words before) of each word (T,), in nats: the differences of the path's scores."""
        differences: list[float] = np.diff(self.trace.path["score"], prepend=0.0).tolist()
        return differences


def article(word: str, after: str) -> str:
    """A word, which is "an" instead of "a" where the word after it begins with the sound of a vowel, and vice versa."""
    if word not in ("a", "an") or not after:
        return word
    return "an" if after[0] in "aeiou" and not after.startswith(LIKE_CONSONANTS) else "a"


class Trace(NamedTuple):
    """Where a hypothesis finds the steps that made it."""

    steps: Steps  # of the whole search
    photo: int
    path: Paths  # (T,)

    def along(self, name: str) -> Any:
        """What `SessionStep` has under that name for this path, over its T words; None where it has nothing."""
        first = getattr(self.steps[0][1], name)
        if first is None:
            return None
        attended = []
        for (photos, step), row in zip(self.steps, self.path["row"], strict=False):
            attended.append(getattr(step, name)[int(np.searchsorted(photos, self.photo)), row])
        if not attended:
            return first[0, :0]
        if isinstance(attended[0], (np.ndarray, np.generic)):
            return np.stack(attended)
        import torch

        return torch.stack(attended)


def extend(paths: Paths, photos: Numbers, parents: Numbers, time: int, **new: NDArray[Any]) -> None:
    """Paths of some photos (B′,) that each continue one of the ``parents`` (B′, P), by what is new of them (B′, P)."""
    paths[photos, :, :time] = gather(paths[photos, :, :time], parents)
    for name, values in new.items():
        paths[name][photos, :, time] = values


def read_back(
    steps: Steps, paths: Paths, scores: Scores, added: Scores, finished: NDArray[np.bool_]
) -> list[list[Hypothesis]]:
    """The hypotheses of every photo, from each path's log p, what filters added, and whether it ended, (B, P) each.

    A path of log p −∞ does not exist. Raises `SatError` for a photo without one, and for what is no number.
    """
    there = scores > NEVER
    if not there.any(1).all():
        raise SatError("the decoder's probabilities are not finite numbers: its weights or the annotations are damaged")
    lengths = (paths["word"] != Vocabulary.END).sum(-1)
    hypotheses: list[list[Hypothesis]] = [[] for _ in scores]
    for photo, path in np.argwhere(there).tolist():
        trace = Trace(steps, photo, paths[photo, path, : lengths[photo, path]])
        own = (float(scores[photo, path]), bool(finished[photo, path]), trace, float(added[photo, path]))
        hypotheses[photo].append(Hypothesis(trace.path["word"].tolist(), *own))
    return hypotheses


def force(session: DecoderSession, words: Sequence[int]) -> Hypothesis:
    """Given words with their end token along the one path of one photo (teacher forcing), as if a search found them."""
    paths = np.zeros((1, 1, len(words)), PATH)
    paths["word"] = words
    steps: Steps = []
    total = 0.0
    for time, (step, log_p) in enumerate(forced_steps(session, paths["word"][0])):
        steps.append((ONLY, step))
        total += float(log_p[0, words[time]])
        paths["score"][..., time] = total
    ended = np.ones((1, 1), dtype=bool)
    ((hypothesis,),) = read_back(steps, paths, paths["score"][..., -1], np.zeros((1, 1)), ended)
    return hypothesis


def forced_steps(session: DecoderSession, words: Numbers) -> Iterator[tuple[SessionStep, Scores]]:
    """The step for each of the words (P, C) along the paths of one photo, and log p of all words there (P, K)."""
    paths = np.arange(len(words))[None]
    before = np.full_like(paths, session.vocabulary_size)
    for following in words.T:
        step = session.step(before)
        yield step, session.log_probabilities()[0]
        session.reorder(None, paths)
        before = following[None]


def rank(hypotheses: list[Hypothesis], length_penalty: float, rerank_weight: float = 0.0) -> list[Hypothesis]:
    """The captions of one photo by `score`: those that ended, then truncated ones, then an empty one."""

    def key(hypothesis: Hypothesis) -> tuple[bool, bool, float]:
        return bool(hypothesis.words), hypothesis.ended, score(hypothesis, length_penalty, rerank_weight)

    return sorted(hypotheses, key=key, reverse=True)


def score(hypothesis: Hypothesis, length_penalty: float, rerank_weight: float) -> float:
    """(log p + f) / C^γ + ω r: f the filter score, C words with the end token, γ the length penalty, ω r's weight."""
    length = len(hypothesis.words) + hypothesis.ended
    total = hypothesis.log_probability + hypothesis.filter_score
    normalized: float = total / max(1, length) ** length_penalty
    return normalized + rerank_weight * (hypothesis.rerank_score or 0.0)


def diverse(
    hypotheses: list[Hypothesis], num_captions: int, length_penalty: float, rerank_weight: float
) -> list[Hypothesis]:
    """Of one photo's captions, which are in the order of `rank`, the best one and others that differ in content.

    They are ``num_captions``, or fewer where fewer captions ended. Each caption after the first has the largest `score`
    less μ times its overlap with the most similar one before it (maximal marginal relevance, Carbonell and Goldstein
    1998). The overlap is the share of words and pairs of words that two captions have in common, from 0 to 1. μ is
    `DIVERSITY` times the standard deviation of the photo's scores.
    """
    left = [hypothesis for hypothesis in hypotheses if hypothesis.words and hypothesis.ended] or hypotheses[:1]
    scores = [score(hypothesis, length_penalty, rerank_weight) for hypothesis in left]
    content = [{*hypothesis.words, *pairwise(hypothesis.words)} for hypothesis in left]
    penalty = DIVERSITY * pstdev(scores)
    closest = [0.0] * len(left)
    chosen = [0]
    while len(chosen) < min(num_captions, len(left)):
        last = content[chosen[-1]]
        overlaps = [2 * len(words & last) / max(1, len(words) + len(last)) for words in content]
        closest = list(map(max, closest, overlaps))
        others = [number for number in range(len(left)) if number not in chosen]
        chosen.append(max(others, key=lambda number: scores[number] - penalty * closest[number]))
    return [left[number] for number in chosen]
