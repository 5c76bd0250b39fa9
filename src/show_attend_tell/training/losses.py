"""What training minimizes: the soft model's loss, and the hard model's sampled bound.

B batch · P paths of one caption · C caption length with the end token · L locations · K vocabulary · N sampled
sequences of locations · S rewards of one path: 1 for the whole sentence, C for rewards to go. Captions of one batch
have one length, so nothing is padded and no mask is needed.

An objective is used in three steps: ``draws = objective.draw(…)``, then `teacher_forcing` with ``draws.mode`` along
``objective.paths`` paths, then ``objective(output, captions, draws)``.
"""

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import AttentionMode, MeanAttention, MixedAttention
from show_attend_tell.model.interface import DecoderOutput
from show_attend_tell.model.kernels import WordScores, word_scores
from show_attend_tell.settings import Amount, Count, ShareBelowOne, settings
from show_attend_tell.training.ranks import Part
from show_attend_tell.training.ranks import total as over_ranks


class Loss(NamedTuple):
    """A loss and what to watch with it."""

    total: Tensor  # to call ``backward`` on
    watch: dict[str, Tensor]  # means over the batch, without gradient


class Draws(NamedTuple):
    """What an objective draws for a batch before the decoder runs."""

    mode: AttentionMode
    expected: Tensor  # whether a path reads the expectation (true) or sampled locations (false), (B, P)

    def of(self, part: Part) -> "Draws":
        """Those of the rows of one rank. A rank without rows of its own samples nothing."""
        if not isinstance(self.mode, MixedAttention):
            return Draws(self.mode, self.expected[part.rows])
        expected = self.expected[part.rows] if part.share else torch.ones_like(self.expected[part.rows])
        return Draws(MixedAttention(expected, self.mode.sampled.uniforms[part.rows]), expected)


def word_losses(
    logits: Tensor, captions: Tensor, smoothing: float, word_scores: WordScores = word_scores
) -> tuple[Tensor, Tensor]:
    """log p(y_t) of each word and its cross-entropy, (B, P, C) each, of logits (B, P, C, K) and captions (B, C).

    The cross-entropy is −log p(y_t); label smoothing spreads a share of its target evenly over the vocabulary.
    ``word_scores`` is `kernels.word_scores`, plain or compiled.
    """
    words = captions[:, None].expand(logits.shape[:-1]).flatten()
    log_probabilities, means = (part.view(logits.shape[:-1]) for part in word_scores(logits.flatten(0, 2), words))
    return log_probabilities, -((1 - smoothing) * log_probabilities + smoothing * means)


def entropy(alpha: Tensor) -> Tensor:
    """H[α_t] in nats, (..., L) → (...)."""
    return -(alpha * alpha.clamp_min(1e-12).log()).sum(-1)


def doubly_stochastic(alpha: Tensor) -> Tensor:
    """Σ_i (1 − Σ_t α_ti)² of each path (B, P), from alpha (B, P, C, L): eq. 9's penalty with τ = 1."""
    return (1 - alpha.sum(2)).square().sum(-1)


@settings(frozen=False)
class SoftObjective:
    """−log p(y|a) + λ Σ_i (1 − Σ_t α_ti)², summed over the caption; its mean over the batch is the loss (eq. 9).

    Raises `SatError` for a number out of its range.
    """

    doubly_stochastic: Amount = 0.33  # λ; the authors' program's value at batches of 64
    label_smoothing: ShareBelowOne = 0.0

    paths = 1

    def draw(self, batch: int, steps: int, generator: torch.Generator) -> Draws:
        """Nothing is drawn: every path reads the expectation."""
        return Draws(MeanAttention(), torch.ones(batch, 1, dtype=torch.bool))

    def __call__(
        self,
        output: DecoderOutput,
        captions: Tensor,
        draws: Draws | None = None,
        *,
        word_scores: WordScores = word_scores,
    ) -> Loss:
        """The loss of captions (B, C). ``draws`` are not read; they are there because `HardObjective` needs them."""
        log_probabilities, words = word_losses(output.logits, captions, self.label_smoothing, word_scores)
        loss = words.sum(-1).mean()
        watch = {"nats_per_word": -log_probabilities.detach().mean()}
        if output.penalty is not None:
            loss = loss + output.penalty.mean()
            watch["penalty"] = output.penalty.detach().mean()
        if output.alpha is not None:
            loss = loss + self.doubly_stochastic * doubly_stochastic(output.alpha).mean()
            watch["entropy"] = entropy(output.alpha.detach()).mean()
        return Loss(loss, watch)

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed training needs of this objective: nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave: nothing."""


# ---------------------------------------------------------------- coins: which paths read the expectation (B, P)

Coin = Callable[[int, int, torch.Generator], Tensor]  # from B, N and a source of randomness


def coin_per_image(batch: int, samples: int, generator: torch.Generator) -> Tensor:
    """One toss for each photo: the paper's (sec. 4.1)."""
    return (torch.rand(batch, 1, generator=generator) < 0.5).expand(-1, samples)


