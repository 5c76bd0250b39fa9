"""MS Research (Fang et al., *From Captions to Visual Concepts and Back*, 2014): word detectors, and a language model
whose features say which detected words are still to be mentioned.

    p_w = 1 − Π_i (1 − σ(v_w · a_i + b_w))      (a word is in the photo if it is at one of its locations: noisy-OR)
    V_1 = {w: p_w ≥ τ},  V_t = V_{t−1} \\ {y_{t−1}}     (the detected words that are still to be mentioned)
    p(y_t = w) = softmax_w of the sum of the weights of the features that w has after y_{t−3}, y_{t−2}, y_{t−1}

The features, each in one form for w in V_t and in another for w outside of it: the word, and the word after the last
one, two and three words. Besides, log p_w for w in V_t and, for the end token, the number of words in V_t. The n-grams'
weights are found by hashing, since there are too many n-grams for a table. The detectors read the locations that
attention reads, as those of the original do.

Left out or changed:

- The similarity of photo and text (DMSM) is left out.
- The detectors learn from the words of each caption, and the language model at the same time from the words that they
  detect. The original trains one after the other, and the language model by noise-contrastive estimation.
- The original ranks the candidates of the search by more features, whose weights MERT tunes on val. Here these are
  log p, the length and, by `Coverage`, the share of detected words in the caption; a grid on val tunes them
  (`training.selection`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.backends.base import Backend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.config import Config
from show_attend_tell.model.decoder import Dropout
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, State, Step, check_annotations, initial_state
from show_attend_tell.model.precision import promote
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.settings import Amount, Count, Share, ShareBelowOne, settings

ORDERS = 3  # words before the one that is predicted
PRIMES = (1_000_003, 7_368_787, 15_485_863, 32_452_843)  # of the hash, for a word and those before it
RARE = -9.88  # b_w before the training: a word is then in one of a hundred photos of 196 locations
SCALE = 60.0  # factor of the features' weights, since Adam moves the weight of a rare n-gram but little
UNDETECTED = -30.0  # log p_w of words without a detector
MOST_LEFT = 20  # words still to be mentioned that the feature of the end token tells apart


@settings
class MsrConfig(Config):
    """The sizes of MS Research; there are as many detectors as in the original. Raises `SatError` for one below one."""

    kind = "msr"
    reads_locations = True
    detected: Count = 1000  # the most frequent words, which have detectors
    threshold: Share = 0.3  # τ
    table_size: Count = 2**20  # weights of the n-grams of each length and form
    detection: Amount = 1.0  # weight of the detectors' cross-entropy in the loss
    annotation_dropout: ShareBelowOne = 0.3  # on the channels of the annotations

    @property
    def title(self) -> str:
        return (
            "MS Research (Fang et al., 2014), as a system to compare *Show, Attend and Tell* (Xu et al., ICML 2015) "
            "with. It has no attention: it detects words in the photo, and its language model mentions them."
        )


class Source(NamedTuple):
    """What `Msr` computes once for a photo."""

    log_probabilities: Tensor  # log p_w (B, 1, K), `UNDETECTED` for words without a detector
    scores: Tensor  # of the detectors, as logits of p_w (B, 1, K′)


class Memory(NamedTuple):
    """What `Msr` carries from step to step."""

    before: Tensor  # the last three words (B, P, 3), the last one first
    left: Tensor  # V_t (B, P, K), true for words still to be mentioned


class Msr(Decoder):
    """The detectors and the language model of MS Research."""

    config: MsrConfig

    def __init__(self, config: MsrConfig) -> None:
        super().__init__()
        self.config: Any = config
        self.vocabulary_size = K = config.vocabulary_size
        self.annotation_dropout = Dropout(config.annotation_dropout)
        self.first = Vocabulary.UNKNOWN + 1  # the first word with a detector
        self.detectors = nn.Linear(config.annotation_size, min(config.detected, K - self.first))
        self.word = nn.Parameter(torch.zeros(2, K))  # outside of V_t, and in it
        self.ngrams = nn.Parameter(torch.zeros(ORDERS, 2, config.table_size))
        self.score = nn.Parameter(torch.ones(()))  # of log p_w
        self.end = nn.Parameter(torch.zeros(MOST_LEFT + 1))
        nn.init.normal_(self.detectors.weight, std=0.01)
        nn.init.constant_(self.detectors.bias, RARE)

    def detect(self, annotations: Tensor) -> Tensor:
        """log(p_w / (1 − p_w)) (B, K′) of the words with detectors, from annotations (B, L, D).

        Raises `SatError` for annotations of another shape or size.
        """
        check_annotations(annotations, self.config.annotation_size)
        locations = nn.functional.layer_norm(promote(annotations), annotations.shape[-1:])
        found = promote(self.detectors(self.annotation_dropout(locations)))
        absent = -nn.functional.softplus(found).sum(1)  # log(1 − p_w)
        return torch.log(-torch.expm1(absent.clamp(-30, -1e-6))) - absent

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source is what was detected; V_1 are the words above the threshold."""
        scores = self.detect(annotations)
        known = scores.new_full((len(scores), self.vocabulary_size), UNDETECTED)
        known[:, self.first : self.first + scores.shape[1]] = nn.functional.logsigmoid(scores.detach())
        before = torch.full((len(scores), paths, ORDERS), self.vocabulary_size, device=scores.device)
        left = (known >= torch.tensor(self.config.threshold).log().to(known))[:, None].expand(-1, paths, -1)
        return State(Source(known[:, None], scores[:, None]), Memory(before, left))

    def embed(self, words: Tensor) -> Tensor:
        """The words themselves."""
        return words

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        source: Source = state.source
        memory: Memory = state.memory
        before = torch.cat([embedded[..., None], memory.before[..., :-1]], dim=-1)
        inside = embedded < self.vocabulary_size  # false before the first word
        mentioned = nn.functional.one_hot(embedded * inside, self.vocabulary_size).bool() & inside[..., None]
        now = Memory(before, memory.left & ~mentioned)
        return Step((now, source.log_probabilities.expand_as(now.left)), State(source, now))

    def read_out(self, output: tuple[Memory, Tensor]) -> Tensor:
        memory, known = output
        K, size = self.vocabulary_size, self.config.table_size
        words = torch.arange(K, device=known.device)
        form = memory.left.long()  # (..., K)
        logits = SCALE * torch.where(memory.left, self.word[1], self.word[0])
        logits = logits + torch.where(memory.left, self.score * known, 0.0)
        hashed = words * PRIMES[0]
        for order in range(ORDERS):
            hashed = hashed + (memory.before[..., order, None] + 1) * PRIMES[order + 1]
            logits = logits + SCALE * self.ngrams[order].flatten()[form * size + hashed % size]
        left = memory.left.sum(-1).clamp_max(MOST_LEFT)
        return logits + nn.functional.one_hot(words[Vocabulary.END], K) * self.end[left][..., None]

    def penalty(self, output: tuple[Memory, Tensor], source: Source, captions: Tensor) -> Tensor:
        """The cross-entropy of each caption's words by the detectors, summed over the words with detectors (B, P)."""
        each = captions if captions.dim() == 3 else captions[:, None]  # (B, P or 1, C)
        present = nn.functional.one_hot(each, self.vocabulary_size).amax(2)
        target = present[..., self.first : self.first + source.scores.shape[-1]].to(source.scores)
        scores = source.scores.expand_as(target)
        wrong = nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
        return self.config.detection * wrong.sum(-1).expand(-1, output[0].left.shape[1])

    def own_reranker(self) -> "Coverage":
        """The reranker by the share of detected words in a caption."""
        return Coverage(self)


class Coverage:
    """A reranker whose score is the share of the photo's detected words that a caption mentions, 0 to 1."""

    def __init__(self, decoder: Msr) -> None:
        self.decoder = decoder

    @torch.inference_mode()
    def scores(
        self, backend: Backend, features: Tensor, found: Sequence[Sequence[Hypothesis]], rare_word_exponent: float
    ) -> list[list[float]]:
        """The scores of each photo's hypotheses; ``rare_word_exponent`` is of visual n-grams and not used."""
        detected = initial_state(self.decoder, features).memory.left[:, 0].cpu()  # (B, K)
        words = [{*row.nonzero()[:, 0].tolist()} for row in detected]
        return [
            [len({*hypothesis.words} & of_photo) / max(1, len(of_photo)) for hypothesis in hypotheses]
            for of_photo, hypotheses in zip(words, found, strict=True)
        ]
