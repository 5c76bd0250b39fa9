"""Make the shipped models from the data, with their scores, cards and the README's table of scores: `make models`.

    python research/shipped.py flickr8k/ runs/ --coco coco/  # hours on two cores; stop and start it as you like
    python research/shipped.py flickr8k/ runs/ --list        # say what is done and what is left
    python research/shipped.py flickr8k/ runs/ --install     # also put models and evaluations into this checkout
    python research/shipped.py --describe                    # write the shipped models' cards anew, from results/

Each seed has three trainings on Flickr8k (`TRAININGS`), each from the one before, and with COCO's photos four more.
Two of these also learn from COCO's captions of other photos, a file of its folder (`TEXTS`).
Each model of `SHIPS` is evaluated on val and test of its data, and those with a reranker without it too ("-alone").
A trial of fewer seeds needs a folder of its own, since what is made is not made again.
The seed ships that is best on val: by BLEU-4, and the everyday model by the mean CIDEr of both data sets. (The files in
this checkout are of seed 1. research/notes/training.md says why.)
The models of Flickr8k alone ship in 4 bits a weight, and are evaluated again in these.

| in runs/ | what it holds |
| --- | --- |
| soft-1/, ... | the model of a training |
| soft-1-test.json, ... | its evaluations |
| everyday-soft-1-coco-test.json, everyday-soft-1-coco-test-alone.json, ... | those of an everyday model |
| flickr8k-soft/, ... | the model of the best seed in fewer bits, where it ships so |
| models/ | what ships: the models, and the visual n-grams of those of the same data |
| results/ | the evaluations as this project keeps them (`results.py`) |
"""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import results
import tables
from stages import SQUASHED, Stage, alone, evaluation, is_trained, list_stages, reporting, run, trained, training

from show_attend_tell.checkpoint.arrays import CLASS_WORDS, CONFIDENCE, NGRAMS, TUNED, read_arrays
from show_attend_tell.checkpoint.card import SHAPES, figures
from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.checkpoint.packing import Arrays, arrays_digest
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.files import read_object, write_text
from show_attend_tell.vision.efficientnet import EFFICIENTNET_LITE2

SEEDS = (1, 2, 3)
SPLITS = ("val", "test")
TITLES = {  # of the data sets, and of the photos that models are trained on
    "flickr8k": ("Flickr8k", "Flickr8k's training split"),
    "coco": ("COCO", "1,757 of COCO's (CC BY 4.0)"),
}
ROUNDED = "4 bits each; the best BLEU-4 on val is that of 16 bits, the scores are those of 4"
NGRAMS_CARD = """\
# Visual n-grams of {data}, the reranker of {models}

For a photo, visual n-grams predict the share of its captions that have each of {count:,} words, pairs
and triples of words. They read the {channels} channels of EfficientNet-Lite2's map that vary most.
`show_attend_tell/rerank/ngrams.py` explains how.

- **Fitted** on photos and captions of {fitted},
  {prepared}, by ridge regression in
  closed form, and cut to {directions} directions.
- **Stored**: the directions in 4 bits a weight, the rest in 8 bits. The n-grams are those that at
  least ten training captions have. No caption is stored.
- **SHA-256**, by which the models know them:
  `{digest}`.
"""


@dataclass(frozen=True)
class Training:
    """A training of each seed."""

    arguments: tuple[str, ...]  # of `sat train`, besides data, resizing, seed, start and output
    start: str | None = None  # the training whose model it starts from
    data: tuple[str, ...] = ("flickr8k",)
    texts: bool = False  # whether it learns from captions without photos too


@dataclass(frozen=True)
class Model:
    """A model that ships."""

    training: str  # the training that makes it
    best: str = "bleu_4"  # the score on val by which a seed is chosen, the mean over the data sets
    reranked: bool = False  # whether it has a reranker
    purpose: str = ""  # what it is for, for its card and the list of models
    weights: str = ROUNDED  # how they are stored, for its card
    bits: Bits | None = None  # of a weight, where it ships in fewer than it was trained in

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets that it is trained and evaluated on."""
        return TRAININGS[self.training].data

    def evaluations(self) -> dict[str, tuple[str, str, bool]]:
        """Data set, split, and whether it is without the reranker, by the end of the evaluation's name."""
        found: dict[str, tuple[str, str, bool]] = {}
        for data in self.data:
            of = f"{data}-" if len(self.data) > 1 else ""
            for split in SPLITS:
                found[f"{of}{split}"] = (data, split, False)
                if self.reranked:
                    found[f"{of}{split}-alone"] = (data, split, True)
        return found


