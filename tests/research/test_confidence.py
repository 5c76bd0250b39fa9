"""The figures of the measurement of confidence, by hand."""

import confidence
import numpy as np
import pytest


def test_the_figures_by_hand() -> None:
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
