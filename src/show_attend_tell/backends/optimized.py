"""A walker for beam search, several times faster than `plain.TorchSession`, for the paper's decoder.

B photos · B′ those that still have an unfinished path · P paths, the beam · P′ unfinished paths · Q histories ·
L places · D annotation size · A attention size · n LSTM size · m word-embedding size · K vocabulary · W words that may
be chosen.

With it a search finds the captions that it finds with the plain walker, and takes less time for these reasons:

- Finished paths and finished photos leave the computation.
- Paths that continue the same path differ in their last word only. Without that word they are one *history*, which
  looks at the photo once.
- What a word adds to the gates and to the deep output is computed once in the life of a `OptimizedBeamSearch`.
- σ(2(k + q)) = exp(2k) / (exp(2k) + exp(−2q)), history by history, in the processor's cache.
- There is no log-softmax of (P, K), and the best continuations are sought among W words instead of K.
- With a wide beam, the annotations are multiplied with the weights of ẑ before they are weighed by α, once a photo.
- With a wide beam, the words' logits are computed in bfloat16 where the processor has it. Those of the W words that may
  be chosen are then computed again in float32, and the sum over the vocabulary is corrected by them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from show_attend_tell.backends.session import array, beam_search
from show_attend_tell.model.attention import ArgmaxAttention, AttentionMode, MeanAttention
from show_attend_tell.model.config import LARGEST
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder
from show_attend_tell.search.beam import check_beam, search
from show_attend_tell.search.hypotheses import NEVER, Hypothesis
from show_attend_tell.search.session import Continuations, Numbers, Scores, SessionStep, distinct

WIDE = 50  # beams from which on what is made for wide beams pays
SPARE = 12  # words more than the beam that may be chosen, since bfloat16 orders them nearly as float32 does


class Photos(NamedTuple):
    """What stays the same for all paths of a photo."""

    seen: Tensor  # what α weighs: a (B, L, D), or the products of a with the weights of ẑ (B, L, 4n + m)
    keys: Tensor  # exp(2 W_a a) (B, L, A)


class Histories(NamedTuple):
    """Paths without their last word: what is computed once for all paths that continue one."""

    gates: Tensor  # the share of h_{t−1} and ẑ_t in the LSTM's gates (B, Q, 4n)
    deep: Tensor | None  # L_z ẑ_t (B, Q, m)
    memory: Tensor  # c_{t−1} (B, Q, n)
    alpha: Tensor | None  # (B, Q, L); None for uniform attention
    beta: Tensor | None  # (B, Q)
    locations: Tensor | None  # (B, Q)


class Weights:
    """A decoder's weights, joined for the products of a search, and what each word adds to a step."""

    def __init__(self, decoder: AttentionDecoder, *, wide: bool, bf16: bool) -> None:
        self.wide = wide
        self.of = identity(decoder)
        self.decoder, config = decoder, decoder.config
        self.n, self.gates = config.hidden_size, 4 * config.hidden_size
        query, energy = decoder.attention.query.weight, decoder.attention.energy
        gate = [] if decoder.gate is None else [decoder.gate.weight]
        self.from_hidden = torch.cat([decoder.gates_from_hidden.weight, -2 * query, *gate])
        self.query = slice(self.gates, self.gates + len(query))
        self.energy = 2 * energy
        deep = [] if decoder.output_context is None else [decoder.output_context.weight]
        self.from_context = torch.cat([decoder.gates_from_context.weight, *deep])
        words, self.bias = decoder.word_weights, decoder.output_bias
        self.words = words
        dtype = torch.bfloat16 if bf16 else words.dtype
        self.output_hidden = decoder.output_hidden.weight
        self.rough_words, self.rough_bias = words.to(dtype), self.bias.to(dtype)
        rows = decoder.vocabulary_size + 1
        self.by_word = words.new_empty(rows, self.gates + config.embedding_size)  # rows of `of_words`
        self.known = torch.zeros(rows, dtype=torch.bool, device=words.device)  # those that are computed

    def of_words(self, words: Tensor) -> Tensor:
        """Each word's share of the gates and of the deep output, biases included: (N, 4n + m), for words (N,)."""
        new = words[~self.known[words]]
        if len(new):
            embedding, gates = self.decoder.embed(new)
            deep = embedding if self.decoder.config.output_word else torch.zeros_like(embedding)
            self.by_word[new] = torch.cat([gates, deep + self.decoder.output_hidden.bias], dim=-1)
            self.known[new] = True
        return self.by_word.index_select(0, words)


