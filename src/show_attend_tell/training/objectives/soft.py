"""The soft model's loss (eq. 9)."""

import torch
from pydantic import Field
from torch import Tensor

from show_attend_tell.model.attention import AttentionMode, MeanAttention
from show_attend_tell.model.interface import DecoderOutput
from show_attend_tell.settings import Amount, ShareBelowOne, settings
from show_attend_tell.training.objectives.losses import Loss, Objective, doubly_stochastic, entropy
from show_attend_tell.training.ranks import ALL, Part


@settings(frozen=False)
class SoftObjective(Objective):
    """−log p(y|a) + λ Σ_i (1 − Σ_t α_ti)² of a caption; the loss is its mean over the batch (eq. 9)."""

    doubly_stochastic: Amount = Field(0.33, description="λ; the authors' program's value at batches of 64")
    label_smoothing: ShareBelowOne = 0.0

    paths = 1

    def draw(self, batch: int, steps: int, generator: torch.Generator, part: Part = ALL) -> AttentionMode:
        """Nothing is drawn: every path reads the expectation."""
        return MeanAttention()

    def __call__(self, output: DecoderOutput, captions: Tensor, mode: AttentionMode | None = None) -> Loss:
        """The loss of captions (B, C). The ``mode`` is not read; it is there because `HardObjective` needs it."""
        log_probabilities, words = self.word_losses(output.logits, captions)
        loss = words.sum(-1).mean()
        watch = {"nats_per_word": -log_probabilities.detach().mean()}
        if output.penalty is not None:
            loss = loss + output.penalty.mean()
            watch["penalty"] = output.penalty.detach().mean()
        if output.alpha is not None:
            loss = loss + self.doubly_stochastic * doubly_stochastic(output.alpha).mean()
            watch["entropy"] = entropy(output.alpha.detach()).mean()
        return Loss(loss, watch)
