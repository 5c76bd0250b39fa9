"""The scale of doubt: far photos and unlikely captions are doubted, and known photos evenly."""

import dataclasses

import pytest
import torch
from torch import Tensor

from show_attend_tell.errors import SatError
from show_attend_tell.rerank.doubt import LEAST, Doubt, likelihood, summary
from show_attend_tell.search.hypotheses import Hypothesis, Seen

D = 6


def photos(number: int, seed: int, shift: float = 0.0) -> Tensor:
    """Annotations (N, 4, D) that vary along one direction more than along the others."""
    generator = torch.Generator().manual_seed(seed)
    along = torch.randn(number, 1, 1, generator=generator) * torch.tensor([3.0, -3.0, 0, 0, 0, 0])
    noise = 0.3 * torch.randn(number, 4, D, generator=generator)
    return torch.arange(D) + along + noise + shift * torch.tensor([0, 0, 1.0, -1.0, 0, 0])


@pytest.fixture(scope="module")
def scale() -> Doubt:
    likelihoods = -2 + 0.5 * torch.randn(400, generator=torch.Generator().manual_seed(3))
    found = Doubt.fit(summary(photos(500, 1)), summary(photos(400, 2)), likelihoods)
    assert found is not None
    return found


def test_known_photos_have_every_doubt_as_often(scale: Doubt) -> None:
    likelihoods = -2 + 0.5 * torch.randn(2000, generator=torch.Generator().manual_seed(5))
    doubts = scale(photos(2000, 4), likelihoods)
    assert doubts.min() >= 0 and doubts.max() <= 1
    for share in (0.1, 0.5, 0.9):
        assert (doubts <= share).double().mean().item() == pytest.approx(share, abs=0.06)


def test_a_photo_far_from_the_training_photos_is_doubted_and_so_is_an_unlikely_caption(scale: Doubt) -> None:
    usual = torch.full((50,), -2.0)
    near, far = scale(photos(50, 6), usual), scale(photos(50, 6, shift=2.0), usual)
    assert (far > near).all() and far.mean() > 0.95
    unlikely = scale(photos(50, 6), usual - 3)
    assert (unlikely >= near).all() and unlikely.mean() > 0.95


def test_distance_is_counted_in_spreads_of_the_training_photos(scale: Doubt) -> None:
    """A step along the direction in which training photos vary says less than the same step along another."""
    usual = torch.tensor([-2.0])
    centre = torch.arange(D, dtype=torch.float32).expand(1, 4, D)
    along = scale(centre + torch.tensor([1.0, -1, 0, 0, 0, 0]), usual)
    across = scale(centre + torch.tensor([0, 0, 1.0, -1, 0, 0]), usual)
    assert across > along


def test_the_best_caption_of_a_photo_has_its_doubt_and_the_others_have_none(scale: Doubt) -> None:
    one = Hypothesis([4, 5], -6.0, True, Seen([], 0, []))
    other = dataclasses.replace(one, log_probability=-9.0)
    annotations = photos(2, 7)
    ((best, rest), (only,)) = scale.add_doubt(annotations, [[one, other], [other]])
    expected = scale(annotations, torch.tensor([-2.0, -3.0]))  # three words each, end token included
    assert (best.doubt, only.doubt) == tuple(expected.tolist()) and rest.doubt is None
    assert likelihood([dataclasses.replace(one, ended=False)]).tolist() == [-3.0]


def test_few_known_photos_make_no_scale_and_damage_is_refused(scale: Doubt) -> None:
    few = summary(photos(LEAST - 1, 1))
    assert Doubt.fit(summary(photos(500, 1)), few, torch.zeros(len(few))) is None
    with pytest.raises(SatError, match="not finite"):
        Doubt.fit(few * float("nan"), summary(photos(LEAST, 1)), torch.zeros(LEAST))
    with pytest.raises(SatError, match="not a scale of doubt"):
        Doubt({name: value for name, value in scale.tensors.items() if name != "typical"})
    for name, damaged in (("whitening", torch.eye(D - 1)), ("quantiles", scale.quantiles * float("inf"))):
        with pytest.raises(SatError, match=f"the {name} of the scale of doubt are damaged"):
            Doubt({**scale.tensors, name: damaged})
    with pytest.raises(SatError, match="reads annotations of size 6, not 5"):
        scale(photos(1, 1)[..., :5], torch.zeros(1))
    assert torch.equal(Doubt(scale.tensors)(photos(9, 8), torch.zeros(9)), scale(photos(9, 8), torch.zeros(9)))
