"""Where annotations come from: a feature cache, an encoder at work on the photos themselves, or their means."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.data.photos import open_photo
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import FeatureCache


class Annotations(Protocol):
    """Annotations by photo name: a feature cache, or an encoder at work on the photos themselves."""

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """(B, L, D) of the photos of those names."""
        ...


def cached(
    dataset: Dataset,
    encoder: Encoder,
    cache: Path,
    *,
    splits: Sequence[str],
    view: str = "original",
    show: bool = True,
) -> FeatureCache:
    """The annotations of whole splits, encoded now if they are not yet in the cache.

    Each data set has its own folder in the cache, since two may use one name for different photos.
    """
    where = hashlib.sha256(str(dataset.folder.resolve()).encode()).hexdigest()[:8]
    photos = {example.name: example.photo for example in dataset.examples if example.split in splits}
    return FeatureCache.build(cache / f"{dataset.name}-{where}", photos, encoder, view=view, progress=show)


class LivePhotos:
    """Annotations computed at each call, with gradient while the encoder trains: what fine-tuning reads instead of a
    cache."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, view: str = "original") -> None:
        self.photos = {example.name: example.photo for example in examples}
        self.encoder, self.view = encoder, view

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        square = self.encoder.preprocessing
        pixels = torch.stack([square(open_photo(self.photos[name]), self.view, name) for name in names])
        pixels = pixels.to(next(self.encoder.parameters()).device)
        if not torch.is_grad_enabled():
            return self.encoder.annotate(pixels)
        self.encoder.train()
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self.encoder.precision == "bfloat16"):
            annotations: Tensor = self.encoder(pixels)
        return annotations


class MeanAnnotations:
    """The mean annotation (B, 1, D) of photos, each averaged once, when it is first asked for: what suffices for a
    decoder that does not look."""

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.means: dict[str, Tensor] = {}  # (1, D) by photo name

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        if new := [name for name in dict.fromkeys(names) if name not in self.means]:
            self.means |= zip(new, self.annotations[new].float().mean(1, keepdim=True), strict=True)
        return torch.stack([self.means[name] for name in names])
