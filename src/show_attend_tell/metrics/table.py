"""The table of metrics: scores, comparisons, cards, commands and pages have one entry for each of `METRICS`.

N captions, one of each photo · R corpora of these photos.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from show_attend_tell.metrics.bleu import bleu_counts, brevity_penalty, precisions
from show_attend_tell.metrics.bootstrap import Array
from show_attend_tell.metrics.java import Java, meteor_of, scorer_module
from show_attend_tell.registries import Registry


@dataclass(frozen=True)
class Texts:
    """What metrics compare: texts whose words are separated by single spaces."""

    captions: Sequence[str]  # (N)
    references: Sequence[Sequence[str]]  # of each caption
    java: Java  # the programs of METEOR and SPICE


@dataclass(frozen=True)
class Metric:
    """A metric: what each caption adds to it, and what that makes of a corpus and of a caption, ×100."""

    label: str  # in tables and on pages
    counts: Callable[[Texts], Array]  # (N,) or (N, ·), computed once for all metrics that share it; raises `JavaError`
    # (R,) of sums (R, ·) and the number of photos (R,); by default the mean over the photos
    corpus: Callable[[Array, Array], Array] = lambda sums, photos: 100 * sums / photos
    # (N,) of the counts; None where a single caption has no score
    each: Callable[[Array], Array] | None = lambda counts: 100 * counts
    needs: Literal["English"] | None = None  # tokens of English
    higher_is_better: bool = True


def bleu(texts: Texts) -> Array:
    """`bleu_counts`."""
    return bleu_counts(
        [text.split() for text in texts.captions], [[text.split() for text in each] for each in texts.references]
    )


def by_pycocoevalcap(module: str, scorer: str) -> Callable[[Texts], Array]:
    """A score of each caption from pycocoevalcap."""

    def counts(texts: Texts) -> Array:
        references = dict(enumerate(texts.references))
        captions = {photo: [text] for photo, text in enumerate(texts.captions)}
        return np.array(getattr(scorer_module(module), scorer)().compute_score(references, captions)[1])

    return counts


def _bleu(n: int, *, brevity: bool) -> Metric:
    def corpus(sums: Array, photos: Array) -> Array:
        plain = precisions(sums)
        values: Array = (brevity_penalty(sums) * plain if brevity else plain)[:, n - 1]
        return values

    return Metric(f"BLEU-{n}" if brevity else f"BLEU-{n} without penalty", bleu, corpus, each=None)


# by the name in files
_OURS = {
    **{f"bleu_{n}": _bleu(n, brevity=True) for n in range(1, 5)},
    **{f"bleu_{n}_no_brevity": _bleu(n, brevity=False) for n in range(1, 5)},
    "meteor": Metric(
        "METEOR",
        lambda texts: texts.java.meteor(texts.captions, texts.references),
        corpus=lambda sums, photos: 100 * meteor_of(sums),
        each=lambda counts: 100 * meteor_of(counts),
        needs="English",
    ),
    "rouge_l": Metric("ROUGE-L", by_pycocoevalcap("rouge.rouge", "Rouge")),
    "cider": Metric("CIDEr", by_pycocoevalcap("cider.cider", "Cider")),
    "spice": Metric("SPICE", lambda texts: texts.java.spice(texts.captions, texts.references), needs="English"),
}
METRICS: Registry[Metric] = Registry("a metric", "metrics", _OURS)


def besides_bleu() -> dict[str, str]:
    """The labels of the metrics of a corpus that are not BLEU, by their names."""
    return {name: metric.label for name, metric in METRICS.items() if not name.startswith("bleu")}
