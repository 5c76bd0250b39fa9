"""The log-bilinear model with the photo as a bias (Kiros et al., *Multimodal Neural Language Models*, 2014): MLBL-B.

    r̂ = Σ_{i=1..N} C⁽ⁱ⁾ r_{w_{t−i}} + C⁽ᵐ⁾ ā       the representation predicted from the last N words and the photo
    p(w_t = k) ∝ exp(r̂ᵀ r_k + b_k)                  r_k is the word's own representation, the same as above

It has no recurrence and no nonlinearity: it knows only the last N words of the sentence. Before the first word there
are N start words. ā is the mean annotation here. Left out: MLBL-F, in which the photo gates the words' factors.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.settings import Count, settings
from table1.baseline import Baseline, BaselineConfig


@settings
class LogBilinearConfig(BaselineConfig):
    """The log-bilinear model's sizes."""

    kind = "log_bilinear"
    system = "The log-bilinear model biased by the photo (Kiros et al., 2014)"
    context_words: Count = 5  # N


class LogBilinear(Baseline):
    """MLBL-B."""

    config: LogBilinearConfig

    def __init__(self, config: LogBilinearConfig) -> None:
        super().__init__(config)
        m = config.embedding_size
        self.context = nn.Linear(config.context_words * m, m, bias=False)  # C⁽ᴺ⁾ … C⁽¹⁾ side by side
        self.photo_bias = nn.Linear(config.annotation_size, m, bias=False)  # C⁽ᵐ⁾
        self.output_bias = nn.Parameter(torch.zeros(config.vocabulary_size))  # b
        self.initialize()

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source is the photo's bias; the memory has N − 1 embedded start words, the oldest first."""
        photo = self.photo_bias(self.mean_annotation(annotations))  # (B, 1, m)
        before = torch.full((photo.shape[0], paths, self.config.context_words - 1), self.vocabulary_size)
        return State((photo,), (self.embed(before.to(photo.device)).flatten(2),))  # (B, P, (N − 1) m)

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        (photo,), (before,) = state
        words = torch.cat([before, embedded], dim=-1)  # (B, P, N m)
        predicted = self.context(words) + photo  # r̂ (B, P, m)
        return Step(predicted, State(state.source, (words[..., self.config.embedding_size :],)))

    def read_out(self, output: Tensor) -> Tensor:
        return nn.functional.linear(self.dropout(output), self.embedding.weight[:-1], self.output_bias)
