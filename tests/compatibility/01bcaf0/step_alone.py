import torch
from torch import nn

from show_attend_tell import register_decoder
from show_attend_tell.model.attention import Attention
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, State, Step
from show_attend_tell.settings import Count, settings


@settings
class GruConfig(Config):
    kind = "gru-of-01bcaf0"
    attention = "soft"  # without this line it is "none", and training keeps only the mean annotation
    size: Count = 64


class GruDecoder(Decoder):
    def __init__(self, config):
        super().__init__()
        self.config, self.vocabulary_size = config, config.vocabulary_size
        K, D, n = config.vocabulary_size, config.annotation_size, config.size
        self.embedding = nn.Embedding(K + 1, n)  # one more row: the word before the first
        self.attention = Attention(annotation_size=D, hidden_size=n, attention_size=n)
        nn.init.normal_(self.attention.energy, std=n**-0.5)
        self.cell = nn.GRUCell(n + D, n)
        self.words = nn.Linear(n, K)

    def start(self, annotations, *, paths=1):
        hidden = annotations.new_zeros(len(annotations), paths, self.config.size)
        return State(source=(annotations, self.attention.keys(annotations)), memory=(hidden,))

    def embed(self, words):
        return self.embedding(words)

    def step(self, embedded, state, mode=MEAN_ATTENTION):
        (annotations, keys), (hidden,) = state
        alpha = self.attention(keys, hidden)
        context, locations = mode(alpha, annotations)
        inputs = torch.cat([embedded, context], dim=-1)  # (B, P, ·)
        hidden = self.cell(inputs.flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
        return Step(hidden, State(state.source, (hidden,)), alpha=alpha, locations=locations)

    def read_out(self, output):
        return self.words(output)


register_decoder(GruConfig, GruDecoder)
