"""Teacher forcing of a caption, from the first word on or at each word's own step with what came before unchanged.

T words of a caption, end token excluded · R rows, each another view of the photo or another map · L locations · D
annotation size.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from show_attend_tell.data.datasets import Example
from show_attend_tell.model.attention import AttentionMode, SampleAttention, attention_mode_by_name
from show_attend_tell.model.interface import (
    Decoder,
    Parts,
    State,
    at_step,
    map_parts,
    previous_words,
    word_log_probabilities,
)
from show_attend_tell.settings import AttentionModeName


class SeededMode(NamedTuple):
    """An attention mode for one photo, whose seed draws the locations that are sampled."""

    name: AttentionModeName
    seed: int

    def along(self, ids: Tensor, rows: int = 1) -> AttentionMode:
        """For a caption (1, T) in that many rows: all read the same locations, where these are sampled."""
        steps = ids.shape[1]
        return attention_mode_by_name(self.name, seeds=[self.seed] * rows, paths=1, steps=steps, device=ids.device)

    def at_once(self, ids: Tensor, rows: int) -> AttentionMode:
        """For one step in which each word of a caption (1, T) is a path: with the draws that `along` has for it."""
        mode = self.along(ids, rows)
        return SampleAttention(mode.uniforms.mT) if isinstance(mode, SampleAttention) else mode  # (R, 1, T) → (R, T, 1)


class Forced(NamedTuple):
    """A caption of a photo after teacher forcing with everything visible."""

    example: Example
    mode: SeededMode
    ids: Tensor  # (1, T)
    words: list[str]  # T
    alpha: Tensor  # (T, L)
    beta: Tensor | None  # (T,)
    log_p: Tensor  # of each word (T,)
    memory: Parts  # the decoder's memory before each word, each tensor (1, T, ...)


def force(
    decoder: Decoder, example: Example, annotations: Tensor, words: list[str], ids: Tensor, mode: SeededMode
) -> Forced:
    """Teacher forcing of a caption (1, T) of a photo with annotations (1, L, D), by a decoder with attention."""
    attention, state = mode.along(ids), decoder.start(annotations)
    embedded = decoder.embed(previous_words(decoder, ids))  # (1, T, ·)
    memory, alpha, beta, log_p = [], [], [], []
    for time in range(ids.shape[1]):
        memory.append(state.memory)
        step = decoder.step(at_step(embedded, time, 1), state, attention)
        state = step.state
        assert step.alpha is not None
        alpha.append(step.alpha[0])
        beta.append(step.beta)
        log_p.append(word_log_probabilities(decoder.read_out(step.output)[:, :, None], ids[:, [time]])[0, 0])
    return Forced(
        example=example,
        mode=mode,
        ids=ids,
        words=words,
        alpha=torch.cat(alpha),
        beta=None if beta[0] is None else torch.cat([each[0] for each in beta if each is not None]),
        log_p=torch.cat(log_p),
        memory=map_parts(lambda *steps: torch.cat(steps, dim=1), *memory),
    )


def log_p_throughout(decoder: Decoder, annotations: Tensor, forced: Forced) -> Tensor:
    """log p of every word (R, T) of a caption from the first word on, for annotations (R, L, D) instead of its own."""
    captions, mode = forced.ids.expand(len(annotations), -1), forced.mode.along(forced.ids, len(annotations))
    return word_log_probabilities(decoder.teacher_forcing(annotations, captions, mode=mode).logits, captions)[:, 0]


def log_p_at_words(decoder: Decoder, source: Parts, forced: Forced, mode: AttentionMode, rows: int) -> Tensor:
    """log p of every word (R, T) of a caption by one step each, from the decoder's memory before it.

    Every word is a path of its own, so that one step computes them all. ``source`` is the photo as `Decoder.start`
    gives it, with one row that all share.
    """

    def in_every_row(part: Tensor) -> Tensor:
        return part.expand(rows, *part.shape[1:])

    state = State(map_parts(in_every_row, source), map_parts(in_every_row, forced.memory))
    embedded = map_parts(in_every_row, decoder.embed(previous_words(decoder, forced.ids)))
    logits = decoder.read_out(decoder.step(embedded, state, mode).output)  # (R, T, K)
    return word_log_probabilities(logits[:, None], forced.ids.expand(rows, -1))[:, 0]  # T as the steps of one path
