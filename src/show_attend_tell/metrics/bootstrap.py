"""The bootstrap: how far a figure would move with other photos like these.

Photos or trainings are drawn with replacement, as many as there are or fewer, and the figure is computed on each
draw. The middle 95 % of these values are its interval (percentile bootstrap, Efron 1979). Systems that are compared
share the draws, so that differences and ratios are paired (Koehn 2004).

N photos · R resamples · W words.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 2000  # for the mean of a figure of words; a comparison of systems takes more
MIDDLE = (0.025, 0.975)  # the quantiles that bound the middle 95 %


def draw(generator: np.random.Generator, things: int, number: int, resamples: int) -> Array:
    """How often each thing is drawn (R, things), in R draws of ``number`` things with replacement."""
    drawn = generator.integers(things, size=(resamples, number)) + things * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * things).reshape(resamples, things).astype(float)


def interval(resampled: Array) -> tuple[float, float]:
    """The 95 % interval of a figure from its values in every resample (R,), leaving out those that are nan."""
    low, high = np.nanquantile(resampled, MIDDLE)
    return float(low), float(high)


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return asdict(self)


class Mean(NamedTuple):
    """A mean over words, and what it is in every resample of the photos: nan where a resample has no such word."""

    value: float
    resampled: Array  # (R,)

    def interval(self) -> Interval:
        """The mean and its 95 % interval."""
        return Interval(self.value, *interval(self.resampled))

    def minus(self, other: "Mean") -> "Mean":
        """The difference to another mean over the same photos."""
        return Mean(self.value - other.value, self.resampled - other.resampled)

    def over(self, other: "Mean") -> Interval | None:
        """The ratio to another mean over the same photos, or None unless that is above zero with its whole interval."""
        if interval(other.resampled)[0] <= 0:
            return None
        above = np.where(other.resampled > 0, other.resampled, np.nan)  # the odd resample beyond the interval
        return Mean(self.value / other.value, self.resampled / above).interval()


class Bootstrap:
    """Means over words (W,), each of one photo, with resamples of the photos: words of one photo are not independent.

    The same seed and number of photos give the same resamples.
    """

    def __init__(self, photos: int, seed: int) -> None:
        self.weights = draw(np.random.default_rng(seed), photos, photos, RESAMPLES)  # (R, N)

    def __call__(self, values: NDArray[Any], photos: NDArray[np.int64]) -> Mean:
        """The mean of values (W,) that belong to photos (W,), numbered from 0; those that are nan are left out."""
        number, there = self.weights.shape[1], ~np.isnan(values)
        values, photos = values[there], photos[there]
        sums = self.weights @ np.bincount(photos, values, minlength=number)
        counts = self.weights @ np.bincount(photos, minlength=number)
        return Mean(float(values.mean()), np.where(counts > 0, sums, np.nan) / np.maximum(counts, 1))

    def by_class(
        self, columns: Mapping[str, NDArray[Any]], photos: NDArray[np.int64], classes: Mapping[str, NDArray[np.bool_]]
    ) -> "dict[str, WordClass]":
        """The mean of every column (W,) over each class of words (W,) that there are, with the photos of the words."""
        return {
            name: WordClass(
                words=int(inside.sum()),
                photos=len(np.unique(photos[inside])),
                means={
                    column: self(values[inside], photos[inside])
                    for column, values in columns.items()
                    if not np.isnan(values[inside]).all()
                },
            )
            for name, inside in classes.items()
            if inside.any()
        }


@dataclass(frozen=True)
class WordClass:
    """Figures of the words of one class, each with a 95 % interval over photos."""

    words: int
    photos: int
    means: dict[str, Mean] = field(repr=False)
    ratios: dict[str, Interval | None] = field(default_factory=dict)  # None where the divisor is not surely above zero

    def with_ratios(self, name: str) -> "WordClass":
        """The same with the ratios of one mean to all others."""
        others = {other: mean for other, mean in self.means.items() if other != name}
        return replace(self, ratios={f"ratio_{other}": self.means[name].over(mean) for other, mean in others.items()})

    @property
    def figures(self) -> dict[str, Interval | None]:
        """The means and the ratios, by name."""
        return {name: mean.interval() for name, mean in self.means.items()} | self.ratios

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return plain({"words": self.words, "photos": self.photos, **self.figures})


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Results by name as plain values for JSON; those with a method ``to_dict`` are made plain by that."""
    found = {}
    for name, value in results.items():
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        found[name] = plain(value) if isinstance(value, Mapping) else value
    return found
