"""Captions drawn at random from the decoder's distribution.

B photos · P captions of one photo · K vocabulary · L places · T words, end token excluded.
"""

import math

import torch
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Look
from show_attend_tell.model.interface import EXPECTATION, Decoder, State
from show_attend_tell.model.precision import wide
from show_attend_tell.model.search.hypotheses import NEVER, Hypothesis, Trail, read_back, repeating


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
    allow_repetitions: bool = True,
) -> list[list[Hypothesis]]:
    """Captions drawn word by word from p(y_t), ``captions`` a photo, each photo by its own seed.

    Without ``allow_empty`` the end token is never drawn first. Without ``allow_repetitions`` no caption has a word
    twice in a row, or the same three words in a row twice. ``temperature`` divides the logits, ``top_k`` keeps the k
    likeliest words (0: all), ``top_p`` the smallest set with that probability. `Hypothesis.log_probability` is the
    model's own, before these. Raises `SatError` for a temperature not above 0, a top_k below 0 or a top_p outside
    (0, 1].
    """
    check_sampling(captions, temperature, top_k, top_p)
    if max_length < 1:
        raise SatError(f"the longest caption is {max_length}: give at least 1")
    batch, device = annotations.shape[0], annotations.device
    state: State = decoder.start(annotations, paths=captions)
    words = torch.full((batch, captions), decoder.vocabulary_size, device=device)
    said = words.new_empty(batch, captions, 0)  # by each path so far (B, P, t)
    scores = torch.zeros((batch, captions), device=device)
    finished = torch.zeros((batch, captions), dtype=torch.bool, device=device)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    trail: list[Trail] = []
    photos = torch.arange(batch, device=device)
    paths = torch.arange(captions, device=device).expand(batch, -1)

    for _ in range(max_length):
        step = decoder.step(decoder.embed(words), state, look)
        log_probabilities = torch.log_softmax(wide(decoder.read_out(step.output)), dim=-1)
        weights = narrowed(
            log_probabilities,
            temperature,
            top_k,
            top_p,
            allow_unknown,
            allow_end=allow_empty or bool(trail),
            again=repeating(said) if trail and not allow_repetitions else None,
        )
        uniform = torch.stack([torch.rand(captions, generator=g) for g in generators]).to(device)
        words = drawn_words(weights, uniform).masked_fill(finished, Vocabulary.END)
        picked = log_probabilities.gather(-1, words[..., None]).squeeze(-1)
        scores = scores + picked.masked_fill(finished, 0.0)
        trail.append(Trail(photos, words, paths, paths, step.alpha, step.beta, step.places))
        state, said = step.state, torch.cat([said, words[..., None]], dim=-1)
        finished = finished | (words == Vocabulary.END)
        if finished.all():
            break

    return read_back(trail, scores, finished, least=captions)


def drawn_words(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Words (...), each drawn in proportion to its weights (..., K) by a number from 0 to 1 (...)."""
    cumulative = weights.cumsum(-1)
    threshold = uniforms[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1).clamp_max(weights.shape[-1] - 1)


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
    log_probabilities: Tensor,
    temperature: float,
    top_k: int,
    top_p: float,
    allow_unknown: bool,
    allow_end: bool = True,
    again: Tensor | None = None,
) -> Tensor:
    """The distribution to draw words from (B, P, K), after temperature, top-k and top-p in that order.

    The words that a path may not say ``again`` (B, P, ·) have no share in it.
    """
    logits = log_probabilities / max(temperature, 1e-30)  # what is smaller divides to −∞
    if not allow_unknown:
        logits[..., Vocabulary.UNKNOWN] = NEVER
    if not allow_end:
        logits[..., Vocabulary.END] = NEVER
    if again is not None:
        logits = logits.scatter(-1, again, NEVER)
    if 0 < top_k < logits.shape[-1]:
        kept = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, NEVER).scatter(-1, kept.indices, kept.values)
    probabilities = torch.softmax(logits, dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        outside = ordered.cumsum(-1) - ordered >= top_p  # the word that crosses top_p is kept
        probabilities = probabilities.scatter(-1, order, ordered.masked_fill(outside, 0.0))
    return probabilities
