"""Which photos should a person correct so that a training gains most, and do accepted captions teach?

    OMP_NUM_THREADS=1 python research/teaching.py runs/ --flickr8k flickr8k/ --coco coco/ --draws 1
    OMP_NUM_THREADS=1 python research/teaching.py runs/ --kinds charts --sizes 25 100 --selections random accepted

A draw is 400 photos of a kind (140 of COCO, whose val has 200): 20 at random judge the training, as `sat review` asks
for them, and the others are the pool. Of the pool, so many are corrected: they get one caption by a person. They are
chosen

- at random, the control;
- the least trusted first, as `sat review` shows them;
- most unlike what the model learnt from first, by the distance of `sat check`;
- or half at random, and for the other half the captions of the model that these taught, where their CIDEr is above the
  median ("accepted"). The controls are as many people's captions at random, and that half alone.

`sat train` then starts from `everyday-soft`. CIDEr is that of other photos, which are the same for all cells of a
draw: beam size 3, no reranker, no class words; accepted captions are made so too. A line for each cell is in
RUNS/figures.jsonl, and a cell that has one is not measured again. The figures are in results/teaching.json; intervals
are over draws and photos (95 %), over photos alone where there is one draw.
"""

import dataclasses
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import RESULTS
from reviews import captions_of, least_trusted_first
from small_sets import FAMILIAR, default_plan, over_draws, train_or_resume, write_draw
from stages import keep_row, kept_rows, parser_of_runs, reporting

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.evaluation import searched
from show_attend_tell.files import write_text
from show_attend_tell.metrics.cider import CiderD
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached

PHOTOS = {"charts": 400, "scenes": 400, "flickr8k": 400, "coco": 140}  # of a draw
JUDGES = {"charts": 150, "scenes": 100, "flickr8k": 200, "coco": 60}  # other photos, whose CIDEr counts
TO_JUDGE_BY = 20  # photos of a draw that judge the training
SELECTIONS = ("random", "least trusted", "most unlike", "accepted")
PLAIN: dict[str, Any] = {"beam_size": 3, "rerank_weight": 0.0, "class_weight": 0.0}  # a beam of 100 takes long
Array = NDArray[Any]


def drawn(folder: Path, kind: str, number: int, sources: dict[str, Path]) -> Dataset:
    """The photos of a draw: those that judge the training as val, the pool as train, the others as test."""
    write_draw(folder, kind, PHOTOS[kind], number, JUDGES[kind], sources)
    dataset = read_dataset(folder)
    others = dataset.split("test")
    photos = sorted((each for each in dataset.examples if each.split != "test"), key=lambda each: each.name)
    random.Random(number).shuffle(photos)
    judging = [dataclasses.replace(each, split="val") for each in photos[:TO_JUDGE_BY]]
    pool = [dataclasses.replace(each, split="train") for each in photos[TO_JUDGE_BY:]]
    return dataclasses.replace(dataset, name=kind, examples=(*judging, *pool, *others))


def order_of(
    selection: str, captioner: Captioner, dataset: Dataset, whole: Dataset | None, output: Path, cache: Path
) -> list[int]:
    """The numbers of the pool's photos in the order in which they are corrected; the pool itself is in random order.

    The captions of a ``whole`` data set's val are kept where `reviews.py` keeps them; else those of this draw are.
    """
    pool = dataset.split("train")
    if selection == "least trusted":
        if whole is None:
            lines = captions_of(captioner, dataset, "train", cache, output / f"{dataset.folder.name}.jsonl")
        else:
            lines = captions_of(captioner, whole, "val", cache, output / f"{captioner.name}-{dataset.name}.jsonl")
        confidence = {line["photo"]: line["confidence"] for line in lines}
        return least_trusted_first([confidence[example.name] for example in pool])
    if selection == "most unlike":
        order: list[int] = np.argsort(-distances(captioner, dataset, cache), kind="stable").tolist()
        return order
    return list(range(len(pool)))


def distances(captioner: Captioner, dataset: Dataset, cache: Path) -> Array:
    """How far each photo of the pool is from the mean of those that the model learnt from, in directions of n-grams."""
    backend, ngrams = captioner.backend, captioner.decoding.reranker
    assert isinstance(ngrams, VisualNgrams)
    annotations = cached(dataset, backend.encoder, cache, splits=("train",), encode=backend.encode)
    found = []
    for example in dataset.split("train"):
        moments = backend.second_moments(backend.features(annotations[[example.name]]), ngrams.channels)
        found.append(np.linalg.norm(moments @ ngrams.directions.T - ngrams.offset))
    return np.array(found)


def with_one_caption(example: Example, words: Sequence[str] | None = None) -> Example:
    """A photo with the first caption by a person, or with another."""
    if words is None:
        return dataclasses.replace(example, captions=example.captions[:1], raw=example.raw[:1])
    return dataclasses.replace(example, captions=(tuple(words),), raw=(" ".join(words),))


