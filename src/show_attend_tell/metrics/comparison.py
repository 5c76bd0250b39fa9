"""Whether one system's captions are better than another's: differences of scores with their 95 % intervals.

Every system is scored, as a corpus, on the same resampled photos (paired bootstrap). The score of a system of several
trainings is the mean of theirs, and its trainings are resampled too. S of them are drawn S − 1 at a time: drawn S at a
time, so few would vary too little, by a factor of (S − 1) / S (Rao & Wu 1988).

N photos · R resamples · S trainings of a system.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import Array, draw, interval
from show_attend_tell.metrics.caption_files import EvaluationFile, check_alike
from show_attend_tell.metrics.scores import Scores, score
from show_attend_tell.metrics.table import METRICS
from show_attend_tell.progress import Progress

_AT_ONCE = 500  # resamples, to keep their weights of the photos small


@dataclass(frozen=True)
class Difference:
    """How much higher a system's score is than the first system's, and the 95 % interval of that, ×100."""

    metric: str  # a key of `METRICS`
    first: float  # the scores themselves, the mean over the trainings
    system: float
    difference: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        scores = {"first": self.first, "system": self.system}
        return {**scores, "difference": self.difference, "interval": [self.low, self.high]}


def differences(
    first: Sequence[Scores], system: Sequence[Scores], *, resamples: int = 10_000, seed: int = 0
) -> list[Difference]:
    """Compare two systems by the paired bootstrap; each is given by S trainings' scores of the same N photos."""
    trainings = (first, system)
    size = len(first[0].names)
    before, after = (
        _mean_scores(each, np.ones((1, size)), np.full((1, len(each)), 1 / len(each))) for each in trainings
    )
    generator = np.random.default_rng(seed)
    found: dict[str, list[Array]] = {metric: [] for metric in METRICS if metric in before and metric in after}
    for start in range(0, resamples, _AT_ONCE):
        rows = min(_AT_ONCE, resamples - start)
        weights = draw(generator, size, size, rows)
        drawn = []
        for each in trainings:
            number = max(1, len(each) - 1)
            drawn.append(_mean_scores(each, weights, draw(generator, len(each), number, rows) / number))
        for metric, of_metric in found.items():
            of_metric.append(drawn[1][metric] - drawn[0][metric])
    result = []
    for metric, of_metric in found.items():
        scores = (float(before[metric][0]), float(after[metric][0]))
        result.append(Difference(metric, *scores, scores[1] - scores[0], *interval(np.concatenate(of_metric))))
    return result


def _mean_scores(trainings: Sequence[Scores], weights: Array, shares: Array) -> dict[str, Array]:
    """Each metric (R,) that all trainings have: its mean by ``shares`` (R, S), of photos by ``weights`` (R, N)."""
    scores = [training.weighted(weights) for training in trainings]
    return {
        metric: sum((shares[:, index] * each[metric] for index, each in enumerate(scores)), np.zeros(len(weights)))
        for metric in scores[0]
        if all(metric in each for each in scores)
    }


@dataclass(frozen=True)
class Comparison:
    """Systems compared with the first of them."""

    first: str
    differences: dict[str, list[Difference]]  # by the other systems' names
    trainings: dict[str, int]  # by all systems' names
    photos: int
    tokens: str
    resamples: int
    seed: int
    missing: dict[str, str]  # metrics that could not be computed for some system, and why

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        differences = {name: {one.metric: one.to_dict() for one in found} for name, found in self.differences.items()}
        return vars(self) | {"differences": differences}

    def notes(self) -> list[str]:
        """How the figures were made and what they leave out, a sentence or two a line."""
        lines = [
            f"{plural(self.photos, 'photo')}, {self.tokens} tokens, ×100; 95 % intervals by the paired bootstrap, "
            f"{self.resamples:,} resamples, seed {self.seed}."
        ]
        if self.photos == 1:
            lines.append("There is only one photo, so the intervals say nothing.")
        if single := [name for name, number in self.trainings.items() if number == 1]:
            lines.append(
                f"The intervals are over photos: they do not say how much another seed changes {', '.join(single)}."
            )
        if any(1 < number < 5 for number in self.trainings.values()):
            lines.append(
                "With fewer than five trainings of a system, the intervals are too narrow; with two, much too narrow."
            )
        lines += [f"{METRICS[metric].label} is left out: {reason}." for metric, reason in self.missing.items()]
        return lines

    def to_markdown(self) -> str:
        """Tables in Markdown, whose columns are aligned for a terminal."""
        parts = []
        for name, found in self.differences.items():
            rows: list[tuple[str, ...]] = [
                ("", self._title(self.first), self._title(name), "difference", "95 % interval")
            ]
            rows += [("---", *["---:"] * 4), *((METRICS[one.metric].label, *_figures(one)) for one in found)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
        notes = [textwrap.fill(note, 100, break_on_hyphens=False) for note in self.notes()]
        return "\n\n".join([*parts, *notes]) + "\n"

    def _title(self, name: str) -> str:
        number = self.trainings[name]
        return name if number == 1 else f"{name} (mean of {number})"


def _figures(one: Difference) -> Iterator[str]:
    for figure in ("{first:.2f}", "{system:.2f}", "{difference:+.2f}", "{low:+.2f} to {high:+.2f}"):
        yield figure.format(**vars(one)).replace("-", "−")


def compare(
    systems: Mapping[str, Sequence[EvaluationFile]], *, resamples: int = 10_000, seed: int = 0, show: bool = True
) -> Comparison:
    """Compare systems with the first of them, photo by photo; each is a list of evaluations, one for each training."""
    if len(systems) < 2 or not all(systems.values()):
        raise SatError(
            "there is nothing to compare: give two systems or more, each with an evaluation (or more, by commas)"
        )
    evaluations = [evaluation for each in systems.values() for evaluation in each]
    first = evaluations[0]
    for other in evaluations[1:]:
        check_alike(first, other)
    order = list(first.captions)

    scores: dict[str, list[Scores]] = {name: [] for name in systems}
    missing: dict[str, str] = {}
    with Progress(total=len(evaluations), desc="scores", unit="file", disable=not show) as bar:
        for name, each in systems.items():
            for evaluation in each:
                captions = {photo: evaluation.captions[photo] for photo in order}
                scores[name].append(score(captions, first.references, tokens=first.tokens))
                missing |= scores[name][-1].missing
                bar.update()
    name_of_first, *others = systems
    return Comparison(
        first=name_of_first,
        differences={
            name: differences(scores[name_of_first], scores[name], resamples=resamples, seed=seed)
            for name in Progress(others, desc="bootstrap", unit="system", disable=not show)
        },
        trainings={name: len(each) for name, each in systems.items()},
        photos=len(order),
        tokens=first.tokens,
        resamples=resamples,
        seed=seed,
        missing=missing,
    )
