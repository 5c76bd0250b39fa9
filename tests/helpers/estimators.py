"""Hard objectives without a coin and without a baseline, which training does not offer and theorems are about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from show_attend_tell.training.objectives.hard import Baseline, Coin, HardObjective


@dataclass(kw_only=True)
class Estimator(HardObjective):
    """The hard objective; with the coin "none" every path samples its locations, and the baseline "none" is b = 0."""

    coin: Literal["image", "batch", "both", "none"] = "none"  # type: ignore[assignment]
    baseline: Literal["moving", "leave_one_out", "expected", "none"] = "moving"  # type: ignore[assignment]

    coins: ClassVar[Mapping[str, Coin]] = {
        **HardObjective.coins,
        "none": lambda batch, samples, generator: torch.zeros(batch, samples, dtype=torch.bool),
    }
    baselines: ClassVar[Mapping[str, Callable[[], Baseline]]] = {
        **HardObjective.baselines,
        "none": lambda: lambda rewards, sampled: torch.zeros_like(rewards),
    }