def identity(decoder: Decoder) -> list[tuple[int, int]]:
    """What changes when a decoder's weights are changed or replaced.

    Weights that were made under `torch.inference_mode` count no changes.
    """
    return [(weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in decoder.parameters()]


class OptimizedBeamSearch:
    """`beam_search`, fast for an `AttentionDecoder` that looks by expectation or at the likeliest place.

    Other decoders and looks are searched by `beam_search` itself. What it computed of a decoder's weights is kept from
    one call to the next, as long as they do not change.
    """

    def __init__(self, *, bf16: bool = False) -> None:
        """``bf16``: with a wide beam, read out the words in bfloat16 first. Log p then differs by less than 0.001."""
        self.bf16 = bf16
        self.known: dict[bool, Weights] = {}  # by whether they are for wide beams

    def __call__(
        self,
        decoder: Decoder,
        annotations: Tensor,
        *,
        beam_size: int = 1,
        max_length: int = 40,
        mode: AttentionMode = MEAN_ATTENTION,
        **options: Any,
    ) -> list[list[Hypothesis]]:
        """Search as `beam_search` does, with the same arguments, results and errors."""
        if not isinstance(decoder, AttentionDecoder) or not isinstance(mode, (MeanAttention, ArgmaxAttention)):
            return beam_search(decoder, annotations, beam_size=beam_size, max_length=max_length, mode=mode, **options)
        check_beam(beam_size, max_length)
        wide = beam_size >= WIDE
        if wide not in self.known or self.known[wide].of != identity(decoder):
            self.known[wide] = Weights(decoder, wide=wide, bf16=self.bf16 and wide)
        session = OptimizedSession(self.known[wide], annotations, mode)
        return search(session, beam_size=beam_size, max_length=max_length, **options)


class OptimizedSession:
    """An `AttentionDecoder` that leaves what is finished, and looks once from all paths that have one history."""

    whole = False
    paths = 1

    @torch.inference_mode()
    def __init__(self, weights: Weights, annotations: Tensor, mode: AttentionMode) -> None:
        """Start at annotations (B, L, D)."""
        self.weights, self.mode = weights, mode
        self.vocabulary_size, self.photos = weights.decoder.vocabulary_size, len(annotations)
        self.known, self.hidden, self.memory = start(weights, annotations)
        self.rows: Numbers = np.zeros((self.photos, 1), dtype=np.int64)  # the history of each path (B′, P′)
        self.deep: Tensor

    @torch.inference_mode()
    def step(self, words: Numbers) -> SessionStep:
        """As `DecoderSession.step`."""
        seen = attend(self.weights, self.known, self.hidden, self.memory, self.mode)
        self.deep, self.hidden, self.memory = advance(
            self.weights, seen, torch.from_numpy(words), torch.from_numpy(self.rows)
        )
        return SessionStep(self.rows, seen.alpha, seen.beta, seen.locations)

    @torch.inference_mode()
    def reorder(self, photos: NDArray[np.bool_] | None, paths: Numbers) -> None:
        """As `DecoderSession.follow`."""
        if photos is not None:
            some = torch.from_numpy(photos)
            self.known, self.hidden, self.memory = (
                Photos(*(part[some] for part in self.known)),
                self.hidden[some],
                self.memory[some],
            )
        histories, self.rows = distinct(paths, self.hidden.shape[1])
        chosen = torch.from_numpy(histories)
        self.hidden, self.memory = rows_of(self.hidden, chosen), rows_of(self.memory, chosen)

    @torch.inference_mode()
    def best(self, before: Scores, count: int, forbidden: list[int], banned: Numbers | None) -> Continuations:
        """As `SearchSession.best`."""
        found = continuations(
            self.weights,
            self.deep,
            torch.from_numpy(before).to(self.deep),
            count,
            forbidden,
            None if banned is None else torch.from_numpy(banned),
        )
        return Continuations(*(array(part) for part in found))


def fastest_beam_search(device: torch.device, *, bf16: bool) -> Callable[..., list[list[Hypothesis]]]:
    """The beam search that is fastest on a device: `beam_search`, or on a CPU a `OptimizedBeamSearch`."""
    return OptimizedBeamSearch(bf16=bf16) if device.type == "cpu" else beam_search


def start(weights: Weights, annotations: Tensor) -> tuple[Photos, Tensor, Tensor]:
    """What stays the same for the paths of each photo, and h_0 and c_0 (B, 1, n)."""
    (annotations, keys), (hidden, memory) = weights.decoder.start(annotations)
    seen = linear(annotations, weights.from_context) if weights.wide else annotations
    return Photos(seen, torch.exp((2 * keys).clamp_(-LARGEST, LARGEST))), hidden, memory


def attend(weights: Weights, photos: Photos, hidden: Tensor, memory: Tensor, mode: AttentionMode) -> Histories:
    """Look at the photos from h_{t−1} and c_{t−1}, (B, Q, n) each."""
    product = linear(hidden, weights.from_hidden)  # gates, −2 W_h h and f_β(h)
    query = torch.exp(product[..., weights.query].clamp(-LARGEST, LARGEST))
    alpha = torch.softmax(energies(photos.keys, query, weights.energy), dim=-1)
    context, locations = mode(alpha, photos.seen)
    beta, gate = None, weights.decoder.gate
    if gate is not None:
        beta = torch.sigmoid(product[..., -1] + gate.bias)
        context = context * beta[..., None]
    if not weights.wide:
        context = linear(context, weights.from_context)
    gates = product[..., : weights.gates] + context[..., : weights.gates]
    deep = None if weights.decoder.output_context is None else context[..., weights.gates :]
    shown = None if weights.decoder.config.attention == "uniform" else alpha
    return Histories(gates, deep, memory, shown, beta, locations)


def energies(keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
    """Σ_a w_a σ_a, (B, Q, L), of exp(2k) (B, L, A), exp(−2q) (B, Q, A) and w (A,).

    The values of one history at a time stay in the processor's cache. NumPy takes less time for so short operations
    than PyTorch, whose threads would wait for each other after each.
    """
    found = keys.new_empty(*query.shape[:2], keys.shape[1])
    values, weights = array(keys[0]).copy(), array(weight)
    for of_photo, queries, results in zip(array(keys), array(query), array(found), strict=True):
        for each, result in zip(queries, results, strict=True):
            np.add(of_photo, each, out=values)
            np.divide(of_photo, values, out=values)
            np.dot(values, weights, out=result)
    return found


def advance(weights: Weights, seen: Histories, words: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The LSTM's step of the paths that continue the histories ``rows`` by ``words``, (B, P′) both.

    Gives the deep output (B, P′, m), h_t and c_t (B, P′, n).
    """
    of_words = weights.of_words(words.flatten()).view(*words.shape, -1)
    gates = rows_of(seen.gates, rows).add_(of_words[..., : weights.gates])
    i, f, o = gates[..., : 3 * weights.n].sigmoid_().chunk(3, dim=-1)
    g = gates[..., 3 * weights.n :].tanh_()
    memory = rows_of(seen.memory, rows).mul_(f).addcmul_(i, g)
    hidden = torch.tanh(memory).mul_(o)
    deep = linear(hidden, weights.output_hidden) + of_words[..., weights.gates :]
    if seen.deep is not None:
        deep += rows_of(seen.deep, rows)
    deep = deep.tanh_() if weights.decoder.config.output_tanh else deep
    return weights.decoder.through_output_layers(deep), hidden, memory


def continuations(
    weights: Weights, deep: Tensor, before: Tensor, count: int, forbidden: list[int], banned: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``count`` best continuations of each photo's paths, or all where there are fewer: (B, ≤ count) each.

    Gets the deep output (B, P′, m), log p of the paths (B, P′), words that no path may say and those that each path may
    not say ``banned`` (B, P′, ·). Gives log p of each continuation, its path and its word.
    """
    rough = linear(deep.to(weights.rough_words.dtype), weights.rough_words, weights.rough_bias)
    logits = rough.to(deep.dtype)  # (B, P′, K)
    total = logits.logsumexp(-1, keepdim=True)
    scores = logits + (before[..., None] - total)
    for word in forbidden:
        scores[..., word] = NEVER
    if banned is not None:
        scores.scatter_(2, banned, NEVER)
    # the best continuations are by the words with the largest maxima
    words = scores.amax(1).topk(min(count + SPARE, scores.shape[-1]), dim=-1).indices  # (B, W)
    by_word = words[:, None].expand(-1, scores.shape[1], -1)
    some = scores.gather(2, by_word)  # (B, P′, W)
    if weights.rough_words.dtype != deep.dtype:
        fine = torch.baddbmm(weights.bias[words][:, None], deep, weights.words[words].mT) - total
        missing = fine.exp() - (logits.gather(2, by_word) - total).exp()  # of the sum over the vocabulary
        fine = fine + (before[..., None] - missing.sum(-1, keepdim=True).log1p())
        some = fine.masked_fill_(some == NEVER, NEVER)
    best, location = some.flatten(1).topk(min(count, some[0].numel()), dim=-1)
    return best, location // words.shape[1], words.gather(1, location % words.shape[1])


def rows_of(part: Tensor, rows: Tensor) -> Tensor:
    """The rows (B, P) of a part (B, Q, ·): (B, P, ·)."""
    first = torch.arange(len(part), device=rows.device)[:, None] * part.shape[1]
    return part.flatten(0, 1).index_select(0, (first + rows).flatten()).view(*rows.shape, -1)
