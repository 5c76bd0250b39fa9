"""The scale of doubt: far photos and unlikely captions are doubted, and known photos evenly."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from show_attend_tell.errors import SatError
from show_attend_tell.rerank import doubt
from show_attend_tell.rerank.doubt import LEAST, UNSURE, Doubt
from show_attend_tell.search.hypotheses import Hypothesis, Trace

D = 6


def means(number: int, seed: int, shift: float = 0.0) -> NDArray[np.float32]:
    """Mean annotations (N, D) that vary along one direction more than along the others."""
    generator = np.random.default_rng(seed)
    along = generator.standard_normal((number, 1)) * np.array([3.0, -3.0, 0, 0, 0, 0])
    found = along + 0.3 * generator.standard_normal((number, D)) + shift * np.array([0, 0, 1.0, -1.0, 0, 0])
    return found.astype(np.float32)


def caption(log_probability: float) -> list[Hypothesis]:
    """One caption of three words, end token included, and a worse one."""
    one = Hypothesis([4, 5], log_probability, True, Trace([], 0, []))
    return [one, dataclasses.replace(one, log_probability=log_probability - 3)]


@pytest.fixture(scope="module")
def packed() -> dict[str, NDArray[np.float32]]:
    likelihoods = (-2 + 0.5 * np.random.default_rng(3).standard_normal(400)).astype(np.float32)
    found = doubt.fit(means(500, 1), means(400, 2), likelihoods)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def scale(packed: dict[str, NDArray[np.float32]]) -> Doubt:
    return Doubt(packed)


def doubts(scale: Doubt, photos: NDArray[np.float32], likelihoods: NDArray[np.floating]) -> NDArray[np.float64]:
    found = scale.add(photos, [caption(3 * float(each)) for each in likelihoods])
    assert all(others[0].doubt is None for _, *others in found)
    return np.array([best.doubt for best, *_ in found], dtype=np.float64)


def test_known_photos_have_every_doubt_as_often(scale: Doubt) -> None:
    likelihoods = -2 + 0.5 * np.random.default_rng(5).standard_normal(2000)
    found = doubts(scale, means(2000, 4), likelihoods)
    assert found.min() >= 0 and found.max() <= 1
    for share in (0.1, 0.5, 0.9):
        assert (found <= share).mean() == pytest.approx(share, abs=0.06)


def test_far_photos_and_improbable_captions_are_doubted(scale: Doubt) -> None:
    usual = np.full(50, -2.0)
    near, far = doubts(scale, means(50, 6), usual), doubts(scale, means(50, 6, shift=2.0), usual)
    assert (far > near).all() and far.mean() > UNSURE
    improbable = doubts(scale, means(50, 6), usual - 3)
    assert (improbable >= near).all() and improbable.mean() > UNSURE


def test_distance_is_counted_in_spreads_of_the_training_photos(scale: Doubt) -> None:
    """A step along the direction in which training photos vary says less than the same step along another."""
    along, across = (np.array([step], np.float32) for step in ([1.0, -1, 0, 0, 0, 0], [0, 0, 1.0, -1, 0, 0]))
    assert doubts(scale, across, np.array([-2.0])) > doubts(scale, along, np.array([-2.0]))


def test_few_known_photos_make_no_scale_and_damage_is_refused(packed: dict[str, NDArray[np.float32]]) -> None:
    few, zeros = means(LEAST - 1, 1), np.zeros(LEAST, np.float32)
    assert doubt.fit(means(500, 1), few, zeros[1:]) is None
    with pytest.raises(SatError, match="not finite"):
        doubt.fit(few * float("nan"), means(LEAST, 1), zeros)
    with pytest.raises(SatError, match="not a scale of doubt"):
        Doubt({name: value for name, value in packed.items() if name != "typical"})
    for name, damaged in (("quantiles", packed["quantiles"] * np.float32("inf")), ("typical", np.ones(3, np.float32))):
        with pytest.raises(SatError, match=f"the {name} of the scale of doubt are damaged"):
            Doubt({**packed, name: damaged})
    with pytest.raises(SatError, match="reads annotations of size 6, not 5"):
        Doubt(packed).add(means(1, 1)[:, :5], [caption(-6.0)])
