"""Other ways to train the models of Flickr8k, and what they reach: the tables of research/notes/recipes.md.

    python research/recipes.py flickr8k/ runs/                   # all, hours; stop and start it as you like
    python research/recipes.py flickr8k/ runs/ paper-soft        # one recipe of `RECIPES`
    python research/recipes.py flickr8k/ runs/ --seeds 1 --list  # say what is done and what is left
    python research/recipes.py flickr8k/ runs/ --write           # train nothing, write what is kept

- The *fair pair*: soft attention with the hard model's windows, crops and missing gate, so that the two differ only in
  the attention mode and in what is minimized.
- The paper's own recipe (preset `paper`), soft, soft with λ = 0, and hard, once each.
- EfficientNet-Lite2 instead of VGG-19: soft attention, its control with uniform α, and hard attention.

Models start from those of `shipped.py`, in the same folder of runs. Scores are on test, without the reranker.
Evaluations are kept in results/, and what is compared comes from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import results
import shipped
import stages
import tables
from shipped import Training

from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.files import read_object, read_text, write_text

DOCUMENT = Path(__file__).parent / "notes" / "recipes.md"
RERANKED = "-reranked"  # the end of an evaluation's name with the reranker; the others are without it
ALONE = ("--set", "visual_ngrams=false")
ENCODER = ("--encoder", "efficientnet-lite2-1280")
SECOND = ("--epochs", "3", "--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3")
TRAININGS = {
    **shipped.TRAININGS,
    "soft-as-hard": Training(
        (
            *("--attention", "soft", "--epochs", "5", *ALONE),
            *("--set", "decoder.gate=false", "--set", "decoder.annotation_window=5", "--set", "crops=2"),
            *("--set", "learning_rate=5e-4", "--set", "scheduled_sampling=0.3"),
        ),
        start="soft",
    ),
    "paper-soft": Training(("--preset", "paper", "--attention", "soft", "--epochs", "10")),
    "paper-soft-0": Training(
        ("--preset", "paper", "--attention", "soft", "--epochs", "10", "--set", "soft.doubly_stochastic=0")
    ),
    "paper-hard": Training(("--preset", "paper", "--attention", "hard", "--epochs", "10")),
    "efficientnet-plain": Training(("--attention", "soft", *ENCODER, *ALONE)),
    "efficientnet-soft": Training(("--attention", "soft", *SECOND), start="efficientnet-plain"),
    "efficientnet-uniform-plain": Training(("--attention", "uniform", *ENCODER, *ALONE)),
    "efficientnet-uniform": Training(("--attention", "uniform", *SECOND, *ALONE), start="efficientnet-uniform-plain"),
    "efficientnet-hard": Training(
        ("--attention", "hard", "--epochs", "3", *ALONE, "--set", "crops=0"), start="efficientnet-soft"
    ),
}


@dataclass(frozen=True)
class Recipe:
    """A way to train a model."""

    title: str
    seeds: tuple[int, ...] = (1,)
    reranked: bool = False  # whether its captions are also scored with its reranker


RECIPES = {
    "soft-as-hard": Recipe("soft attention, trained as the hard model", shipped.SEEDS),
    "hard": Recipe("hard attention, by the argmax of α", shipped.SEEDS),
    "paper-soft": Recipe("the paper's recipe, soft attention"),
    "paper-soft-0": Recipe("the paper's recipe, soft attention with λ = 0"),
    "paper-hard": Recipe("the paper's recipe, hard attention"),
    "efficientnet-uniform": Recipe("EfficientNet-Lite2, uniform α", shipped.SEEDS),
    "efficientnet-soft": Recipe("EfficientNet-Lite2, soft attention", shipped.SEEDS, reranked=True),
    "efficientnet-hard": Recipe("EfficientNet-Lite2, hard attention"),
}


def evaluated(name: str, seed: int) -> str:
    """The name of a run's evaluation."""
    return f"{name}-{seed}-test"


def stages_of(name: str, data: Path, output: Path, seeds: Sequence[int]) -> list[stages.Stage]:
    """The trainings of a recipe, those that it starts from included, and its evaluations on test."""
    found = []
    for seed in seeds:
        found += shipped.trainings_to(name, seed, data, output, TRAININGS)
        model = output / f"{name}-{seed}"
        file = output / f"{evaluated(name, seed)}.json"
        reranked = RECIPES[name].reranked
        by_itself = partial(stages.alone, model) if reranked else tuple
        found.append(stages.evaluation(data, [model], file, "test", by_itself))
        if reranked:
            file = file.with_name(f"{file.stem}{RERANKED}.json")
            found.append(stages.evaluation(data, [model], file, "test"))
    return found


def keep(output: Path, folder: Path = results.RESULTS) -> None:
    """Keep the evaluations that are there."""
    for name, recipe in RECIPES.items():
        for seed in recipe.seeds:
            for ending in ("", RERANKED) if recipe.reranked else ("",):
                file = output / f"{evaluated(name, seed)}{ending}.json"
                if file.exists():
                    results.keep(read_object(file, "results"), file.stem, folder)
    results.write_list(folder)


def kept(name: str, folder: Path = results.RESULTS) -> list[str]:
    """The names of a recipe's evaluations that are kept; where no seed's is, that of the shipped model."""
    seeds = RECIPES[name].seeds if name in RECIPES else shipped.SEEDS
    return results.kept([evaluated(name, seed) for seed in seeds], results.SHIPPED.get(name), folder)


def seeds_of(names: Sequence[str]) -> str:
    """How many evaluations there are, for a row of their mean; nothing for one."""
    return f", {len(names)} seeds" if len(names) > 1 else ""


def compared(first: str, second: str, dataset: Dataset, folder: Path = results.RESULTS) -> str:
    """The second recipe minus the first, over photos and seeds, if both are kept."""
    systems = {RECIPES[name].title: kept(name, folder) for name in (first, second)}
    return results.compared(systems, dataset, folder)


def scores(folder: Path = results.RESULTS) -> str:
    """The scores of all recipes that are kept, and the paper's."""
    titles = {"soft": "the usual recipe, soft attention", **{name: recipe.title for name, recipe in RECIPES.items()}}
    rows = tables.heads("Flickr8k test", *tables.SHOWN.values())
    for name, title in titles.items():
        if names := kept(name, folder):
            rows.append(tables.row(f"{title}{seeds_of(names)}", names, folder))
    rows += [f"| the paper's {kind} attention | {figures} |" for kind, figures in tables.PAPER.items()]
    return "\n".join(rows) + "\n"


def finish(data: Path, output: Path) -> None:
    """Keep the evaluations and write the page's tables."""
    keep(output)
    dataset = read_dataset(data)
    made: dict[str, Callable[[], str]] = {
        "fair": partial(compared, "soft-as-hard", "hard", dataset),
        "encoders": partial(compared, "efficientnet-uniform", "efficientnet-soft", dataset),
        "scores": scores,
    }
    write_text(DOCUMENT, tables.with_tables(read_text(DOCUMENT), made, "recipes"))
    print(f"wrote {DOCUMENT}")


def main(given: Sequence[str] | None = None) -> None:
    """Train what is missing, keep the evaluations, and write the page."""
    known = {name: recipe.seeds for name, recipe in RECIPES.items()}
    stages.script("recipe", known, stages_of, finish, description=__doc__, given=given)


if __name__ == "__main__":
    main()
