"""What a training on few photos gains, and what the best choice in hindsight would have gained.

    OMP_NUM_THREADS=1 python research/small_sets.py runs/ --flickr8k flickr8k/ --coco coco/ --draws 3
    OMP_NUM_THREADS=1 python research/small_sets.py runs/ --kinds charts --sizes 40 --draws 1

A draw is 40, 100 or 150 photos, a tenth of them as val; others of the same kind judge. Familiar kinds are photos of
val of Flickr8k and COCO, which no model was trained on; new kinds are generated scenes and charts. Each draw is
trained on by default, from `everyday-soft`, and once more for all epochs, of which `CANDIDATES` are judged too, each at
three shares of the way from the start. The best of these and the start is the choice in hindsight.

Captions are those of beam size 3 without reranker. A line for each draw is in RUNS/figures.jsonl, and a draw that has
one is not measured again. At the end, the mean difference in CIDEr to the start is printed for each kind, with its 95 %
interval over draws and photos, and for new kinds the share of the gain in hindsight.
"""

import csv
import dataclasses
import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from charts import make_chart
from PIL import Image
from scenes import make_scene
from stages import new_parser, reporting

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.cli.command import log_printed
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.devices import pick_device
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
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
    """A data folder: train and val of ``count`` photos, and the judges as test."""
    (folder / "images").mkdir(parents=True)
    with open(folder / "captions.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["photo", "caption", "split"])
        photos = zip(range(count + judges), photos_of(kind, count, number, sources), strict=False)
        for index, (name, picture, captions) in photos:
            split = "train" if index < count - max(2, count // 10) else "val" if index < count else "test"
            if isinstance(picture, Image.Image):
                picture.save(folder / "images" / name)
            else:
                (folder / "images" / name).symlink_to(Path(picture).resolve())
            writer.writerows([name, caption, split] for caption in captions)


def measure(folder: Path, output: Path, device: str) -> dict[str, Any]:
    """CIDEr of each judge by the start, the training and each candidate, and the seconds of the training."""
    dataset, config = read_dataset(folder), preset("flickr8k", "soft")
    start = choose_start(dataset, config, init_from=None, fit_to_data=True)
    plan = TrainingPlan(
        dataset=dataset,
        start=start,
        config=config,
        output=output / "model",
        given=(),
        fit_to_data=True,
        cache=output / "cache",
        device=device,
    )
    began = time.monotonic()
    with log_printed():
        train(dataclasses.replace(plan, resume=plan.state.exists()), show=False)
    seconds = time.monotonic() - began
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


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """Print the differences to the start, by kind."""
    for kinds in (FAMILIAR, ("scenes",), ("charts",)):
        chosen = [row for row in rows if row["kind"] in kinds]
        if not chosen:
            continue
        generator = np.random.default_rng(0)
        each, gains, best = [], [], []
        for row in chosen:
            ciders = {name: np.array(values) for name, values in row["ciders"].items()}
            difference = ciders["training"] - ciders["start"]
            each.append(draw(generator, len(difference), len(difference), RESAMPLES) @ difference / len(difference))
            gains.append(difference.mean())
            best.append(max(values.mean() for values in ciders.values()) - ciders["start"].mean())
        drawn = draw(generator, len(each), len(each), RESAMPLES) / len(each)
        low, high = interval((drawn * np.stack(each, 1)).sum(1))
        share = f"; {100 * np.sum(gains) / np.sum(best):.0f} % of the gain in hindsight" if kinds != FAMILIAR else ""
        print(f"{' and '.join(kinds)}: {np.mean(gains):+.1f} [{low:+.1f}, {high:+.1f}], {len(each)} draws{share}")


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure what is not measured yet, and print what all draws say."""
    parser = new_parser(__doc__)
    parser.add_argument("output", type=Path, help="folder for the draws, the models and the figures")
    parser.add_argument("--flickr8k", type=Path, default=Path("flickr8k"), help="folder of Flickr8k")
    parser.add_argument("--coco", type=Path, default=Path("coco"), help="folder of COCO")
    parser.add_argument("--kinds", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="photos of a draw; default: two sizes for each kind")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--judges", type=int, default=100, help="photos that judge, at most")
    parser.add_argument("--device", default="auto", help="device to train on")
    options = parser.parse_args(given)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "figures.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    sources = {"flickr8k": options.flickr8k, "coco": options.coco}
    for number in range(1, options.draws + 1):
        for kind in options.kinds:
            for count in options.sizes or SIZES[kind]:
                name = f"{kind}-{count}-{number}"
                if any(row["name"] == name for row in rows):
                    continue
                if not (options.output / name).exists():
                    part = options.output / f"{name}.part"
                    shutil.rmtree(part, ignore_errors=True)  # of a draw that was interrupted
                    write_draw(part, kind, count, number, options.judges, sources)
                    part.rename(options.output / name)
                row = measure(options.output / name, options.output / f"{name}-run", options.device)
                rows.append({"name": name, "kind": kind, **row})
                with open(file, "a", encoding="utf-8") as lines:
                    lines.write(json.dumps(rows[-1]) + "\n")
    summary(rows)


if __name__ == "__main__":
    main()
