"""What attention adds to `everyday-soft`: the same decoder, data and stages with the same α at all places.

    python research/everyday_uniform.py flickr8k/ coco/ runs/          # hours; stop and start it as you like
    python research/everyday_uniform.py flickr8k/ coco/ runs/ --list   # say what is done and what is left
    python research/everyday_uniform.py flickr8k/ coco/ runs/ --write  # train nothing, compare what is kept

The evaluations are kept in results/. The tables that it prints compare all seeds on the test splits.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import results
import shipped
import stages
import tables
from shipped import Training
from stages import reporting

from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.files import read_object

NAME = "everyday-uniform"


def control(model: Training) -> Training:
    """A training of the everyday models with uniform attention."""
    start = None if model.start is None else model.start.replace("everyday", NAME)
    return replace(model, arguments=("--attention", "uniform", *model.arguments[2:]), start=start)


TRAININGS = {
    f"{NAME}{stage}": control(shipped.TRAININGS[f"everyday{stage or '-soft'}"]) for stage in ("-plain", "-texts", "")
}
ALONE = "-alone"  # the end of an evaluation's name without the reranker
WAYS = {ALONE: "without the reranker", "": "with the reranker"}


def all_stages(flickr8k: Path, coco: Path, output: Path, seeds: Sequence[int]) -> list[stages.Stage]:
    """The trainings and evaluations of every seed."""
    folders = {"flickr8k": flickr8k, "coco": coco}
    found = []
    for seed in seeds:
        for name, training in TRAININGS.items():
            given = shipped.arguments(name, seed, output, TRAININGS, coco=coco)
            data = [folders[each] for each in training.data]
            found.append(stages.training(data, output / f"{name}-{seed}", *given))
        found += shipped.evaluations(shipped.SHIPS["everyday-soft"], folders, output / f"{NAME}-{seed}")
    return found


def keep(output: Path, folder: Path = results.RESULTS) -> None:
    """Keep the evaluations on test that are there."""
    for file in sorted(output.glob(f"{NAME}-*-test*.json")):
        results.keep(read_object(file, "results"), file.stem, folder)
    results.write_list(folder)


def compared(dataset: Dataset, way: str, folder: Path = results.RESULTS) -> str:
    """`everyday-soft` minus the control on the test split of a data set, over photos and seeds, as a table."""
    ending = f"{dataset.name}-test{way}"
    control = results.kept([f"{NAME}-{seed}-{ending}" for seed in shipped.SEEDS], None, folder)
    systems = {"uniform α": control, "everyday-soft": tables.of_all_seeds("everyday-soft", ending, folder)}
    table = results.compared(systems, dataset, folder) or "There are no evaluations of the control to compare.\n"
    return f"## {dataset.name}, {WAYS[way]}\n\n{table}"


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Train what is missing, keep the evaluations, and print the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flickr8k", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("coco", type=shipped.coco_folder, help="folder of COCO's photos")
    parser.add_argument("output", type=Path, help="folder for models and evaluations")
    parser.add_argument("--seeds", nargs="+", type=int, default=shipped.SEEDS, help="seeds to train with")
    parser.add_argument("--list", action="store_true", help="list the stages, and make nothing")
    parser.add_argument("--write", action="store_true", help="compare what is kept, and make nothing else")
    options = parser.parse_args(given)
    wanted = all_stages(options.flickr8k, options.coco, options.output, options.seeds)
    if options.list:
        stages.list_stages(wanted)
        return
    if not options.write:
        options.output.mkdir(parents=True, exist_ok=True)
        stages.run(wanted)
    keep(options.output)
    for data in (options.flickr8k, options.coco):
        for way in WAYS:
            print(compared(read_dataset(data), way))


if __name__ == "__main__":
    main()
