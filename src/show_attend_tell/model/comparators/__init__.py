"""The systems that the paper's Table 1 compares it with, each a short file that reads as its own paper's equations.

None of them looks. The originals read the photo through a network's top fully connected layer; these read the mean
annotation ā = (1/L) Σ_i a_i of the very map that the attention decoder looks at, normalised to mean 0 and variance 1
over its channels. So what separates them from it is attention and their architecture, and not the features.

They share data, training, search and scoring with the attention decoder through `decoder.Decoder`, and nothing
imports them: `kinds` finds them by name. `retrieval`, which makes no sentences of its own, is no decoder.

B batch · P paths of one photo · L places · D annotation size · m word-embedding size · n size of the recurrence · K
vocabulary.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from show_attend_tell.errors import SatError
from show_attend_tell.model.interface import Config, Decoder


@dataclass(frozen=True, kw_only=True)
class ComparatorConfig(Config):
    """What the comparators' configurations share; raises `SatError` for sizes below one and dropouts outside [0, 1)."""

    system = ""  # its name and source
    embedding_size: int = 512  # m
    dropout: float = 0.5  # on what the words are read out of
    annotation_dropout: float = 0.0  # of channels of the mean annotation
    embedding_dropout: float = 0.0

    def __post_init__(self) -> None:
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        self.check(
            sizes=[name for name, value in entries.items() if isinstance(value, int)],
            dropouts=[name for name in entries if name.endswith("dropout")],
        )

    @property
    def title(self) -> str:
        return (
            f"{self.system}, as a system to compare *Show, Attend and Tell* (Xu et al., ICML 2015) with. It reads the "
            "mean of the annotations, where the original read a fully connected layer, and does not look anywhere."
        )

    @property
    def sizes(self) -> str:
        given = [
            (field.name, getattr(self, field.name))
            for field in fields(self)
            if field.name not in Config.__dataclass_fields__
        ]
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in given if isinstance(value, int))


class Comparator(Decoder):
    """What the comparators share: words with their embeddings, one for the word before the first, and the mean
    annotation."""

    def __init__(self, config: ComparatorConfig) -> None:
        super().__init__()
        self.config: Any = config
        self.vocabulary_size = config.vocabulary_size
        self.embedding = nn.Embedding(config.vocabulary_size + 1, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.annotation_dropout = nn.Dropout(config.annotation_dropout)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)

    def initialise(self) -> None:
        """As the attention decoder's: uniform in ±1/√(inputs), a Gaussian of 0.05 for the words, biases zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.uniform_(module.weight, -(module.in_features**-0.5), module.in_features**-0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=0.05)

    def mean_annotation(self, annotations: Tensor) -> Tensor:
        """The photo as these systems read it, (B, L, D) → (B, 1, D); L may be one, when it was averaged before."""
        D = self.config.annotation_size
        if annotations.dim() != 3 or annotations.shape[-1] != D:
            raise SatError(
                f"annotations of shape {tuple(annotations.shape)} do not fit this decoder: it needs (B, L, D) with "
                f"D = {D}"
            )
        mean = annotations.to(self.embedding.weight.dtype).mean(1, keepdim=True)
        photo: Tensor = self.annotation_dropout(nn.functional.layer_norm(mean, (D,)))
        return photo

    def embed(self, words: Tensor) -> Tensor:
        """The words' embeddings, (...) → (..., m)."""
        embedded: Tensor = self.embedding_dropout(self.embedding(words))
        return embedded


def zeros(photo: Tensor, paths: int, size: int) -> Tensor:
    """A memory (B, P, n) of nothing, in float32 also under autocast, for a photo (B, 1, ·)."""
    return torch.zeros(photo.shape[0], paths, size, device=photo.device)
