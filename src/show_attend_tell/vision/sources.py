"""Where annotations come from: a feature cache, or an encoder or its last blocks that compute them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.data.datasets.dataset import Part
from show_attend_tell.data.photos import open_photo
from show_attend_tell.vision.blocks import LastBlocks
from show_attend_tell.vision.encoder import Encode, Encoder
from show_attend_tell.vision.feature_cache import FeatureCache, UnreadablePhotos, folder_name
from show_attend_tell.vision.network import Precision
from show_attend_tell.vision.reading import photo_readers


class Annotations(Protocol):
    """Annotations by photo name, from a feature cache or computed from the photos at each call."""

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        """(B, L, D) of the photos of those names."""
        ...


def cached(
    dataset: Dataset,
    encoder: Encoder,
    cache: Path,
    *,
    splits: Sequence[str],
    encode: Encode | None = None,
    view: str = "original",
    show: bool = True,
) -> FeatureCache:
    """The annotations of whole splits, encoded now if they are not yet in the cache.

    Each data set has a folder of its name. Raises `UnreadablePhotos` of all of them after all are encoded.
    """
    files: dict[str, Path] = {}
    problems: dict[str, str] = {}
    for part in dataset.parts or [Part("", dataset)]:
        prefix = f"{part.name}/" if dataset.parts else ""
        photos = {example.name: example.photo for example in part.dataset.examples if example.split in splits}
        folder = Path(cache) / folder_name(part.dataset.name)
        try:
            of_part = FeatureCache.build(folder, photos, encoder, encode=encode, view=view, progress=show)
            files |= {prefix + name: file for name, file in of_part.files.items()}
        except UnreadablePhotos as error:
            problems |= {prefix + name: problem for name, problem in error.problems.items()}
    if problems:
        raise UnreadablePhotos(problems, sum(example.split in splits for example in dataset.examples))
    return FeatureCache(of_part.shape, files)


class LivePhotos:
    """Annotations computed at each call, photos read by threads, with gradient while the encoder trains."""

    def __init__(
        self, examples: Sequence[Example], encoder: Encoder, view: str = "original", *, plain: Collection[str] = ()
    ) -> None:
        """``plain`` has the names of photos that are shown as they are, in whatever view the others are."""
        self.photos = {example.name: example.photo for example in examples}
        self.encoder = encoder
        self.view = view
        self.plain = plain
        self.readers = photo_readers()

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        pixels = torch.stack(list(self.readers.map(self.read, names)))
        pixels = pixels.to(next(self.encoder.parameters()).device)
        if not torch.is_grad_enabled():
            return self.encoder.annotate(pixels)
        self.encoder.train()
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self.encoder.precision == "bfloat16"):
            annotations: Tensor = self.encoder(pixels)
        return annotations

    def read(self, name: str) -> Tensor:
        """The pixels (3, size, size) of one photo."""
        view = "original" if name in self.plain else self.view
        return self.encoder.preprocessing(open_photo(self.photos[name]), view, name)


@dataclass
class TunedAnnotations:
    """Annotations that an encoder's last blocks compute at each call of what is cached, once for each photo."""

    cache: Annotations  # what the blocks read
    blocks: LastBlocks
    precision: Precision

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        distinct = list(dict.fromkeys(names))
        device = next(self.blocks.parameters()).device
        for part in self.blocks.modules():  # batch norm keeps its running statistics, as in `Encoder.unfreeze`
            part.training = torch.is_grad_enabled() and not isinstance(part, _BatchNorm)
        read = self.cache[distinct].to(device).float()
        with torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            annotations: Tensor = self.blocks(read)
        if len(distinct) == len(names):
            return annotations
        return annotations[torch.tensor([distinct.index(name) for name in names], device=device)]
