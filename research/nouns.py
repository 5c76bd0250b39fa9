"""How many of a model's nouns people use for the photo too, and how many of people's rare nouns a model uses.

    python research/nouns.py flickr8k/ coco/ --evaluations soft-val.json soft-coco-val.json
    python research/nouns.py flickr8k/ coco/ --kept    # the shipped models on test, kept in results/nouns.json

A noun of a caption is right if at least one of the photo's captions by people has it; a synonym counts as wrong.

A noun is rare if fewer than `RARE` training photos of all data folders have it in a caption. It counts for a photo if
two or more of the photo's captions have it. Its recall is the share of these pairs of a photo and a noun that the
model's captions say, with a 95 % interval over photos. The evaluations are those that `sat evaluate --json` wrote, of
photos of these folders. Singular and plural are one noun.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import results
from measure import Bootstrap, Interval
from stages import new_parser, reporting

from show_attend_tell.checkpoint.hub import shipped_models
from show_attend_tell.data.datasets import Example, read_dataset
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.errors import SatError
from show_attend_tell.files import list_of_objects, read_object, write_text

KEPT = results.RESULTS / "nouns.json"
NOT_USUAL = ("-alone", "-reranked-test", "-mean-test")  # the ends of names of evaluations by other settings
RARE = 20  # training photos
SAID = 2  # captions of a photo

Captioned = Sequence[tuple[set[str], Example]]  # the nouns of a photo's caption, and the photo


def nouns(words: Sequence[str]) -> set[str]:
    """The nouns of a caption, in the singular."""
    return {form for word in words if part_of_speech(word) == "noun" and (form := singular(word))}


def named(example: Example, captions: int) -> set[str]:
    """The nouns that so many of a photo's captions have."""
    counts = Counter(noun for words in example.captions for noun in nouns(words))
    return {noun for noun, count in counts.items() if count >= captions}


def read(file: str, evaluation: dict[str, Any], photos: dict[str, Example]) -> Captioned:
    """The nouns of an evaluation's captions. Raises `SatError` for photos that the data do not have."""
    rows = list_of_objects(evaluation, "results", file)
    if unknown := [row["photo"] for row in rows if row["photo"] not in photos]:
        raise SatError(f"{file} captions {unknown[0]}, which is in none of the data: give its data folder too")
    return [(nouns(str(row["caption"]).split()), photos[str(row["photo"])]) for row in rows]


def recall(captioned: Captioned, rare: set[str]) -> tuple[int, Interval]:
    """How many pairs of a photo and a rare noun there are, and which share of them the captions say."""
    return share([[noun in told for noun in named(photo, SAID) & rare] for told, photo in captioned])


def right(captioned: Captioned) -> tuple[int, Interval]:
    """How many nouns the captions have, and which share of them is right."""
    by_people = [(told, named(photo, 1)) for told, photo in captioned]
    return share([[noun in people for noun in told] for told, people in by_people])


def share(found: Sequence[Sequence[bool]]) -> tuple[int, Interval]:
    """How many cases the photos have together, and which share of them is true."""
    where = [number for number, cases in enumerate(found) for _ in cases]
    if not where:
        raise SatError("no photo of the evaluation has such a noun: give another evaluation")
    true = [float(case) for cases in found for case in cases]
    return len(where), Bootstrap(len(found), 0)(np.array(true), np.array(where)).interval()


def keep(photos: dict[str, Example]) -> None:
    """Keep the share of right nouns of each kept evaluation of a shipped model on test."""
    found = {}
    for name in results.names():
        evaluation = results.read(name)
        if evaluation["split"] == "test" and evaluation["model"] in shipped_models() and not name.endswith(NOT_USUAL):
            number, interval = right(read(name, evaluation, photos))
            found[name] = {"nouns": number, **dataclasses.asdict(interval)}
    write_text(KEPT, json.dumps(found, indent=1) + "\n")


@reporting
def main() -> None:
    """Print the recall of each evaluation."""
    parser = new_parser(__doc__)
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
        found = read(str(file), read_object(file, "results"), photos)
        for what, (number, interval) in (("pairs, recall", recall(found, rare)), ("nouns, right", right(found))):
            print(f"{file.stem}: {number} {what} {interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]")


if __name__ == "__main__":
    main()
