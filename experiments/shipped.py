"""Make the shipped models from the data, with their scores, cards and the README's table of scores: `make models`.

    python experiments/shipped.py flickr8k/ runs/            # hours on two cores; stop and start it as you like
    python experiments/shipped.py flickr8k/ runs/ --list     # say what is done and what is left
    python experiments/shipped.py flickr8k/ runs/ --install  # also put the models and evaluations into this checkout
    python experiments/shipped.py --describe                 # write the shipped models' cards anew, from results/

Each seed has three trainings (`TRAININGS`), each from the one before. Each soft and hard model is evaluated on val and
test, with its reranker and without it ("attention alone"). The seed with the best val BLEU-4 ships.

| in runs/ | what it holds |
| --- | --- |
| soft-1/, ... | the model of a training |
| soft-1-test.json, soft-1-test-alone.json, ... | its evaluations, with the reranker and without it |
| models/ | what ships: flickr8k-soft, flickr8k-hard, and the visual n-grams of both |
| results/ | the evaluations as this project keeps them (`results.py`) |
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
import tables
from safetensors.torch import save_file
from stages import DATA, SQUASHED, Stage, alone, evaluation, list_stages, run, trained, training

from show_attend_tell.checkpoint.card import figures
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.find import SHIPPED
from show_attend_tell.checkpoint.weights import NGRAMS, read_weights
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object, replace
from show_attend_tell.rerank.visual_ngrams import VisualNgrams

SEEDS = (1, 2, 3)
SPLITS = ("val", "test")
SHARED_NGRAMS = "flickr8k-ngrams"
NGRAMS_CARD = """\
# Visual n-grams of Flickr8k, the reranker of `flickr8k-soft` and `flickr8k-hard`

For a photo, visual n-grams predict the share of its captions that have each of {count:,} words,
pairs and triples of words. They read the conv5_4 map of the shipped VGG-19.
`show_attend_tell/rerank/visual_ngrams.py` explains how.

- **Fitted** on the photos and captions of Flickr8k's training split, squashed to 224×224, by ridge
  regression in closed form, and cut to {directions} directions.
- **Stored**: the directions in 4 bits a weight, the rest in 8 bits. The n-grams are those that at
  least ten training captions have. No caption is stored.
- **SHA-256**, by which the models know them:
  `{digest}`.
"""


@dataclass(frozen=True)
class Training:
    """A training of each seed."""

    arguments: tuple[str, ...]  # of `sat train`, besides data, geometry, seed, start and output
    start: str | None = None  # the training whose model it starts from


TRAININGS = {
    "plain": Training(("--attention", "soft", "--set", "visual_ngrams=false")),
    "soft": Training(
        (
            *("--attention", "soft", "--epochs", "3"),
            *("--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3"),
        ),
        start="plain",
    ),
    "hard": Training(("--attention", "hard"), start="soft"),
}
SHIPS = {"soft": "flickr8k-soft", "hard": "flickr8k-hard"}


def arguments(name: str, seed: int, folder: Path, trainings: Mapping[str, Training] = TRAININGS) -> list[object]:
    """What `sat train` is given for a training, besides data, geometry and output; ``folder`` holds the models."""
    chosen = trainings[name]
    start = [] if chosen.start is None else ["--start-from", folder / f"{chosen.start}-{seed}"]
    return [*chosen.arguments, *start, "--seed", seed]


def commands(name: str, seed: int) -> list[str]:
    """The commands that make a model from the data, one for each training."""
    start = TRAININGS[name].start
    told = " ".join(map(str, [*arguments(name, seed, Path()), *SQUASHED, "--output", f"{name}-{seed}"]))
    return [*([] if start is None else commands(start, seed)), f"sat train {DATA} {told}"]


def model_stages(data: Path, output: Path, seeds: Sequence[int], extra: Sequence[str] = ()) -> list[Stage]:
    """Train every seed's models, and evaluate those that may ship; ``extra`` arguments are given to every training."""
    found = []
    for seed in seeds:
        for name in TRAININGS:
            model = output / f"{name}-{seed}"
            found.append(training(data, model, *arguments(name, seed, output), *extra))
            if name in SHIPS:
                found += [each for split in SPLITS for each in evaluations(data, model, split)]
    return found


