"""What training and search know of a decoder: its methods `start`, `embed`, `step` and `read_out`.

B batch · P paths of one photo (beams, sampled sequences) · L locations · D annotation size · K vocabulary · C caption
length with the end token.

`decoder` has the paper's decoder, and `registry` finds a decoder by its kind. To write a new one, read `Decoder` below.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import AttentionMode, MeanAttention
from show_attend_tell.model.config import Config
from show_attend_tell.model.kernels import Kernels, promote

MEAN_ATTENTION = MeanAttention()

# What a decoder's methods hand to each other: one tensor, or a tuple of parts (best a named tuple). Each decoder
# defines its own and is the only one to look inside; everybody else passes it on, by `map_parts` where its tensors
# have to be sliced or stacked. So it is Any here, and each decoder's methods name the type.
Parts: TypeAlias = Any


def map_parts(function: Callable[..., Tensor], *parts: Parts) -> Parts:
    """Apply a function of tensors to each tensor of some parts, or to each two, three, … of parts that are alike."""
    first = parts[0]
    if isinstance(first, Tensor):
        return function(*parts)
    results = [map_parts(function, *alike) for alike in zip(*parts, strict=True)]
    return type(first)(*results) if hasattr(first, "_fields") else tuple(results)  # a named tuple stays one


class State(NamedTuple):
    """What a decoder carries from one step to the next."""

    source: Parts  # of a photo, each tensor (B, ...): no step changes it, and the photo's paths share it
    memory: Parts  # of a path, each tensor (B, P, ...)

    def select(self, paths: Tensor) -> "State":
        """The state whose path p continues the old path ``paths[b, p]``, for paths (B, P′): how a beam reorders."""
        rows = torch.arange(paths.shape[0], device=paths.device)[:, None]
        return State(self.source, map_parts(lambda part: part[rows, paths], self.memory))


class Step(NamedTuple):
    """What one step gives."""

    output: Parts  # what `read_out` computes logits from, each tensor (B, P, ...)
    state: State
    alpha: Tensor | None = None  # α_t (B, P, L); None for a decoder without attention
    beta: Tensor | None = None  # β_t (B, P); None without a gate
    locations: Tensor | None = None  # s_t, the one location attended to (B, P); None for the mean of all


class DecoderOutput(NamedTuple):
    """What a decoder gives for captions whose words it is fed: the result of `Decoder.teacher_forcing`."""

    logits: Tensor  # (B, P, C, K)
    alpha: Tensor | None  # (B, P, C, L)
    beta: Tensor | None  # (B, P, C)
    locations: Tensor | None  # (B, P, C)
    penalty: Tensor | None = None  # (B, P), what training adds to a caption's loss besides the words' own
    output: Parts = None  # `Step.output` of all steps, each tensor (B, P, C, ·)


class Decoder(nn.Module):
    """A distribution over the next word, given a photo and the words so far.

    Training (`teacher_forcing`) and every search call these methods, in this order:

    1. ``state = decoder.start(annotations, paths=P)`` once for the photos (by `initial_state`);
    2. ``embedded = decoder.embed(words)`` for the previous words, of one step or of all steps at once;
    3. ``step = decoder.step(embedded, state, mode)`` once a word; ``step.state`` is the state of the next word;
    4. ``logits = decoder.read_out(step.output)``, of one step or of all steps at once.

    A subclass writes the four methods and sets ``vocabulary_size``. To be trained by ``sat train`` and saved, it also
    sets ``config`` and is registered (`registry.register_decoder`). What it passes from `embed` to `step` and from
    `step` to `read_out` is its own choice: a tensor, or a named tuple of tensors.
    """

    config: Config
    vocabulary_size: int  # K; this is also the id of the word before the first, which no vocabulary has
    kernels: Kernels | None = None  # the compiled loops of a training that is long enough, for a decoder that uses them

    @property
    def attends(self) -> bool:
        """Whether the decoder weighs locations differently, and its steps have α."""
        return self.config.attends

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The state before the first word.

        Gets annotations (B, L, D) in the type of the decoder's weights. Gives a `State` whose ``source`` has one row a
        photo (B, ...) and whose ``memory`` has one row a path (B, P, ...), the same for the P paths of a photo. Put
        into ``source`` what stays the same for the whole caption, and compute it here, once.
        """
        raise NotImplementedError

    def embed(self, words: Tensor) -> Parts:
        """All that a step needs of the previous words.

        Gets word ids of any shape (...), from 0 to ``vocabulary_size``, which stands for the word before the first.
        Gives tensors that begin with that shape, (..., ·). It must not depend on the photo or on other words.
        """
        raise NotImplementedError

    def step(self, embedded: Parts, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        """One step of every path.

        Gets the previous words as `embed` gave them, each tensor (B, P, ·), the state, and the attention mode. If the
        decoder has attention, it calls ``mode`` exactly once, with α (B, P, L) and the annotations (B, L, D). Gives a
        `Step`; its ``state`` has the ``source`` that it got.
        """
        raise NotImplementedError

    def read_out(self, output: Parts) -> Tensor:
        """Logits of the next word.

        Gets ``Step.output`` with any leading shape, each tensor (..., ·): (B, P) for one step, (B, P, C) for all
        steps. Gives logits (..., K). It must not depend on other steps.
        """
        raise NotImplementedError

    def teacher_forcing(
        self,
        annotations: Tensor,
        captions: Tensor,
        *,
        paths: int = 1,
        mode: AttentionMode = MEAN_ATTENTION,
        history: Tensor | None = None,
    ) -> DecoderOutput:
        """Run over captions (B, C) that end with the end token, along ``paths`` paths each, step by step.

        A decoder that computes all steps at once overrides it. Captions may be padded at their ends with any words;
        ignore the results there. Each step is fed the true word before it (`previous_words`), or that of ``history``
        (B, C) if given (scheduled sampling).
        """
        embedded = self.embed(previous_words(self, captions if history is None else history))
        state = initial_state(self, annotations, paths=paths)
        taken: list[Step] = []
        for time in range(captions.shape[-1]):
            taken.append(self.step(at_step(embedded, time, paths), state, mode))
            state = taken[-1].state

        def over_time(*steps: Tensor) -> Tensor:
            return torch.stack(steps, dim=2)

        def gather(name: str) -> Tensor | None:
            values = [getattr(step, name) for step in taken]
            return None if values[0] is None else over_time(*values)

        output = map_parts(over_time, *(step.output for step in taken))
        logits = self.read_out(output)
        return DecoderOutput(logits, gather("alpha"), gather("beta"), gather("locations"), output=output)


def check_annotations(annotations: Tensor, size: int) -> None:
    """Raise `SatError` unless annotations have the shape (B, L, D) with D = ``size``."""
    if annotations.dim() != 3 or annotations.shape[-1] != size:
        raise SatError(
            f"annotations of shape {tuple(annotations.shape)} do not fit this decoder: give (B, L, D) with D = {size}"
        )


def initial_state(decoder: Decoder, annotations: Tensor, *, paths: int = 1) -> State:
    """`Decoder.start` on annotations in the type of the decoder's weights; cached annotations have half precision."""
    weights = next((parameter for parameter in decoder.parameters() if parameter.is_floating_point()), annotations)
    return decoder.start(annotations.to(weights.dtype), paths=paths)


def previous_words(decoder: Decoder, captions: Tensor) -> Tensor:
    """The word before each word of captions (..., C), which a decoder is fed at that word's step."""
    first = captions.new_full((*captions.shape[:-1], 1), decoder.vocabulary_size)
    return torch.cat([first, captions[..., :-1]], dim=-1)


def at_step(embedded: Parts, time: int, paths: int) -> Parts:
    """One step of what a decoder embedded of all steps (B, C, ·), for that many equal paths (B, P, ·)."""
    return map_parts(lambda part: part[:, time, None].expand(-1, paths, *part.shape[2:]), embedded)


def word_log_probabilities(logits: Tensor, captions: Tensor) -> Tensor:
    """log p(y_t | history) (B, P, C) of captions (B, C), from logits (B, P, C, K), in float32 at least."""
    target = captions[:, None, :, None].expand(*logits.shape[:-1], 1)
    picked = promote(logits.gather(-1, target).squeeze(-1))
    return picked - promote(logits).logsumexp(-1)


def drawn_words(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Words (...), each drawn in proportion to its weights (..., K) by a number from 0 to 1 (...)."""
    cumulative = weights.cumsum(-1)
    threshold = uniforms[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1).clamp_max(weights.shape[-1] - 1)
