"""What an ablation of attention found: typed, as plain values for JSON, and as tables for a terminal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from show_attend_tell.analysis.ablation.controls import CONTROLS
from show_attend_tell.analysis.ablation.occlusion import VARIANTS, WAYS
from show_attend_tell.messages import aligned
from show_attend_tell.metrics.bootstrap import Interval, WordClass, plain
from show_attend_tell.metrics.comparison import METRICS, Difference

Captions = Literal["own", "reference"]
SHOWN = ("noun", "color", "verb", "function", "all")  # classes of words
COMPARED = ("other_word", "static", "other_photo", "patch", "random")  # with the most attended locations, as ratios


@dataclass(frozen=True)
class CaptionScores:
    """Scores ×100 of captions that a model makes with each control at every step, and the differences to its own."""

    photos: int
    differences: dict[str, dict[str, Difference]]  # by "own" and control, and by metric

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"photos": self.photos} | {
            name: {
                metric: {"score": one.system, "difference": one.difference, "low": one.low, "high": one.high}
                for metric, one in found.items()
            }
            for name, found in self.differences.items()
        }


@dataclass(frozen=True)
class Ablation:
    """What `run.ablation` found of a model's attention, in nats.

    An annotation of VGG-19 sees nearly the whole photo, so hiding annotations and hiding parts of the photo need not
    agree.
    """

    model: str
    data: str
    split: str
    photos: int
    seed: int
    settings: dict[str, Any]  # of the generation
    captions: Captions
    captions_forced: int
    words: int
    unclassified_share: float
    unclassified_words: list[str]  # the most frequent ones
    locations: int
    hidden: int  # of the locations, each time
    at_word: dict[str, WordClass]  # by class: −log p by the own α, and what each control costs at the word's own step
    captions_by_way: dict[str, int]  # on how many captions each way of hiding was measured
    occlusion: dict[str, dict[str, WordClass]]  # by way and class: the mean fall for each choice of hidden locations
    attention: dict[str, WordClass]  # by class: the entropy of α, and β if the model has a gate
    beta_noun_minus_function: Interval | None  # how much wider the gate opens for nouns; None without a gate
    moved: Interval  # the part of α that is elsewhere than at the word before
    captions_made: CaptionScores | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = plain(vars(self))
        settings = found.pop("settings")
        return {**found, **settings}

    def to_text(self) -> str:
        """Tables for a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        whose = "its own captions" if self.captions == "own" else "each photo's first reference"
        unknown = f" ({', '.join(self.unclassified_words)})" if self.unclassified_words else ""
        yield (
            f"ablation of attention of {self.model} on {self.photos} photos of {self.data} {self.split}, drawn by seed "
            f"{self.seed}"
        )
        yield ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.settings.items())
        yield f"words of {whose}: {self.words:,}, {100 * self.unclassified_share:.1f} % of them in no class{unknown}"
        yield "nats, with 95 % intervals over photos; – where a ratio's divisor is not significantly above zero, or"
        yield "where all words of a class are of one photo, so that there is no interval"
        yield from ("", "What replacing alpha costs a word, at its own step, everything before it unchanged")
        rows = {"-log p by its own alpha": "log_loss", **{title: name for name, title in CONTROLS.items()}}
        yield from _by_class(self.at_word, rows)
        yield from self._captions_made()
        for way, classes in self.occlusion.items():
            if classes:
                of = f"{self.hidden} of {self.locations} locations costs a word: {WAYS[way]}"
                yield from ("", f"What hiding {of} ({self.captions_by_way[way]} photos)")
                rows = {title: name for name, title in VARIANTS.items()}
                rows |= {f"own / {VARIANTS[name]}": f"ratio_{name}" for name in COMPARED}
                yield from _by_class(classes, rows)
        yield from ("", f"The maps (uniform attention has an entropy of {np.log(self.locations):.2f} nats)")
        yield from _by_class(self.attention, {name: name for name in self.attention["all"].means})
        if self.beta_noun_minus_function is not None:
            yield f"  beta of nouns minus that of function words: {_figure(self.beta_noun_minus_function)}"
        yield f"  from word to word {_figure(self.moved)} of alpha moves"

    def _captions_made(self) -> Iterator[str]:
        """The scores of captions made with each control."""
        if self.captions_made is None:
            return
        found = self.captions_made.differences
        yield ""
        yield f"Scores of the captions that it then makes of {self.captions_made.photos} photos, and what that changes"
        rows = [["", *(METRICS[metric].replace(" without penalty", " n. p.") for metric in found["own"])]]
        for name, title in {"own": "its own alpha", **CONTROLS}.items():
            if name in found:
                changes = [f"  {one.difference:+.1f} [{one.low:+.1f}, {one.high:+.1f}]" for one in found[name].values()]
                scores = [f"{one.system:.1f}" for one in found[name].values()]
                rows.append([title, *(scores if name == "own" else map(str.__add__, scores, changes))])
        yield from (f"  {line}" for line in aligned(rows))


def _by_class(classes: Mapping[str, WordClass], rows: Mapping[str, str]) -> Iterator[str]:
    """A line for each row, whose figure is named by its title, with a column for each class of words."""
    there = {kind: classes[kind] for kind in SHOWN if kind in classes}
    table = [["", *(f"{kind} ({found.words:,})" for kind, found in there.items())]]
    for title, name in rows.items():
        figures = [found.figures[name] if found.photos > 1 else None for found in there.values()]
        table.append([title, *map(_figure, figures)])
    yield from (f"  {line}" for line in aligned(table))


def _figure(found: Interval | None) -> str:
    return "–" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
