"""MS Research (Fang et al., *From Captions to Visual Concepts and Back*, 2014): word detectors, a maximum-entropy
language model that mentions what they detect, and a ranking of its captions.

    V_1 = {w: p_w ≥ τ_w},  V_t = V_{t−1} \\ {y_{t−1}}     (the detected words that are still to be mentioned)
    p(y_t = w) = softmax_w of the sum of the weights of the features that w has after y_{t−3}, y_{t−2}, y_{t−1}

p_w and τ_w are those of `detectors`. The features, each in one form for w in V_t and in another for w outside of it:
the word, and the word after the last one, two and three words, if the training captions have this n-gram. Besides,
log p_w for w in V_t and, for the end token, the number of words in V_t.

`msr_training` makes the three parts one after the other: the detectors; the language model, which starts as a smoothed
4-gram model and learns by likelihood from the words that are detected; and the ranking, which val chooses as for every
other system: by log p, length and, by `Coverage`, how much of what is detected a caption mentions.

Left out or changed:

- The similarity of photo and text (DMSM) is left out.
- The language model is trained by the likelihood itself, not by noise-contrastive estimation.
- A word is in V_1 in `detectors.WIDTH` times as many photos of val as have it. With fewer words, more of what the
  detectors know is lost (nats a word on val: 3.09 with 1 time, 2.98 with 4 times).
- The ranking has three features, whose weights a grid on val tunes, instead of more features and MERT.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.backends.base import Backend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, State, Step, check_annotations, initial_state
from show_attend_tell.rerank import Reranker
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.settings import Count, ShareBelowOne, settings
from table1.detectors import FIRST, Detectors
from table1.ngram_model import NgramModel

ORDERS = 3  # words before the one that is predicted
UNDETECTED = -30.0  # log p_w of words without a detector
MOST_LEFT = 40  # words still to be mentioned that the feature of the end token tells apart
NO_CONTEXT = torch.iinfo(torch.int64).max


@settings
class MsrConfig(Config):
    """The sizes of MS Research; there are as many detectors as in the original. Raises `SatError` for one below one."""

    kind = "msr"
    detected: Count = 1000  # the most frequent words, which have detectors
    hidden_size: Count = 1024  # of the detectors
    window: Count = 8  # of theirs, in locations
    stride: Count = 3  # from a window to the next
    annotation_dropout: ShareBelowOne = 0.3  # of the detectors, on annotations and hidden units
    contexts: Count = 200_000  # at most, of one to three words
    ngrams: Count = 400_000  # at most, of two to four words

    @property
    def title(self) -> str:
        return (
            "MS Research (Fang et al., 2014), as a system to compare *Show, Attend and Tell* (Xu et al., ICML 2015) "
            "with. It has no attention: it detects words in the photo, and its language model mentions them."
        )


class Memory(NamedTuple):
    """What `Msr` carries from step to step."""

    before: Tensor  # the last three words (B, P, 3), the last one first
    left: Tensor  # V_t (B, P, K), true for words still to be mentioned


class Msr(Decoder):
    """The detectors and the language model of MS Research."""

    config: MsrConfig
    contexts: Tensor
    starts: Tensor
    following: Tensor

    def __init__(self, config: MsrConfig) -> None:
        super().__init__()
        self.config: Any = config
        self.vocabulary_size = K = config.vocabulary_size
        self.detectors = self.new_detectors()
        self.detectors.requires_grad_(False)  # they are trained alone, before, by `detectors.fit`
        self.word = nn.Parameter(torch.zeros(2, K))  # outside of V_t, and in it
        self.ngram = nn.Parameter(torch.zeros(2, config.ngrams))
        self.score = nn.Parameter(torch.ones(()))  # of log p_w
        self.end = nn.Parameter(torch.zeros(MOST_LEFT + 1))
        # A context, as one number, is followed by the words from its start to that of the next context.
        self.register_buffer("contexts", torch.full((config.contexts,), NO_CONTEXT))
        self.register_buffer("starts", torch.zeros(config.contexts + 1, dtype=torch.int64))
        self.register_buffer("following", torch.zeros(config.ngrams, dtype=torch.int64))

    def new_detectors(self) -> Detectors:
        """Untrained detectors of the sizes of the configuration."""
        config = self.config
        return Detectors(
            config.annotation_size,
            config.hidden_size,
            min(config.detected, config.vocabulary_size - FIRST),
            window=config.window,
            stride=config.stride,
            dropout=config.annotation_dropout,
        )

    def count(self, captions: Sequence[Sequence[int]], share: Tensor) -> None:
        """Make this a smoothed 4-gram model of captions, whose words in V_t are likelier by p_w over its mean (W,).

        The weight of a word after a context is log(1 + count(c, w) / (s T p(w | c′))), so unknown n-grams need none.
        """
        K, model = self.vocabulary_size, NgramModel(captions, self.vocabulary_size, orders=ORDERS)
        known = sorted((as_number(context, K), word, math.log1p(more)) for context, word, _, more in model.ngrams())
        contexts, words, weights = zip(*known[: self.config.ngrams], strict=True)
        found, counts = torch.unique_consecutive(torch.tensor(contexts), return_counts=True)
        found = found[: self.config.contexts]
        self.contexts[: len(found)] = found
        self.starts[1:] = counts[: len(found)].sum()
        self.starts[1 : len(found) + 1] = counts[: len(found)].cumsum(0)
        self.following[: len(words)] = torch.tensor(words)
        with torch.no_grad():
            self.ngram[:, : len(words)] = torch.tensor(weights)
            self.word[:] = torch.tensor([model.share(word, ()) for word in range(K)]).log()
            self.word[1, FIRST : FIRST + len(share)] -= share.log()

    def detect(self, annotations: Tensor) -> Tensor:
        """log(p_w / (1 − p_w)) (B, W), of annotations (B, L, D). Raises `SatError` for another shape or size."""
        check_annotations(annotations, self.config.annotation_size)
        scores: Tensor = self.detectors(annotations)
        return scores

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source is log p_w (B, 1, K), and V_1 are the words above their thresholds."""
        scores = self.detect(annotations)
        known = scores.new_full((len(scores), self.vocabulary_size), UNDETECTED)
        left = torch.zeros_like(known, dtype=torch.bool)
        known[:, FIRST : FIRST + scores.shape[1]] = nn.functional.logsigmoid(scores)
        left[:, FIRST : FIRST + scores.shape[1]] = scores.sigmoid() >= self.detectors.threshold
        before = torch.full((len(scores), paths, ORDERS), self.vocabulary_size, device=scores.device)
        return State(known[:, None], Memory(before, left[:, None].expand(-1, paths, -1)))

    def embed(self, words: Tensor) -> Tensor:
        """The words themselves."""
        return words

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        memory: Memory = state.memory
        before = torch.cat([embedded[..., None], memory.before[..., :-1]], dim=-1)
        inside = embedded < self.vocabulary_size  # false before the first word
        mentioned = nn.functional.one_hot(embedded * inside, self.vocabulary_size).bool() & inside[..., None]
        now = Memory(before, memory.left & ~mentioned)
        return Step((now, state.source.expand_as(now.left)), State(state.source, now))

    def read_out(self, output: tuple[Memory, Tensor]) -> Tensor:
        memory, known = output
        left, before = memory.left.flatten(0, -2), memory.before.flatten(0, -2)
        logits = torch.where(left, self.word[1] + self.score * known.flatten(0, -2), self.word[0])
        rows, entries = self.known_ngrams(before)
        words = self.following[entries]
        logits = logits.index_put((rows, words), self.ngram[left[rows, words].long(), entries], accumulate=True)
        ending = self.end[left.sum(-1).clamp_max(MOST_LEFT)]
        end = torch.full_like(ending, Vocabulary.END, dtype=torch.int64)[:, None]
        return logits.scatter_add(1, end, ending[:, None]).reshape(memory.left.shape)

    def known_ngrams(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of histories (M, 3), and the entries of the n-grams that begin with these histories' last words."""
        rows, entries = [], []
        for order in range(1, ORDERS + 1):
            context = as_number(before[:, :order].unbind(1), self.vocabulary_size)
            at = torch.searchsorted(self.contexts, context).clamp_max(len(self.contexts) - 1)
            first = self.starts[at]
            count = torch.where(self.contexts[at] == context, self.starts[at + 1] - first, 0)
            row = torch.arange(len(before), device=before.device).repeat_interleave(count)
            rows.append(row)
            entries.append(torch.arange(len(row), device=before.device) + (first + count - count.cumsum(0))[row])
        return torch.cat(rows), torch.cat(entries)


class Coverage(Reranker):
    """A reranker whose score is Σ p_w of the words in V_1 that a caption mentions, over that of all, 0 to 1."""

    @torch.inference_mode()
    def scores(
        self, backend: Backend, features: Tensor, found: Sequence[Sequence[Hypothesis]], rare_word_exponent: float
    ) -> list[list[float]]:
        """The scores of each photo's hypotheses; ``rare_word_exponent`` is of visual n-grams and not used."""
        state = initial_state(backend.decoder, features)  # type: ignore[attr-defined]
        shares = (state.source[:, 0].exp() * state.memory.left[:, 0]).cpu()  # (B, K)
        return [
            [
                float(of_photo[[*{*hypothesis.words}]].sum() / of_photo.sum().clamp_min(1e-9))
                for hypothesis in hypotheses
            ]
            for of_photo, hypotheses in zip(shares, found, strict=True)
        ]


def once_seen(decoder: Msr, captions: Sequence[Sequence[int]]) -> Tensor:
    """Which of a decoder's n-grams (G,) these captions, which it counted, have once."""
    K, model = decoder.vocabulary_size, NgramModel(captions, decoder.vocabulary_size, orders=ORDERS)
    times = [times for _, _, times in sorted((as_number(c, K), word, times) for c, word, times, _ in model.ngrams())]
    once = torch.zeros(len(decoder.following), dtype=torch.bool)
    once[: len(times)] = torch.tensor(times[: len(once)]) == 1
    return once


def as_number(words: Any, size: int) -> Any:
    """One number for each context of one to three words, the last one first, of a vocabulary of that size."""
    return sum((word + 1) * (size + 2) ** index for index, word in enumerate(words))
