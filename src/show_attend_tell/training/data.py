"""What a training learns from: vocabulary, captions as word ids, annotations, and mini-batches of one length."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from show_attend_tell.data.datasets.dataset import Dataset, repeat_by_weight
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.progress import Progress
from show_attend_tell.vision.feature_cache import UnreadablePhotos
from show_attend_tell.vision.sources import Annotations


@dataclass(kw_only=True)
class TrainingData:
    """What a training learns from and is selected by."""

    vocabulary: Vocabulary
    captions: Sequence[tuple[str, list[int]]]  # photo name and word ids, end token included
    validation: Sequence[tuple[str, Sequence[Sequence[str]]]]  # photo name and its references
    views: Sequence[Annotations]  # the photos as they are; then, if asked for, mirrored and cropped
    weights: Sequence[float] = ()  # how often an epoch shows each caption; empty: once
    text_corpus: Sequence[list[int]] = ()  # word ids of captions without photos, end token included
    parts: Sequence[slice] = ()  # the photos of ``validation`` that are scored by themselves; empty: all together
    encoder: nn.Module | None = None  # only when it is to be fine-tuned: all of it, or its last blocks
    encoder_learning_rate: float = 0.0
    tuned_names: Sequence[str] = ()  # of the encoder's weights that are fine-tuned
    encoder_record: dict[str, Any] = field(default_factory=dict)  # what the annotations come from, before any training


def without_unreadable(dataset: Dataset, error: UnreadablePhotos) -> Dataset:
    """Custom data without photos that cannot be read.

    Raises the error itself for photos of the paper's data sets, which need all of theirs, and `SatError` when no photo
    of train or val remains.
    """
    papers = [part for part in dataset.parts if not part.dataset.custom]
    if not dataset.custom or any(part.own_names(error.problems) for part in papers):
        raise error
    readable = dataset.without(error.problems)
    for split in ("train", "val"):
        if dataset.report.photos.get(split) and not readable.report.photos[split]:
            raise SatError(
                f"no photo of {split} can be read: {error.reason}. Replace these photos, or put others in {split}"
            )
    return readable


def batches(
    captions: Sequence[tuple[str, list[int]]], size: int, seed: int, weights: Sequence[float] = ()
) -> list[list[int]]:
    """One epoch's mini-batches: each of one length, the lengths in random order, every caption once (sec. 4.3).

    With ``weights``, one for each caption, a caption is there as often as its weight says (`shown`).
    """
    order = random.Random(seed)
    result = []
    for indices in of_one_length(captions, repeat_by_weight(weights, order) if weights else range(len(captions))):
        order.shuffle(indices)
        result += [indices[i : i + size] for i in range(0, len(indices), size)]
    order.shuffle(result)
    return result


def batches_of_photos(
    captions: Sequence[tuple[str, list[int]]], size: int, seed: int, weights: Sequence[float] = ()
) -> list[list[int]]:
    """One epoch's mini-batches as in `batches`, but each has all captions of its photos, of any length.

    An encoder that is trained sees each photo once an epoch then. A mini-batch ends with the photo that fills it.
    """
    order = random.Random(seed)
    of_photo: dict[str, list[int]] = defaultdict(list)
    for index in repeat_by_weight(weights, order) if weights else range(len(captions)):
        of_photo[captions[index][0]].append(index)
    photos = list(of_photo.values())
    order.shuffle(photos)
    result: list[list[int]] = [[]]
    for indices in photos:
        if len(result[-1]) >= size:
            result.append([])
        result[-1] += indices
    return result


def of_one_length(captions: Sequence[tuple[str, list[int]]], indices: Sequence[int]) -> list[list[int]]:
    """The numbers of captions in groups of one length, the shortest first."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index in indices:
        groups[len(captions[index][1])].append(index)
    return [group for _, group in sorted(groups.items())]


@torch.no_grad()
def annotation_scale(data: TrainingData, *, show: bool = False) -> float:
    """1 / the root mean square of the training photos' annotations, over an even choice of 500 to 999 photos."""
    names = sorted({name for name, _ in data.captions})
    chosen = names[:: max(1, len(names) // 500)]
    squares = []
    with Progress(
        total=len(chosen), desc="scale of the annotations", unit="photo", disable=not show, leave=False
    ) as bar:
        for start in range(0, len(chosen), 8):
            annotations = data.views[0][chosen[start : start + 8]]
            squares.append(annotations.float().square().mean((1, 2)).cpu())
            bar.update(len(annotations))
    return float(1 / torch.cat(squares).mean().sqrt())
