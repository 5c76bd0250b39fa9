"""What training minimises: the soft model's loss and the hard model's sampled bound.

B batch · P paths of one caption · C caption length with the end token · L places · K vocabulary · N sampled
sequences. Captions of one batch have one length, so nothing is padded and no mask is needed.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Expectation, Look, Mixed
from show_attend_tell.model.interface import Told, word_log_probabilities
from show_attend_tell.model.precision import wide


class Loss(NamedTuple):
    """A loss to call ``backward`` on, and what to watch, as plain means over the batch."""

    total: Tensor
    watch: dict[str, Tensor]


def cross_entropy(logits: Tensor, captions: Tensor, log_probabilities: Tensor, smoothing: float) -> Tensor:
    """Per word (B, P, C): −log p(y_t), with a share of the target spread evenly over the vocabulary (label
    smoothing)."""
    if not smoothing:
        return -log_probabilities
    # mean_k log p_k = mean_k logit_k − logsumexp, and log p(y) = logit_y − logsumexp
    target = captions[:, None, :, None].expand(*logits.shape[:-1], 1)
    over_all = log_probabilities + (wide(logits).mean(-1) - wide(logits.gather(-1, target).squeeze(-1)))
    return -((1 - smoothing) * log_probabilities + smoothing * over_all)


def entropy(alpha: Tensor) -> Tensor:
    """H[α_t] in nats, (..., L) → (...)."""
    return -(alpha * alpha.clamp_min(1e-12).log()).sum(-1)


def doubly_stochastic(alpha: Tensor) -> Tensor:
    """Σ_i (1 − Σ_t α_ti)² of each path (B, P), from alpha (B, P, C, L): eq. 9's penalty with τ = 1."""
    return (1 - alpha.sum(2)).square().sum(-1)


def check_range(*, label_smoothing: float, **weights: float) -> None:
    """Raise `SatError` naming the first weight that is not a number from 0 up, or a smoothing that is no share."""
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise SatError(f"{name} is {weight}: give 0 or more")
    if not 0 <= label_smoothing < 1:
        raise SatError(f"label_smoothing is {label_smoothing}: give a share from 0 up to but not including 1")


@dataclass(kw_only=True)
class SoftObjective:
    """−log p(y|a) + λ Σ_i (1 − Σ_t α_ti)² − λ_e Σ_t H[α_t], summed over the caption, averaged over the batch (eq. 9).

    The paper has no λ_e here: below zero it sharpens α, which makes a soft model one that a hard model can start from.
    """

    doubly_stochastic: float = 0.33  # λ; the authors' program's value at batches of 64
    entropy_weight: float = 0.0  # λ_e
    label_smoothing: float = 0.0

    paths = 1

    def __post_init__(self) -> None:
        check_range(label_smoothing=self.label_smoothing, doubly_stochastic=self.doubly_stochastic)

    def look(self, batch: int, steps: int, generator: torch.Generator) -> Look:
        return Expectation()

    def __call__(self, told: Told, captions: Tensor) -> Loss:
        log_probabilities = word_log_probabilities(told.logits, captions)
        loss = cross_entropy(told.logits, captions, log_probabilities, self.label_smoothing).sum(-1).mean()
        watch = {"nats_per_word": -log_probabilities.detach().mean()}
        if told.alpha is not None:
            uncertainty = entropy(told.alpha)  # (B, P, C)
            loss = loss + self.doubly_stochastic * doubly_stochastic(told.alpha).mean()
            loss = loss - self.entropy_weight * uncertainty.sum(-1).mean()
            watch["entropy"] = uncertainty.detach().mean()
        return Loss(loss, watch)


