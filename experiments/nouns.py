"""How many of a model's nouns people use for the photo too, and how many of people's rare nouns a model uses.

    python experiments/nouns.py flickr8k/ coco/ --evaluations soft-val.json soft-coco-val.json
    python experiments/nouns.py flickr8k/ coco/ --kept    # the shipped models on test, kept in results/nouns.json

A noun of a caption is right if at least one of the photo's captions by people has it; a synonym counts as wrong.

A noun is rare if fewer than `RARE` training photos of all data folders have it in a caption. It counts for a photo if
two or more of the photo's captions have it. Its recall is the share of these pairs of a photo and a noun that the
model's captions say, with a 95 % interval over photos. The evaluations are those that `sat evaluate --json` wrote, of
photos of these folders. Singular and plural are one noun.
"""

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import results
from stages import reporting

from show_attend_tell.checkpoint.hub import shipped_models
from show_attend_tell.data.datasets import Example, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object, write_text
from show_attend_tell.metrics.bootstrap import Bootstrap, Interval

KEPT = results.RESULTS / "nouns.json"
NOT_USUAL = ("-alone", "-reranked-test")  # the ends of names of evaluations by other settings than the model's own
RARE = 20  # training photos
SAID = 2  # captions of a photo


def nouns(words: Sequence[str]) -> set[str]:
    """The nouns of a caption, in the singular."""
    return {form for word in words if part_of_speech(word) == "noun" and (form := singular(word))}


def named(example: Example, captions: int) -> set[str]:
    """The nouns that so many of a photo's captions have."""
    counts = Counter(noun for words in example.captions for noun in nouns(words))
    return {noun for noun, count in counts.items() if count >= captions}


def recall(evaluation: dict[str, Any], photos: dict[str, Example], rare: set[str]) -> tuple[int, Interval]:
    """How many pairs of a photo and a rare noun there are, and which share of them the captions say."""
    where, said = [], []
    rows = list_of_objects(evaluation, "results", "the evaluation")
    for number, row in enumerate(rows):
        told = nouns(str(row["caption"]).split())
        for noun in named(photos[str(row["photo"])], SAID) & rare:
            where.append(number)
            said.append(noun in told)
    if not where:
        raise SatError("no photo of the evaluation has a rare noun: give another evaluation")
    return len(where), Bootstrap(len(rows), 0)(np.array(said, dtype=float), np.array(where)).interval()


def right(evaluation: dict[str, Any], photos: dict[str, Example]) -> tuple[int, Interval]:
    """How many nouns the captions have, and which share of them is right."""
    where, said = [], []
    rows = list_of_objects(evaluation, "results", "the evaluation")
    for number, row in enumerate(rows):
        by_people = named(photos[str(row["photo"])], 1)
        for noun in nouns(str(row["caption"]).split()):
            where.append(number)
            said.append(noun in by_people)
    return len(where), Bootstrap(len(rows), 0)(np.array(said, dtype=float), np.array(where)).interval()


def keep(photos: dict[str, Example]) -> None:
    """Keep the share of right nouns of each kept evaluation of a shipped model on test."""
    found = {}
    for name in results.names():
        evaluation = results.read(name)
        if evaluation["split"] == "test" and evaluation["model"] in shipped_models() and not name.endswith(NOT_USUAL):
            number, share = right(evaluation, photos)
            found[name] = {"nouns": number, **dataclasses.asdict(share)}
    write_text(KEPT, json.dumps(found, indent=1) + "\n")


@reporting
def main() -> None:
    """Print the recall of each evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="folders that the models were trained on")
    parser.add_argument("--evaluations", type=Path, nargs="+", default=[], help="files of sat evaluate --json")
    parser.add_argument("--kept", action="store_true", help="keep the share of right nouns of the shipped models")
    given = parser.parse_args()
    examples = [example for folder in given.data for example in read_dataset(folder).examples]
    counts = Counter(noun for example in examples if example.split == "train" for noun in named(example, 1))
    rare = {noun for noun, count in counts.items() if count < RARE}
    photos = {example.name: example for example in examples}
    if given.kept:
        keep(photos)
    print(f"{len(rare)} nouns are in the captions of 1 to {RARE - 1} training photos")
    for file in given.evaluations:
        pairs, share = recall(read_object(file, "results"), photos, rare)
        print(f"{file.stem}: {pairs} pairs, recall {share.mean:.3f} [{share.low:.3f}, {share.high:.3f}]")
        number, share = right(read_object(file, "results"), photos)
        print(f"{file.stem}: {number} nouns, right {share.mean:.3f} [{share.low:.3f}, {share.high:.3f}]")


if __name__ == "__main__":
    main()