DATA = {
    "training_data": {
        "flickr8k": "6,000 photos of Flickr8k with five captions each",
        "coco": "1,757 photos of COCO with four to five captions each",
    },
    "test_data": {
        "flickr8k": "1,000 photos of Flickr8k (Karpathy's split)",
        "coco": "300 photos of COCO chosen here, no official split",
    },
}
TEXTS_ARE = "230,708 captions of other COCO photos, without these photos"
CREDITS = "COCO's captions are by T.-Y. Lin et al., Microsoft COCO (2014), CC BY 4.0"
HUB = {"license": "apache-2.0", "language": "en"}  # what the Hugging Face Hub reads of a card, besides data and metrics
BOTH = ("flickr8k", "coco")
ELSEWHERE = {"flickr8k-soft": {"coco, test": "coco-test"}}  # kept evaluations on data that a model did not learn from
TEXTS = "captions_without_photos.txt.gz"  # in COCO's folder: its captions of photos that are not there, one in a line


def everyday(attention: str, renderings: int, more: str, *, start: str | None = None, texts: bool = True) -> Training:
    """A training of the everyday models; one that has a ``start`` learns from captions without photos, if ``texts``."""
    given = f"--attention {attention} --weight 1 --weight 2 --resize squash-256 --set flipped=false"
    given += f" --set renderings={renderings} --set selected_by=cider {more}"
    texts = texts and start is not None
    if texts:
        given += " --set scheduled_sampling=0.3 --set minimum_count=20"
    return Training(tuple(given.split()), start, BOTH, texts)


TRAININGS = {
    "plain": Training(("--attention", "soft", "--set", "visual_ngrams=false")),
    "soft": Training(
        (
            *("--attention", "soft", "--epochs", "3", "--set", "visual_ngrams=false"),
            *("--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3"),
        ),
        start="plain",
    ),
    "hard": Training(("--attention", "hard", "--set", "visual_ngrams=false"), start="soft"),
    "everyday-plain": everyday("soft", 1, f"--encoder {EFFICIENTNET_LITE2.name} --epochs 3 --set visual_ngrams=false"),
    "everyday-texts": everyday("soft", 1, "--bits 4 --epochs 4 --set learning_rate=7e-4", start="everyday-plain"),
    "everyday-soft": everyday(
        "soft",
        3,
        "--bits 4 --epochs 3 --set learning_rate=3e-4 --set batch_size=192 --encoder-lr 5e-5 --unfreeze-from block17",
        start="everyday-texts",
    ),
    "everyday-hard": everyday(
        "hard",
        1,
        "--bits 4 --epochs 2 --set crops=0 --set decoder.annotation_window=3",
        start="everyday-soft",
        texts=False,
    ),
}
SHIPS = {
    "flickr8k-soft": Model("soft", purpose="soft attention, Flickr8k alone", bits=4),
    "flickr8k-hard": Model("hard", purpose="hard attention, Flickr8k alone", bits=4),
    "everyday-soft": Model("everyday-soft", "cider", True, "photos of everyday life", "4 bits each"),
    "everyday-hard": Model("everyday-hard", "cider", True, "one location per word", "4 bits each"),
}


def arguments(
    name: str,
    seed: int,
    folder: Path,
    trainings: Mapping[str, Training] = TRAININGS,
    *,
    coco: Path = Path("coco"),
) -> list[object]:
    """What `sat train` is given for a training, besides data, resizing and output; ``folder`` holds the models."""
    chosen = trainings[name]
    start = [] if chosen.start is None else ["--init-from", folder / f"{chosen.start}-{seed}"]
    texts = ["--text-corpus", coco / TEXTS] if chosen.texts else []
    return [*chosen.arguments, *texts, *start, "--seed", seed]


def trainings_to(
    name: str, seed: int, data: Path, folder: Path, trainings: Mapping[str, Training] = TRAININGS
) -> list[Stage]:
    """A training on one data set, after those that it starts from; by itself if its model is there already."""
    names = [name] if is_trained(folder / f"{name}-{seed}") else line_of(name, trainings)
    return [training([data], folder / f"{each}-{seed}", *arguments(each, seed, folder, trainings)) for each in names]


def commands(name: str, seed: int) -> list[str]:
    """The commands that make a model from the data, one for each training."""
    start = TRAININGS[name].start
    given = arguments(name, seed, Path())
    resize = () if "--resize" in given else SQUASHED
    told = " ".join(map(str, [*given, *resize, "--output", f"{name}-{seed}"]))
    data = " ".join(f"{each}/" for each in TRAININGS[name].data)
    return [*([] if start is None else commands(start, seed)), f"sat train {data} {told}"]


