"""What the programs share that measure models: how model, data, split and seed are said, and one report with intervals.

A figure has a 95 % interval over photos, by the bootstrap. Where a program prints ± it is one standard error.

N photos · R resamples · W words.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.files import check_writable, write_text
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
from show_attend_tell.settings import ATTENTION_MODES
from show_attend_tell.vision.feature_cache import default_cache


def arguments(
    description: str | None, *, split: str, photos: int | None = None, seeded: bool = True
) -> argparse.ArgumentParser:
    """A parser with the arguments that every such program has, to which a program adds its models and its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of captioned photos, as for sat train")
    parser.add_argument("--split", default=split, help=f"part of the data: train, val or test; default: {split}")
    if photos is not None:
        parser.add_argument("--photos", type=int, default=photos, help=f"photos, drawn by the seed; default: {photos}")
    if seeded:
        parser.add_argument("--seed", type=int, default=0, help="random seed; default: 0")
    parser.add_argument("--json", type=writable, metavar="FILE", help="file for all figures")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    parser.add_argument("--device", default="auto", help="device to compute on")
    return parser


def writable(name: str) -> Path:
    """A file to write at the end; raises `SatError` at once where it cannot be."""
    check_writable(Path(name))
    return Path(name)


def add_generation(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options of the generation config, the model's by default; `generation` reads them."""
    parser.add_argument("--attention-mode", choices=ATTENTION_MODES, help="default: the model's")
    for name in names:
        kind = int if name == "beam_size" else float
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help="default: the model's")


def generation(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of `add_generation`, by the names of the fields."""
    names = ("attention_mode", "beam_size", "length_penalty", "rerank_weight")
    given = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return asdict(self)


class Mean(NamedTuple):
    """A mean over words, and what it is in every resample of the photos: nan where a resample has no such word."""

    value: float
    resampled: NDArray[np.float64]  # (R,)

    def interval(self) -> Interval:
        """The mean and its 95 % interval."""
        return Interval(self.value, *interval(self.resampled))

    def minus(self, other: "Mean") -> "Mean":
        """The difference to another mean over the same photos."""
        return Mean(self.value - other.value, self.resampled - other.resampled)

    def over(self, other: "Mean") -> Interval | None:
        """The ratio to another mean over the same photos, or None unless that is above zero with its whole interval."""
        if interval(other.resampled)[0] <= 0:
            return None
        above = np.where(other.resampled > 0, other.resampled, np.nan)  # the odd resample beyond the interval
        return Mean(self.value / other.value, self.resampled / above).interval()


def auroc(scores: NDArray[Any], right: NDArray[np.bool_]) -> float:
    """The probability that a right noun has the higher score than a wrong one; equal scores count half."""
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    above = ranks[right].sum() - right.sum() * (right.sum() + 1) / 2
    return float(above / (right.sum() * (~right).sum()))


class Bootstrap:
    """Means over words (W,), each of one photo, with resamples of the photos: words of one photo are not independent.

    The same seed and number of photos give the same resamples.
    """

    def __init__(self, photos: int, seed: int) -> None:
        self.weights = draw(np.random.default_rng(seed), photos, photos, RESAMPLES)  # (R, N)

    def __call__(self, values: NDArray[Any], photos: NDArray[np.int64]) -> Mean:
        """The mean of values (W,) that belong to photos (W,), numbered from 0; those that are nan are left out."""
        number, there = self.weights.shape[1], ~np.isnan(values)
        values, photos = values[there], photos[there]
        sums = self.weights @ np.bincount(photos, values, minlength=number)
        counts = self.weights @ np.bincount(photos, minlength=number)
        return Mean(float(values.mean()), np.where(counts > 0, sums, np.nan) / np.maximum(counts, 1))

    def by_class(
        self, columns: Mapping[str, NDArray[Any]], photos: NDArray[np.int64], classes: Mapping[str, NDArray[np.bool_]]
    ) -> "dict[str, WordClass]":
        """The mean of every column (W,) over each class of words (W,) that there are, with the photos of the words."""
        return {
            name: WordClass(
                words=int(inside.sum()),
                photos=len(np.unique(photos[inside])),
                means={
                    column: self(values[inside], photos[inside])
                    for column, values in columns.items()
                    if not np.isnan(values[inside]).all()
                },
            )
            for name, inside in classes.items()
            if inside.any()
        }


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
        return replace(self, ratios={f"ratio_{other}": self.means[name].over(mean) for other, mean in others.items()})

    @property
    def figures(self) -> dict[str, Interval | None]:
        """The means and the ratios, by name."""
        return {name: mean.interval() for name, mean in self.means.items()} | self.ratios

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return plain({"words": self.words, "photos": self.photos, **self.figures})


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Results by name as plain values for JSON; those with a method ``to_dict`` are made plain by that."""
    found = {}
    for name, value in results.items():
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        found[name] = plain(value) if isinstance(value, Mapping) else value
    return found


Cell = Interval | str | None


@dataclass(frozen=True)
class Report:
    """What was measured of a model: facts (model, data, split, photos, seed, settings), figures by name, and tables."""

    facts: Mapping[str, Any]
    figures: Mapping[str, Any]
    tables: Sequence[str]  # lines for a terminal

    def __getitem__(self, name: str) -> Any:
        return self.facts[name] if name in self.facts else self.figures[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return plain({**self.facts, **self.figures})

    def finish(self, file: Path | None) -> None:
        """Print the report, and write all figures to the file, if one is named."""
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.facts.items() if value is not None))
        print("95 % intervals over photos; – where there is none", *self.tables, sep="\n")
        if file is not None:
            write_text(file, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def table(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[Cell]]) -> list[str]:
    """The lines of a table, with an empty one before."""
    cells = [["", *heads], *([name, *map(shown, row)] for name, row in rows.items())]
    return ["", title, *(f"  {line}" for line in aligned(cells))]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines: the first column begins at the left, and the others end at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))])
        for first, *cells in rows
    ]


def shown(found: Cell) -> str:
    """A figure with its interval; a dash where there is none."""
    if isinstance(found, str):
        return found
    return "–" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
