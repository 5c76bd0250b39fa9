"""Hard objectives without a coin and without a baseline, which training does not offer and theorems are about."""

from dataclasses import dataclass
from typing import Literal

import torch
from scenes import LeaveOneOut
from torch import Tensor

from show_attend_tell.training.objectives.hard import HardObjective


@dataclass(kw_only=True)
class Estimator(HardObjective):
    """The hard objective; with the coin "none" every path samples its locations, and the baseline "none" is b = 0."""

    coin: Literal["image", "both", "none"] = "none"  # type: ignore[assignment]
    baseline: Literal["moving", "leave_one_out", "expected", "none"] = "moving"  # type: ignore[assignment]

    def toss(self, batch: int, generator: torch.Generator) -> Tensor:
        if self.coin == "none":
            return torch.zeros(batch, self.paths, dtype=torch.bool)
        return super().toss(batch, generator)

    def baseline_of(self, rewards: Tensor, sampled: Tensor) -> Tensor:
        if self.baseline == "leave_one_out":
            return LeaveOneOut.baseline_of(self, rewards, sampled)  # type: ignore[arg-type]
        return torch.zeros_like(rewards) if self.baseline == "none" else super().baseline_of(rewards, sampled)
