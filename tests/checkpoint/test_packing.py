"""Eight and four bits per weight: how large the error is, and that a second rounding to eight changes nothing."""

import numpy as np
import pytest

from show_attend_tell.checkpoint.packing import pack, pack_4bit, unpack, unpack_4bit
from show_attend_tell.errors import SatError


def normal(generator, *shape):
    return generator.standard_normal(shape, dtype=np.float32)


def magnitudes(low, high, rows):
    return np.logspace(low, high, rows).astype(np.float32)[:, None]


def example():
    generator = np.random.default_rng(5)
    weight = normal(generator, 11, 3, 7)
    weight[4] = 0  # a dead channel
    weight[6] *= 1e-30
    return {
        "layer.weight": weight,
        "layer.bias": normal(generator, 11),
        "table": normal(generator, 5, 2).astype(np.float16),
        "steps": np.array(13),
    }


def test_each_weight_is_within_half_a_step_of_its_row():
    state = example()
    packed = pack(state)
    assert packed["layer.weight"].dtype == np.int8 and packed["layer.weight.scale"].shape == (11,)
    assert packed["table"].dtype == np.int8 and packed["table.scale"].dtype == np.float32
    assert "layer.bias.scale" not in packed and packed["steps"].dtype == np.int64

    unpacked = unpack(packed)
    assert unpacked.keys() == state.keys()
    assert np.array_equal(unpacked["layer.bias"], state["layer.bias"])
    error = np.abs(unpacked["layer.weight"] - state["layer.weight"]).max((1, 2))
    assert (error <= np.abs(state["layer.weight"]).max((1, 2)) / 127 / 2 * 1.0001).all()
    assert error[4] == 0


def test_packing_again_gives_the_same_bytes():
    wide = normal(np.random.default_rng(7), 4001, 5).clip(-3, 3)
    with np.errstate(over="ignore"):
        wide = (wide * magnitudes(-42, 38, 4001)).clip(-3e38, 3e38)  # subnormal to nearly infinite
    state = {**example(), "wide": wide}
    once = pack(state)
    twice = pack(unpack(once))
    assert once.keys() == twice.keys()
    for name in once:
        assert once[name].dtype == twice[name].dtype and np.array_equal(once[name], twice[name]), name


@pytest.mark.parametrize("columns", [1, 6, 7])
def test_in_4_bits_each_weight_has_the_nearest_of_15_values(columns):
    weights = normal(np.random.default_rng(2), 9, columns) * magnitudes(-3, 3, 9)
    weights[3] = 0
    weights[4] *= 1e-38  # of which nothing is left
    packed, scale = pack_4bit(weights)
    assert packed.dtype == np.uint8 and packed.shape == (9, (columns + 1) // 2)
    unpacked = unpack_4bit(packed, scale)
    assert (unpacked[:, columns:] == 0).all() and (unpacked[3] == 0).all()
    values = np.arange(-7, 8) * scale[:, None]  # (rows, 15)
    nearest = np.abs(weights[..., None] - values[:, None]).min(-1)
    assert (np.abs(np.abs(unpacked[:, :columns] - weights) - nearest) <= 1e-5 * scale[:, None]).all()


def test_4_bits_lie_as_they_did_when_models_were_shipped():
    packed, scale = pack_4bit(np.array([[7.0, -7.0, 3.0]]))
    assert packed.tolist() == [[0x1F, 0x8B]] and scale.tolist() == [1.0]


def test_of_a_state_large_matrices_have_4_bits_and_the_rest_8():
    generator = np.random.default_rng(9)
    state = {
        **example(),
        "large": normal(generator, 1024, 64) * magnitudes(-40, 30, 1024),
        "odd": normal(generator, 1024, 65),
        "deep": normal(generator, 64, 32, 32),
    }
    once = pack(state, bits=4)
    assert {name for name, value in once.items() if value.dtype == np.uint8} == {"large"}
    assert {name for name in ("layer.weight", "table", "odd", "deep") if once[name].dtype != np.int8} == set()
    assert once["large"].shape == (1024, 32) and once["large.scale"].shape == (1024,)
    unpacked = unpack(once)
    assert np.array_equal(unpacked["large"], unpack_4bit(once["large"], once["large.scale"]))
    assert np.array_equal(unpacked["odd"], unpack(pack(state))["odd"])
    twice = pack(unpacked, bits=4)
    for name in once:
        assert once[name].dtype == twice[name].dtype and np.array_equal(once[name], twice[name]), name


FOUR, SCALE = pack_4bit(np.ones((5, 4)))
EIGHT = pack({"w": np.ones((5, 3))})
REFUSED = [
    (lambda: pack({"w": np.array([[1.0, float("nan")]])}), "w: holds values that are not finite"),
    (lambda: unpack({"w": EIGHT["w"]}), r"without as many scales \(w\.scale\)"),
    (lambda: unpack({**EIGHT, "w.scale": np.ones(3)}), r"w: 8-bit weights of \(5, 3\) without as many scales"),
    (lambda: unpack_4bit(FOUR.astype(np.int8), SCALE), "4-bit weights of "),
    (lambda: unpack_4bit(FOUR, SCALE[1:]), "4-bit weights of "),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_packed_or_unpacked_is_refused(call, message):
    with pytest.raises(SatError, match=message):
        call()
