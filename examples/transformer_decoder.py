"""A small Transformer as the decoder: a plugin, to be read and changed.

    sat train flickr8k/ --plugin examples/transformer_decoder.py --decoder transformer --output my-transformer

B batch · P paths of one photo · L locations · D annotation size · n size · K vocabulary · C caption length · t words so
far.

After Vaswani et al. 2017, with the norms before the layers. The words so far, with their positions, attend to each
other, causally, by several heads. Then each attends to the locations of the photo, by one head, whose weights are α;
all that it sees of the photo comes through the attention mode, so that maps and evidence leave nothing out. Further
blocks look back at what earlier words have seen. The word before the first is the photo's mean annotation.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from show_attend_tell import SatError, register_decoder
from show_attend_tell.model.attention import AttentionMode, MeanAttention
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import (
    MEAN_ATTENTION,
    Decoder,
    DecoderOutput,
    State,
    Step,
    check_annotations,
    initial_state,
    previous_words,
)
from show_attend_tell.settings import Count, ShareBelowOne, settings


@settings
class TransformerConfig(Config):
    """The sizes of a `TransformerDecoder`."""

    kind = "transformer"
    attention = "soft"  # without this line it is "none": its steps have no α
    size: Count = 128  # n
    heads: Count = 4  # of the attention to words
    blocks: Count = 2
    dropout: ShareBelowOne = 0.1

    def __post_init__(self) -> None:
        """Raises `SatError` for a size that the heads cannot share."""
        if self.size % (2 * self.heads):
            raise SatError(f"size is {self.size}: give a multiple of {2 * self.heads}, twice the heads")


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each after a norm and added to what it reads."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        n = config.size
        self.heads = config.heads
        self.norm = nn.LayerNorm(n)
        self.project = nn.Linear(n, 3 * n)  # to queries, keys and values
        self.attended = nn.Linear(n, n)
        self.feed_forward = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))
        self.dropout = nn.Dropout(config.dropout)

    def attend(self, words: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let words (..., C, n) attend to those before and to themselves; also their keys and values (..., t, 2n).

        ``past`` has the keys and values of words before; a single word follows them.
        """
        n = words.shape[-1]
        queries, own = self.project(self.norm(words)).split([n, 2 * n], dim=-1)
        known = own if past is None else torch.cat([past, own], dim=-2)
        keys, values = known.chunk(2, dim=-1)
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in (queries, keys, values)
        )
        seen = scaled_dot_product_attention(queries, keys, values, is_causal=past is None)
        return words + self.dropout(self.attended(seen.transpose(-2, -3).flatten(-2))), known

    def feed(self, words: Tensor) -> Tensor:
        """Words (..., n) after the feed-forward layer."""
        fed: Tensor = self.dropout(self.feed_forward(words))
        return words + fed


class TransformerDecoder(Decoder):
    """A Transformer that reads the photo through one attention with the weights α."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = config.vocabulary_size
        K, D, n = config.vocabulary_size, config.annotation_size, config.size
        self.annotation_norm = nn.LayerNorm(D)
        self.first_word = nn.Linear(D, n)  # of the mean annotation
        self.embedding = nn.Embedding(K + 1, n, padding_idx=K)  # the last row, for the word before the first, stays 0
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.look_norm = nn.LayerNorm(n)
        self.query = nn.Linear(n, n)
        self.key = nn.Linear(D, n)
        self.context = nn.Linear(D, n)
        self.output_norm = nn.LayerNorm(n)
        self.output_words = nn.Linear(n, K)
        nn.init.normal_(self.embedding.weight, std=n**-0.5)
        nn.init.zeros_(self.embedding.weight[K])

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """Annotations and keys of the photo; of each path the keys and values of its words, none yet."""
        check_annotations(annotations, self.config.annotation_size)
        annotations = self.annotation_norm(annotations)
        first = self.first_word(annotations.mean(1))
        nothing = annotations.new_zeros(len(annotations), paths, 0, 2 * self.config.size)
        return State(source=(annotations, self.key(annotations), first), memory=(nothing,) * self.config.blocks)

    def embed(self, words: Tensor) -> Tensor:
        """Words (...) as vectors (..., n), without their positions."""
        vectors: Tensor = self.embedding(words)
        return vectors

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        """One word of every path, by the keys and values of those before it."""
        time = state.memory[0].shape[2]
        words = embedded + positions(time, 1, embedded)[0]
        if time == 0:
            words = words + state.source[2][:, None]
        output, alpha, locations, memory = self.read(words[:, :, None], state, mode)
        return Step(output[:, :, 0], State(state.source, memory), alpha=alpha[:, :, 0], locations=locations)

    def read(
        self, words: Tensor, state: State, mode: AttentionMode, *, at_once: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | None, tuple[Tensor, ...]]:
        """What follows from words (B, P, C, n): outputs, α (B, P, C, L), locations (B, P), and keys and values.

        One word of each path (C = 1), or all words of one path each (P = 1) ``at_once``.
        """
        annotations, keys, _ = state.source
        memory = []
        alpha = locations = None
        for number, block in enumerate(self.blocks):
            words, known = block.attend(words, None if at_once else state.memory[number])  # type: ignore[operator]
            memory.append(known)
            if number == 0:
                rows = words.flatten(1, 2)  # (B, P · C, n)
                energies = self.query(self.look_norm(rows)) @ keys.mT / math.sqrt(keys.shape[-1])
                alpha = torch.softmax(energies, dim=-1)
                context, locations = mode(alpha, annotations)
                words = words + self.context(context).view_as(words)
            words = block.feed(words)  # type: ignore[operator]
        assert alpha is not None
        return words, alpha.view(*words.shape[:3], -1), locations, tuple(memory)

    def read_out(self, output: Tensor) -> Tensor:
        """Logits (..., K)."""
        logits: Tensor = self.output_words(self.output_norm(output))
        return logits

    def teacher_forcing(
        self,
        annotations: Tensor,
        captions: Tensor,
        *,
        paths: int = 1,
        mode: AttentionMode = MEAN_ATTENTION,
        history: Tensor | None = None,
    ) -> DecoderOutput:
        """All steps at once for one path by the mean; other modes, which may count steps, go step by step."""
        if paths > 1 or not isinstance(mode, MeanAttention):
            return super().teacher_forcing(annotations, captions, paths=paths, mode=mode, history=history)
        state = initial_state(self, annotations)
        words = self.embed(previous_words(self, captions if history is None else history))  # (B, C, n)
        words = words + positions(0, words.shape[1], words)
        words = torch.cat([words[:, :1] + state.source[2][:, None], words[:, 1:]], dim=1)
        output, alpha, _, _ = self.read(words[:, None], state, mode, at_once=True)
        return DecoderOutput(self.read_out(output), alpha, None, None, output=output)


def positions(first: int, count: int, like: Tensor) -> Tensor:
    """Sines and cosines (count, n) of the positions from ``first`` on, in the type and on the device of a tensor."""
    n = like.shape[-1]
    times = torch.arange(first, first + count, device=like.device, dtype=torch.float32)
    rates = torch.exp(torch.arange(0, n, 2, device=like.device) * (-math.log(10_000) / n))
    angles = times[:, None] * rates
    waves: Tensor = torch.cat([angles.sin(), angles.cos()], dim=-1) * n**-0.5
    return waves.to(like.dtype)


register_decoder(TransformerConfig, TransformerDecoder)
