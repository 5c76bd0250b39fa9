"""Small decoders with co-prime sizes, and decoders whose words are known."""

from dataclasses import fields
from typing import Any, NamedTuple

import table1  # noqa: F401  registers the decoders of Table 1
import torch
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import Decoder, State, Step
from show_attend_tell.model.registry import build, config_class

# No two axes have one size, so that none can be taken for another unnoticed.
B, P, L, C = 2, 3, 5, 7
SIZES = {"annotation_size": 11, "hidden_size": 13, "embedding_size": 17, "attention_size": 19, "vocabulary_size": 23}


def small_decoder(*, seed: int = 1, spread: float = 0.5, **options: object) -> AttentionDecoder:
    """An untrained decoder in eval mode whose every weight and bias is drawn wide enough to matter."""
    decoder = AttentionDecoder(DecoderConfig(**{**SIZES, **options})).eval()  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
        decoder.embedding.weight[-1] = 0
        decoder.annotation_scale.fill_(0.7)
    return decoder


def small_annotations(
    batch: int = B, locations: int = L, size: int = SIZES["annotation_size"], seed: int = 2
) -> Tensor:
    """Annotations as a ReLU leaves them (B, L, D)."""
    return torch.randn(batch, locations, size, generator=torch.Generator().manual_seed(seed)).relu()


def small_captions(batch: int = B, steps: int = C, vocabulary: int = SIZES["vocabulary_size"], seed: int = 3) -> Tensor:
    """Captions (B, C) of real words, the end token last."""
    words = torch.randint(2, vocabulary, (batch, steps), generator=torch.Generator().manual_seed(seed))
    words[:, -1] = Vocabulary.END
    return words


class Line(NamedTuple):
    """Where `Scripted` reads its logits."""

    photo: Tensor
    word: Tensor  # the one before


class Scripted(Decoder):
    """A decoder without attention that reads its logits after each word from a table.

    The table is (K + 1, K), or one for each photo (B, K + 1, K); its last row is for the first word. The state is the
    photo's number.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table if table.dim() == 3 else table[None]
        self.vocabulary_size = table.shape[-1]

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        photos = torch.arange(len(annotations)) % len(self.table)
        return State(source=(), memory=(photos[:, None].expand(-1, paths),))

    def embed(self, words: Tensor) -> Tensor:
        return words

    def step(self, embedded: Tensor, state: State, mode: object = None) -> Step:
        return Step(Line(state.memory[0], embedded), state)

    def read_out(self, output: Line) -> Tensor:
        return self.table[output.photo, output.word]


BASELINE_SIZES = {"annotation_size": 11, "embedding_size": 17, "vocabulary_size": 23}
OWN_SIZES = {  # co-prime again
    "nic": {"hidden_size": 13},
    "lrcn": {"hidden_size": 13},
    "log_bilinear": {"context_words": 3},
    "m_rnn": {"hidden_size": 13, "multimodal_size": 19},
    "brnn": {"hidden_size": 13},
    "cmu_msr": {"hidden_size": 13, "visual_size": 10},
    "msr": {"detected": 14, "hidden_size": 13, "window": 1, "contexts": 30, "ngrams": 60},
}


def small_baseline(kind: str, **options: Any) -> Decoder:
    """A decoder in eval mode whose every weight and bias is drawn wide enough to matter."""
    config = config_class(kind)
    has = {field.name for field in fields(config)}
    shared = {name: size for name, size in BASELINE_SIZES.items() if name in has}
    decoder = build(config(**{**shared, **OWN_SIZES[kind], **options})).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return decoder
