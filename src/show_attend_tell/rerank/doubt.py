"""How much a caption should be doubted: how unlike the training photos its photo is, and how improbable it is itself.

B photos · D size of an annotation · R ≤ D directions · N training photos · M known photos, of val: not trained on.

Two things are measured of a photo. The first is the squared Mahalanobis distance of its mean annotation from those of
the training photos, Σ_r ((x − μ)·v_r)² / λ_r, over the R directions v_r along which training photos differ most, with
the variances λ_r: far away, the photo shows what the training did not. Before the mean is taken, each annotation is
made to have mean 0 and variance 1 over its channels. The second is log p / C, the mean log-probability of its caption's
C words, end token included. Of the known photos, both have a mean and a spread, so both can be put on one scale. Their
sum, in which log p / C counts half, says how strange the photo is. Doubt is the share of known photos that are less
strange: 0.95 means that only one known photo in twenty is as strange as this one.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.packing import pack, unpack
from show_attend_tell.errors import SatError
from show_attend_tell.search.hypotheses import Hypothesis

STEPS = 200  # of the scale
UNSURE = 0.95  # doubt above which a caption is called unsure
SHRINKAGE = 1e-3  # of the covariance towards even variances, as a share of their mean
DIRECTIONS = 256  # at most
LEAST = 100  # known photos; from fewer, shares say too little
LIKELIHOOD = 0.5  # what a spread of log p / C counts, where a spread of the distance counts 1

Array = NDArray[Any]


class Doubt:
    """The photos that a model knows, and how strange another one is."""

    def __init__(self, packed: Mapping[str, Array]) -> None:
        """Take ``mean`` (D,), ``whitening`` (R, D), ``typical`` (4,) and ``quantiles`` (`STEPS` + 1,), see `fit`.

        They may be packed in 8 bits a weight. Raises `SatError` for arrays that are missing, not finite, or do not fit.
        """
        arrays = unpack(packed)
        try:
            self.mean, self.whitening, self.typical, self.quantiles = (
                arrays[name].astype(np.float32) for name in ("mean", "whitening", "typical", "quantiles")
            )
            (size,) = self.mean.shape
        except (KeyError, ValueError) as error:
            raise SatError(f"these arrays are not a scale of doubt ({error!r})") from error
        shapes = {"whitening": (*self.whitening.shape[:1], size), "typical": (4,), "quantiles": (STEPS + 1,)}
        for name in ("mean", *shapes):
            value = getattr(self, name)
            if value.shape != shapes.get(name, (size,)) or not np.isfinite(value).all():
                raise SatError(f"the {name} of the scale of doubt are damaged: {value.shape}")

    def add(self, means: Array, found: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The hypotheses of each photo, best first, the best one with its doubt; ``means`` are mean annotations (B, D).

        Raises `SatError` for annotations of another size.
        """
        if means.shape[-1] != len(self.mean):
            raise SatError(f"the scale of doubt reads annotations of size {len(self.mean)}, not {means.shape[-1]}")
        strange = strangeness(self.distances(means), likelihood([best for best, *_ in found]), self.typical)
        below = np.searchsorted(self.quantiles, strange, side="right")  # quantiles that are less strange
        doubts = np.clip((below - 1) / STEPS, 0, 1).tolist()
        return [
            [dataclasses.replace(best, doubt=doubt), *others]
            for (best, *others), doubt in zip(found, doubts, strict=True)
        ]

    def distances(self, means: Array) -> Array:
        """Logarithms of squared Mahalanobis distances (B,) of mean annotations (B, D)."""
        return log_distances(means, self.mean, self.whitening)


def fit(train: Array, known: Array, likelihoods: Array) -> dict[str, Array] | None:
    """The scale of doubt, packed, of mean annotations (N, D) of training photos and (M, D) of known ones.

    ``likelihoods`` (M,) are log p / C of the known photos' captions. None where there are fewer than `LEAST` known
    photos. Raises `SatError` for values that are not finite.
    """
    if len(known) < LEAST:
        return None
    if not all(np.isfinite(each).all() for each in (train, known, likelihoods)):
        raise SatError("the encoder's annotations hold values that are not finite: train it at a lower rate")
    mean = train.mean(0, dtype=np.float64)
    centered = train.astype(np.float64) - mean
    covariance = centered.T @ centered / len(train)
    covariance += SHRINKAGE * max(float(covariance.diagonal().mean()), 1e-12) * np.eye(len(mean))
    variances, directions = np.linalg.eigh(covariance)  # in the order of the variances, the largest last
    packed = pack({"whitening": (directions / np.sqrt(variances)).T[-DIRECTIONS:].astype(np.float32)})
    away = log_distances(known, mean.astype(np.float32), unpack(packed)["whitening"])
    typical = np.array(
        [away.mean(), away.std(ddof=1), likelihoods.mean(), likelihoods.std(ddof=1) / LIKELIHOOD], dtype=np.float32
    )
    typical[1::2] = np.maximum(typical[1::2], 1e-6)
    quantiles = np.quantile(strangeness(away, likelihoods, typical), np.linspace(0, 1, STEPS + 1))
    return {"mean": mean.astype(np.float32), **packed, "typical": typical, "quantiles": quantiles.astype(np.float32)}


def likelihood(hypotheses: Sequence[Hypothesis]) -> Array:
    """log p / C of captions (B,)."""
    return np.array([each.log_probability / (len(each.words) + each.ended) for each in hypotheses], dtype=np.float32)


def log_distances(means: Array, mean: Array, whitening: Array) -> Array:
    """Logarithms of squared Mahalanobis distances (B,) of mean annotations (B, D)."""
    found: Array = np.log(np.maximum(np.square((means - mean) @ whitening.T).sum(1), np.float32(1e-12)))
    return found


def strangeness(distances: Array, likelihoods: Array, typical: Array) -> Array:
    """Both measures (B,) on one scale: ``typical`` has the mean of each and what counts 1 of it, see `fit`."""
    found: Array = (distances - typical[0]) / typical[1] - (likelihoods - typical[2]) / typical[3]
    return found
