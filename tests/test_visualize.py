"""Attention lies on the photo where the encoder looked, and the strip says what it shows."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.errors import SatError
from show_attend_tell.visualize import MARK, attention_map, attention_strip

ROWS, COLUMNS = 5, 7
WIDE, TALL = (331, 197), (143, 307)  # (W, H)


def one_place(row: int, column: int) -> NDArray[np.float64]:
    alpha = np.zeros((ROWS, COLUMNS))
    alpha[row, column] = 1
    return alpha


def centre_crop(size: tuple[int, int]) -> tuple[float, float, float, float]:
    side = min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def whole(size: tuple[int, int]) -> tuple[float, float, float, float]:
    return 0.0, 0.0, float(size[0]), float(size[1])


@pytest.mark.parametrize("size", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("geometry", [whole, centre_crop], ids=["squash", "crop"])
@pytest.mark.parametrize("place", [(2, 1), (2, 5), (1, 3), (3, 3)])
def test_the_peak_lies_on_the_place(size, geometry, place) -> None:
    left, top, right, bottom = geometry(size)
    laid = attention_map(one_place(*place), size, (left, top, right, bottom))
    assert laid.shape == size[::-1]
    y, x = np.unravel_index(laid.argmax(), laid.shape)
    height, width = (bottom - top) / ROWS, (right - left) / COLUMNS
    assert abs(y + 0.5 - (top + (place[0] + 0.5) * height)) <= 1
    assert abs(x + 0.5 - (left + (place[1] + 0.5) * width)) <= 1


@pytest.mark.parametrize("size", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("geometry", [whole, centre_crop], ids=["squash", "crop"])
def test_nothing_is_lost_and_nothing_lies_where_the_encoder_never_saw(size, geometry) -> None:
    left, top, right, bottom = seen = geometry(size)
    alpha = np.random.default_rng(3).dirichlet(np.ones(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
    laid = attention_map(alpha, size, seen)
    inside = laid[math.ceil(top) : math.floor(bottom), math.ceil(left) : math.floor(right)]
    assert inside.mean() == pytest.approx(alpha.mean(), rel=0.01)
    assert inside.min() > 0
    outside = laid.copy()
    outside[math.floor(top) : math.ceil(bottom), math.floor(left) : math.ceil(right)] = 0
    assert not outside.any()


@pytest.mark.parametrize("geometry", [whole, centre_crop], ids=["squash", "crop"])
def test_even_attention_stays_even_up_to_the_borders(geometry) -> None:
    laid = attention_map(np.full((ROWS, COLUMNS), 1 / 35), WIDE, geometry(WIDE))
    np.testing.assert_allclose(laid[laid > 0], 1 / 35, rtol=1e-12)


def test_a_mirrored_alpha_gives_the_mirrored_map() -> None:
    alpha = np.random.default_rng(5).random((ROWS, COLUMNS))
    laid = attention_map(alpha, WIDE, whole(WIDE))
    np.testing.assert_allclose(attention_map(alpha[::-1], WIDE, whole(WIDE)), laid[::-1], atol=1e-12)
    np.testing.assert_allclose(attention_map(alpha[:, ::-1], WIDE, whole(WIDE)), laid[:, ::-1], atol=1e-12)


def test_the_map_is_the_papers_upsampling_and_gaussian() -> None:
    """Against both steps done one by one at the authors' size: 14 places × 16 pixels, sigma 20, mirrored."""
    alpha = np.random.default_rng(7).random((14, 14))
    upsampled = np.pad(alpha.repeat(16, 0).repeat(16, 1), 120, mode="symmetric")
    kernel = np.exp(-(np.arange(-120, 121) ** 2) / (2 * 20**2))
    kernel /= kernel.sum()
    for axis in (0, 1):
        upsampled = np.apply_along_axis(np.convolve, axis, upsampled, kernel, "valid")
    np.testing.assert_allclose(attention_map(alpha, (224, 224), whole((224, 224))), upsampled, rtol=1e-3)


def test_a_map_says_what_is_wrong() -> None:
    with pytest.raises(SatError, match=r"\(3, 5, 7\)"):
        attention_map(np.ones((3, ROWS, COLUMNS)), WIDE, whole(WIDE))
    with pytest.raises(SatError, match="left < right"):
        attention_map(np.ones((ROWS, COLUMNS)), WIDE, (10, 0, 10, 50))


def panels(strip: Image.Image, count: int) -> list[NDArray[np.int64]]:
    """The first `count` panels of a strip of one row without a title, found by their known place."""
    width = (strip.width - 2 * 36 + 20) // count - 20
    pixels = np.asarray(strip, dtype=np.int64)
    return [pixels[36:, 36 + i * (width + 20) :][: round(width), :width] for i in range(count)]


