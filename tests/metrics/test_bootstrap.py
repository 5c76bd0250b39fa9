"""The bootstrap: what is drawn, and its interval."""

import numpy as np

from show_attend_tell.metrics.bootstrap import draw, interval


def test_every_draw_has_its_number_of_things() -> None:
    drawn = draw(np.random.default_rng(1), 7, 5, 1100)
    assert drawn.shape == (1100, 7) and (drawn.sum(1) == 5).all() and drawn.max() > 1
    np.testing.assert_allclose(drawn.mean(0), 5 / 7, atol=0.1)
    assert (drawn == draw(np.random.default_rng(1), 7, 5, 1100)).all()


def test_the_interval_is_the_middle_of_what_is_a_number() -> None:
    assert interval(np.array([*np.arange(201.0), np.nan])) == (5, 195)
