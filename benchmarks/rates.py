"""What this machine can do at best, measured now: the rates that rooflines are computed from, and paired timing."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rates:
    """The best rates that this run measured."""

    precision: str  # that training computes in: "bfloat16" or "float32"
    products: float  # operations a second of a product in it (a multiplication and an addition are two)
    float32: float  # the same in float32
    sigma: float  # values of σ a second
    copy: float  # bytes a second, read and written

    def __str__(self) -> str:
        return (
            f"products {self.products / 1e12:.2f} TFLOP/s in {self.precision} and {self.float32 / 1e12:.2f} in "
            f"float32, σ {self.sigma / 1e9:.2f} G/s, copy {self.copy / 1e9:.0f} GB/s"
        )


def clock() -> float:
    """Seconds: of the processor on one thread, by which a busy machine changes little; of the wall on several."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def measure_rates(precision: str, seconds: float) -> Rates:
    """Measure each rate for about so many seconds; the best of its repeats counts."""
    square = torch.randn(2048, 2048)
    narrow = square.to(getattr(torch, precision))
    big, target = torch.zeros(32 << 20), torch.zeros(32 << 20)
    values = torch.randn(256 << 10)  # a megabyte, which stays in the cache
    out = torch.empty_like(values)
    ones = torch.ones(())

    def by_exponentials() -> None:  # σ(a + b) = 1 / (1 + e^−a e^−b), the exponentials known
        torch.addcmul(ones, values, values, out=out)
        out.reciprocal_()

    sigmas = (lambda: torch.sigmoid(values, out=out), lambda: torch.tanh(values, out=out), by_exponentials)
    float32 = 2 * 2048**3 / fastest(lambda: square @ square, seconds)
    return Rates(
        precision=precision,
        products=float32 if precision == "float32" else 2 * 2048**3 / fastest(lambda: narrow @ narrow, seconds),
        float32=float32,
        sigma=max(values.numel() / fastest(each, seconds / 3) for each in sigmas),
        copy=2 * big.numel() * 4 / fastest(lambda: target.copy_(big), seconds),
    )


def seconds_of(action: Callable[[], object]) -> float:
    """How long an action takes, by `clock`."""
    began = clock()
    action()
    return clock() - began


def fastest(action: Callable[[], object], seconds: float) -> float:
    """The shortest time of an action in seconds, of as many repeats as fit."""
    action()
    best, end = seconds_of(action), time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, seconds_of(action))
    return best


@dataclass(frozen=True)
class Timing:
    """Seconds of one action: the median of its repeats, the smallest and the largest, and how many there are."""

    median: float
    low: float
    high: float
    repeats: int

    def each(self, photos: int) -> "Timing":
        """The time of one photo of many."""
        return Timing(self.median / photos, self.low / photos, self.high / photos, self.repeats)


def interleaved(actions: Mapping[str, Callable[[], object]], repeats: int, seconds: float) -> dict[str, Timing]:
    """Time the actions in turns, so that a machine whose speed drifts treats them alike; the first turn warms up.

    There are fewer turns than ``repeats``, but at least one, where they would take longer than so many seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    end = time.perf_counter() + seconds
    for turn in range(repeats + 1):
        began = time.perf_counter()
        for name, action in actions.items():
            taken = seconds_of(action)
            if turn:
                times[name].append(taken)
        if turn and 2 * time.perf_counter() - began > end:
            break
    return {name: Timing(statistics.median(each), min(each), max(each), len(each)) for name, each in times.items()}
