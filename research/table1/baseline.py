"""What the systems without attention share: the mean annotation that they read, and their words' embeddings.

The originals read the photo from the last fully connected layer of a network. Here they read the mean annotation
ā = (1/L) Σ_i a_i of the map that the attention decoder attends to, normalized to mean 0 and variance 1 over its
channels. So they differ from the attention decoder in their architecture, and not in their features.

B batch · P paths of one photo · L locations · D annotation size · m word-embedding size · n size of the recurrence · K
vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from show_attend_tell.model.config import Config
from show_attend_tell.model.decoder import Dropout
from show_attend_tell.model.interface import Decoder, Parts, check_annotations
from show_attend_tell.settings import Count, ShareBelowOne, settings


@settings
class BaselineConfig(Config):
    """What their configurations share. Raises `SatError` for a size below one and for a dropout outside [0, 1)."""

    system = ""  # the name of the system and its source
    embedding_size: Count = 512  # m
    dropout: ShareBelowOne = 0.5  # on the input of the last layer
    annotation_dropout: ShareBelowOne = 0.3  # on the channels of the mean annotation
    embedding_dropout: ShareBelowOne = 0.3  # on the words' embeddings

    @property
    def title(self) -> str:
        return (
            f"{self.system}, as a system to compare *Show, Attend and Tell* (Xu et al., ICML 2015) with. It has no "
            "attention: it reads the mean of the annotations, where the original read a fully connected layer."
        )


class Baseline(Decoder):
    """What the systems share: the mean annotation, and embeddings of the words and of the word before the first."""

    output: nn.Linear

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config: Any = config
        self.vocabulary_size = config.vocabulary_size
        self.embedding = nn.Embedding(config.vocabulary_size + 1, config.embedding_size)
        self.dropout = Dropout(config.dropout)
        self.annotation_dropout = Dropout(config.annotation_dropout)
        self.embedding_dropout = Dropout(config.embedding_dropout)

    def initialize(self) -> None:
        """Draw weights like the attention decoder's: uniformly from ±1/√(inputs), words from a Gaussian of 0.05."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.uniform_(module.weight, -(module.in_features**-0.5), module.in_features**-0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=0.05)

    def mean_annotation(self, annotations: Tensor) -> Tensor:
        """The mean annotation (B, 1, D) of annotations (B, L, D).

        Raises `SatError` for annotations of another shape or size.
        """
        D = self.config.annotation_size
        check_annotations(annotations, D)
        mean = annotations.to(self.embedding.weight.dtype).mean(1, keepdim=True)
        photo: Tensor = self.annotation_dropout(nn.functional.layer_norm(mean, (D,)))
        return photo

    def embed(self, words: Tensor) -> Tensor:
        """The embeddings (..., m) of words (...)."""
        embedded: Tensor = self.embedding_dropout(self.embedding(words))
        return embedded

    def read_out(self, output: Parts) -> Tensor:
        """The logits (..., K) of one linear layer, which most of the systems end with."""
        logits: Tensor = self.output(self.dropout(output))
        return logits


def zeros(photo: Tensor, paths: int, size: int) -> Tensor:
    """A memory of zeros (B, P, n) for a photo (B, 1, ·), in float32 also under autocast."""
    return torch.zeros(photo.shape[0], paths, size, device=photo.device)
