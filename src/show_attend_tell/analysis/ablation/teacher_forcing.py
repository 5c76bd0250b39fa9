"""Telling a caption to a decoder, from the first word on or at every word's own step with what came before unchanged.

T words of a caption, end token excluded · R rows, each another way of telling it · L places · D annotation size.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from show_attend_tell.data.datasets import Example
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import AttentionMode, SampleAttention, attention_mode_by_name
from show_attend_tell.model.interface import (
    Decoder,
    Parts,
    State,
    at_step,
    map_parts,
    previous_words,
    teacher_forcing,
    word_log_probabilities,
)
from show_attend_tell.settings import AttentionModeName


class Looking(NamedTuple):
    """A way of looking at a photo, with the photo's seed for places that are sampled."""

    name: AttentionModeName
    seed: int

    def along(self, ids: Tensor, rows: int = 1) -> AttentionMode:
        """For telling a caption (1, T) in that many rows: all draw the same places, where places are drawn."""
        steps = ids.shape[1]
        return attention_mode_by_name(self.name, seeds=[self.seed] * rows, paths=1, steps=steps, device=ids.device)

    def at_once(self, ids: Tensor, rows: int) -> AttentionMode:
        """For one step in which each word of a caption (1, T) is a path: with the draws that `along` has for it."""
        mode = self.along(ids, rows)
        return SampleAttention(mode.uniforms.mT) if isinstance(mode, SampleAttention) else mode  # (R, 1, T) → (R, T, 1)


class Watched(NamedTuple):
    """A caption of a photo as it was told with everything visible: where the model looked, and what it expected."""

    example: Example
    looking: Looking
    ids: Tensor  # (1, T)
    words: list[str]  # T
    alpha: Tensor  # (T, L)
    beta: Tensor | None  # (T,)
    visible: Tensor  # log p of each word (T,)
    memory: Parts  # the decoder's memory before each word, each tensor (1, T, ...)


def watch(
    decoder: Decoder, example: Example, annotations: Tensor, words: list[str], ids: Tensor, looking: Looking
) -> Watched:
    """Tell a caption (1, T) of a photo with annotations (1, L, D).

    Raises `SatError` for a decoder without attention.
    """
    mode, state = looking.along(ids), decoder.start(annotations)
    embedded = decoder.embed(previous_words(decoder, ids))  # (1, T, ·)
    memory, alpha, beta, log_p = [], [], [], []
    for time in range(ids.shape[1]):
        memory.append(state.memory)
        step = decoder.step(at_step(embedded, time, 1), state, mode)
        state = step.state
        if step.alpha is None:
            raise SatError("a decoder without attention has no gaze to watch")
        alpha.append(step.alpha[0])
        beta.append(step.beta)
        log_p.append(word_log_probabilities(decoder.read_out(step.output)[:, :, None], ids[:, [time]])[0, 0])
    return Watched(
        example=example,
        looking=looking,
        ids=ids,
        words=words,
        alpha=torch.cat(alpha),
        beta=None if beta[0] is None else torch.cat([each[0] for each in beta if each is not None]),
        visible=torch.cat(log_p),
        memory=map_parts(lambda *steps: torch.cat(steps, dim=1), *memory),
    )


def force_throughout(
    decoder: Decoder, annotations: Tensor, ids: Tensor, mode: AttentionMode, *, paths: int = 1
) -> Tensor:
    """log p of every word (R, P, T) of a caption (1, T), told from the first word on for annotations (R, L, D)."""
    captions = ids.expand(len(annotations), -1)
    return word_log_probabilities(
        teacher_forcing(decoder, annotations, captions, paths=paths, mode=mode).logits, captions
    )


def force_at_words(decoder: Decoder, source: Parts, watched: Watched, mode: AttentionMode, rows: int) -> Tensor:
    """log p of every word (R, T) of a watched caption, each told by one step, from what the model remembered before it.

    Every word is a path of its own, so that one step tells them all. ``source`` is the photo as `Decoder.start` gives
    it, with R rows or with one that all share.
    """

    def in_every_row(part: Tensor) -> Tensor:
        return part.expand(rows, *part.shape[1:])

    state = State(map_parts(in_every_row, source), map_parts(in_every_row, watched.memory))
    embedded = map_parts(in_every_row, decoder.embed(previous_words(decoder, watched.ids)))
    logits = decoder.read_out(decoder.step(embedded, state, mode).output)  # (R, T, K)
    return word_log_probabilities(logits[:, None], watched.ids.expand(rows, -1))[:, 0]  # T as the steps of one path
