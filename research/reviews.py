"""Does the order of `sat review` pay, and how often is a good caption one key away? On val, with controls.

    OMP_NUM_THREADS=1 python research/reviews.py runs/ --flickr8k flickr8k/ --coco coco/
    OMP_NUM_THREADS=1 python research/reviews.py runs/ --flickr8k flickr8k/ --coco coco/ --model everyday-hard

**Order.** Of the wrong captions, the share that a person has found after 10, 20 and 50 % of the photos. They come by
the confidence, the least trusted first as in `sat review`; by log p a word, the least probable first; or at random.
Wrong are the captions of val whose CIDEr is in the lower quartile. Of `everyday-soft`, the 197 captions that are judged
count too: 100 of COCO's test (results/readings.csv) and 97 of other pictures (results/hundred.json), whose log p is not
kept.

**Work.** A photo is one key away if its caption or one of those that the keys 1 to 9 take has the CIDEr of a person's
caption: the mean over the photo's captions by people, each against the others. CIDEr against all references is the
mean over the same subsets, so no side has more references. Controls: the first caption alone, and beside it as many
first captions of other photos, drawn at random, as the keys offer. The best is chosen by the references, so it is an
upper bound of what a person chooses.

Captions are kept in RUNS, a line for each photo, and the figures in results/reviews.json, by model. Intervals are
over photos (95 %).
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import RESULTS
from results import read as kept_evaluation
from stages import kept_rows, parser_of_runs, reporting

from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import PhotoError
from show_attend_tell.evaluation import searched
from show_attend_tell.files import read_json, write_text
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
from show_attend_tell.metrics.cider import CiderD
from show_attend_tell.review.background import OTHERS
from show_attend_tell.review.order import doubt
from show_attend_tell.review.table import Decided, Row
from show_attend_tell.vision.feature_cache import default_cache

SHARES = (0.1, 0.2, 0.5)  # of the photos that are looked at
FIGURES = RESULTS / "reviews.json"
Array = NDArray[Any]


# Captions


def captions_of(captioner: Captioner, dataset: Dataset, split: str, cache: Path, file: Path) -> list[dict[str, Any]]:
    """The captions of a split, a line of the file for each photo; those that the file has are read.

    A line has the ``photo``, its ``caption`` as words, the ``others`` that the review offers, the ``confidence``, log p
    a word, and the captions by ``people``.
    """
    if file.exists():
        return kept_rows(file)
    config, vocabulary = captioner.resolve_config(), captioner.checkpoint.vocabulary
    lines = []
    for examples, _, found in searched(captioner, dataset, split, config, cache=cache):
        for example, hypotheses in zip(examples, found, strict=True):
            caption = captioner.assemble(hypotheses, config)
            said = [" ".join(each.said(vocabulary, compared=True)).split() for each in hypotheses]
            others = [words for words in said[1 : 1 + OTHERS] if words != said[0]]
            lines.append(
                {
                    "photo": example.name,
                    "caption": said[0],
                    "others": others,
                    "confidence": caption.confidence,
                    "log_p": log_p_a_word(caption),
                    "people": [list(words) for words in example.captions],
                }
            )
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))
    return lines


def log_p_a_word(caption: Caption) -> float:
    """Log p of a caption by the number of its words, the end token included."""
    return caption.log_probability / (len(caption.words) + caption.complete or 1)


# Order


def least_trusted_first(confidence: Sequence[float | None]) -> list[int]:
    """The order in which `sat review` shows captions of this confidence."""
    rows = [
        Row(Path(), str(number), f"{number:06}", Decided("a caption"), confidence=value)
        for number, value in enumerate(confidence)
    ]
    return [int(row.key) for row in sorted(rows, key=doubt)]


def found_after(share: float, order: Sequence[int], wrong: Array, times: Array) -> Array:
    """The share of wrong captions (R,) among the first ``share`` of the photos, each of which counts ``times`` (R, N).

    A photo at the border counts in part.
    """
    times, wrong = times[:, order], wrong[order]
    before = times.cumsum(1) - times
    looked_at = np.clip(share * times.sum(1, keepdims=True) - before, 0, times)
    return np.asarray((looked_at @ wrong) / (times @ wrong))


def order_figures(confidence: Sequence[float | None], log_p: Sequence[float] | None, wrong: Array) -> dict[str, Any]:
    """The shares found in each order, after each of `SHARES`, and the differences to log p, with intervals.

    At random, `SHARES` themselves are expected.
    """
    photos = len(wrong)
    times = draw(np.random.default_rng(0), photos, photos, RESAMPLES)
    times = np.concatenate([np.ones((1, photos)), times[times @ wrong > 0]])  # first as they are
    orders = {"least trusted first": least_trusted_first(confidence)}
    if log_p is not None:
        orders["log p a word"] = np.argsort(log_p, kind="stable").tolist()
    figures: dict[str, Any] = {"photos": photos, "wrong": int(wrong.sum())}
    for share in SHARES:
        found = {name: found_after(share, order, wrong, times) for name, order in orders.items()}
        if log_p is not None:
            found["difference"] = found["least trusted first"] - found["log p a word"]
        figures[f"{100 * share:.0f} %"] = {name: with_interval(values) for name, values in found.items()}
    return figures


def with_interval(values: Array) -> dict[str, float]:
    """A figure (1 + R,), of the photos as they are and then of resamples, for JSON."""
    low, high = interval(values[1:])
    return {
        name: round(value, 4)
        for name, value in zip(("mean", "low", "high"), (float(values[0]), low, high), strict=True)
    }


def judged(captioner: Captioner, coco: Path) -> tuple[dict[str, Any], int]:
    """The order of the 197 captions that are judged, and how many of COCO's 100 the model still makes word for word.

    "To mend" counts those that are right in part too.
    """
    rows = list(csv.DictReader((RESULTS / "readings.csv").open(encoding="utf-8", newline="")))
    kept = {row["photo"]: row for row in kept_evaluation("everyday-soft-coco-test")["results"]}
    captions = captioner.stream([coco / "images" / row["photo"] for row in rows])
    confidence: list[float | None] = []
    same = 0
    for row, caption in zip(rows, captions, strict=True):
        if isinstance(caption, PhotoError):
            raise caption
        confidence.append(caption.confidence)
        same += caption.text == row["caption"]
    lengths = [len(row["caption"].split()) + 1 for row in rows]
    log_p = [kept[row["photo"]]["log_probability"] / length for row, length in zip(rows, lengths, strict=True)]
    pictures = [each["today"] for each in read_json(RESULTS / "hundred.json")["pictures"]]
    trust = [np.mean([value for _, value, _ in each["nouns"]]) if each["nouns"] else None for each in pictures]
    verdicts = [row["reading"] for row in rows]
    others = [each["verdict"] for each in pictures]
    figures: dict[str, Any] = {}
    for title, of_those in (("wrong", {"wrong"}), ("to mend", {"wrong", "partly", "part"})):
        figures |= {
            f"COCO test, {title}": order_figures(confidence, log_p, marked(verdicts, of_those)),
            f"other pictures, {title}": order_figures(trust, None, marked(others, of_those)),
            f"both, {title}": order_figures([*confidence, *trust], None, marked([*verdicts, *others], of_those)),
        }
    return figures, same


def marked(verdicts: Sequence[str], of_those: set[str]) -> Array:
    """1 for each verdict that is one of those, else 0 (N,)."""
    return np.array([verdict in of_those for verdict in verdicts], dtype=float)


# Work


def one_key_away(lines: Sequence[dict[str, Any]], score: CiderD) -> dict[str, Any]:
    """How many of 100 photos have a caption with the CIDEr of a person's, and the mean CIDEr of the best caption."""
    chance = np.random.default_rng(0)
    people = np.array([of_people(line["people"], score) for line in lines])
    ciders = {"first": [], "keys": [], "random": []}  # type: dict[str, list[float]]
    for number, line in enumerate(lines):
        strangers = chance.permutation([other for other in range(len(lines)) if other != number])
        drawn = [lines[other]["caption"] for other in strangers[: len(line["others"])]]
        first, *rest = (100 * score(words, line["people"]) for words in [line["caption"], *line["others"], *drawn])
        ciders["first"].append(first)
        ciders["keys"].append(max([first, *rest[: len(line["others"])]]))
        ciders["random"].append(max([first, *rest[len(line["others"]) :]]))
    times = draw(np.random.default_rng(0), len(lines), len(lines), RESAMPLES)
    weights = np.concatenate([np.ones((1, len(lines))), times]) / len(lines)
    figures: dict[str, Any] = {
        "photos": len(lines),
        "keys": float(np.mean([len(line["others"]) for line in lines])),
        "CIDEr of people": with_interval(weights @ people.mean(1)),
    }
    for name, values in ciders.items():
        best = np.array(values)
        figures[name] = {
            "CIDEr": with_interval(weights @ best),
            "of 100, as a person": with_interval(100 * weights @ (best >= people.mean(1))),
            "of 100, as the least of five people": with_interval(100 * weights @ (best >= people.min(1))),
        }
    return figures


