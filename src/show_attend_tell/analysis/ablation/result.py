"""What an ablation of attention found: typed, as plain values for JSON, and as tables for a terminal."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from show_attend_tell.analysis.ablation.controls import CONTROLS
from show_attend_tell.analysis.ablation.occlusion import VARIANTS, WAYS
from show_attend_tell.metrics.bootstrap import Interval, Mean
from show_attend_tell.metrics.comparison import METRICS, Difference

Captions = Literal["own", "reference"]
SHOWN = ("noun", "color", "verb", "function", "all")  # classes of words
COMPARED = ("other_word", "static", "other_photo", "patch", "random")  # with the most attended locations, as ratios


@dataclass(frozen=True)
class WordClass:
    """Figures of the words of one class, each with a 95 % interval over photos."""

    words: int
    photos: int
    means: dict[str, Mean] = field(repr=False)
    ratios: dict[str, Interval | None] = field(default_factory=dict)  # None where the divisor is not surely above zero

    def with_ratios(self, name: str) -> "WordClass":
        """The same with the ratios of one mean to all others."""
        others = {other: mean for other, mean in self.means.items() if other != name}
        ratios = {f"ratio_{other}": self.means[name].over(mean) for other, mean in others.items()}
        return WordClass(self.words, self.photos, self.means, ratios)

    @property
    def figures(self) -> dict[str, Interval | None]:
        """The means and the ratios, by name."""
        return {name: mean.interval() for name, mean in self.means.items()} | self.ratios

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        figures = {name: None if found is None else asdict(found) for name, found in self.figures.items()}
        return {"words": self.words, "photos": self.photos, **figures}


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
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "settings":
                found |= value
            elif name in ("at_word", "attention"):
                found[name] = {kind: each.to_dict() for kind, each in value.items()}
            elif name == "occlusion":
                found[name] = {way: {kind: each.to_dict() for kind, each in of.items()} for way, of in value.items()}
            elif isinstance(value, Interval):
                found[name] = asdict(value)
            else:
                found[name] = value.to_dict() if isinstance(value, CaptionScores) else value
        return found

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
                yield ""
                yield (
                    f"What hiding {self.hidden} of {self.locations} locations costs a word: {WAYS[way]} "
                    f"({self.captions_by_way[way]} photos)"
                )
                rows = {title: name for name, title in VARIANTS.items()}
                rows |= {f"own / {VARIANTS[name]}": f"ratio_{name}" for name in COMPARED}
                yield from _by_class(classes, rows)
        yield from ("", f"The maps (uniform attention has an entropy of {np.log(self.locations):.2f} nats)")
        known = self.attention["all"].means
        yield from _by_class(
            self.attention, {t: n for t, n in (("entropy", "entropy"), ("beta", "beta")) if n in known}
        )
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
        titles = [METRICS[metric].replace(" without penalty", " n. p.") for metric in found["own"]]
        yield _line("", *titles, width=32)
        for name, title in {"own": "its own alpha", **CONTROLS}.items():
            if name in found:
                cells = [
                    f"{one.system:.1f}"
                    + ("" if name == "own" else f"  {one.difference:+.1f} [{one.low:+.1f}, {one.high:+.1f}]")
                    for one in found[name].values()
                ]
                yield _line(title, *cells, width=32)


def _by_class(classes: Mapping[str, WordClass], rows: Mapping[str, str]) -> Iterator[str]:
    """A line for each row, whose figure is named by its title, with a column for each class of words."""
    there = [kind for kind in SHOWN if kind in classes]
    yield _line("", *(f"{kind} ({classes[kind].words:,})" for kind in there))
    figures = {kind: classes[kind].figures for kind in there}
    for title, name in rows.items():
        yield _line(title, *(_figure(figures[kind][name] if classes[kind].photos > 1 else None) for kind in there))


def _line(title: str, *cells: str, width: int = 23) -> str:
    return f"  {title:<38}" + "".join(f"  {cell:>{width - 2}}" for cell in cells)


def _figure(found: Interval | None) -> str:
    return "–" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
