"""What a training on few photos gains, and what the best choice in hindsight would have gained.

    OMP_NUM_THREADS=1 python research/small_sets.py runs/ --flickr8k flickr8k/ --coco coco/ --draws 3
    OMP_NUM_THREADS=1 python research/small_sets.py runs/ --kinds charts --sizes 40 --draws 1
    OMP_NUM_THREADS=1 python research/small_sets.py runs/ --doubt --judges 60

A draw is 40, 100 or 150 photos, a tenth of them as val; others of the same kind judge. Familiar kinds are photos of
val of Flickr8k and COCO, which no model was trained on; new kinds are generated scenes and charts. Each draw is
trained on by default, from `everyday-soft`, and once more for all epochs, of which `CANDIDATES` are judged too, each at
three shares of the way from the start. The best of these and the start is the choice in hindsight.

Captions are those of beam size 3 without reranker. A line for each draw is in RUNS/figures.jsonl, and a draw that has
one is not measured again. At the end, the mean difference in CIDEr to the start is printed for each kind, with its 95 %
interval over draws and photos, and for new kinds the share of the gain in hindsight.

With ``--doubt``, of the larger size alone, it is measured how far the trained models know which of their nouns are
right, in captions made as they make them, and which photos are unlike those that they learnt from: the judges of the
other kinds are. Beside the confidence stand the start's, as it is, the word's own p, and one base rate for all nouns.
"""

import csv
import dataclasses
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from charts import make_chart
from confidence import calibration_error
from measure import auroc
from numpy.typing import NDArray
from PIL import Image
from scenes import make_scene
from stages import keep_row, kept_rows, parser_of_runs, reporting

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.cli.command import log_printed
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.devices import pick_device
from show_attend_tell.evaluation import searched
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
from show_attend_tell.rerank.confidence import Confidence
from show_attend_tell.training.cautious import SHARES, figures_of, interpolate
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.presets import preset
from show_attend_tell.training.run import prepare_data, train
from show_attend_tell.training.stages.start import start_decoder
from show_attend_tell.training.start import choose_start
from show_attend_tell.training.trainer import Trainer

SIZES = {"flickr8k": (40, 150), "coco": (40, 100), "scenes": (40, 100), "charts": (40, 100)}
FAMILIAR = ("flickr8k", "coco")
CANDIDATES = (0.3, 0.6, 1.0)  # of the epochs


def photos_of(kind: str, count: int, number: int, sources: dict[str, Path]) -> Iterator[tuple[str, Any, Sequence[str]]]:
    """Name, picture or file, and captions of so many photos of a draw."""
    if kind in FAMILIAR:
        val = list(read_dataset(sources[kind]).split("val"))
        random.Random(1000 * number + count).shuffle(val)
        yield from ((Path(each.photo).name, each.photo, each.raw) for each in val)
        return
    for index in range(100_000):
        if kind == "charts":
            image, captions = make_chart(number, index)
        else:
            scene, image = make_scene(number, index)
            captions = [" ".join(sentence.words) for sentence in scene.sentences]
        yield f"{kind}{index}.png", image, captions


