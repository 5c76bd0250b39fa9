"""What a training learns from: vocabulary, captions as word ids, annotations, and mini-batches of one length."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from show_attend_tell.backends.encoding import fastest_encode
from show_attend_tell.data.datasets import Dataset, repeat_by_weight
from show_attend_tell.data.photos import PREPROCESSING_VERSION, mirrors
from show_attend_tell.data.sides import names_side
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.progress import Progress
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.ranks import log
from show_attend_tell.vision.blocks import LastBlocks, cut
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import UnreadablePhotos, default_cache
from show_attend_tell.vision.reading import unreadable
from show_attend_tell.vision.sources import (
    Annotations,
    LivePhotos,
    SeveralSources,
    TunedAnnotations,
    cached,
)


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


class Sources(NamedTuple):
    """Where annotations come from; the names are those of `TrainingData`."""

    views: list[Annotations]
    encoder: Encoder | LastBlocks | None
    encoder_learning_rate: float
    tuned_names: list[str]
    encoder_record: dict[str, Any]


def encode_readable(dataset: Dataset, plan: TrainingPlan, *, show: bool = True) -> tuple[Dataset, Sources]:
    """The data set without photos that cannot be read, and the sources of the others' annotations.

    Photos are encoded now, if they are not yet in the cache, in every view that the settings ask for. If the whole
    encoder is trained, there is nothing to cache; if its last blocks are, their input is cached. Raises `SatError` for
    data without train or val photos, and `UnreadablePhotos` for photos of the paper's data sets.
    """
    try:
        return dataset, encode(dataset, plan, show=show)
    except UnreadablePhotos as error:
        readable = without_unreadable(dataset, error)
        log(f"left out: {error.reason}")
        for line in readable.report.lines():
            if line not in dataset.report.lines():
                log(line)
        return readable, encode(readable, plan, show=show)


def encode(dataset: Dataset, plan: TrainingPlan, *, show: bool) -> Sources:
    """The sources of annotations of photos that can all be read. Raises `UnreadablePhotos` for others."""
    config, encoder, cache = plan.config, plan.start.encoder, plan.cache or default_cache()
    train, validation = dataset.split("train"), dataset.split("val")
    below = encoder  # what is cached
    tuned: Encoder | LastBlocks | None = None
    names: list[str] = []
    if plan.unfreeze_from is not None:
        below, tuned, names = cut(encoder, plan.unfreeze_from)
    elif plan.encoder_lr is not None:
        # now, and not only when the training needs them
        if problems := {name: problem for name, problem in unreadable([*train, *validation]) if problem}:
            raise UnreadablePhotos(problems, len(train) + len(validation))
        tuned, names = encoder, list(encoder.body.state_dict())
        encoder.unfreeze()

    fastest = fastest_encode(below)

    def source(view: str, splits: Sequence[str]) -> Annotations:
        if isinstance(tuned, Encoder):
            return LivePhotos([example for split in splits for example in dataset.split(split)], encoder, view)
        found = cached(dataset, below, cache, splits=splits, encode=fastest, view=view, show=show)
        return found if tuned is None else TunedAnnotations(found, tuned, encoder.precision)

    original = source("original", ("train", "val"))
    named = (
        {} if config.mirror_sides else {e.name: own_name(dataset, e.name, tuned) for e in train if names_side(e.raw)}
    )

    def training_view(view: str) -> Annotations:
        mirrored = {name for name, own in named.items() if mirrors(view, own)}
        if len(mirrored) == len(train):
            return original  # no photo is shown in this view
        sources = {True: original, False: source(view, ("train",))}  # photos with sides are not shown mirrored
        return SeveralSources(sources, lambda name: (name in mirrored, name)) if mirrored else sources[False]

    return Sources(
        views=[original, *map(training_view, config.views)],
        encoder=tuned,
        encoder_learning_rate=plan.encoder_lr or 0.0,
        tuned_names=names,
        encoder_record={
            "digest": encoder.digest,
            **encoder.preprocessing.to_dict(),
            "preprocessing_version": PREPROCESSING_VERSION,
            "unfreeze_from": plan.unfreeze_from,
        },
    )


def training_data(
    dataset: Dataset, vocabulary: Vocabulary, sources: Sources, text_corpus: Sequence[Sequence[str]] = ()
) -> TrainingData:
    """What a training on a data set learns from. Texts with a word that is not in the vocabulary are left out."""
    weights, parts = joined_sets(dataset)
    return TrainingData(
        vocabulary=vocabulary,
        captions=[
            (example.name, vocabulary.encode(caption))
            for example in dataset.split("train")
            for caption in example.captions
        ],
        validation=[(example.name, example.captions) for example in dataset.split("val")],
        weights=weights,
        text_corpus=[vocabulary.encode(text) for text in text_corpus if all(word in vocabulary for word in text)],
        parts=parts,
        **sources._asdict(),
    )


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


def own_name(dataset: Dataset, name: str, tuned: nn.Module | None) -> str:
    """The name by which a photo's random crops are drawn: in a cache, that in its own data set."""
    return name.partition("/")[2] if dataset.parts and not isinstance(tuned, Encoder) else name


def joined_sets(dataset: Dataset) -> tuple[list[float], list[slice]]:
    """How often an epoch shows each training caption, and which validation photos are of each joined data set."""
    weights: list[float] = []
    photos: list[slice] = []
    start = 0
    for part in dataset.parts:
        train, validation = ([e for e in part.dataset.examples if e.split == split] for split in ("train", "val"))
        weights += [part.weight] * sum(len(example.captions) for example in train)
        if validation:
            photos.append(slice(start, start + len(validation)))
            start += len(validation)
    return weights, photos


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