def made(folders: Mapping[str, Path]) -> dict[str, Model]:
    """The models that can be made from these data sets, by name."""
    return {name: model for name, model in SHIPS.items() if set(model.data) <= set(folders)}


def model_stages(
    folders: Mapping[str, Path], output: Path, seeds: Sequence[int], extra: Sequence[str] = ()
) -> list[Stage]:
    """Train every seed's models, and evaluate those that may ship; ``extra`` arguments are given to every training."""
    ships = {model.training: model for model in made(folders).values()}
    found = []
    for seed in seeds:
        for name, chosen in TRAININGS.items():
            if not any(name in line_of(model.training) for model in ships.values()):
                continue
            trained_as = output / f"{name}-{seed}"
            data = [folders[each] for each in chosen.data]
            given = arguments(name, seed, output, coco=folders.get("coco", Path("coco")))
            found.append(training(data, trained_as, *given, *extra))
            if name in ships:
                found += evaluations(ships[name], folders, trained_as)
    return found


def line_of(name: str, trainings: Mapping[str, Training] = TRAININGS) -> list[str]:
    """The trainings that a training comes from, the first one first, and itself."""
    start = trainings[name].start
    return [*([] if start is None else line_of(start, trainings)), name]


def evaluations(model: Model, folders: Mapping[str, Path], trained_as: Path) -> list[Stage]:
    """Evaluate the model in a folder on each data set and split, with its reranker and without."""
    found: list[Stage] = []
    for ending, (data, split, by_itself) in model.evaluations().items():
        file = trained_as.with_name(f"{trained_as.name}-{ending}.json")
        found.append(
            evaluation(folders[data], [trained_as], file, split, partial(alone, trained_as) if by_itself else tuple)
        )
    return found


def shipping_stages(folders: Mapping[str, Path], output: Path, seeds: Sequence[int]) -> list[Stage]:
    """Choose the seeds that ship and make what ships; evaluate the hard one by the mean, and both with uniform α."""
    found: list[Stage] = []
    models = output / "models"
    for name, model in made(folders).items():
        chosen = partial(best_seed, model, output, seeds)
        if model.bits is not None:
            rounded = (output / name / "config.json").exists
            found.append(Stage(f"round {name}", rounded, partial(round_weights, name, chosen, output)))
            found += evaluations(model, folders, output / name)
        found.append(Stage(f"make {name}", (models / name / "config.json").exists, partial(make, name, chosen, output)))
    mean = ["--attention-mode", "mean"]
    hard, file = models / "flickr8k-hard", output / "flickr8k-hard-mean-test.json"
    found.append(evaluation(folders["flickr8k"], [hard], file, "test", lambda: mean))
    for name in ("flickr8k-soft", "flickr8k-hard"):
        even = output / f"{name}-even"
        is_there = (even / "config.json").exists
        found.append(Stage(f"hold α of {name} uniform", is_there, partial(hold_uniform, models / name, even)))
        file = output / f"{name}-even-test.json"
        found.append(evaluation(folders["flickr8k"], [even], file, "test", lambda: mean))
    return found


def hold_uniform(model: Path, folder: Path) -> None:
    """Write a model with α = 1/L at every location and step: all energies are 0, its other weights are the same."""
    checkpoint = Checkpoint.load(model)
    checkpoint.weights["attention.energy"] = np.zeros_like(checkpoint.weights["attention.energy"])
    checkpoint.save(folder)


def best_seed(model: Model, output: Path, seeds: Sequence[int]) -> int:
    """The seed whose model is best on val, decoded as val chose; BLEU-4 counts the brevity penalty."""
    val = [ending for ending, (_, split, by_itself) in model.evaluations().items() if split == "val" and not by_itself]

    def score(seed: int) -> float:
        return sum(float(read(f"{model.training}-{seed}", ending, output)[model.best]) for ending in val)

    return max(seeds, key=score)


def read(name: str, ending: str, output: Path) -> dict[str, Any]:
    """An evaluation of a model."""
    return read_object(output / f"{name}-{ending}.json", "results")


def round_weights(name: str, chosen: Callable[[], int], output: Path) -> None:
    """Write the chosen seed's model in the bits in which it ships."""
    model = SHIPS[name]
    assert model.bits is not None
    Checkpoint.load(output / f"{model.training}-{chosen()}").save(output / name, bits=model.bits)