def write_draw(folder: Path, kind: str, count: int, number: int, judges: int, sources: dict[str, Path]) -> None:
    """A data folder, if it is not there: train and val of ``count`` photos, and the judges as test."""
    if folder.exists():
        return
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a draw that was interrupted
    (part / "images").mkdir(parents=True)
    with open(part / "captions.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["photo", "caption", "split"])
        photos = zip(range(count + judges), photos_of(kind, count, number, sources), strict=False)
        for index, (name, picture, captions) in photos:
            split = "train" if index < count - max(2, count // 10) else "val" if index < count else "test"
            if isinstance(picture, Image.Image):
                picture.save(part / "images" / name)
            else:
                (part / "images" / name).symlink_to(Path(picture).resolve())
            writer.writerows([name, caption, split] for caption in captions)
    part.rename(folder)


def default_plan(dataset: Dataset, output: Path, cache: Path, device: str) -> TrainingPlan:
    """The training that `sat train` makes of a data set by default."""
    config = preset("flickr8k", "soft")
    return TrainingPlan(
        dataset=dataset,
        start=choose_start(dataset, config, init_from=None, fit_to_data=True),
        config=config,
        output=output,
        given=(),
        fit_to_data=True,
        cache=cache,
        device=device,
    )


def train_or_resume(plan: TrainingPlan) -> None:
    """Train; go on with a training that was interrupted."""
    with log_printed():
        train(dataclasses.replace(plan, resume=plan.state.exists()), show=False)


def trained(folder: Path, output: Path, device: str) -> tuple[TrainingPlan, float]:
    """The plan of a training by default, which is done, and the seconds that it took."""
    plan = default_plan(read_dataset(folder), output / "model", output / "cache", device)
    began = time.monotonic()
    train_or_resume(plan)
    return plan, time.monotonic() - began


def measure(folder: Path, output: Path, device: str) -> dict[str, Any]:
    """CIDEr of each judge by the start, the training and each candidate, and the seconds of the training."""
    plan, seconds = trained(folder, output, device)
    dataset, start = plan.dataset, plan.start
    place = pick_device(device)
    plan, data = prepare_data(plan, place)
    judged = tuple(
        dataclasses.replace(each, split="val") for each in dataset.examples if each.split == "test"
    )  # encoded as val is
    learnt = tuple(each for each in dataset.examples if each.split == "train")
    _, judges = prepare_data(
        dataclasses.replace(plan, dataset=dataclasses.replace(dataset, examples=(*learnt, *judged)), fit_to_data=False),
        place,
    )
    judges = dataclasses.replace(judges, vocabulary=data.vocabulary)
    assert start.checkpoint is not None  # so few photos start from the default model
    before = start_decoder(start.checkpoint, plan.config, data, place)
    model = build_decoder(Checkpoint.load(plan.output)).to(place)
    weights = before.state_dict()
    found = {"start": figures_of(before, judges, plan.config), "training": figures_of(model, judges, plan.config)}
    loop = Trainer(plan.config, data, device=place, initial=weights, init_from=start.name)
    epochs = {max(1, round(share * plan.config.epochs)) for share in CANDIDATES}
    while loop.epoch < plan.config.epochs:
        for batch in loop.mini_batches():
            loop.take(batch)
        loop.read_losses()
        loop.end_epoch()
        for share in SHARES[1:] if loop.epoch in epochs else ():
            model.load_state_dict(interpolate(weights, loop.average.state_dict(), share))
            found[f"epoch {loop.epoch}, share {share:g}"] = figures_of(model, judges, plan.config)
    ciders = {name: each.ciders.tolist() for name, each in found.items()}
    return {"seconds": seconds, "ciders": ciders}


def doubt(folder: Path, output: Path, device: str) -> dict[str, Any]:
    """What the trained model knows of each noun of the judges, and whether it is right; saves the judges' features."""
    plan, _ = trained(folder, output, device)
    start = plan.start.checkpoint
    assert start is not None and start.confidence is not None  # so few photos start from the default model
    captioner = Captioner.from_pretrained(plan.output, device=device)
    decoding, vocabulary = captioner.decoding, captioner.checkpoint.vocabulary
    known = Confidence(start.confidence, decoding.reranker, decoding.class_words)
    dataset = plan.dataset.retokenize(vocabulary.tokenizer)
    cache = plan.cache or Path()
    row: dict[str, Any] = {name: [] for name in ("right", "confidence", "start", "log_p", "photo", "unlike")}
    pooled = []
    config = captioner.resolve_config()
    for examples, features, found in searched(captioner, dataset, "test", config, cache=cache):
        best = [captions[:1] for captions in found]
        of_start = known.judge(captioner.backend, features, best, found)
        pooled.append(as_array(features.mean(1)))
        for example, (caption,), (by_start,) in zip(examples, best, of_start, strict=True):
            people = {each for words in example.captions for word in words for each in (word, singular(word))}
            own = [np.nan] * len(caption.words) if caption.word_confidence is None else caption.word_confidence
            for place, (value, before) in enumerate(zip(own, by_start, strict=True)):
                if before != before:
                    continue
                noun = vocabulary.words[caption.words[place]]
                row["right"].append((singular(noun) or noun) in people)
                row["confidence"].append(float(value) * (0.5 if caption.unlike else 1.0))
                row["start"].append(float(before))
                row["log_p"].append(caption.word_log_probabilities[place])
                row["photo"].append(len(row["unlike"]))
            row["unlike"].append(caption.unlike)
    np.save(output / "pooled.npy", np.concatenate(pooled))
    return row


def summary_of_doubt(output: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Print the calibration error and the AUROC of each kind, pooled over draws, and the photos that are told apart."""
    for kind in SIZES:
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        first = np.cumsum([0, *(len(row["unlike"]) for row in chosen)])
        photo = np.concatenate([np.array(row["photo"]) + before for row, before in zip(chosen, first, strict=False)])
        times = draw(np.random.default_rng(0), first[-1], first[-1], 500).astype(int)[:, photo]
        right = np.concatenate([row["right"] for row in chosen]).astype(bool)
        print(f"{kind}, {len(chosen)} draws: {len(right)} nouns, {100 * right.mean():.1f} % right")
        base = np.concatenate([np.full(len(row["right"]), np.mean(row["confidence"])) for row in chosen])
        print(f"  base rate that the confidence expects: calibration error {abs(base - right.mean()).mean():.3f}")
        for name in ("confidence", "start", "log_p"):
            values = np.concatenate([row[name] for row in chosen])
            values = np.exp(values) if name == "log_p" else values
            figures = []
            for measured in (calibration_error, auroc):
                low, high = interval(np.array([measured(np.repeat(values, n), np.repeat(right, n)) for n in times]))
                figures.append(f"{measured(values, right):.3f} [{low:.3f}, {high:.3f}]")
            print(f"  {name}: calibration error {figures[0]}, AUROC {figures[1]}")
        told: dict[str, list[bool]] = {other: [] for other in SIZES}
        for row in chosen:
            arrays = Checkpoint.load(output / f"{row['name']}-run" / "model").confidence
            for other in rows if arrays is not None and "far" in arrays else ():
                assert arrays is not None
                photos = np.load(output / f"{other['name']}-run" / "pooled.npy")
                told[other["kind"]].extend(np.linalg.norm(photos - arrays["center"], axis=1) > arrays["far"])
        print("  unlike: " + ", ".join(f"{100 * np.mean(each):.0f} % of {name}" for name, each in told.items() if each))


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """Print the differences to the start, by kind."""
    for kinds in (FAMILIAR, ("scenes",), ("charts",)):
        chosen = [row for row in rows if row["kind"] in kinds]
        if not chosen:
            continue
        differences, best = [], []
        for row in chosen:
            ciders = {name: np.array(values) for name, values in row["ciders"].items()}
            differences.append(ciders["training"] - ciders["start"])
            best.append(max(values.mean() for values in ciders.values()) - ciders["start"].mean())
        mean, low, high = over_draws(differences)
        share = f"; {100 * mean / np.mean(best):.0f} % of the gain in hindsight" if kinds != FAMILIAR else ""
        print(f"{' and '.join(kinds)}: {mean:+.1f} [{low:+.1f}, {high:+.1f}], {len(chosen)} draws{share}")


def over_draws(differences: Sequence[NDArray[Any]]) -> tuple[float, float, float]:
    """The mean of differences (photos,) of draws, and its 95 % interval over draws and their photos.

    Of one draw, the interval is over photos alone.
    """
    chance = np.random.default_rng(0)
    means = [draw(chance, len(of), len(of), RESAMPLES) @ of / len(of) for of in differences]
    times = draw(chance, len(means), len(means), RESAMPLES) / len(means)
    low, high = interval((times * np.stack(means, 1)).sum(1))
    return float(np.mean([of.mean() for of in differences])), low, high


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure what is not measured yet, and print what all draws say."""
    parser = parser_of_runs(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="photos of a draw; default: two sizes for each kind")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--judges", type=int, default=100, help="photos that judge, at most")
    parser.add_argument("--doubt", action="store_true", help="measure what the models know of their nouns")
    parser.add_argument("--device", default="auto", help="device to train on")
    options = parser.parse_args(given)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / ("doubt.jsonl" if options.doubt else "figures.jsonl")
    rows = kept_rows(file)
    sources = {"flickr8k": options.flickr8k, "coco": options.coco}
    for number in range(1, options.draws + 1):
        for kind in options.kinds:
            for count in options.sizes or SIZES[kind][1 if options.doubt else 0 :]:
                name = f"{kind}-{count}-{number}"
                if any(row["name"] == name for row in rows):
                    continue
                write_draw(options.output / name, kind, count, number, options.judges, sources)
                of_draw = doubt if options.doubt else measure
                row = of_draw(options.output / name, options.output / f"{name}-run", options.device)
                rows.append({"name": name, "kind": kind, **row})
                keep_row(file, rows[-1])
    if options.doubt:
        summary_of_doubt(options.output, rows)
    else:
        summary(rows)


if __name__ == "__main__":
    main()
