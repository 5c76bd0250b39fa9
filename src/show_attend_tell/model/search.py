"""From annotations to words: beam search, greedy (a beam of one) and sampling, over any `Decoder`.

B photos · P paths, the beam · K vocabulary · L places · T words, end token excluded.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Look
from show_attend_tell.model.interface import EXPECTATION, Decoder, State, Step
from show_attend_tell.model.precision import wide

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
    agreement: float | None = None  # A, with the photo, 0 to about 1; None until a reranker gives it


class Trail(NamedTuple):
    """What one step of a search leaves behind, to be read backwards from the end."""

    step: Step
    words: Tensor  # (B, P)
    parents: Tensor | None  # the path that each path continues (B, P), or None when it is itself


@torch.inference_mode()
def beam_search(
    decoder: Decoder,
    annotations: Tensor,
    *,
    beam: int = 1,
    max_length: int = 40,
    look: Look = EXPECTATION,
    length_normalisation: float = 0.0,
    allow_unknown: bool = False,
) -> list[list[Hypothesis]]:
    """The ``beam`` best captions of each photo that a beam search finds, best first; a beam of one is greedy.

    annotations: (B, L, D), all photos searched at once. Scores are sums of log-probabilities, never renormalised over
    the words allowed. A greedy search never begins with the end token, so that its caption is not empty; a wider beam
    has other captions, and its empty one comes last. A finished path is frozen: it keeps its score, and its place until
    better paths push it out. The search ends when every path of every photo is finished, or after ``max_length`` words,
    the end token counted; then each photo's paths are `ranked`.
    Raises `SatError` for a beam or length below one and for a decoder whose probabilities are no numbers.
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
        log_probabilities = torch.log_softmax(wide(decoder.read_out(step.output)), dim=-1)  # (B, P, K)
        if not allow_unknown:
            log_probabilities[..., Vocabulary.UNKNOWN] = NEVER
        if beam == 1 and not trail:
            log_probabilities[..., Vocabulary.END] = NEVER
        log_probabilities = torch.where(finished[..., None], frozen, log_probabilities)
        scores, chosen = (scores[..., None] + log_probabilities).flatten(1).topk(beam, dim=-1)
        parents, words = chosen // K, chosen % K
        trail.append(Trail(step, words, parents))
        state = step.state.select(parents)
        finished = finished.gather(1, parents) | (words == Vocabulary.END)
        if finished.all():
            break

    found = [
        [retrace(trail, b, p, float(scores[b, p]), bool(finished[b, p])) for p in range(beam) if scores[b, p] > NEVER]
        for b in range(batch)
    ]
    if not all(found):
        raise SatError("the decoder's probabilities are no numbers: its weights or the annotations are damaged")
    return [ranked(hypotheses, length_normalisation) for hypotheses in found]


def ranked(hypotheses: list[Hypothesis], length_normalisation: float, reranker_weight: float = 0.0) -> list[Hypothesis]:
    """Order the captions of one photo, the best first: by log p / length^γ + ω A.

    Captions that ended come before those that did not, and an empty caption comes last.

    γ is ``length_normalisation``, 0 for none; the end token counts. ω, ``reranker_weight``, weighs the agreement A with
    the photo that a reranker gave each caption, where one did.
    """

    def key(hypothesis: Hypothesis) -> tuple[bool, bool, float]:
        length = len(hypothesis.words) + hypothesis.ended
        normalised = hypothesis.log_probability / max(1, length) ** length_normalisation
        return bool(hypothesis.words), hypothesis.ended, normalised + reranker_weight * (hypothesis.agreement or 0.0)

    return sorted(hypotheses, key=key, reverse=True)


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
    allow_empty: bool = False,
) -> list[list[Hypothesis]]:
    """Captions drawn word by word from p(y_t), ``captions`` a photo, each photo by its own seed.

    Without ``allow_empty`` the end token is never drawn first. ``temperature`` divides the logits, ``top_k`` keeps the
    k likeliest words (0: all), ``top_p`` the smallest set with that probability. `Hypothesis.log_probability` is the
    model's own, before these. Raises `SatError` for a temperature not above 0, a top_k below 0 or a top_p outside
    (0, 1].
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
        log_probabilities = torch.log_softmax(wide(decoder.read_out(step.output)), dim=-1)
        weights = narrowed(
            log_probabilities, temperature, top_k, top_p, allow_unknown, allow_end=allow_empty or bool(trail)
        )
        uniform = torch.stack([torch.rand(captions, generator=g) for g in generators]).to(device)
        cumulative = weights.cumsum(-1)
        words = (cumulative <= (uniform * cumulative[..., -1])[..., None]).sum(-1).clamp_max(weights.shape[-1] - 1)
        words = words.masked_fill(finished, Vocabulary.END)
        picked = log_probabilities.gather(-1, words[..., None]).squeeze(-1)
        scores = scores + picked.masked_fill(finished, 0.0)
        trail.append(Trail(step, words, None))
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
    if not 0 < temperature < math.inf or top_k < 0 or not 0 < top_p <= 1:
        raise SatError(
            f"temperature {temperature}, top_k {top_k}, top_p {top_p}: give a temperature above 0, top_k of 0 "
            "(all words) or more, top_p above 0 and up to 1"
        )


def narrowed(
    log_probabilities: Tensor, temperature: float, top_k: int, top_p: float, allow_unknown: bool, allow_end: bool = True
) -> Tensor:
    """The distribution to draw words from (B, P, K), after temperature, top-k and top-p in that order."""
    logits = log_probabilities / max(temperature, 1e-30)  # what is smaller divides to −∞
    if not allow_unknown:
        logits[..., Vocabulary.UNKNOWN] = NEVER
    if not allow_end:
        logits[..., Vocabulary.END] = NEVER
    if 0 < top_k < logits.shape[-1]:
        kept = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, NEVER).scatter(-1, kept.indices, kept.values)
    probabilities = torch.softmax(logits, dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        outside = ordered.cumsum(-1) - ordered >= top_p  # the word that crosses top_p is kept
        probabilities = probabilities.scatter(-1, order, ordered.masked_fill(outside, 0.0))
    return probabilities


def retrace(trail: list[Trail], photo: int, path: int, score: float, ended: bool) -> Hypothesis:
    """Read a path of a photo backwards through the trail."""
    words: list[int] = []
    taken: list[tuple[Step, int]] = []  # each word's step, and the path that took it
    for step, said, parents in reversed(trail):
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