def accepted(model: Captioner, dataset: Dataset, corrected: int, cache: Path) -> list[Example]:
    """So many further photos of the pool with the model's own captions, those whose CIDEr is above the median.

    The captions are the model's for the next photos of the pool, twice as many as are ``corrected``.
    """
    pool = dataset.split("train")
    next_ones = pool[corrected : 3 * corrected]
    few = dataclasses.replace(dataset, examples=next_ones).retokenize(model.checkpoint.vocabulary.tokenizer)
    score = CiderD([example.captions for example in dataset.split("test")])
    rated = []
    for examples, captions in captioned(model, few, "train", cache):
        rated += [(score(words, example.captions), words) for example, words in zip(examples, captions, strict=True)]
    best = np.argsort([-value for value, _ in rated], kind="stable")[: len(next_ones) // 2]
    return [with_one_caption(next_ones[row], rated[row][1]) for row in sorted(best)]


def captioned(
    model: Captioner, dataset: Dataset, split: str, cache: Path
) -> Iterator[tuple[Sequence[Example], list[list[str]]]]:
    """The photos of a split in batches, and their captions as words, with `PLAIN` search."""
    config, vocabulary = model.resolve_config(**PLAIN), model.checkpoint.vocabulary
    for examples, _, found in searched(model, dataset, split, config, cache=cache):
        yield examples, [" ".join(each[0].said(vocabulary, compared=True)).split() for each in found]


def ciders_of_others(model: Captioner, dataset: Dataset, cache: Path) -> list[float]:
    """CIDEr ×100 of each of the other photos."""
    dataset = dataset.retokenize(model.checkpoint.vocabulary.tokenizer)
    score = CiderD([example.captions for example in dataset.split("test")])
    return [
        round(100 * score(words, example.captions), 2)
        for examples, captions in captioned(model, dataset, "test", cache)
        for example, words in zip(examples, captions, strict=True)
    ]


def teach(dataset: Dataset, learnt: Sequence[Example], output: Path, cache: Path) -> Captioner:
    """The model that `sat train` makes of what is ``learnt``, judged by one caption of each photo of val."""
    judging = [with_one_caption(each) for each in dataset.split("val")]
    plan = default_plan(dataclasses.replace(dataset, examples=(*learnt, *judging)), output, cache, "cpu")
    if not (output / "config.json").exists() or plan.state.exists():
        train_or_resume(plan)
        plan.state.unlink()  # so that a model with a state is one whose training was interrupted
    return Captioner.from_pretrained(output)


def measure(
    number: int, size: int, selection: str, dataset: Dataset, whole: Dataset | None, output: Path, cache: Path
) -> dict[str, Any]:
    """The CIDEr of the others after a training on so many photos; ``size`` 0 is the start itself."""
    began = time.monotonic()
    kind = dataset.name
    start = Captioner.from_pretrained(DEFAULT_MODEL)
    model = start
    if size:
        pool = dataset.split("train")
        order = order_of(selection, start, dataset, whole, output, cache)
        learnt = [with_one_caption(pool[row]) for row in order[:size]]
        if selection == "accepted":
            half = learnt[: size // 2]
            first = teach(dataset, half, output / f"{kind}-{number}-random-{size // 2}", cache)
            learnt = [*half, *accepted(first, dataset, size // 2, cache)]
        name = f"{kind}-{number}-{selection.replace(' ', '-')}-{size}"
        model = teach(dataset, learnt, output / name, cache)
    ciders = ciders_of_others(model, dataset, cache)
    return {
        "kind": kind,
        "draw": number,
        "size": size,
        "selection": selection,
        "seconds": round(time.monotonic() - began),
        "ciders": ciders,
    }


# Figures


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each kind, size and selection gains beside the start, and beside as many at random."""
    ciders = {(row["kind"], row["draw"], row["size"], row["selection"]): np.array(row["ciders"]) for row in rows}
    figures = []
    for kind, size, selection in sorted({(row["kind"], row["size"], row["selection"]) for row in rows if row["size"]}):
        draws = [key[1] for key in ciders if key[0] == kind and key[2:] == (size, selection)]
        figure: dict[str, Any] = {"kind": kind, "size": size, "selection": selection, "draws": len(draws)}
        figure["CIDEr"] = [round(float(ciders[kind, number, size, selection].mean()), 1) for number in draws]
        controls = {"gain": (0, "start"), "beside random": (size, "random")}
        if selection == "accepted":
            controls["beside the half alone"] = (size // 2, "random")
        for title, control in controls.items():
            pairs = [number for number in draws if (kind, number, *control) in ciders]
            if pairs and control[1] != selection:
                differences = [ciders[kind, each, size, selection] - ciders[kind, each, *control] for each in pairs]
                mean, low, high = over_draws(differences)
                figure[title] = {"mean": round(mean, 4), "low": round(low, 4), "high": round(high, 4)}
        figures.append(figure)
    return figures


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure what is not measured yet, and keep what all cells say."""
    parser = parser_of_runs(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=PHOTOS, default=list(PHOTOS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[25, 50, 100, 200], help="photos that are corrected")
    parser.add_argument("--selections", nargs="+", choices=SELECTIONS, default=SELECTIONS[:3])
    parser.add_argument("--draws", nargs="+", type=int, default=[1, 2, 3], help="numbers of the draws")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    options = parser.parse_args(given)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "figures.jsonl"
    rows = kept_rows(file)
    done = {(row["kind"], row["draw"], row["size"], row["selection"]) for row in rows}
    sources = {"flickr8k": options.flickr8k, "coco": options.coco}
    sizes = [(0, "start"), *((size, selection) for size in options.sizes for selection in options.selections)]
    for number in options.draws:
        for size, selection in sizes:
            for kind in options.kinds:
                if (kind, number, size, selection) in done or size > PHOTOS[kind] - TO_JUDGE_BY:
                    continue
                dataset = drawn(options.output / f"{kind}-{number}", kind, number, sources)
                whole = read_dataset(sources[kind]) if kind in FAMILIAR else None
                row = measure(number, size, selection, dataset, whole, options.output, options.cache)
                print(
                    kind, number, size, selection, f"CIDEr {np.mean(row['ciders']):.1f}, {row['seconds']} s", flush=True
                )
                rows.append(row)
                keep_row(file, row)
    write_text(RESULTS / "teaching.json", json.dumps({"cells": summary(rows)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