GREY = Image.new("RGB", (300, 300), (128, 128, 128))
SQUARE = (0.0, 0.0, 300.0, 300.0)


def test_each_word_is_lit_where_it_looked_and_a_flat_map_is_evenly_grey() -> None:
    attention = np.stack([one_place(1, 2), np.full((ROWS, COLUMNS), 1 / 35), one_place(3, 5)])
    strip = attention_strip(GREY, ["dog", "a", "ball"], attention, np.array([0.9, 0.2, 0.5]), seen=SQUARE)
    photo, dog, flat, ball = (panel[..., 1] for panel in panels(strip, 4))
    assert (photo == 128).all()
    for lit, (row, column) in ((dog, (1, 2)), (ball, (3, 5))):
        y, x = np.unravel_index(lit.argmax(), lit.shape)
        assert int(y / 300 * ROWS) == row
        assert int(x / 300 * COLUMNS) == column
        assert lit.max() > 200
        assert lit.min() < 60
    assert flat.max() - flat.min() <= 1
    assert dog.min() < flat.mean() < dog.max()


def test_flat_maps_alone_are_not_white_unless_each_word_is_stretched() -> None:
    flat = np.full((2, ROWS, COLUMNS), 1 / 35)
    _, grey, _ = panels(attention_strip(GREY, ["a", "a"], flat, None, seen=SQUARE), 3)
    _, white, _ = panels(attention_strip(GREY, ["a", "a"], flat, None, seen=SQUARE, per_word_scale=True), 3)
    assert grey.max() < 120
    assert white.min() > 200


def test_the_place_looked_at_is_framed() -> None:
    attention = np.stack([one_place(1, 2), one_place(3, 4)])
    strip = attention_strip(GREY, ["a", "b"], attention, None, seen=SQUARE, places=np.array([[1, 2], [3, 4]]))
    for panel, (row, column) in zip(panels(strip, 3)[1:], ((1, 2), (3, 4)), strict=True):
        y, x = np.nonzero((panel == MARK).all(-1))
        assert (y.min() + y.max() + 1) / 2 == pytest.approx((row + 0.5) * 300 / ROWS, abs=1)
        assert (x.min() + x.max() + 1) / 2 == pytest.approx((column + 0.5) * 300 / COLUMNS, abs=1)


def test_what_a_crop_never_saw_is_faded_in_every_panel() -> None:
    photo = Image.new("RGB", (400, 225), (20, 60, 20))
    strip = attention_strip(photo, ["grass"], one_place(2, 3)[None], None, seen=centre_crop((400, 225)))
    plain = attention_strip(photo, ["grass"], one_place(2, 3)[None], None, seen=(0.0, 0.0, 400.0, 225.0))
    left, right = 36 + 5, 36 + 400 + 20 + 5  # in the photo's panel, and in the word's
    assert all(np.asarray(strip)[36:261, x : x + 20].min() > 150 for x in (left, right))
    assert all(np.asarray(plain)[36:261, x : x + 20].max() < 100 for x in (left, right))


@pytest.mark.parametrize("size", [(1000, 40), (40, 1000), (7, 5)], ids=["panorama", "column", "tiny"])
@pytest.mark.parametrize("words", [0, 1, 23])
def test_any_photo_and_any_length_fit_a_page(size, words) -> None:
    attention = np.full((words, ROWS, COLUMNS), 1 / 35)
    title = "a title that is much too long for a page as narrow as this one and so has to be wrapped " * 2
    strip = attention_strip(
        Image.new("L", size), ["word"] * words, attention, np.zeros(words), seen=whole(size), title=title
    )
    assert strip.mode == "RGB"
    assert 300 < strip.width <= 1700


def test_a_strip_says_what_does_not_match() -> None:
    attention = np.full((2, ROWS, COLUMNS), 1 / 35)
    with pytest.raises(SatError, match="for 3 words"):
        attention_strip(GREY, ["a", "b", "c"], attention, None, seen=SQUARE)
    with pytest.raises(SatError, match="gate of shape"):
        attention_strip(GREY, ["a", "b"], attention, np.zeros(3), seen=SQUARE)
    with pytest.raises(SatError, match="5 rows and 7 columns"):
        attention_strip(GREY, ["a", "b"], attention, None, seen=SQUARE, places=np.array([[0, 0], [5, 0]]))
    with pytest.raises(SatError, match="places of shape"):
        attention_strip(GREY, ["a", "b"], attention, None, seen=SQUARE, places=np.array([0, 1]))
