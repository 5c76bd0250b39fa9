"""The generator of BRNN (Karpathy and Li, *Deep Visual-Semantic Alignments*, 2014): the photo at the first step only.

    b_v = W_hi ā                                            (their eq. 13, with CNN(I) the mean annotation ā here)
    h_t = f(W_hx x_t + W_hh h_{t−1} + b_h + 1(t = 1) ⊙ b_v)  (14; f a rectifier, as in their program)
    p(y_t) = softmax(W_oh h_t + b_o)                        (15)

Left out: the bidirectional network that BRNN is named after, which aligns words with regions (another task).
"""

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import Count, settings
from table1.baseline import Baseline, BaselineConfig


@settings
class BrnnConfig(BaselineConfig):
    """The generator's sizes; the defaults are the original's."""

    kind = "brnn"
    system = "BRNN's generator (Karpathy and Li, 2014)"
    hidden_size: Count = 512  # n


class Brnn(Baseline):
    """BRNN's generator."""

    config: BrnnConfig

    def __init__(self, config: BrnnConfig) -> None:
        super().__init__(config)
        n = config.hidden_size
        self.hidden_from_word = nn.Linear(config.embedding_size, n)  # W_hx and b_h
        self.hidden_from_hidden = nn.Linear(n, n, bias=False)  # W_hh
        self.hidden_from_photo = nn.Linear(config.annotation_size, n, bias=False)  # W_hi
        self.output = nn.Linear(n, config.vocabulary_size)
        self.initialize()

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The memory is what the first step adds to the word: b_v, since h_0 is zero."""
        photo = promote(self.hidden_from_photo(self.mean_annotation(annotations)))  # b_v (B, 1, n)
        return State((), (photo.expand(-1, paths, -1),))

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        (added,) = state.memory  # b_v at the first step, W_hh h_{t−1} at every other
        hidden = torch.relu(self.hidden_from_word(embedded) + added)
        return Step(hidden, State((), (promote(self.hidden_from_hidden(hidden)),)))
