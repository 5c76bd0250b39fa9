"""What reading a data folder gives: photos with captions in splits, and a report of what was counted and left out."""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from show_attend_tell.data.tokenizers import KARPATHY, Tokenizer
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural

SPLITS = ("train", "val", "test")
REFERENCES = 5  # captions kept per photo of the paper's data sets (sec. 5.1)
# Why photos and captions are left out.
NO_CAPTION = "without a caption"
COPY = "whose exact copy is in another split"
NO_WORD = "without a word"
PAPERS = ("flickr8k", "flickr30k", "coco")  # the paper's data sets


class NoCaptions(SatError):
    """A folder in which there is no file of captions."""


@dataclass(frozen=True)
class Example:
    """One photo with its captions, as words and as they were written."""

    name: str  # the photo's file name (in custom data with its subfolder), unique in the data set
    photo: Path
    split: str
    captions: tuple[tuple[str, ...], ...]
    raw: tuple[str, ...]


@dataclass
class DataReport:
    """What was read, and everything that was put right or left out on the way."""

    photos: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))  # per split
    captions: dict[str, int] = field(default_factory=dict)  # per split
    left_out: dict[str, list[str]] = field(default_factory=dict)  # names of photos, by why they are left out
    captions_left_out: dict[str, int] = field(default_factory=dict)  # how many, by why they are
    sources: list[str] = field(default_factory=list)  # the files that were read, relative to the folder
    notes: list[str] = field(default_factory=list)  # how the files were read, where a person should know

    def leave_out(self, why: str, photo: str) -> None:
        """Note that a photo is left out."""
        self.left_out.setdefault(why, []).append(photo)

    def leave_out_captions(self, why: str, number: int) -> None:
        """Note that so many captions are left out, if any."""
        if number:
            self.captions_left_out[why] = self.captions_left_out.get(why, 0) + number

    def lines(self) -> list[str]:
        """Give the report as lines of text, to be printed before training starts."""
        counts = [
            f"{split}: {plural(self.photos[split], 'photo')}, {plural(self.captions[split], 'caption')}"
            for split in self.photos
        ]
        return [*counts, *self.remarks()]

    def remarks(self) -> list[str]:
        """The lines of the report but for the counts of each split: how the files were read, and what is left out."""
        photos = [f"{plural(len(names), 'photo')} {why}: {first_three(names)}" for why, names in self.left_out.items()]
        captions = [f"{plural(number, 'caption')} {why}" for why, number in self.captions_left_out.items()]
        return [*self.notes, *(f"left out: {what}" for what in photos + captions)]


@dataclass(frozen=True)
class Dataset:
    """Photos with captions, in splits; `report` says what was counted and left out while reading."""

    name: str
    folder: Path
    examples: tuple[Example, ...]
    report: DataReport
    custom: bool = True  # not one of the paper's data sets
    parts: tuple["Part", ...] = ()  # the data sets that this one joins, see `joined.join`
    tokenizer: Tokenizer = KARPATHY  # which has cut the captions into words

    def split(self, name: str) -> tuple[Example, ...]:
        """Give the examples of one split in the file's order; raises SatError where there are none."""
        examples = tuple(example for example in self.examples if example.split == name)
        if not examples:
            known = ", ".join(split for split, photos in self.report.photos.items() if photos)
            raise SatError(
                f"the data in {self.folder} has no split {name!r}; it has {known} (a table chooses in a column named "
                "split; without it a split gets photos where there are enough different ones)"
            )
        return examples

    def texts(self, split: str | None = None) -> list[str]:
        """All captions as they were written, of one split or of all."""
        return [raw for example in self.examples if split in (None, example.split) for raw in example.raw]

    def retokenize(self, tokenizer: Tokenizer) -> "Dataset":
        """The same photos in the words of another tokenizer; captions without a word are left out and counted."""
        if tokenizer == self.tokenizer:
            return self
        examples = []
        report = deepcopy(self.report)
        for example in self.examples:
            captions = [(tuple(tokenizer.words(raw)), raw) for raw in example.raw]
            kept = [caption for caption in captions if caption[0]]
            report.leave_out_captions(NO_WORD, len(captions) - len(kept))
            if kept:
                words, raw = zip(*kept, strict=True)
                examples.append(replace(example, captions=words, raw=raw))
            else:
                report.leave_out(NO_CAPTION, example.name)
        parts = tuple(replace(part, dataset=part.dataset.retokenize(tokenizer)) for part in self.parts)
        return replace(
            self, examples=tuple(examples), report=counted(report, examples), parts=parts, tokenizer=tokenizer
        )

    def without(self, names: Collection[str]) -> "Dataset":
        """The data set without the photos of those names, which the data sets that it joins lose too."""
        examples = tuple(example for example in self.examples if example.name not in names)
        parts = tuple(replace(part, dataset=part.dataset.without(part.own_names(names))) for part in self.parts)
        return replace(self, examples=examples, report=counted(self.report, examples), parts=parts)


def counted(report: DataReport, examples: Iterable[Example]) -> DataReport:
    """A report with the number of photos, and that of their captions, in each of its splits."""
    photos = dict.fromkeys(report.photos, 0)
    captions = {**photos}
    for example in examples:
        photos[example.split] += 1
        captions[example.split] += len(example.captions)
    return replace(deepcopy(report), photos=photos, captions=captions)


@dataclass(frozen=True)
class Part:
    """A data set that another one joins. The names of its photos there begin with its own name and a slash."""

    name: str
    dataset: Dataset
    weight: float = 1.0  # how often each of its training captions is shown in an epoch

    def own_names(self, names: Collection[str]) -> set[str]:
        """Of photos of the joined data set, the names that those of this part have in it alone."""
        return {name.removeprefix(f"{self.name}/") for name in names if name.startswith(f"{self.name}/")}


def repeat_by_weight(weights: Sequence[float], chance: random.Random) -> list[int]:
    """The numbers of what an epoch shows, each as often as its weight says; a fraction is a share, drawn at random."""
    of_weight: dict[float, list[int]] = defaultdict(list)
    for index, weight in enumerate(weights):
        of_weight[weight].append(index)
    shown: list[int] = []
    for weight, indices in of_weight.items():
        shown += indices * int(weight)
        shown += chance.sample(indices, round((weight - int(weight)) * len(indices)))
    return shown