def source_of(name: str, seed: int) -> str:
    """The name of what ships as a model: the chosen seed's, or this one in fewer bits."""
    model = SHIPS[name]
    return f"{model.training}-{seed}" if model.bits is None else name


def make(name: str, chosen: Callable[[], int], output: Path) -> None:
    """Make the shipped model of the chosen seed's: weights, words, the shared visual n-grams, and its card."""
    model, ships = SHIPS[name], source_of(name, chosen())
    source, target = output / ships, output / "models" / name
    evaluated = {ending: read(ships, ending, output) for ending in model.evaluations()}
    checkpoint = Checkpoint.load(source)
    target.mkdir(parents=True, exist_ok=True)
    for file in ("model.safetensors", "vocabulary.json", CLASS_WORDS, CONFIDENCE, NGRAMS, TUNED):
        if (source / file).exists():
            shutil.copyfile(source / file, folder_of(source / file, target) / file)
    if (shared := target.parent / shared_folder(name, NGRAMS) / NGRAMS).exists():
        describe_ngrams(read_arrays(shared), shared.parent, checkpoint.encoder.preprocessing)
    described(checkpoint, name, evaluated).describe(target)


def shared_folder(name: str, file: str) -> str:
    """The folder of a file that models of the same data share: "everyday-ngrams" of "everyday-soft"."""
    return f"{name.rpartition('-')[0]}-{Path(file).stem}"


def folder_of(file: Path, model: Path) -> Path:
    """Where a file of a model goes: what models of the same data share lies in a folder of its own, if it is alike."""
    if file.name not in (NGRAMS, TUNED):
        return model
    shared = model.parent / shared_folder(model.name, file.name)
    shared.mkdir(parents=True, exist_ok=True)
    there = shared / file.name
    alike = not there.exists() or arrays_digest(read_arrays(there)) == arrays_digest(read_arrays(file))
    return shared if alike else model


def describe_ngrams(ngrams: Arrays, folder: Path, seen: Preprocessing) -> None:
    """Write the card of the visual n-grams that models share, which see photos so."""
    models = [name for name in SHIPS if shared_folder(name, NGRAMS) == folder.name]
    splits = [TITLES[data] for data in SHIPS[models[0]].data]
    text = NGRAMS_CARD.format(
        data=" and ".join(name for name, _ in splits),
        models=" and ".join(f"`{name}`" for name in models),
        fitted=" and ".join(split for _, split in splits),
        count=len(ngrams["prior"]),
        channels=len(ngrams["channels"]),
        directions=len(ngrams["offset"]),
        digest=arrays_digest(ngrams),
        prepared=f"{SHAPES[seen.resize]} of {seen.size} pixels",
    )
    write_text(folder / "README.md", text)


def described(checkpoint: Checkpoint, name: str, evaluated: Mapping[str, Mapping[str, Any]]) -> Checkpoint:
    """A checkpoint with what its card and configuration say when it ships.

    ``evaluated`` are its evaluations, "test" and "test-alone", say. It decodes as on val.
    """
    noted, model = checkpoint.training, SHIPS[name]
    val = next(found for ending, found in evaluated.items() if ending.endswith("val"))
    used = {key: val[key] for key in (*results.SEARCH, *results.FILTERS) if key in val}
    best = next(key for key in noted if key.startswith("validation_"))  # of Flickr8k and COCO, `model.best`
    checkpoint.training = {
        **about(model),
        "data": noted["data"],
        "preset": noted["preset"],
        **{f"stage_{number}": line for number, line in enumerate(commands(model.training, noted["seed"]), start=1)},
        **{key: noted[key] for key in ("seed", "epochs", "settings", best)},
        **({"without_reranker": noted["without_reranker"]} if model.reranked else {}),
    }
    checkpoint.generation = checkpoint.generation.merge(**used)
    if checkpoint.class_words is not None:
        vals = [found[model.best] for ending, found in evaluated.items() if ending.endswith("val")]
        checkpoint.training[best] = noted[best] | {checkpoint.generation.summary(): round(sum(vals) / len(vals), 2)}
    checkpoint.scores = {title: figures(evaluated[ending]) for title, ending in titles(model).items()}
    return checkpoint


def about(model: Model) -> dict[str, Any]:
    """What the card says of a model besides how it was trained."""
    coco = {"captions_without_photos": TEXTS_ARE, "credits": CREDITS} if "coco" in model.data else {}
    parts = {key: "; ".join(of[data] for data in model.data) for key, of in DATA.items()}
    hub = {**HUB, "datasets": list(model.data), "metrics": ["bleu", "meteor", "rouge", "cider"]}
    return {"purpose": model.purpose, **parts, **coco, "weights": model.weights, "hub": hub}


