"""The hard model's objective: the sampled bound, with its coins and baselines.

N sampled sequences of locations · S rewards of one path: 1 for the whole sentence, C for rewards to go.
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import MixedAttention
from show_attend_tell.model.interface import DecoderOutput
from show_attend_tell.settings import Amount, Count, ShareBelowOne, settings
from show_attend_tell.training.objectives.losses import Loss, Objective, entropy
from show_attend_tell.training.ranks import ALL, Part, all_reduce_sum


class MovingBaseline:
    """The paper's b_k = 0.9 b_{k−1} + 0.1 r_k, where r_k is the mean reward of mini-batch k.

    b is used before its `update`. Rewards to go have one b for each number of words that are left. The first mini-batch
    only initializes b, so its advantage is zero. If several ranks share a mini-batch, or a rank computes it in pieces,
    r_k is the mean over all of it. While the encoder is fine-tuned, the captions of one length count as a mini-batch.
    """

    def __init__(self) -> None:
        self.values = torch.empty(0)  # b (S,), of the longest caption so far; NaN where no batch has started it
        self.seen: list[tuple[Tensor, Tensor]] = []  # since the last update: sums of rewards (S,), numbers of paths

    def __call__(self, rewards: Tensor, sampled: Tensor) -> Tensor:
        steps = rewards.shape[-1]
        longer = rewards.new_full((max(0, steps - len(self.values)),), math.nan)
        self.values = torch.cat([longer, self.values.to(rewards)])
        self.seen.append(((rewards * sampled[..., None]).sum((0, 1)), sampled.sum()))
        before = self.values[-steps:].clone()
        return torch.where(before.isnan(), rewards, before)

    def update(self) -> None:
        """Move b by the mini-batch that ends here."""
        if not self.seen:
            return
        rewards, paths = (torch.stack(sums).sum(0) for sums in zip(*self.seen, strict=True))
        self.seen.clear()
        mean = all_reduce_sum(rewards) / all_reduce_sum(paths)  # r_k (S,), NaN when no path is sampled
        before = self.values[-len(mean) :].clone()
        moved = torch.where(before.isnan(), mean, 0.9 * before + 0.1 * mean)
        self.values[-len(mean) :] = torch.where(mean.isnan(), before, moved)


@settings(frozen=False)
class HardObjective(Objective):
    """The sampled bound's gradient, by the rule after eq. 7:

        mean_n [ ∂log p(y|s̃,a) + λ_r (log p(y|s̃,a) − b) ∂log p(s̃|a) + λ_e ∂H[s̃] ]

    With probability ½ the expectation α replaces s̃ (sec. 4.1). Such a path has the plain gradient of its own log p, no
    REINFORCE term, and no part in b. The estimate is unbiased for eq. 6 only without these paths, at λ_r = 1, λ_e = 0.

    ``coin`` says which paths read the expectation:

    - "image": one toss for each photo (the paper);
    - "both": every caption has one expected path and N sampled ones, half the weight each. This is the coin's mean,
      without its noise.

    ``reward`` is the reward of each sampled location s_t:

    - "sentence": log p of the whole caption (the paper);
    - "to_go": log p of the words from t on, the only ones that s_t can change.

    ``baseline`` is b, which must not depend on the locations of the path it is subtracted for:

    - "moving": `MovingBaseline` (the paper);
    - "expected": the reward of the caption's expected path, which needs the coin "both".
    """

    samples: Count = Field(1, description="N")
    reward_weight: Amount = Field(1.0, description="λ_r")
    entropy_weight: float = Field(0.0, description="λ_e")
    coin: Literal["image", "both"] = "image"
    reward: Literal["sentence", "to_go"] = "sentence"
    baseline: Literal["moving", "expected"] = "moving"
    label_smoothing: ShareBelowOne = 0.0

    def __post_init__(self) -> None:
        if self.baseline == "expected" and self.coin != "both":
            raise SatError(f"baseline is 'expected' and coin is {self.coin!r}: this baseline needs the coin 'both'")
        if self.baseline == "moving":
            self.moving = MovingBaseline()

    @property
    def paths(self) -> int:
        """P: along how many paths `teacher_forcing` must run."""
        return self.samples + (self.coin == "both")

    def draw(self, batch: int, steps: int, generator: torch.Generator, part: Part = ALL) -> MixedAttention:
        """A toss of the coin and the sampled locations of a batch of so many captions and steps, for a rank's part."""
        expected = self.toss(batch, generator)[part.rows]
        uniforms = torch.rand(batch, self.paths, steps, generator=generator)[part.rows]
        if not part.share:  # a rank without rows of its own samples nothing
            expected = torch.ones_like(expected)
        return MixedAttention(expected, uniforms)

    def toss(self, batch: int, generator: torch.Generator) -> Tensor:
        """Which paths read the expectation (B, P): of the coin "both", each caption's first."""
        if self.coin == "both":
            return (torch.arange(self.paths) == 0).expand(batch, -1)
        return (torch.rand(batch, 1, generator=generator) < 0.5).expand(-1, self.paths)

    def baseline_of(self, rewards: Tensor, sampled: Tensor) -> Tensor:
        """b, of a shape that broadcasts to (B, P, S), for rewards (B, P, S) and sampled (B, P), true or false.

        Only its values for sampled paths count.
        """
        return rewards[:, :1] if self.moving is None else self.moving(rewards, sampled)

    def __call__(self, output: DecoderOutput, captions: Tensor, mode: MixedAttention) -> Loss:
        """The loss of captions (B, C), computed with the drawn ``mode``; its gradient is minus the rule above."""
        if output.alpha is None or output.locations is None:
            raise SatError("hard attention is learnt from sampled locations: this decoder has no attention to sample")
        expected = mode.expected.to(output.logits.device)
        sampled = ~expected
        weight = torch.where(expected, 0.5, 0.5 / self.samples) if self.coin == "both" else 1 / self.samples

        log_probabilities, words = self.word_losses(output.logits, captions)  # (B, P, C)
        total = (weight * words.sum(-1)).sum(1).mean()

        rewards = self.rewards(log_probabilities.detach())
        advantage = rewards - self.baseline_of(rewards, sampled)  # (B, P, S)
        chosen_alpha = output.alpha.gather(-1, output.locations[..., None]).squeeze(-1)  # p(s_t) (B, P, C)
        credit = (advantage * chosen_alpha.clamp_min(1e-12).log()).sum(-1)
        uncertainty = entropy(output.alpha)  # (B, P, C)
        sampled_weight = weight * sampled
        total = total - self.reward_weight * (sampled_weight * credit).sum(1).mean()
        total = total - self.entropy_weight * (sampled_weight * uncertainty.sum(-1)).sum(1).mean()

        watch = {"entropy": uncertainty.detach().mean()}
        for name, chosen in (("nats_per_word", ~mode.expected), ("nats_per_word_expected", mode.expected)):
            if chosen.any():
                paths = chosen.flatten().nonzero().squeeze(1).to(expected.device)
                watch[name] = -log_probabilities.detach().flatten(0, 1)[paths].mean()
        return Loss(total, watch)

    def rewards(self, log_probabilities: Tensor) -> Tensor:
        """The reward of each location (B, P, S), from the words' log p (B, P, C)."""
        if self.reward == "sentence":
            return log_probabilities.sum(-1, keepdim=True)
        return log_probabilities.flip(-1).cumsum(-1).flip(-1)  # the words from t on
