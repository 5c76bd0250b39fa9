"""How much a caption should be doubted: how unlike the training photos its photo is, and how unlikely it is itself.

B photos · L places · D size of an annotation · R ≤ D directions · N training photos · M known photos, of val, that were
not trained on.

Two things are measured of a photo. The first is the squared Mahalanobis distance of its mean annotation from those of
the training photos, Σ_r ((x − μ)·v_r)² / λ_r, over the R directions v_r along which training photos differ most, with
the variances λ_r: far away, the photo shows what the training did not. Before the mean is taken, each annotation is
made to have mean 0 and variance 1 over its channels. The second is log p / C, the mean
log-probability of its caption's C words, end token included. Of the known photos, both have a mean and a spread, so
both can be put on one scale. Their sum, in which log p / C counts half, says how strange the photo is. Doubt is the
share of known photos that are less strange: 0.95 means that only one known photo in twenty is as strange as this one.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from show_attend_tell.checkpoint.packing import pack, unpack
from show_attend_tell.errors import SatError
from show_attend_tell.rerank.ngrams import STEPS
from show_attend_tell.search import Hypothesis

SHRINKAGE = 1e-3  # of the covariance towards even variances, as a share of their mean
DIRECTIONS = 256  # at most
LEAST = 100  # known photos; from fewer, shares say too little
LIKELIHOOD = 0.5  # what a spread of log p / C counts, where a spread of the distance counts 1


class Doubt:
    """The photos that a model knows, and how strange another one is.

    ``tensors`` has them as a file holds them: ``whitening`` in 8 bits a weight.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        """Take ``mean`` (D,), ``whitening`` (R, D), ``typical`` (4,) and ``quantiles`` (`STEPS` + 1,), see `fit`.

        They may be packed in 8 bits a weight. Raises `SatError` for tensors that are missing, not finite, or do not fit
        each other.
        """
        self.tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        values = unpack(self.tensors)
        try:
            (size,) = values["mean"].shape
            parts = {name: values[name] for name in ("mean", "whitening", "typical", "quantiles")}
        except (KeyError, ValueError) as error:
            raise SatError(f"these tensors are not a scale of doubt ({error!r})") from error
        whitening = (*parts["whitening"].shape[:1], size)
        shapes = {"mean": (size,), "whitening": whitening, "typical": (4,), "quantiles": (STEPS + 1,)}
        for name, shape in shapes.items():
            value = parts[name]
            if tuple(value.shape) != shape or not value.is_floating_point() or not value.isfinite().all():
                raise SatError(f"the {name} of the scale of doubt are damaged: {tuple(value.shape)} {value.dtype}")
        self.mean, self.whitening, self.typical, self.quantiles = (value.float() for value in parts.values())

    def __call__(self, annotations: Tensor, likelihoods: Tensor) -> Tensor:
        """The doubt (B,), 0 to 1, of photos with annotations (B, L, D) whose captions have so high a log p / C (B,).

        Raises `SatError` for annotations of another size.
        """
        if annotations.shape[-1] != len(self.mean):
            raise SatError(
                f"the scale of doubt reads annotations of size {len(self.mean)}, not {annotations.shape[-1]}"
            )
        found = strangeness(distances(summary(annotations), self.mean, self.whitening), likelihoods, self.typical)
        below = torch.searchsorted(self.quantiles, found.contiguous(), right=True)  # quantiles that are less strange
        return ((below - 1).clamp_min(0).double() / STEPS).clamp_max(1.0)

    def add_doubt(self, annotations: Tensor, found: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """The hypotheses of each photo, best first, the best one with its doubt, by the annotations (B, L, D)."""
        doubts = self(annotations, likelihood([each[0] for each in found])).tolist()
        return [
            [dataclasses.replace(best, doubt=doubt), *others]
            for (best, *others), doubt in zip(found, doubts, strict=True)
        ]

    @staticmethod
    def fit(train: Tensor, known: Tensor, likelihoods: Tensor) -> "Doubt | None":
        """The scale of doubt by the summaries of training photos (N, D) and of known photos (M, D).

        ``likelihoods`` (M,) are the known photos' log p / C. None for fewer than `LEAST` known photos. Raises
        `SatError` for summaries that are not finite.
        """
        if len(known) < LEAST:
            return None
        if not (train.isfinite().all() and known.isfinite().all()):
            raise SatError("the encoder's annotations hold values that are not finite: train it at a lower rate")
        mean = train.double().mean(0)
        centred = train.double() - mean
        covariance = centred.mT @ centred / len(train)
        even = covariance.diagonal().mean().clamp_min(1e-12)
        covariance += SHRINKAGE * even * torch.eye(len(mean), dtype=torch.float64)
        variances, directions = torch.linalg.eigh(covariance)  # the smallest variance first
        packed = pack({"whitening": (directions / variances.sqrt()).mT[-DIRECTIONS:]})
        whitening = unpack(packed)["whitening"]
        away = distances(known, mean.float(), whitening).log()
        typical = torch.stack([away.mean(), away.std(), likelihoods.mean(), likelihoods.std() / LIKELIHOOD])
        typical[1::2] = typical[1::2].clamp_min(1e-6)
        strange = strangeness(away.exp(), likelihoods, typical)
        quantiles = strange.quantile(torch.linspace(0, 1, STEPS + 1))
        return Doubt({"mean": mean.float(), **packed, "typical": typical, "quantiles": quantiles})


def summary(annotations: Tensor) -> Tensor:
    """The mean over places of normalized annotations, (B, D) on the CPU, of annotations (B, L, D)."""
    return nn.functional.layer_norm(annotations.float(), annotations.shape[-1:]).mean(1).cpu()


def likelihood(hypotheses: Sequence[Hypothesis]) -> Tensor:
    """log p / C of captions, (B,)."""
    return torch.tensor([each.log_probability / (len(each.words) + each.ended) for each in hypotheses])


def distances(summaries: Tensor, mean: Tensor, whitening: Tensor) -> Tensor:
    """Squared Mahalanobis distances (B,) of summaries (B, D)."""
    return ((summaries - mean) @ whitening.mT).square().sum(1).clamp_min(1e-12)


def strangeness(distances: Tensor, likelihoods: Tensor, typical: Tensor) -> Tensor:
    """Both measures (B,) on one scale: ``typical`` has the mean of each and what counts 1 of it, see `Doubt.fit`."""
    return (distances.log() - typical[0]) / typical[1] - (likelihoods - typical[2]) / typical[3]
