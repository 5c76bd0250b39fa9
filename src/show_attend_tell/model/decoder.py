"""The paper's decoder: an LSTM that attends to the photo before each word (sec. 3.1.2).

B batch · P paths of one photo (beams, sampled sequences) · L locations · D annotation size · A attention size · n LSTM
size · m word-embedding size · K vocabulary · C caption length with the end token.

A photo's paths share its annotations and W_a·a, which are never copied; only the LSTM's state has a row a path.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import Attention, AttentionMode
from show_attend_tell.model.config import DecoderConfig, window_side
from show_attend_tell.model.interface import (
    MEAN_ATTENTION,
    Decoder,
    DecoderOutput,
    State,
    Step,
    check_annotations,
    previous_words,
)
from show_attend_tell.model.kernels import Loop, normalize, promote
from show_attend_tell.model.unroll import Unroll

WORDS = 2  # the id of the first word, after the end and the unknown word


class Embedded(NamedTuple):
    """What a step needs of the previous word."""

    embedding: Tensor  # E·y_{t−1} (..., m)
    gates: Tensor  # its share of the LSTM's gates, bias included (..., 4n)


class Output(NamedTuple):
    """What the deep output is computed from (eq. 2)."""

    embedding: Tensor  # E·y_{t−1} (..., m)
    hidden: Tensor  # h_t (..., n)
    context: Tensor  # ẑ_t, the gate included (..., D)


class AttentionDecoder(Decoder):
    """Show, Attend and Tell's decoder. Soft and hard attention have the same weights, and another `AttentionMode`."""

    config: DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = config.vocabulary_size
        K, m, n, D = config.vocabulary_size, config.embedding_size, config.hidden_size, config.annotation_size

        self.annotation_scale: Tensor  # 1 / root mean square of the training annotations
        self.register_buffer("annotation_scale", torch.ones(()))
        # E, and one more row for the word before the first, which padding_idx keeps at zero
        self.embedding = nn.Embedding(K + 1, m, padding_idx=K)

        self.attention = Attention(
            annotation_size=D, hidden_size=n, attention_size=config.attention_size, depth=config.attention_depth
        )
        self.gate = nn.Linear(n, 1) if config.gate else None  # f_β

        shared = config.initial_size or n
        self.initial = nn.Linear(D, shared) if config.initial_depth == 2 else None
        inputs = D if self.initial is None else shared
        self.initial_hidden = nn.Linear(inputs, n)
        self.initial_memory = nn.Linear(inputs, n)

        # the four gates i, f, o and the modulator g, stacked; their bias is the word's
        self.gates_from_word = nn.Linear(m, 4 * n)
        self.gates_from_hidden = nn.Linear(n, 4 * n, bias=False)
        self.gates_from_context = nn.Linear(D, 4 * n, bias=False)

        self.output_hidden = nn.Linear(n, m)  # L_h
        self.output_context = nn.Linear(D, m, bias=False) if config.output_context else None  # L_z
        self.output_layers = nn.ModuleList(nn.Linear(m, m) for _ in range(config.output_depth - 1))
        self.output_words = None if config.tied_embeddings else nn.Linear(m, K, bias=False)  # L_o; tied: it is E
        self.output_bias = nn.Parameter(torch.empty(K))

        self.dropout = Dropout(config.dropout)
        self.annotation_dropout = nn.Dropout1d(config.annotation_dropout)
        self.initialize()

    def initialize(self) -> None:
        """Draw matrices uniformly from ±1/√(inputs), words from a Gaussian of 0.05; the paper says "randomly"."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                nn.init.uniform_(module.weight, -bound, bound)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.attention.energy, std=self.attention.energy.numel() ** -0.5)
        nn.init.normal_(self.embedding.weight, std=0.05)
        nn.init.zeros_(self.output_bias)
        nn.init.zeros_(self.embedding.weight[self.vocabulary_size])

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """c_0 and h_0 from the mean annotation by two MLPs (sec. 3.1.2), and the keys W_a·a."""
        check_annotations(annotations, self.config.annotation_size)
        return self.first_state(*self.normalized(annotations), paths=paths)

    def normalized(
        self, annotations: Tensor, normalize: Loop = normalize, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Annotations (B, L, D) as the weights expect them, in ``dtype`` or theirs, and their mean (B, D)."""
        dtype = dtype or self.embedding.weight.dtype
        ones = self.embedding.weight.new_ones(len(annotations), annotations.shape[2], 1)
        kept = self.annotation_dropout(ones).mT  # (B, 1, D): whole channels, the same at every location
        if self.config.annotation_norm == "layer":
            return normalize(annotations, kept, dtype)  # type: ignore[no-any-return]
        annotations = annotations.to(kept.dtype) * self.annotation_scale * kept
        return annotations.to(dtype), annotations.mean(1)

    def first_state(self, annotations: Tensor, mean: Tensor, *, paths: int) -> State:
        """The state before the first word, from what `normalized` gave."""
        if self.config.attention == "uniform":
            annotations = annotations.mean(1, keepdim=True)  # one location, so that α is 1 there
        if self.config.annotation_window > 1:
            annotations = windowed(annotations, self.config.annotation_window)
        if self.initial is not None:
            mean = self.dropout(torch.relu(self.initial(mean)))
        hidden, memory = torch.tanh(self.initial_hidden(mean)), torch.tanh(self.initial_memory(mean))
        keys = self.attention.keys(annotations)
        return State(
            source=(annotations.to(keys.dtype), keys),
            memory=tuple(promote(part)[:, None].expand(-1, paths, -1) for part in (hidden, memory)),
        )

    def embed(self, words: Tensor) -> Embedded:
        """E·y and its share of the gates, for words (...)."""
        embedding = self.embedding(words)
        gates = self.gates_from_word(embedding)
        return Embedded(embedding.to(gates.dtype), gates)

    def step(self, embedded: Embedded, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        """Attend to the photo by h_{t−1}, then advance the LSTM by the word before."""
        annotations, keys = state.source
        hidden, memory = state.memory
        alpha = self.attention(keys, hidden)  # (B, P, L)
        context, locations = mode(alpha, annotations)  # ẑ_t (B, P, D)
        beta = None
        if self.gate is not None:
            beta = torch.sigmoid(self.gate(hidden))  # β_t = σ(f_β(h_{t−1})), a scalar (B, P, 1)
            context = beta * context
        gates = embedded.gates + self.gates_from_hidden(hidden) + self.gates_from_context(context)
        i, f, o, g = promote(gates).chunk(4, dim=-1)  # the memory stays in float32, also under autocast
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(memory)
        dtype = embedded.embedding.dtype
        return Step(
            output=Output(embedded.embedding, hidden.to(dtype), context.to(dtype)),
            state=State(state.source, (hidden, memory)),
            alpha=None if self.config.attention == "uniform" else alpha,
            beta=None if beta is None else promote(beta.squeeze(-1)),
            locations=locations,
        )

    def read_out(self, output: Output) -> Tensor:
        """The deep output's logits: L_o(E·y_{t−1} + L_h·h_t + L_z·ẑ_t) (eq. 2), by default with tanh of the sum."""
        total = self.output_hidden(self.dropout(output.hidden))
        if self.config.output_word:
            total = total + output.embedding
        if self.output_context is not None:
            total = total + self.output_context(output.context)
        if self.config.output_tanh:
            total = torch.tanh(total)
        total = self.dropout(total)
        for layer in self.output_layers:
            total = self.dropout(torch.relu(layer(total)))
        return nn.functional.linear(total, self.word_weights, self.output_bias)

    def teacher_forcing(
        self,
        annotations: Tensor,
        captions: Tensor,
        *,
        paths: int = 1,
        mode: AttentionMode = MEAN_ATTENTION,
        history: Tensor | None = None,
    ) -> DecoderOutput:
        """By `Unroll` where there are ``kernels`` and the mode says what it draws (``draws``); else step by step."""
        if self.kernels is None or not hasattr(mode, "draws"):
            return super().teacher_forcing(annotations, captions, paths=paths, mode=mode, history=history)
        expected, uniforms = (None if part is None else part.to(annotations.device) for part in mode.draws())
        before = previous_words(self, captions if history is None else history)
        different, where = torch.unique(before, return_inverse=True)
        of_words = self.embed(different)
        embedding, words = (nn.functional.embedding(where, promote(part)).to(part.dtype) for part in of_words)
        embedding = embedding[:, None].expand(-1, paths, -1, -1)
        words = words[:, None]
        dtype = words.dtype
        gate = self.gate
        normalized = self.normalized(annotations, self.kernels.normalize, dtype)
        (annotations, keys), (hidden, memory) = self.first_state(*normalized, paths=1)
        from_hidden = [self.gates_from_hidden.weight, self.attention.query.weight]
        hiddens, contexts, alpha, beta, locations = Unroll.apply(  # type: ignore[no-untyped-call]
            words,
            annotations,
            keys,
            hidden[:, 0],
            memory[:, 0],
            torch.cat(from_hidden if gate is None else [*from_hidden, gate.weight]).to(dtype),
            self.gates_from_context.weight.to(dtype),
            self.attention.energy,
            None if gate is None else gate.bias,
            expected,
            uniforms,
            self.kernels,
        )
        return DecoderOutput(
            self.read_out(Output(embedding, hiddens, contexts)),
            None if self.config.attention == "uniform" else alpha,
            None if gate is None else beta,
            locations,
        )

    @property
    def word_weights(self) -> Tensor:
        """L_o (K, m)."""
        return self.embedding.weight[:-1] if self.output_words is None else self.output_words.weight


class Dropout(nn.Dropout):
    """`nn.Dropout` with one random byte a value, faster on a CPU: its share is a multiple of 1/256."""

    def forward(self, values: Tensor) -> Tensor:
        dropped = min(255, round(256 * self.p))
        if not self.training or not dropped or values.device.type != "cpu":
            return super().forward(values)
        words = torch.empty(-(-values.numel() // 8), dtype=torch.int64, device=values.device)
        random = words.random_(torch.iinfo(torch.int64).min, None).view(torch.uint8)[: values.numel()]
        kept = (random >= dropped).view(values.shape).to(values.dtype)
        return values * kept.mul_(256 / (256 - dropped))


def windowed(annotations: Tensor, window: int) -> Tensor:
    """Annotations (B, L, D) of a square grid, each replaced by the mean of the window around it, cut at the border."""
    batch, locations, size = annotations.shape
    side = window_side(window, locations)
    grid = annotations.mT.reshape(batch, size, side, side)
    means = nn.functional.avg_pool2d(grid, window, stride=1, padding=window // 2, count_include_pad=False)
    return means.flatten(2).mT.contiguous()


def ungated(weights: dict[str, Tensor], beta: float) -> dict[str, Tensor]:
    """The weights of an `AttentionDecoder` without its gate, for a constant β: a hard model can start from them."""
    kept = {name: value for name, value in weights.items() if not name.startswith("gate.")}
    for name in ("gates_from_context.weight", "output_context.weight"):
        if name in kept:
            kept[name] = beta * kept[name]
    return kept


def grown(weights: dict[str, Tensor], counts: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """The weights of an `AttentionDecoder` for more words, behind those that it has, which keep theirs.

    ``counts`` (K',) are those of the training captions. A new word's vectors are drawn from a Gaussian of the old
    words' mean and variances; its bias is read off a line through their biases by the logarithms of their counts.
    """
    bias = weights["output_bias"]
    K = len(bias)
    new = len(counts) - len(bias)

    def drawn(rows: Tensor) -> Tensor:
        noise = torch.randn(new, rows.shape[1], generator=generator)
        return rows.mean(0) + rows.std(0, correction=0) * noise.to(rows)

    result = dict(weights)
    embedding = weights["embedding.weight"]  # its last row is that of the word before the first
    result["embedding.weight"] = torch.cat([embedding[:K], drawn(embedding[WORDS:K]), embedding[K:]])
    if "output_words.weight" in weights:
        words = weights["output_words.weight"]
        result["output_words.weight"] = torch.cat([words, drawn(words[WORDS:])])
    seen = counts[WORDS:K] > 0
    known = bias[WORDS:][seen]
    logarithms = counts[WORDS:K][seen].log().to(bias)
    mean = bias[WORDS:].mean()
    slope = torch.zeros(())
    spread = logarithms - logarithms.mean()
    if spread.square().sum() > 0:
        mean = known.mean()
        slope = ((known - mean) * spread).sum() / spread.square().sum()
    logarithms_new = counts[K:].clamp(min=1).log().to(bias)  # a word that is in no training caption counts as seen once
    middle = logarithms.mean() if len(known) else logarithms_new.mean()
    result["output_bias"] = torch.cat([bias, mean + slope.clamp(0, 1) * (logarithms_new - middle)])
    return result
