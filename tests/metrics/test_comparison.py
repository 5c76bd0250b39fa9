"""The paired bootstrap: known answers, coverage, and what it refuses."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import refused, sat

from show_attend_tell.errors import SatError
from show_attend_tell.metrics.caption_files import EvaluationFile
from show_attend_tell.metrics.comparison import Difference, compare, differences
from show_attend_tell.metrics.scores import Scores, score
from show_attend_tell.metrics.table import METRICS

REFERENCES = {f"{n}.jpg": [f"a {word} cat sleeps", f"one {word} cat on a mat"] for n, word in enumerate("bcdfghj")}
GOOD = {photo: texts[0] for photo, texts in REFERENCES.items()}
BAD = {**GOOD, "0.jpg": "a dog", "3.jpg": "a f cat sleeps on", "5.jpg": "a dog runs on sand"}

pytestmark = pytest.mark.usefixtures("without_java")


def statistics(cider: np.ndarray, right: np.ndarray | None = None, words: np.ndarray | None = None) -> Scores:
    """Photos of which only CIDEr is known, ×100, and maybe how many words are right and all."""
    bleu = np.ones((len(cider), 10))
    if right is not None and words is not None:
        bleu[:, 0], bleu[:, 4], bleu[:, 8:] = right, words, words[:, None]
    counts = {METRICS["bleu_1"].counts: bleu, METRICS["cider"].counts: cider / 100}
    return Scores(counts, [str(number) for number in range(len(cider))], {}, "split")


def of(metric: str, found: list[Difference]) -> Difference:
    (one,) = [one for one in found if one.metric == metric]
    return one


def test_a_difference_that_every_photo_has_is_certain():
    """The photos are drawn alike for both: apart, the interval would be as wide as the photos differ."""
    cider = np.arange(11.0)
    for same in differences([statistics(cider)], [statistics(cider)], resamples=700):
        assert same.difference == same.low == same.high == 0 and same.first == same.system
    one = of("cider", differences([statistics(cider)], [statistics(cider + 3)], resamples=700))
    assert (one.first, one.system) == (pytest.approx(5), pytest.approx(8))
    assert (one.difference, one.low, one.high) == (pytest.approx(3), pytest.approx(3), pytest.approx(3))


@pytest.mark.acceptance
def test_the_intervals_cover_the_truth_as_often_as_they_say():
    """Of a mean, and of BLEU, which is a ratio of sums: 300 data sets of 61 photos, drawn with a known difference."""
    generator = np.random.default_rng(2)
    covered = {"cider": 0, "bleu_1_no_brevity": 0}
    for number in range(300):
        photo = generator.normal(50, 30, 61)  # how easy it is, which both systems share
        words = generator.integers(7, 14, 61)
        systems = [
            statistics(
                photo + shift + generator.normal(0, 10, 61), generator.binomial(words, share).astype(float), words
            )
            for shift, share in ((0, 0.60), (2, 0.65))
        ]
        found = differences(systems[:1], systems[1:], resamples=400, seed=number)
        for metric, truth in (("cider", 2), ("bleu_1_no_brevity", 5)):
            covered[metric] += of(metric, found).low <= truth <= of(metric, found).high
    assert all(0.91 <= times / 300 <= 0.98 for times in covered.values()), covered


@pytest.mark.acceptance
def test_seeds_are_resampled_too():
    """Trainings that differ more than photos do: photos alone would promise too much."""
    generator = np.random.default_rng(3)
    together = apart = 0
    for number in range(100):
        photo = generator.normal(50, 30, 61)
        trainings = [statistics(photo + effect + generator.normal(0, 1, 61)) for effect in generator.normal(2, 3, 8)]
        base = [statistics(photo)]
        one = of("cider", differences(base, trainings, resamples=400, seed=number))
        together += one.low <= 2 <= one.high
        one = of("cider", differences(base, trainings[:1], resamples=400, seed=number))
        apart += one.low <= 2 <= one.high
    assert together >= 85 and apart <= 30, (together, apart)


def evaluation(captions: dict[str, str], name: str = "a.json", **changes: object) -> EvaluationFile:
    given = {"tokens": "split", "references": {photo: REFERENCES[photo] for photo in captions}}
    return EvaluationFile(file=Path(name), captions=captions, **{**given, **changes})


def test_evaluations_are_compared_photo_by_photo():
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    backwards = evaluation(dict(reversed(BAD.items())))
    found = compare({"good": [evaluation(GOOD)], "bad": [backwards], "copy": [evaluation(GOOD)]}, show=False)
    assert (found.first, found.photos, found.trainings) == ("good", 7, {"good": 1, "bad": 1, "copy": 1})
    scores = score(BAD, REFERENCES).corpus
    there = [name for name, metric in METRICS.items() if metric.needs != "English"]
    assert [one.metric for one in found.differences["bad"]] == there
    for one in found.differences["bad"]:
        assert one.system == pytest.approx(scores[one.metric]), one.metric
        assert one.difference == pytest.approx(one.system - one.first), one.metric
        assert one.low <= one.difference <= one.high, one.metric
    assert all(one.difference == 0 for one in found.differences["copy"])
    assert found.missing["meteor"] == "Java is not installed (on Debian: apt install default-jre-headless)"


def test_evaluations_that_cannot_be_compared_are_refused():
    first = evaluation(GOOD)
    fewer = {photo: text for photo, text in GOOD.items() if photo != "4.jpg"}
    other = {**REFERENCES, "2.jpg": ["a cat"]}
    for second, message in (
        (evaluation(fewer, "b.json"), r"b\.json and a\.json have other .*4\.jpg', or one of them lacks it"),
        (evaluation(GOOD, "b.json", references=other), r"b\.json and a\.json have other references .* '2\.jpg'"),
        (evaluation(GOOD, "b.json", tokens="ptb"), r"b\.json compares ptb tokens and a\.json split tokens"),
    ):
        with pytest.raises(SatError, match=message):
            compare({"a": [first], "b": [second]}, show=False)
    with pytest.raises(SatError, match="two systems or more"):
        compare({"a": [first]}, show=False)
    assert "1 is not in the range x>=100" in refused("compare", "a.json", "b.json", "--resamples", 1, code=2)
    alone = evaluation({"4.jpg": GOOD["4.jpg"]})
    one = compare({"a": [alone], "b": [alone]}, show=False)
    assert one.notes()[0].startswith("1 photo, ") and "the intervals say nothing" in one.notes()[1]


def test_sat_compare(tmp_path):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    for name, captions in (("good-1", GOOD), ("good-2", GOOD), ("bad", BAD)):
        results = [{"photo": p, "caption": t, "references": REFERENCES[p]} for p, t in captions.items()]
        (tmp_path / f"{name}.json").write_text(json.dumps({"tokens": "split", "results": results}))
    good, bad = f"{tmp_path}/good-1.json,{tmp_path}/good-2.json", f"{tmp_path}/bad.json"
    command = ("compare", bad, good, "--resamples", 300)
    lines = sat(*command).stdout.splitlines()
    assert re.split(r" *\| *", lines[0]) == [
        "",
        "",
        "bad",
        "good-1,good-2 (mean of 2)",
        "difference",
        "95 % interval",
        "",
    ]
    assert lines[2].startswith("| BLEU-1 ") and len({len(line) for line in lines[:12]}) == 1  # aligned
    cider, notes = next(line for line in lines if line.startswith("| CIDEr")), " ".join(lines[12:])
    assert "7 photos, split tokens" in notes and "300 resamples, seed 0" in notes
    assert "another seed changes bad." in notes and "METEOR is left out: Java" in notes

    found = json.loads(sat(*command, "--json", "-").stdout)
    assert found["trainings"] == {"bad": 1, "good-1,good-2": 2} and found["first"] == "bad"
    row = found["differences"]["good-1,good-2"]["cider"]
    assert row["interval"][0] <= row["difference"] <= row["interval"][1]
    assert [f"{row['first']:.2f}", f"{row['system']:.2f}", f"{row['difference']:+.2f}"] == cider.split()[3:8:2]

    (tmp_path / "link.json").symlink_to("good-1.json")
    for read in (bad, tmp_path / "link.json"):
        assert "is read by this command, and would be overwritten" in refused(*command, "--json", read)
    for others, why in (
        ((), "two systems or more"),
        ((tmp_path / "no.json",), "cannot read"),
        ((",",), "nothing to compare"),
    ):
        assert why in refused("compare", bad, *others)
