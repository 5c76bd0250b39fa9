"""The figures of programs, by hand: intervals over photos, how far confidence can be trusted, and nouns."""

from dataclasses import astuple

import coco
import confidence
import numpy as np
import pytest
from measure import Bootstrap, Interval, Mean


def test_intervals_come_from_photos_and_not_from_words():
    values, photos = np.repeat([0.0, 1.0], 1000), np.repeat([0, 1], 1000)
    assert Bootstrap(2, 0)(values, photos).interval() == Interval(0.5, 0.0, 1.0)
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(40):
        of_photo = rng.normal(2, 1, 30)
        photos = np.repeat(np.arange(30), rng.integers(3, 8, 30))
        found = Bootstrap(30, trial)(of_photo[photos] + rng.normal(0, 0.1, len(photos)), photos).interval()
        covered += found.low < 2 < found.high
    assert 34 <= covered < 40  # about 95 %


def test_a_rare_class_and_a_ratio_over_nothing_have_honest_intervals():
    rare = Bootstrap(9, 0)(np.array([3.0]), np.array([4]))
    assert rare.interval() == Interval(3.0, 3.0, 3.0)  # resamples without the photo do not count
    missing = Bootstrap(9, 0)(np.array([3.0, np.nan]), np.array([4, 5]))
    assert missing.interval() == rare.interval()
    spread = np.linspace(-1, 5, 201)
    assert rare.over(Mean(2.0, spread)) is None
    ratio = Mean(6.0, np.full(201, 6.0)).over(Mean(3.0, np.linspace(2, 4, 201)))
    assert ratio is not None and astuple(ratio) == pytest.approx((2.0, 6 / 3.95, 6 / 2.05))


def test_the_figures_by_hand():
    scores, right = np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True])
    assert confidence.auroc(scores, right) == pytest.approx((1 + 0.5 + 1 + 1) / 4)  # of four pairs, one is equal
    sure = np.repeat([0.2, 0.8], 50)
    assert confidence.calibration_error(sure, np.tile([True, False], 50)) == pytest.approx(0.3)
    photo, of_photos = np.array([0, 0, 1, 1]), np.array([[0.2, -1.0], [0.6, -2.0]])
    chosen = {0.0: [(50.0, 1, 2), (90.0, 1, 2)]}
    found = confidence.figures([scores, right, photo, -scores], of_photos, chosen)
    assert found["auroc"] == 0.875 and found["auroc_of_log_p"] == 0.125
    assert (found["cider"], found["cider_of_half_by_confidence"], found["cider_of_half_by_log_p"]) == (70, 90, 50)
    assert found["min_confidence"] == [{"least": 0, "right": 0.5, "nouns_a_caption": 2, "cider": 70}]


def test_the_list_of_coco_s_photos_has_the_splits_that_the_models_know():
    known = list(coco.splits().values())
    assert [known.count(split) for split in ("train", "val", "test")] == [1757, 200, 300]
