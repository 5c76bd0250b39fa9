"""From annotations to words: beam search, greedy (a beam of one) and sampling, over any `Decoder`.

A beam search runs by log p; a `Ranking` says which of the captions that it found is the photo's.

B photos · P paths, the beam · K vocabulary · L places · T words, end token excluded.
"""

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from show_attend_tell.attention import Look
from show_attend_tell.decoder import EXPECTATION, Decoder, State, Step
from show_attend_tell.errors import SatError
from show_attend_tell.vocabulary import Vocabulary

NEVER = float("-inf")
CPU_PATHS, GPU_PATHS = 100, 1000  # how many paths run fastest together; a CPU's share its cache


def photos_together(beam: int, device: torch.device) -> int:
    """How many photos to search at once, of a long list, with that beam."""
    return max(1, (CPU_PATHS if device.type == "cpu" else GPU_PATHS) // beam)


@dataclass(frozen=True)
class Hypothesis:
    """One caption that a search found, with what the decoder saw on the way."""

    words: list[int]  # T word ids, end token excluded
    log_probability: float  # Σ_t log p(y_t), the end token's included when it ended
    ended: bool  # False when the longest length came before the end token
    alpha: Tensor | None  # (T, L)
    beta: Tensor | None  # (T,)
    places: Tensor | None  # (T,)

    @property
    def length(self) -> int:
        """C, the end token included when it ended."""
        return len(self.words) + self.ended


class Ranking(NamedTuple):
    """How the captions that a beam search found for one photo are ordered.

    By log p / C^γ, the caption's length C with its end token: γ is ``length_normalisation``, 0 for log p itself, which
    prefers short captions. Or, with a ``consensus`` κ, by the share of its words and pairs of words (`overlap`) that a
    caption is expected to have in common with another whose probability is in proportion to exp(κ log p / C^γ). That is
    minimum Bayes risk decoding (Kumar & Byrne 2004): what many likely captions say is likely right. Every caption that
    the search could have ended with on its way is then considered, not only those that its beam held on to.
    """

    length_normalisation: float = 0.0
    consensus: float | None = None

    def __str__(self) -> str:
        return f"γ {self.length_normalisation:g}" + ("" if self.consensus is None else f", κ {self.consensus:g}")


BY_LOG_P = Ranking()


class Ending(NamedTuple):
    """A caption that a search could have ended with."""

    words: list[int]
    log_probability: float  # with the end token's
    path: int  # which path it is
    steps: int  # after so many steps


class Trail(NamedTuple):
    """What one step of a search leaves behind, to be read backwards from the end."""

    step: Step
    words: Tensor  # (B, P)
    parents: Tensor | None = None  # the path that each path continues (B, P), or None when it is itself
    endings: Tensor | None = None  # log p of each path were it to end here (B, P), −∞ for one that had


def beam_search(
    decoder: Decoder,
    annotations: Tensor,
    *,
    beam: int = 1,
    max_length: int = 40,
    look: Look = EXPECTATION,
    ranking: Ranking = BY_LOG_P,
    allow_unknown: bool = False,
) -> list[list[Hypothesis]]:
    """The ``beam`` best captions of each photo that a beam search finds (`explore`), best first by the ranking.

    A beam of one is greedy, unless by consensus.
    """
    found = explore(decoder, annotations, beam=beam, max_length=max_length, look=look, allow_unknown=allow_unknown)
    return [each.ranked(ranking) for each in found]


@torch.inference_mode()
def explore(
    decoder: Decoder,
    annotations: Tensor,
    *,
    beam: int = 1,
    max_length: int = 40,
    look: Look = EXPECTATION,
    allow_unknown: bool = False,
) -> "list[Explored]":
    """What a beam search finds for each photo, to be ranked in one way or several.

    annotations: (B, L, D), all photos searched at once. Scores are sums of log-probabilities, never renormalised over
    the words allowed. A finished path is frozen: it keeps its score, and its place until better paths push it out. The
    search ends when every path of every photo is finished, or after ``max_length`` words, the end token counted. Raises
    `SatError` for a beam or length below one.
    """
    if beam < 1 or max_length < 1:
        raise SatError(f"beam is {beam} and the longest caption {max_length}: give at least 1 of each")
    batch, device = annotations.shape[0], annotations.device
    K = decoder.vocabulary_size
    state = decoder.start(annotations, paths=beam)
    words = torch.full((batch, beam), K, device=device)
    scores = torch.full((batch, beam), NEVER, device=device)
    scores[:, 0] = 0.0  # all paths are equal at first: only one may have children
    finished = torch.zeros((batch, beam), dtype=torch.bool, device=device)
    frozen = torch.full((K,), NEVER, device=device)
    frozen[Vocabulary.END] = 0.0  # the only child of a finished path, at no cost
    trail: list[Trail] = []

    for _ in range(max_length):
        step = decoder.step(decoder.embed(words), state, look)
        log_probabilities = torch.log_softmax(decoder.read_out(step.output).float(), dim=-1)  # (B, P, K)
        if not allow_unknown:
            log_probabilities[..., Vocabulary.UNKNOWN] = NEVER
        endings = (scores + log_probabilities[..., Vocabulary.END]).masked_fill(finished, NEVER)
        log_probabilities = torch.where(finished[..., None], frozen, log_probabilities)
        scores, chosen = (scores[..., None] + log_probabilities).flatten(1).topk(beam, dim=-1)
        parents, words = chosen // K, chosen % K
        trail.append(Trail(step, words, parents, endings))
        state = step.state.select(parents)
        finished = finished.gather(1, parents) | (words == Vocabulary.END)
        if finished.all():
            break

    return [Explored(trail, b, scores[b], finished[b]) for b in range(batch)]


class Explored:
    """What a beam search found for one photo."""

    def __init__(self, trail: list[Trail], photo: int, scores: Tensor, finished: Tensor) -> None:
        self.trail, self.photo = trail, photo
        self.scores, self.finished = scores.tolist(), finished.tolist()  # (P,), after the last step

    def ranked(self, ranking: Ranking) -> list[Hypothesis]:
        """The best captions by a ranking, the best first, no more than the beam is wide.

        By consensus all of `passed` are candidates; otherwise, or where nothing can end, those in the beam at the end,
        and what ended comes before what the longest length cut off.
        """
        gamma, kappa = ranking
        if kappa is None or not self.passed:
            return sorted(
                self.held, key=lambda h: (h.ended, h.log_probability / max(1, h.length) ** gamma), reverse=True
            )
        logits = [kappa * ending.log_probability / (len(ending.words) + 1) ** gamma for ending in self.passed]
        worth = (self.shared @ torch.softmax(torch.tensor(logits, dtype=torch.float64), 0)).tolist()
        best = sorted(range(len(worth)), key=lambda i: worth[i], reverse=True)[: len(self.scores)]
        chosen = [self.passed[i] for i in best]
        return [retrace(self.trail, self.photo, e.path, e.log_probability, True, e.steps) for e in chosen]

    @cached_property
    def held(self) -> list[Hypothesis]:
        """The captions in the beam at the end, the likeliest first."""
        return [
            retrace(self.trail, self.photo, path, score, ended)
            for path, (score, ended) in enumerate(zip(self.scores, self.finished, strict=True))
            if score > NEVER
        ]

    @cached_property
    def shared(self) -> Tensor:
        """The `overlap` of those that the search `passed`."""
        return overlap([ending.words for ending in self.passed])

    @cached_property
    def passed(self) -> list[Ending]:
        """Every caption that the search could have ended with on its way, the likeliest first."""
        found = []
        said: list[list[int]] = [[] for _ in self.scores]
        for steps, (_, words, parents, endings) in enumerate(self.trail):
            assert parents is not None  # as `explore` leaves it
            assert endings is not None
            scores = endings[self.photo].tolist()
            found += [Ending(said[path], score, path, steps) for path, score in enumerate(scores) if score > NEVER]
            going_on = zip(parents[self.photo].tolist(), words[self.photo].tolist(), strict=True)
            said = [[*said[parent], word] for parent, word in going_on]
        return sorted(found, key=lambda ending: ending.log_probability, reverse=True)


def overlap(captions: list[list[int]]) -> Tensor:
    """What share of their words and pairs of words any two captions have in common, (N, N) in float64.

    Twice those in common over those of both; one that a caption has twice counts twice where the other has it twice.
    """
    numbered: dict[tuple[Any, int], int] = {}  # a word, or a pair, and how often it came before in the same caption
    rows, columns = [], []
    for row, words in enumerate(captions):
        before: Counter[Any] = Counter()
        for gram in (*words, *itertools.pairwise(words)):
            rows.append(row)
            columns.append(numbered.setdefault((gram, before[gram]), len(numbered)))
            before[gram] += 1
    has = torch.zeros(len(captions), len(numbered))
    has[rows, columns] = 1.0
    sizes = has.sum(1)
    return (2 * (has @ has.T) / (sizes[:, None] + sizes).clamp_min(1)).double()


@torch.inference_mode()
def sample(
    decoder: Decoder,
    annotations: Tensor,
    *,
    seeds: list[int],
    captions: int = 1,
    max_length: int = 40,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    look: Look = EXPECTATION,
    allow_unknown: bool = False,
) -> list[list[Hypothesis]]:
    """Captions drawn word by word from p(y_t), ``captions`` a photo, each photo by its own seed.

    ``temperature`` divides the logits, ``top_k`` keeps the k likeliest words (0: all), ``top_p`` the smallest set
    with that probability. `Hypothesis.log_probability` is the model's own, before these. Raises `SatError` for a
    temperature not above 0, a top_k below 0 or a top_p outside (0, 1].
    """
    check_sampling(captions, temperature, top_k, top_p)
    if max_length < 1:
        raise SatError(f"the longest caption is {max_length}: give at least 1")
    batch, device = annotations.shape[0], annotations.device
    state: State = decoder.start(annotations, paths=captions)
    words = torch.full((batch, captions), decoder.vocabulary_size, device=device)
    scores = torch.zeros((batch, captions), device=device)
    finished = torch.zeros((batch, captions), dtype=torch.bool, device=device)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    trail: list[Trail] = []

    for _ in range(max_length):
        step = decoder.step(decoder.embed(words), state, look)
        log_probabilities = torch.log_softmax(decoder.read_out(step.output).float(), dim=-1)
        weights = narrowed(log_probabilities, temperature, top_k, top_p, allow_unknown)
        uniform = torch.stack([torch.rand(captions, generator=g) for g in generators]).to(device)
        cumulative = weights.cumsum(-1)
        words = (cumulative <= (uniform * cumulative[..., -1])[..., None]).sum(-1).clamp_max(weights.shape[-1] - 1)
        words = words.masked_fill(finished, Vocabulary.END)
        picked = log_probabilities.gather(-1, words[..., None]).squeeze(-1)
        scores = scores + picked.masked_fill(finished, 0.0)
        trail.append(Trail(step, words))
        state = step.state
        finished = finished | (words == Vocabulary.END)
        if finished.all():
            break

    return [
        [retrace(trail, b, p, float(scores[b, p]), bool(finished[b, p])) for p in range(captions)] for b in range(batch)
    ]


def check_sampling(captions: int, temperature: float, top_k: int, top_p: float) -> None:
    """Raise `SatError` for a way of drawing words that there is not."""
    if captions < 1:
        raise SatError(f"{captions} captions a photo: give at least 1")
    if temperature <= 0 or top_k < 0 or not 0 < top_p <= 1:
        raise SatError(
            f"temperature {temperature}, top_k {top_k}, top_p {top_p}: give a temperature above 0, top_k of 0 "
            "(all words) or more, top_p above 0 and up to 1"
        )


def narrowed(log_probabilities: Tensor, temperature: float, top_k: int, top_p: float, allow_unknown: bool) -> Tensor:
    """The distribution to draw words from (B, P, K), after temperature, top-k and top-p in that order."""
    logits = log_probabilities / temperature
    if not allow_unknown:
        logits[..., Vocabulary.UNKNOWN] = NEVER
    if 0 < top_k < logits.shape[-1]:
        kept = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, NEVER).scatter(-1, kept.indices, kept.values)
    probabilities = torch.softmax(logits, dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        outside = ordered.cumsum(-1) - ordered >= top_p  # the word that crosses top_p is kept
        probabilities = probabilities.scatter(-1, order, ordered.masked_fill(outside, 0.0))
    return probabilities


def retrace(
    trail: list[Trail], photo: int, path: int, score: float, ended: bool, steps: int | None = None
) -> Hypothesis:
    """Read a path of a photo backwards through the trail, from its end or as it was after so many steps."""
    words: list[int] = []
    taken: list[tuple[Step, int]] = []  # each word's step, and the path that took it
    for step, said, parents, _ in reversed(trail[:steps]):
        word = int(said[photo, path])
        if parents is not None:
            path = int(parents[photo, path])
        if word != Vocabulary.END:  # a finished path repeats it
            words.insert(0, word)
            taken.insert(0, (step, path))

    def seen(name: str) -> Tensor | None:
        first: Tensor | None = getattr(trail[0].step, name)
        if first is None:
            return None
        return torch.stack([getattr(step, name)[photo, p] for step, p in taken]) if taken else first[photo, :0]

    return Hypothesis(words, score, ended, seen("alpha"), seen("beta"), seen("places"))
