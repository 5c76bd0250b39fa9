"""The bootstrap: how far a figure would move with other photos like these.

Photos or trainings are drawn with replacement, as many as there are or fewer, and the figure is computed on each
draw. The middle 95 % of these values are its interval (percentile bootstrap, Efron 1979). Systems that are compared
share the draws, so that differences and ratios are paired (Koehn 2004).

R resamples.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 2000  # for the mean of a figure; a comparison of systems takes more
MIDDLE = (0.025, 0.975)  # the quantiles that bound the middle 95 %


def draw(generator: np.random.Generator, things: int, number: int, resamples: int) -> Array:
    """How often each thing is drawn (R, things), in R draws of ``number`` things with replacement."""
    drawn = generator.integers(things, size=(resamples, number)) + things * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * things).reshape(resamples, things).astype(float)


def interval(resampled: Array) -> tuple[float, float]:
    """The 95 % interval of a figure from its values in every resample (R,), leaving out those that are nan."""
    low, high = np.nanquantile(resampled, MIDDLE)
    return float(low), float(high)


def first_not_worse(errors: Array, *, proof: float = 1.0) -> int:
    """The choice among (S, N) errors of S systems on N photos, the first of which is to be left only by proof.

    It is the first whose mean error is at most ``proof`` standard errors above the least mean. The standard error is
    that of the two systems' difference over the photos (the one-standard-error rule, Breiman et al. 1984, here paired).
    """
    above = errors - errors[errors.mean(1).argmin()]
    spread = above.std(1, ddof=1) / math.sqrt(errors.shape[1]) if errors.shape[1] > 1 else math.inf
    return int((above.mean(1) <= proof * spread).argmax())