def evaluations(data: Path, model: Path, split: str) -> list[Stage]:
    """Evaluate a model on a split with its reranker, and attention alone."""
    file = model.with_name(f"{model.name}-{split}.json")
    without = file.with_name(f"{file.stem}-alone.json")
    return [evaluation(data, [model], file, split), evaluation(data, [model], without, split, lambda: alone(model))]


def shipping_stages(data: Path, output: Path, seeds: Sequence[int]) -> list[Stage]:
    """Choose the seeds that ship, make what ships, and evaluate the hard one by the expectation too."""
    models = output / "models"

    def expected(suffix: str) -> Stage:
        file = output / f"{SHIPS['hard']}-test{suffix}-expectation.json"
        model = models / SHIPS["hard"]

        def options() -> list[object]:
            return [*(alone(model) if suffix else ()), "--look", "expectation"]

        return evaluation(data, [model], file, "test", options)

    return [
        *(
            Stage(
                f"make {shipped}",
                (models / shipped / "config.json").exists,
                lambda name=name: make(name, best_seed(name, output, seeds), output),  # type: ignore[misc]
            )
            for name, shipped in SHIPS.items()
        ),
        expected(""),
        expected("-alone"),
    ]


def best_seed(name: str, output: Path, seeds: Sequence[int]) -> int:
    """The seed whose model has the best BLEU-4 on val, with brevity penalty, decoded as val chose."""
    by_seed = {seed: read_object(output / f"{name}-{seed}-val.json", "results")["bleu_4"] for seed in seeds}
    return max(seeds, key=lambda seed: float(by_seed[seed]))


def make(name: str, seed: int, output: Path) -> None:
    """Make the shipped model from a seed's: its weights, its words, the shared visual n-grams, and its card."""
    source, target = output / f"{name}-{seed}", output / "models" / SHIPS[name]
    evaluated = {
        which: read_object(output / f"{name}-{seed}-{which}.json", "results")
        for split in SPLITS
        for which in (split, f"{split}-alone")
    }
    checkpoint = Checkpoint.load(source)
    target.mkdir(parents=True, exist_ok=True)
    for file in ("model.safetensors", "vocabulary.json"):
        shutil.copyfile(source / file, target / file)
    if checkpoint.reranker is not None:
        store(checkpoint.reranker, target)
    described(checkpoint, name, evaluated).describe(target)


def store(ngrams: VisualNgrams, model: Path) -> None:
    """Write a model's visual n-grams into the folder that the models share, or into its own if these are others."""
    shared = model.parent / SHARED_NGRAMS / NGRAMS
    if not shared.exists():
        shared.parent.mkdir(parents=True, exist_ok=True)
        replace(shared, lambda file: save_file(ngrams.packed, file))
        describe_ngrams(ngrams, shared.parent)
    elif VisualNgrams(read_weights(shared)).digest != ngrams.digest:
        replace(model / NGRAMS, lambda file: save_file(ngrams.packed, file))


def describe_ngrams(ngrams: VisualNgrams, folder: Path) -> None:
    """Write the card of the visual n-grams that the models share."""
    text = NGRAMS_CARD.format(count=len(ngrams.numbers), directions=len(ngrams.offset), digest=ngrams.digest)
    replace(folder / "README.md", lambda file: file.write_text(text, encoding="utf-8"))


