"""LRCN (Donahue et al., 2014), in its one-layer form: an LSTM that sees the photo and the word at every step.

    x_t = [E y_{t−1}; ā]                      (LRCN-1u; LRCN-2f has a second LSTM above, which alone sees the photo)
    i, f, o = σ(W_x x_t + W_h h_{t−1} + b)    (the LSTM of Zaremba and Sutskever 2014)
    c_t = f ⊙ c_{t−1} + i ⊙ tanh(W_x x_t + W_h h_{t−1} + b)
    h_t = o ⊙ tanh(c_t)
    p(y_t) = softmax(W_o h_t + b_o)

Most tutorials' captioner without attention is this one. ā is the mean annotation here.
Left out: LRCN-2f; and the LSTM has 512 units, like the other systems here, instead of 1,000.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import Count, settings
from table1.baseline import Baseline, BaselineConfig, zeros


@settings
class LrcnConfig(BaselineConfig):
    """LRCN's sizes."""

    kind = "lrcn"
    system = "LRCN, one layer (Donahue et al., 2014)"
    hidden_size: Count = 512  # n


class Lrcn(Baseline):
    """LRCN's generator."""

    config: LrcnConfig

    def __init__(self, config: LrcnConfig) -> None:
        super().__init__(config)
        n = config.hidden_size
        # the gates' matrix over [word; photo] in two parts, so that the photo's is computed once
        self.gates_from_word = nn.Linear(config.embedding_size, 4 * n)
        self.gates_from_photo = nn.Linear(config.annotation_size, 4 * n, bias=False)
        self.gates_from_hidden = nn.Linear(n, 4 * n, bias=False)
        self.output = nn.Linear(n, config.vocabulary_size)
        self.initialize()

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source is the photo's share of the gates; h and c are zero."""
        photo = self.gates_from_photo(self.mean_annotation(annotations))  # (B, 1, 4n)
        nothing = zeros(photo, paths, self.config.hidden_size)
        return State((photo,), (nothing, nothing))

    def embed(self, words: Tensor) -> Tensor:
        """The words' share of the gates (..., 4n)."""
        gates: Tensor = self.gates_from_word(super().embed(words))
        return gates

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        (photo,) = state.source
        hidden, memory = state.memory
        gates = embedded + photo + self.gates_from_hidden(hidden)
        i, f, o, g = promote(gates).chunk(4, dim=-1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(memory)
        return Step(hidden, State(state.source, (hidden, memory)))
