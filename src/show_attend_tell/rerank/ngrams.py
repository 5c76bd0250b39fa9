"""The reranker and the scale of doubt without PyTorch: as `visual_ngrams` and `doubt` compute them, in NumPy.

B photos · L places · D annotation size · C ≤ D channels · M = C(C+1)/2 second moments · R directions · G n-grams.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.checkpoint.packing import unpacked
from show_attend_tell.errors import SatError
from show_attend_tell.rerank.agreement import SELDOM, Ngram, NgramReranker
from show_attend_tell.search import Hypothesis

STEPS = 200  # steps of the scale of doubt
UNSURE = 0.95  # doubt above which a caption is called unsure

Array = NDArray[Any]


class ArrayNgrams(NgramReranker):
    """`visual_ngrams.VisualNgrams` of a file, as arrays."""

    def __init__(self, packed: Mapping[str, Array]) -> None:
        """Take the arrays that `VisualNgrams` stored. Raises `SatError` for arrays that are missing or do not fit."""
        self.digest = digest(packed)
        arrays = unpacked(packed)
        try:
            self.channels, self.offset, self.shares, self.prior, self.length, ngrams = (
                arrays[name] for name in ("channels", "offset", "shares", "prior", "length", "ngrams")
            )
            (C,), (R,), (G,) = self.channels.shape, self.offset.shape, self.prior.shape
            directions, M = arrays["directions"], C * (C + 1) // 2
            in_pairs = packed["directions"].dtype == np.uint8  # two to a byte
            self.directions = directions[:, :M] if in_pairs else directions
            shapes = directions.shape, self.shares.shape, self.length.shape, len(ngrams)
            if shapes != ((R, M), (G, R), (), G) or not (C and R and G):
                raise ValueError(f"shapes {shapes}")
        except (KeyError, ValueError) as error:
            raise SatError(f"these tensors are not visual n-grams ({error!r})") from error
        known: list[Ngram] = [tuple(part for part in row if part >= 0) for row in ngrams.tolist()]
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        first = [self.numbers.get((0, *ngram[1:]), number) for number, ngram in enumerate(known)]
        self.common = np.maximum(self.prior[first], SELDOM)
        self.single = ngrams[:, 2] < 0  # (G,), which of them are words

    def expected(self, annotations: Array) -> Array:
        """As `VisualNgrams.expected`."""
        if int(self.channels.max()) >= annotations.shape[-1]:
            raise SatError(f"the visual n-grams read annotations of another size than {annotations.shape[-1]}")
        along = (self.directions @ second_moments(annotations, self.channels).T).T
        found: Array = np.maximum(self.prior + (along - self.offset) @ self.shares.T, 0)
        return found

    def worth(self, rare_word_exponent: float) -> Array:
        """As `VisualNgrams.worth`."""
        p, powers = self.prior[self.single], self.common[self.single] ** -np.float32(rare_word_exponent)
        worth = np.ones_like(self.prior)
        worth[self.single] = powers * (p**2).sum() / max((p**2 * powers).sum(), np.finfo(p.dtype).tiny)
        return worth


def digest(packed: Mapping[str, Array]) -> str:
    """SHA-256 of the arrays' names, shapes and bytes."""
    hashed = hashlib.sha256()
    for name, array in sorted(packed.items()):
        hashed.update(f"{name} {array.shape} ".encode())
        hashed.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()


def normalized(annotations: Array) -> Array:
    """Annotations with mean 0 and variance 1 over their channels, as PyTorch's layer_norm has them."""
    annotations = annotations.astype(np.float32, copy=False)
    centred = annotations - annotations.mean(-1, keepdims=True)
    found: Array = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(1e-5))
    return found


def second_moments(annotations: Array, channels: Array) -> Array:
    """As `visual_ngrams.second_moments`: (B, M)."""
    normal = normalized(annotations)[..., channels]
    rows, columns = np.triu_indices(len(channels))
    moments = (normal.swapaxes(1, 2) @ normal)[:, rows, columns]
    moments = np.copysign(np.sqrt(np.abs(moments)), moments)
    found: Array = moments / np.maximum(np.linalg.norm(moments, axis=-1, keepdims=True), np.float32(1e-12))
    return found


class ArrayDoubt:
    """`doubt.Doubt` of a file, as arrays."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Take the arrays that `Doubt` stored. Raises `SatError` for arrays that are missing or damaged."""
        arrays = unpacked(arrays)
        try:
            self.mean, self.whitening, self.typical, self.quantiles = (
                arrays[name].astype(np.float32) for name in ("mean", "whitening", "typical", "quantiles")
            )
            (size,) = self.mean.shape
        except (KeyError, ValueError) as error:
            raise SatError(f"these tensors are not a scale of doubt ({error!r})") from error
        shapes = {"whitening": (*self.whitening.shape[:1], size), "typical": (4,), "quantiles": (STEPS + 1,)}
        for name in ("mean", *shapes):
            value = getattr(self, name)
            if value.shape != shapes.get(name, (size,)) or not np.isfinite(value).all():
                raise SatError(f"the {name} of the scale of doubt are damaged: {value.shape}")

    def add_doubt(self, annotations: Array, found: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """As `Doubt.add_doubt`."""
        likelihoods = np.array(
            [best.log_probability / (len(best.words) + best.ended) for best, *_ in found], dtype=np.float32
        )
        away = np.square((normalized(annotations).mean(1) - self.mean) @ self.whitening.T).sum(1)
        far = (np.log(np.maximum(away, np.float32(1e-12))) - self.typical[0]) / self.typical[1]
        strange = far - (likelihoods - self.typical[2]) / self.typical[3]
        below = np.searchsorted(self.quantiles, strange, side="right")  # quantiles that are less strange
        doubts = np.clip((below - 1) / STEPS, 0, 1)
        return [
            [dataclasses.replace(best, doubt=float(doubt)), *others]
            for (best, *others), doubt in zip(found, doubts, strict=True)
        ]