def described(checkpoint: Checkpoint, name: str, evaluated: Mapping[str, Mapping[str, Any]]) -> Checkpoint:
    """A checkpoint with what its card and configuration say when it ships.

    ``evaluated`` are its evaluations, "test" and "test-alone" say. It decodes as on val with the reranker.
    """
    noted = checkpoint.training
    val, val_alone = evaluated["val"], evaluated["val-alone"]
    used = {key: val[key] for key in ("beam", "look", "length_normalisation", "reranker_weight")}
    checkpoint.training = {
        "data": noted["data"],
        "preset": noted["preset"],
        **{f"stage_{number}": line for number, line in enumerate(commands(name, noted["seed"]), start=1)},
        **{key: noted[key] for key in ("seed", "epochs", "settings", "validation_bleu_4")},
        "without_reranker": {
            **{key: val_alone[key] for key in ("beam", "length_normalisation")},
            "validation_bleu_4": round(val_alone["bleu_4"], 2),
        },
    }
    checkpoint.decoding = checkpoint.decoding.but(**used)
    checkpoint.scores = {
        split + title: figures(evaluated[split + suffix])
        for split in sorted(SPLITS)
        for title, suffix in ((", attention alone", "-alone"), ("", ""))
    }
    return checkpoint


def keep(output: Path, seeds: Sequence[int]) -> None:
    """Keep the evaluations of all seeds and, under the models' own names, of those that ship, in output/results/."""
    folder = output / "results"
    for name, shipped in SHIPS.items():
        ships = trained(output / "models" / shipped)["training"]["seed"]
        for seed in seeds:
            for split in SPLITS:
                for suffix in ("", "-alone"):
                    found = read_object(output / f"{name}-{seed}-{split}{suffix}.json", "results")
                    results.keep(found, f"{name}-{seed}-{split}{suffix}", folder)
                    if seed == ships:
                        results.keep({**found, "model": shipped}, f"{shipped}-{split}{suffix}", folder)
    for file in output.glob("*-expectation.json"):
        results.keep(read_object(file, "results"), file.stem, folder)
    results.write_list(folder)


def install(output: Path) -> None:
    """Put the models and evaluations into this checkout, and write the tables of README and docs anew."""
    shutil.copytree(output / "models", SHIPPED, dirs_exist_ok=True)
    shutil.copytree(output / "results", results.RESULTS, dirs_exist_ok=True)
    results.write_list()
    tables.write()


def describe() -> None:
    """Write the cards and configurations of the models in this checkout anew, with the scores in results/."""
    for name, shipped in SHIPS.items():
        evaluated = {
            which: results.read(f"{shipped}-{which}") for split in SPLITS for which in (split, f"{split}-alone")
        }
        described(Checkpoint.load(SHIPPED / shipped), name, evaluated).describe(SHIPPED / shipped)
    describe_ngrams(VisualNgrams(read_weights(SHIPPED / SHARED_NGRAMS / NGRAMS)), SHIPPED / SHARED_NGRAMS)


def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, then keep the evaluations and print the table of scores."""
    parser = argparse.ArgumentParser(description="Make the shipped models, their scores and their cards.")
    parser.add_argument("data", nargs="?", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("output", nargs="?", type=Path, help="folder for models and evaluations")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="seeds to train with")
    parser.add_argument("--set", action="append", default=[], help="setting of every training, for a trial")
    parser.add_argument("--list", action="store_true", help="list the stages, and make nothing")
    parser.add_argument("--install", action="store_true", help="put models and evaluations into this checkout too")
    parser.add_argument("--describe", action="store_true", help="write the shipped models' cards anew, and no more")
    options = parser.parse_args(given)
    try:
        if options.describe:
            describe()
            return
        if options.data is None or options.output is None:
            parser.error("give the folder of Flickr8k and a folder for models and evaluations")
        extra = [part for change in options.set for part in ("--set", change)]
        stages = model_stages(options.data, options.output, options.seeds, extra)
        stages += shipping_stages(options.data, options.output, options.seeds)
        if options.list:
            list_stages(stages)
            return
        options.output.mkdir(parents=True, exist_ok=True)
        run(stages)
        keep(options.output, options.seeds)
        print(f"\n{tables.scores(options.output / 'results')}")
        if options.install:
            install(options.output)
    except SatError as error:
        sys.exit(f"shipped: {error}")
    except KeyboardInterrupt:
        sys.exit("shipped: interrupted; the same command goes on")


if __name__ == "__main__":
    main()
