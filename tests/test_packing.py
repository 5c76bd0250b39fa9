"""Eight bits per weight: how large the error is, and that a second rounding changes nothing."""

import pytest
import torch

from show_attend_tell.errors import SatError
from show_attend_tell.packing import pack_8bit, unpack_8bit


def example() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(11, 3, 7, generator=generator)
    weight[4] = 0  # a dead channel
    weight[6] *= 1e-30
    return {
        "layer.weight": weight,
        "layer.bias": torch.randn(11, generator=generator),
        "table": torch.randn(5, 2, generator=generator).half(),
        "steps": torch.tensor(13),
    }


def test_each_weight_is_within_half_a_step_of_its_row() -> None:
    state = example()
    packed = pack_8bit(state)
    assert packed["layer.weight"].dtype == torch.int8 and packed["layer.weight.scale"].shape == (11,)
    assert packed["table"].dtype == torch.int8 and packed["table.scale"].dtype == torch.float32
    assert "layer.bias.scale" not in packed and packed["steps"].dtype == torch.int64

    unpacked = unpack_8bit(packed)
    assert unpacked.keys() == state.keys()
    assert torch.equal(unpacked["layer.bias"], state["layer.bias"])
    error = (unpacked["layer.weight"] - state["layer.weight"]).abs().amax((1, 2))
    assert (error <= state["layer.weight"].abs().amax((1, 2)) / 127 / 2 * 1.0001).all()
    assert error[4] == 0


def test_packing_again_gives_the_same_bytes() -> None:
    generator = torch.Generator().manual_seed(7)
    magnitudes = torch.logspace(-42, 38, 4001, dtype=torch.float64).float()[:, None]  # subnormal to nearly infinite
    state = {**example(), "wide": torch.randn(4001, 5, generator=generator).clamp(-3, 3) * magnitudes}
    state["wide"] = state["wide"].clamp(-3e38, 3e38)
    once = pack_8bit(state)
    twice = pack_8bit(unpack_8bit(once))
    assert once.keys() == twice.keys()
    for name in once:
        assert once[name].dtype == twice[name].dtype and torch.equal(once[name], twice[name]), name


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"w": torch.tensor([[1.0, float("nan")]])}, "w: holds values that are not finite"),
        ({"w": torch.ones(2, 3), "w.scale": torch.ones(2)}, r"w\.scale: this name is needed"),
    ],
)
def test_packing_refuses(state: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(SatError, match=message):
        pack_8bit(state)


def test_unpacking_refuses_missing_and_misshapen_scales() -> None:
    packed = pack_8bit({"w": torch.ones(5, 3)})
    with pytest.raises(SatError, match=r"w\.scale is missing"):
        unpack_8bit({"w": packed["w"]})
    with pytest.raises(SatError, match=r"w\.scale: \(3,\) scales do not fit weights of \(5, 3\)"):
        unpack_8bit({**packed, "w.scale": torch.ones(3)})
