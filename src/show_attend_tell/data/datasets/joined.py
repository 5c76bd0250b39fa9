"""Several data sets as one."""

import random
from collections.abc import Sequence
from dataclasses import replace

from show_attend_tell.data.datasets.dataset import COPY, DataReport, Dataset, Part, counted, repeat_by_weight
from show_attend_tell.data.datasets.splits import copies_elsewhere, with_copies
from show_attend_tell.errors import SatError

LARGEST_WEIGHT = 1000


def join(datasets: Sequence[Dataset], weights: Sequence[float] = ()) -> Dataset:
    """Several data sets as one, split by split, each with a weight above 0 and up to 1000, 1 by default.

    An epoch shows each training caption of a data set of weight w that many times. No photo is in two splits, nor an
    exact copy of it (`without_copies`). Raises `SatError` for other weights, and for the same folder twice.
    """
    weights = weights or [1.0] * len(datasets)
    if len(weights) != len(datasets):
        raise SatError(f"weights: {len(weights)}, data folders: {len(datasets)}; give one for each")
    for weight in weights:
        if not 0 < weight <= LARGEST_WEIGHT:
            raise SatError(f"the weight of a data folder is {weight}: give a number above 0, up to {LARGEST_WEIGHT}")
    parts: list[Part] = []
    for dataset, weight in zip(datasets, weights, strict=True):
        if any(dataset.folder.resolve() == part.dataset.folder.resolve() for part in parts):
            raise SatError(f"{dataset.folder} is given twice: give it once, with a larger weight")
        name = plain = dataset.name.replace("/", "-")  # the first slash in a photo's name ends that of its part
        number = 2
        while name in {part.name for part in parts}:
            name = f"{plain}-{number}"
            number += 1
        parts.append(Part(name, dataset, weight))
    parts = without_copies(parts)
    of_captions = [part.weight for part in parts for example in part.dataset.split("train") for _ in example.captions]
    if not repeat_by_weight(of_captions, random.Random(0)):
        raise SatError("an epoch would show no caption: give a larger --weight")
    examples = tuple(
        replace(example, name=f"{part.name}/{example.name}") for part in parts for example in part.dataset.examples
    )
    notes = [f"{part.name}: {line}" for part in parts for line in part.dataset.report.lines()]
    return Dataset(
        name=" + ".join(part.name for part in parts),
        folder=datasets[0].folder,
        examples=examples,
        report=counted(DataReport(notes=notes), examples),
        custom=any(dataset.custom for dataset in datasets),
        parts=tuple(parts),
    )


def without_copies(parts: Sequence[Part]) -> list[Part]:
    """The data sets without copies in another split of another one: test keeps its photos first, then val."""
    examples = {f"{part.name}/{example.name}": example for part in parts for example in part.dataset.examples}
    groups = with_copies({name: example.photo for name, example in examples.items()})
    shared = [group for group in groups if len({name.partition("/")[0] for name in group}) > 1]
    copies = copies_elsewhere(shared, {name: example.split for name, example in examples.items()})
    kept = []
    for part in parts:
        gone = part.own_names(copies)
        dataset = part.dataset.without(gone)
        for example in part.dataset.examples:
            if example.name in gone:
                dataset.report.leave_out(COPY, example.name)
        kept.append(replace(part, dataset=dataset))
    return kept
