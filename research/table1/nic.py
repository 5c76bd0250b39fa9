"""Google NIC (Vinyals et al., *Show and Tell*, 2014): an LSTM that sees the photo once, as the word before the first.

x_{−1} = W_I ā                            (their eq. 10, with CNN(I) the mean annotation ā here)
x_t = W_e S_t                             (11; S_0 is the start word)
i, f, o = σ(W_x x_t + W_m m_{t−1} + b)    (4–6)
c_t = f ⊙ c_{t−1} + i ⊙ tanh(W_x x_t + W_m m_{t−1} + b)    (7)
m_t = o ⊙ c_t                             (8; there is no tanh)
p_{t+1} = softmax(W_o m_t + b_o)          (9, 12)

The photo is seen once and has to be remembered. So `forget_bias` lets b start at 1 for f, as Gers et al. 2000 and most
programs have it; the paper does not say. Left out: the encoder is not fine-tuned.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, State, Step
from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import Count, settings
from table1.baseline import Baseline, BaselineConfig, zeros


@settings
class NicConfig(BaselineConfig):
    """Google NIC's sizes; the defaults are the original's."""

    kind = "nic"
    system = "Google NIC (Vinyals et al., 2014)"
    hidden_size: Count = 512  # n
    forget_bias: float = 1.0  # what f's b starts at


class Nic(Baseline):
    """Google NIC's generator."""

    config: NicConfig

    def __init__(self, config: NicConfig) -> None:
        super().__init__(config)
        n = config.hidden_size
        self.photo_as_word = nn.Linear(config.annotation_size, config.embedding_size)  # W_I
        self.gates_from_input = nn.Linear(config.embedding_size, 4 * n)
        self.gates_from_hidden = nn.Linear(n, 4 * n, bias=False)
        self.output = nn.Linear(n, config.vocabulary_size)
        self.initialize()
        nn.init.constant_(self.gates_from_input.bias[n : 2 * n], config.forget_bias)

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """m and c after one step over the photo, from zero; nothing is said after that step."""
        mean = self.mean_annotation(annotations)
        photo = self.photo_as_word(mean)  # x_{−1} (B, 1, m)
        nothing = zeros(photo, paths, self.config.hidden_size)
        gates = self.gates_from_input(photo).expand(-1, paths, -1)
        return self.step(gates, State((), (nothing, nothing))).state

    def embed(self, words: Tensor) -> Tensor:
        """The words' share of the gates (..., 4n): W_x x_t + b."""
        gates: Tensor = self.gates_from_input(super().embed(words))
        return gates

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        hidden, memory = state.memory
        gates = embedded + self.gates_from_hidden(hidden)
        i, f, o, g = promote(gates).chunk(4, dim=-1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * memory
        return Step(hidden, State((), (hidden, memory)))
