"""What this machine can do at best, measured now: the rates that rooflines are computed from, and paired timing."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rates:
    """The best rates that this run measured."""

    bf16: float  # operations a second of a bfloat16 product (a multiplication and an addition are two)
    fp32: float  # the same in float32
    sigma: float  # values of σ a second
    copy: float  # bytes a second, read and written

    def __str__(self) -> str:
        return (
            f"products {self.bf16 / 1e12:.2f} TFLOP/s in bfloat16 and {self.fp32 / 1e12:.2f} in float32, "
            f"σ {self.sigma / 1e9:.2f} G/s, copy {self.copy / 1e9:.0f} GB/s"
        )


def measure_rates(seconds: float = 1.0) -> Rates:
    """Measure each rate for about so many seconds; the best of its repeats counts."""
    square = torch.randn(2048, 2048)
    narrow = square.bfloat16()
    operations = 2 * 2048**3
    big, target = torch.zeros(32 << 20), torch.zeros(32 << 20)
    values = torch.randn(256 << 10)  # a megabyte, which stays in the cache
    out = torch.empty_like(values)
    ones = torch.ones(())

    def by_exponentials() -> None:  # σ(a + b) = 1 / (1 + e^−a e^−b), the exponentials known
        torch.addcmul(ones, values, values, out=out)
        out.reciprocal_()

    sigmas = (lambda: torch.sigmoid(values, out=out), lambda: torch.tanh(values, out=out), by_exponentials)
    return Rates(
        bf16=operations / fastest(lambda: narrow @ narrow, seconds),
        fp32=operations / fastest(lambda: square @ square, seconds),
        sigma=max(values.numel() / fastest(each, seconds / 3) for each in sigmas),
        copy=2 * big.numel() * 4 / fastest(lambda: target.copy_(big), seconds),
    )


def fastest(action: Callable[[], object], seconds: float) -> float:
    """The shortest time of an action in seconds, of as many repeats as fit."""
    action()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - began)
    return best


@dataclass(frozen=True)
class Timing:
    """Seconds of one action: the median of its repeats, the smallest and the largest, and how many there are."""

    median: float
    low: float
    high: float
    repeats: int


def interleaved(actions: Mapping[str, Callable[[], object]], repeats: int, seconds: float) -> dict[str, Timing]:
    """Time the actions in turns, so that a machine whose speed drifts treats them alike; the first turn warms up.

    There are fewer turns than ``repeats``, but at least one, where they would take longer than so many seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    end = time.perf_counter() + seconds
    for turn in range(repeats + 1):
        began_turn = time.perf_counter()
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            if turn:
                times[name].append(time.perf_counter() - began)
        if turn and time.perf_counter() + (time.perf_counter() - began_turn) > end:
            break
    return {name: Timing(statistics.median(each), min(each), max(each), len(each)) for name, each in times.items()}
