"""The baseline of the benchmarks: the paper's soft decoder as popular tutorials write it.

It does the work of `AttentionDecoder` with the same sizes, in the plainest way: float32, one LSTM cell, the
annotations projected and the words read out at every step, one photo a search. It is here to be compared with and is
not part of the package.
"""

from typing import Self

import torch
from torch import Tensor, nn

from show_attend_tell.model.decoder import AttentionDecoder


class TutorialDecoder(nn.Module):
    """Soft attention, one step at a time."""

    def __init__(
        self, *, vocabulary: int, size: int, attention: int | None = None, annotations: int | None = None
    ) -> None:
        """``size`` is m and n, and A and D too unless ``attention`` and ``annotations`` are given."""
        super().__init__()
        attention, annotations = attention or size, annotations or size
        self.embedding = nn.Embedding(vocabulary + 1, size)
        self.attention_annotations = nn.Linear(annotations, attention)
        self.attention_hidden = nn.Linear(size, attention, bias=False)
        self.attention_energy = nn.Linear(attention, 1, bias=False)
        self.gate = nn.Linear(size, 1)
        self.initial = nn.Linear(annotations, size)
        self.initial_hidden = nn.Linear(size, size)
        self.initial_memory = nn.Linear(size, size)
        self.cell = nn.LSTMCell(size + annotations, size)
        self.output_hidden = nn.Linear(size, size)
        self.output_context = nn.Linear(annotations, size, bias=False)
        self.output_words = nn.Linear(size, vocabulary)
        self.dropout = nn.Dropout(0.5)

    @classmethod
    def of(cls, decoder: AttentionDecoder) -> Self:
        """The same model as a decoder with a gate and layers of one size, for annotations that it has normalized."""
        config, n = decoder.config, decoder.config.hidden_size
        sizes = {"attention": config.attention_size, "annotations": config.annotation_size}
        made = cls(vocabulary=config.vocabulary_size, size=n, **sizes).eval()
        assert decoder.gate is not None and decoder.initial is not None and decoder.output_context is not None

        def lstm_order(gates: Tensor) -> Tensor:
            i, f, o, g = gates.split(n)
            return torch.cat([i, f, g, o])

        with torch.no_grad():
            for own, other in (
                (made.embedding, decoder.embedding),
                (made.attention_annotations, decoder.attention.key),
                (made.attention_hidden, decoder.attention.query),
                (made.gate, decoder.gate),
                (made.initial, decoder.initial),
                (made.initial_hidden, decoder.initial_hidden),
                (made.initial_memory, decoder.initial_memory),
                (made.output_hidden, decoder.output_hidden),
                (made.output_context, decoder.output_context),
            ):
                own.load_state_dict(other.state_dict())
            made.attention_energy.weight.copy_(decoder.attention.energy[None])
            inputs = torch.cat([decoder.gates_from_word.weight, decoder.gates_from_context.weight], dim=1)
            made.cell.weight_ih.copy_(lstm_order(inputs))
            made.cell.weight_hh.copy_(lstm_order(decoder.gates_from_hidden.weight))
            made.cell.bias_ih.copy_(lstm_order(decoder.gates_from_word.bias))
            made.cell.bias_hh.zero_()
            made.output_words.weight.copy_(decoder.word_weights)
            made.output_words.bias.copy_(decoder.output_bias)
        return made

    def start(self, annotations: Tensor) -> tuple[Tensor, Tensor]:
        """h_0 and c_0 (B, n) from annotations (B, L, D)."""
        mean = self.dropout(torch.relu(self.initial(annotations.mean(1))))
        return torch.tanh(self.initial_hidden(mean)), torch.tanh(self.initial_memory(mean))

    def step(self, words: Tensor, annotations: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """Logits (B, K), α (B, L), and the next h and c (B, n), from the previous words (B,)."""
        keys = self.attention_annotations(annotations)
        query = self.attention_hidden(hidden)
        energies = self.attention_energy(torch.tanh(keys + query[:, None])).squeeze(-1)
        alpha = torch.softmax(energies, dim=1)
        context = (alpha[..., None] * annotations).sum(1)
        context = torch.sigmoid(self.gate(hidden)) * context
        embedded = self.embedding(words)
        hidden, memory = self.cell(torch.cat([embedded, context], dim=1), (hidden, memory))
        deep = torch.tanh(embedded + self.output_hidden(self.dropout(hidden)) + self.output_context(context))
        return self.output_words(self.dropout(deep)), alpha, hidden, memory

    def loss(self, annotations: Tensor, captions: Tensor, *, doubly_stochastic: float = 0.33) -> Tensor:
        """Equation 9 over captions (B, C), averaged over the batch."""
        hidden, memory = self.start(annotations)
        batch, steps = captions.shape
        words = torch.full((batch,), self.embedding.num_embeddings - 1)
        logits, alphas = [], []
        for time in range(steps):
            scores, alpha, hidden, memory = self.step(words, annotations, hidden, memory)
            logits.append(scores)
            alphas.append(alpha)
            words = captions[:, time]
        stacked = torch.stack(logits, dim=1)
        loss = nn.functional.cross_entropy(stacked.flatten(0, 1), captions.flatten(), reduction="sum") / batch
        covered = torch.stack(alphas, dim=1).sum(1)
        return loss + doubly_stochastic * (1 - covered).square().sum(1).mean()

    @torch.inference_mode()
    def search(
        self, annotations: Tensor, *, beam_size: int, max_length: int, end: int = 0, unknown: int = 1
    ) -> list[int]:
        """The likeliest caption that a beam search finds for the annotations (L, D) of one photo."""
        K = self.output_words.out_features
        annotations = annotations[None].expand(beam_size, -1, -1)
        hidden, memory = self.start(annotations)
        scores = torch.zeros(1)
        paths: list[list[int]] = [[]]
        hidden, memory = hidden[:1], memory[:1]
        words = torch.full((1,), self.embedding.num_embeddings - 1)
        finished: list[tuple[float, list[int]]] = []
        for _ in range(max_length):
            alive = len(paths)
            logits, _, hidden, memory = self.step(words, annotations[:alive], hidden, memory)
            total = scores[:, None] + torch.log_softmax(logits, dim=-1)
            total[:, unknown] = float("-inf")
            best, chosen = total.flatten().topk(beam_size - len(finished))
            kept: list[tuple[int, int, float]] = []
            for score, index in zip(best.tolist(), chosen.tolist(), strict=True):
                path, word = divmod(index, K)
                if word == end:
                    finished.append((score, paths[path]))
                else:
                    kept.append((path, word, score))
            if not kept:
                break
            rows = torch.tensor([path for path, _, _ in kept])
            paths = [[*paths[path], word] for path, word, _ in kept]
            hidden, memory = hidden[rows], memory[rows]
            words = torch.tensor([word for _, word, _ in kept])
            scores = torch.tensor([score for _, _, score in kept])
        return max(finished)[1] if finished else paths[0]