def titles(model: Model) -> dict[str, str]:
    """The ends of the names of a model's evaluations, by how its card calls them, in the card's order."""
    found = {}
    for ending, (data, split, by_itself) in model.evaluations().items():
        of = f"{data}, " if len(model.data) > 1 else ""
        found[f"{of}{split}{', without reranker' if by_itself else ''}"] = ending
    return dict(
        sorted(found.items(), key=lambda each: (each[0].removesuffix(", without reranker"), "alone" not in each[0]))
    )


def keep(models: Mapping[str, Model], output: Path, seeds: Sequence[int]) -> None:
    """Keep the evaluations of all seeds and, under the models' own names, of those that ship, in output/results/."""
    folder = output / "results"
    for name, model in models.items():
        ships = trained(output / "models" / name)["training"]["seed"]
        for ending in model.evaluations():
            for each in (f"{model.training}-{seed}" for seed in seeds):
                results.keep(read(each, ending, output), f"{each}-{ending}", folder)
            found = read(source_of(name, ships), ending, output)
            results.keep({**found, "model": name}, f"{name}-{ending}", folder)
    for file in (*output.glob("*-mean-test.json"), *output.glob("*-even-test.json")):
        results.keep(read_object(file, "results"), file.stem, folder)
    results.write_list(folder)


def install(output: Path) -> None:
    """Put the models and evaluations into this checkout, and write the tables of README and docs anew."""
    for model in (output / "models").iterdir():  # what a model had and the new one has not goes
        for file in {CLASS_WORDS, CONFIDENCE, NGRAMS, TUNED} - {each.name for each in model.iterdir()}:
            (SHIPPED / model.name / file).unlink(missing_ok=True)
    shutil.copytree(output / "models", SHIPPED, dirs_exist_ok=True)
    shutil.copytree(output / "results", results.RESULTS, dirs_exist_ok=True, ignore=shutil.ignore_patterns("README.md"))
    results.write_list()
    tables.write()


def describe() -> None:
    """Write the cards and configurations of the models in this checkout anew, with the scores in results/."""
    for name, model in SHIPS.items():
        evaluated = {ending: results.read(f"{name}-{ending}") for ending in model.evaluations()}
        checkpoint = described(Checkpoint.load(SHIPPED / name), name, evaluated)
        for title, ending in ELSEWHERE.get(name, {}).items():
            checkpoint.scores[title] = figures(results.read(f"{name}-{ending}"))
        checkpoint.describe(SHIPPED / name)
        if model.reranked:
            folder = SHIPPED / shared_folder(name, NGRAMS)
            describe_ngrams(read_arrays(folder / NGRAMS), folder, checkpoint.encoder.preprocessing)


def coco_folder(path: str) -> Path:
    """The folder of COCO's photos, which must be named so: evaluations are kept under the name of a table's folder."""
    if Path(path).resolve().name != "coco":
        raise argparse.ArgumentTypeError(f"{path} must be named coco, since its evaluations are kept under its name")
    return Path(path)


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, then keep the evaluations and print the table of scores."""
    parser = argparse.ArgumentParser(description="Make the shipped models, their scores and their cards.")
    parser.add_argument("data", nargs="?", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("output", nargs="?", type=Path, help="folder for models and evaluations")
    parser.add_argument("--coco", type=coco_folder, help="folder of COCO's photos, for the everyday model")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="seeds to train with")
    parser.add_argument("--set", action="append", default=[], help="setting of every training, for a trial")
    parser.add_argument("--list", action="store_true", help="list the stages, and make nothing")
    parser.add_argument("--install", action="store_true", help="put models and evaluations into this checkout too")
    parser.add_argument("--describe", action="store_true", help="write the shipped models' cards anew, and no more")
    options = parser.parse_args(given)
    if options.describe:
        describe()
        return
    if options.data is None or options.output is None:
        parser.error("give the folder of Flickr8k and a folder for models and evaluations")
    extra = [part for change in options.set for part in ("--set", change)]
    folders = {"flickr8k": options.data} | ({} if options.coco is None else {"coco": options.coco})
    stages = model_stages(folders, options.output, options.seeds, extra)
    stages += shipping_stages(folders, options.output, options.seeds)
    if options.list:
        list_stages(stages)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    run(stages)
    keep(made(folders), options.output, options.seeds)
    print(f"\n{tables.scores(options.output / 'results')}")
    if options.install:
        install(options.output)


if __name__ == "__main__":
    main()