def coin_per_batch(batch: int, samples: int, generator: torch.Generator) -> Tensor:
    """One toss for the whole mini-batch: the authors' program's."""
    return (torch.rand(1, 1, generator=generator) < 0.5).expand(batch, samples)


def both_sides(batch: int, samples: int, generator: torch.Generator) -> Tensor:
    """No toss: each caption has one expected path, the first, and N sampled ones."""
    return (torch.arange(1 + samples) == 0).expand(batch, -1)


# ---------------------------------------------------------------- baselines: what rewards are compared with


class Baseline(Protocol):
    """b of the rule after eq. 7. It must not depend on the locations of the path that it is subtracted for."""

    def __call__(self, rewards: Tensor, sampled: Tensor) -> Tensor:
        """b, of a shape that broadcasts to (B, P, S), for rewards (B, P, S) and sampled (B, P), true or false.

        Only its values for sampled paths count.
        """
        ...


class MovingBaseline:
    """The paper's b_k = 0.9 b_{k−1} + 0.1 r_k, where r_k is the mean reward of mini-batch k.

    b is used before its update. Rewards to go have one b for each number of words that are left. The first mini-batch
    only initializes b, so its advantage is zero. If several ranks share a mini-batch, r_k is the mean over all of it.
    While the encoder is fine-tuned, the captions of one length count as a mini-batch.
    """

    def __init__(self) -> None:
        self.values = torch.empty(0)  # b (S,), of the longest caption so far; NaN where no batch has started it

    def __call__(self, rewards: Tensor, sampled: Tensor) -> Tensor:
        steps = rewards.shape[-1]
        longer = rewards.new_full((max(0, steps - len(self.values)),), math.nan)
        self.values = torch.cat([longer, self.values.to(rewards)])
        # r_k (S,), NaN when no path is sampled
        mean = over_ranks((rewards * sampled[..., None]).sum((0, 1))) / over_ranks(sampled.sum())
        before = self.values[-steps:].clone()
        moved = torch.where(before.isnan(), mean, 0.9 * before + 0.1 * mean)
        self.values[-steps:] = torch.where(mean.isnan(), before, moved)
        return torch.where(before.isnan(), rewards, before)


def leave_one_out(rewards: Tensor, sampled: Tensor) -> Tensor:
    """The mean reward of the caption's other sampled paths."""
    inside = sampled[..., None]
    total = (rewards * inside).sum(1, keepdim=True)
    return (total - rewards) / (inside.sum(1, keepdim=True) - 1).clamp_min(1)


def expected_path(rewards: Tensor, sampled: Tensor) -> Tensor:
    """The reward of the caption's expected path, which is its first."""
    return rewards[:, :1]


# ---------------------------------------------------------------- the hard objective


