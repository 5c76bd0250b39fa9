"""The arithmetic of what a review finds and teaches, by hand."""

import numpy as np
import pytest
from reviews import found_after, least_trusted_first, of_people
from teaching import summary

from show_attend_tell.metrics.cider import CiderD


def test_the_share_of_wrong_captions_that_is_found():
    order = least_trusted_first([0.9, None, 0.1, 0.7, 0.3])
    assert order == [2, 4, 1, 3, 0]  # a caption without confidence counts as 0.5
    wrong = np.array([1.0, 0, 1, 0, 1])
    times = np.array([[1.0, 1, 1, 1, 1], [0, 0, 1, 0, 4]])
    assert found_after(0.4, order, wrong, times) == pytest.approx([2 / 3, 2 / 5])
    assert found_after(0.5, order, wrong, times)[0] == pytest.approx(2 / 3)  # half of a right caption more


def test_a_person_is_compared_with_the_others():
    captions = [["a", "dog"], ["a", "dog"], ["two", "red", "cats"]]
    score = CiderD([captions, [["a", "boat"]], [["the", "sea"]]])
    first, second, third = of_people(captions, score)
    assert first == second == pytest.approx(100 * score(["a", "dog"], captions[1:]))
    assert third == 0


def test_gains_are_beside_the_start_and_beside_as_many_at_random():
    ciders = {(0, "start"): [1.0, 1], (3, "random"): [4.0, 4], (3, "most unlike"): [6.0, 6]}
    cells = [
        {"kind": "charts", "draw": 2, "size": size, "selection": name, "ciders": values}
        for (size, name), values in ciders.items()
    ]
    unlike, at_random = summary(cells)
    assert unlike["gain"] == {"mean": 5, "low": 5, "high": 5}
    assert unlike["beside random"]["mean"] == 2
    assert "beside random" not in at_random