@dataclass(kw_only=True)
class HardObjective:
    """The sampled bound's gradient, as the rule after eq. 7:

        mean_n [ ∂log p(y|s̃,a) + λ_r (log p(y|s̃,a) − b) ∂log p(s̃|a) + λ_e ∂H[s̃] ]

    With probability ½ s̃ is replaced by its expectation α (sec. 4.1); such a path has the plain gradient of its own
    log p, no REINFORCE term, and stays out of b. It is unbiased for eq. 6 only with ``reward_weight`` 1,
    ``entropy_weight`` 0 and ``coin`` "none".

    ``coin``: who is replaced. "image" tosses for each photo (the paper), "batch" once a mini-batch (the authors'
    program), "both" gives every caption one expected path and N sampled ones, half the weight each (the coin's mean,
    without its noise), "none" never.
    ``reward``: "sentence" pays every place the log p of the whole caption (the paper); "to_go" pays s_t only for the
    words from t on, the only ones that it can change.
    ``baseline``: "moving" is b_k = 0.9 b_{k−1} + 0.1 log p, over mini-batches (the paper); "length" keeps one such b
    per caption length; "leave_one_out" is the mean of the caption's other sampled sequences; "expected", with coin
    "both", is the log p of the same caption's expected path. With "to_go" each has a value per step.
    """

    samples: int = 1  # N
    reward_weight: float = 1.0  # λ_r
    entropy_weight: float = 0.0  # λ_e
    coin: Literal["image", "batch", "both", "none"] = "image"
    reward: Literal["sentence", "to_go"] = "sentence"
    baseline: Literal["moving", "length", "leave_one_out", "expected"] = "moving"
    doubly_stochastic: float = 0.0  # λ: the paper has it in the soft model only
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        self.baselines: dict[int, Tensor] = {}  # by caption length, or all under 0
        if self.samples < 1:
            raise SatError(f"samples is {self.samples}: give at least 1")
        check_range(
            label_smoothing=self.label_smoothing,
            reward_weight=self.reward_weight,
            doubly_stochastic=self.doubly_stochastic,
        )
        for name, known in (
            ("coin", ("image", "batch", "both", "none")),
            ("reward", ("sentence", "to_go")),
            ("baseline", ("moving", "length", "leave_one_out", "expected")),
        ):
            if getattr(self, name) not in known:
                raise SatError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.baseline == "expected" and self.coin != "both":
            raise SatError(
                f'the expected baseline needs the expected path that coin "both" gives, not coin {self.coin!r}'
            )
        if self.baseline == "leave_one_out" and self.samples < 2:
            raise SatError("the leave_one_out baseline is the mean of the other samples: give samples of 2 or more")

    @property
    def paths(self) -> int:
        return self.samples + (self.coin == "both")

    def look(self, batch: int, steps: int, generator: torch.Generator) -> Look:
        """A fresh toss of the coin and fresh places for a batch."""
        expect = torch.zeros(batch, self.paths, dtype=torch.bool)
        if self.coin == "image":
            expect |= torch.rand(batch, 1, generator=generator) < 0.5
        elif self.coin == "batch":
            expect |= torch.rand(1, 1, generator=generator) < 0.5
        elif self.coin == "both":
            expect[:, 0] = True
        self.expect = expect
        return Mixed(expect, torch.rand(batch, self.paths, steps, generator=generator))

    def __call__(self, told: Told, captions: Tensor) -> Loss:
        if told.alpha is None or told.places is None:
            raise SatError("hard attention is learnt from sampled places: this decoder has no attention to sample")
        expect = self.expect.to(told.logits.device)
        sampled = ~expect
        weight = torch.full(expect.shape, 1 / self.samples, device=expect.device)
        if self.coin == "both":
            weight = torch.where(expect, 0.5, 0.5 / self.samples)

        log_probabilities = word_log_probabilities(told.logits, captions)  # (B, P, C)
        words = cross_entropy(told.logits, captions, log_probabilities, self.label_smoothing).sum(-1)
        total = (weight * words).sum(1).mean()

        reward = log_probabilities.detach()
        if self.reward == "sentence":
            reward = reward.sum(-1, keepdim=True)  # (B, P, 1)
        elif self.reward == "to_go":
            reward = reward.flip(-1).cumsum(-1).flip(-1)  # (B, P, C): the words from t on
        chosen_alpha = told.alpha.gather(-1, told.places[..., None]).squeeze(-1)  # p(s_t) (B, P, C)
        log_alpha = chosen_alpha.clamp_min(1e-12).log()
        credit = (self.advantage(reward, sampled, captions.shape[1]) * log_alpha).sum(-1)
        uncertainty = entropy(told.alpha)  # (B, P, C)
        kept = weight * sampled
        total = total - self.reward_weight * (kept * credit).sum(1).mean()
        total = total - self.entropy_weight * (kept * uncertainty.sum(-1)).sum(1).mean()
        total = total + self.doubly_stochastic * (weight * doubly_stochastic(told.alpha)).sum(1).mean()

        watch = {"entropy": uncertainty.detach().mean()}
        for name, chosen in (("nats_per_word", sampled), ("nats_per_word_expected", expect)):
            if chosen.any():
                watch[name] = -log_probabilities.detach()[chosen].mean()
        return Loss(total, watch)

    def advantage(self, reward: Tensor, sampled: Tensor, length: int) -> Tensor:
        """Reward (B, P, 1 or C) less its baseline, which never depends on the same path's places; zero for expected
        paths."""
        inside = sampled[..., None]
        if self.baseline == "expected":
            return (reward - reward[:, :1]) * inside
        if self.baseline == "leave_one_out":
            count = inside.sum(1, keepdim=True)
            others = ((reward * inside).sum(1, keepdim=True) - reward) / (count - 1).clamp_min(1)
            return (reward - others) * inside
        key = length if self.baseline == "length" else 0
        if not sampled.any():
            return torch.zeros_like(reward)
        mean = (reward * inside).sum((0, 1)) / sampled.sum()  # (1 or C)
        before = self.baselines.get(key, mean[:0]).to(mean.device)
        new = max(0, len(mean) - len(before))  # steps that no caption had before, counted from the caption's end
        before = torch.cat([mean[:new], before])
        self.baselines[key] = before.clone()
        self.baselines[key][-len(mean) :].mul_(0.9).add_(mean, alpha=0.1)
        advantage = (reward - before[-len(mean) :]) * inside
        advantage[..., :new] = 0  # nothing to compare with yet: this batch only starts their baseline
        return advantage
