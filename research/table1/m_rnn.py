"""m-RNN (Mao et al., *Explain Images with Multimodal Recurrent Neural Networks*, 2014): the photo at every step, after
the recurrence.

    w(t) = E₂ E₁ y_{t−1}                            two embedding layers
    r(t) = f₂(U_r r(t−1) + w(t))                    f₂ a rectifier; a simple recurrent layer, of w's size
    m(t) = g₂(V_w w(t) + V_r r(t) + V_I ā)          g₂(x) = 1.7159 tanh(2x/3); the multimodal layer
    p(y_t) = softmax(W_m m(t) + b)

ā is the mean annotation here. The first embedding has 256 values instead of 128. Nothing else is left out.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import Count, settings
from table1.baseline import Baseline, BaselineConfig, zeros


@settings
class MRnnConfig(BaselineConfig):
    """m-RNN's sizes."""

    kind = "m_rnn"
    system = "m-RNN (Mao et al., 2014)"
    embedding_size: Count = 256  # of E₁
    hidden_size: Count = 256  # of w and r
    multimodal_size: Count = 512  # of m


class MRnn(Baseline):
    """m-RNN."""

    config: MRnnConfig

    def __init__(self, config: MRnnConfig) -> None:
        super().__init__(config)
        n, M = config.hidden_size, config.multimodal_size
        self.second_embedding = nn.Linear(config.embedding_size, n, bias=False)  # E₂
        self.recurrence = nn.Linear(n, n, bias=False)  # U_r
        self.multimodal_from_word = nn.Linear(n, M)  # V_w
        self.multimodal_from_recurrence = nn.Linear(n, M, bias=False)  # V_r
        self.multimodal_from_photo = nn.Linear(config.annotation_size, M, bias=False)  # V_I
        self.output = nn.Linear(M, config.vocabulary_size)
        self.initialize()

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source is the photo's share of the multimodal layer; r is zero."""
        photo = self.multimodal_from_photo(self.mean_annotation(annotations))  # (B, 1, M)
        return State((photo,), (zeros(photo, paths, self.config.hidden_size),))

    def embed(self, words: Tensor) -> Tensor:
        """w(t) (..., n) of words (...)."""
        embedded: Tensor = self.second_embedding(super().embed(words))
        return embedded

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        (photo,), (recurrent,) = state
        recurrent = promote(torch.relu(self.recurrence(recurrent) + embedded))  # r(t) (B, P, n)
        total = self.multimodal_from_word(embedded) + self.multimodal_from_recurrence(recurrent) + photo
        return Step(1.7159 * torch.tanh(total * 2 / 3), State(state.source, (recurrent,)))