def of_people(captions: Sequence[Sequence[str]], score: CiderD) -> list[float]:
    """CIDEr ×100 of each caption by a person against those of the others."""
    return [
        100 * score(caption, [*captions[:number], *captions[number + 1 :]]) for number, caption in enumerate(captions)
    ]


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure, and keep the figures of the model."""
    parser = parser_of_runs(__doc__)
    parser.add_argument("--model", default="everyday-soft")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    options = parser.parse_args(given)
    options.output.mkdir(parents=True, exist_ok=True)
    captioner = Captioner.from_pretrained(options.model)
    figures: dict[str, Any] = {"order": {}, "work": {}}
    for kind, title in (("coco", "COCO val"), ("flickr8k", "Flickr8k val")):
        dataset = read_dataset(getattr(options, kind)).retokenize(captioner.checkpoint.vocabulary.tokenizer)
        file = options.output / f"{options.model}-{kind}.jsonl"
        lines = captions_of(captioner, dataset, "val", options.cache, file)
        score = CiderD([line["people"] for line in lines])
        ciders = np.array([score(line["caption"], line["people"]) for line in lines])
        wrong = (ciders <= np.quantile(ciders, 0.25)).astype(float)
        confidence, log_p = ([line[name] for line in lines] for name in ("confidence", "log_p"))
        figures["order"][f"{title}, lower quartile of CIDEr"] = order_figures(confidence, log_p, wrong)
        figures["work"][title] = one_key_away(lines, score)
    if options.model == "everyday-soft":
        of_judged, figures["captions made again"] = judged(captioner, options.coco)
        figures["order"] |= of_judged
    kept = read_json(FIGURES) if FIGURES.exists() else {}
    write_text(FIGURES, json.dumps(kept | {options.model: figures}, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