@settings(frozen=False)
class HardObjective:
    """The sampled bound's gradient, by the rule after eq. 7:

        mean_n [ ∂log p(y|s̃,a) + λ_r (log p(y|s̃,a) − b) ∂log p(s̃|a) + λ_e ∂H[s̃] ]

    With probability ½ the expectation α replaces s̃ (sec. 4.1). Such a path has the plain gradient of its own log p, no
    REINFORCE term, and no part in b. The estimate is unbiased for eq. 6 only without these paths, at λ_r = 1, λ_e = 0.

    ``coin`` says which paths read the expectation:

    - "image": one toss for each photo (the paper);
    - "batch": one toss for each mini-batch (the authors' program). While the encoder is fine-tuned, a mini-batch has
      captions of several lengths, and there is one toss for each length;
    - "both": every caption has one expected path and N sampled ones, half the weight each. This is the coin's mean,
      without its noise.

    ``reward`` is the reward of each sampled location s_t:

    - "sentence": log p of the whole caption (the paper);
    - "to_go": log p of the words from t on, the only ones that s_t can change.

    ``baseline`` is b:

    - "moving": `MovingBaseline` (the paper);
    - "leave_one_out": `leave_one_out`, which needs two samples or more;
    - "expected": `expected_path`, which needs the coin "both".

    Raises `SatError` for a number out of its range, and for choices that do not exist or do not go together.
    """

    samples: Count = 1  # N
    reward_weight: Amount = 1.0  # λ_r
    entropy_weight: float = 0.0  # λ_e
    coin: Literal["image", "batch", "both"] = "image"
    reward: Literal["sentence", "to_go"] = "sentence"
    baseline: Literal["moving", "leave_one_out", "expected"] = "moving"
    doubly_stochastic: Amount = 0.0  # λ: the paper has it in the soft model only
    label_smoothing: ShareBelowOne = 0.0

    coins: ClassVar[Mapping[str, Coin]] = {"image": coin_per_image, "batch": coin_per_batch, "both": both_sides}
    baselines: ClassVar[Mapping[str, Callable[[], Baseline]]] = {
        "moving": MovingBaseline,
        "leave_one_out": lambda: leave_one_out,
        "expected": lambda: expected_path,
    }

    def __post_init__(self) -> None:
        if self.baseline == "expected" and self.coin != "both":
            raise SatError(f"baseline is 'expected' and coin is {self.coin!r}: this baseline needs the coin 'both'")
        if self.baseline == "leave_one_out" and self.samples < 2:
            raise SatError("baseline is 'leave_one_out' and samples is 1: this baseline needs 2 samples or more")
        self.toss = self.coins[self.coin]
        self.baseline_of = self.baselines[self.baseline]()

    @property
    def paths(self) -> int:
        """P: along how many paths `teacher_forcing` must run."""
        return self.samples + (self.coin == "both")

    def draw(self, batch: int, steps: int, generator: torch.Generator) -> Draws:
        """A toss of the coin and the sampled locations of a batch of that many captions and steps."""
        expected = self.toss(batch, self.samples, generator)
        return Draws(MixedAttention(expected, torch.rand(batch, self.paths, steps, generator=generator)), expected)

    def __call__(
        self,
        output: DecoderOutput,
        captions: Tensor,
        draws: Draws,
        *,
        word_scores: WordScores = word_scores,
    ) -> Loss:
        """The loss of captions (B, C), computed with ``draws.mode``; its gradient is minus the rule above.

        Raises `SatError` for a decoder without attention.
        """
        if output.alpha is None or output.locations is None:
            raise SatError("hard attention is learnt from sampled locations: this decoder has no attention to sample")
        expected = draws.expected.to(output.logits.device)
        sampled = ~expected
        weight = torch.where(expected, 0.5, 0.5 / self.samples) if self.coin == "both" else 1 / self.samples

        log_probabilities, words = word_losses(output.logits, captions, self.label_smoothing, word_scores)  # (B, P, C)
        total = (weight * words.sum(-1)).sum(1).mean()

        rewards = self.rewards(log_probabilities.detach())
        advantage = rewards - self.baseline_of(rewards, sampled)  # (B, P, S)
        chosen_alpha = output.alpha.gather(-1, output.locations[..., None]).squeeze(-1)  # p(s_t) (B, P, C)
        credit = (advantage * chosen_alpha.clamp_min(1e-12).log()).sum(-1)
        uncertainty = entropy(output.alpha)  # (B, P, C)
        sampled_weight = weight * sampled
        total = total - self.reward_weight * (sampled_weight * credit).sum(1).mean()
        total = total - self.entropy_weight * (sampled_weight * uncertainty.sum(-1)).sum(1).mean()
        total = total + self.doubly_stochastic * (weight * doubly_stochastic(output.alpha)).sum(1).mean()

        watch = {"entropy": uncertainty.detach().mean()}
        for name, chosen in (("nats_per_word", sampled), ("nats_per_word_expected", expected)):
            if chosen.any():
                watch[name] = -log_probabilities.detach()[chosen].mean()
        return Loss(total, watch)

    def rewards(self, log_probabilities: Tensor) -> Tensor:
        """The reward of each location (B, P, S), from the words' log p (B, P, C)."""
        if self.reward == "sentence":
            return log_probabilities.sum(-1, keepdim=True)
        return log_probabilities.flip(-1).cumsum(-1).flip(-1)  # the words from t on

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed training needs of this objective: the moving baseline, if it has one."""
        return {"baseline": self.baseline_of.values} if isinstance(self.baseline_of, MovingBaseline) else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        if isinstance(self.baseline_of, MovingBaseline):
            self.baseline_of.values = state["baseline"]
