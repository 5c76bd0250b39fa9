"""Where a word's outline lies, where it is moved to, how it is hidden, and what became of a word."""

from typing import Any

import numpy as np
import pytest

from show_attend_tell.errors import InvalidValue
from show_attend_tell.hide.masks import (
    CELLS,
    PIECES,
    PLACES,
    SHARE,
    move,
    moves,
    of_place,
    on_cells,
    on_photo,
    outline,
    runs,
)
from show_attend_tell.hide.verdict import Verdict, Word, judge
from show_attend_tell.show.pictures.maps import pieces

BOX = (7.0, 3.0, 77.0, 73.0)  # what a crop saw of a photo of 83 × 79
SIZE = (83, 79)


def values_at(*places: tuple[int, int]) -> Any:
    values = np.full((5, 7), -1.0)
    for row, column in places:
        values[row, column] = 1
    return values


def test_an_outline_is_a_fifth_in_few_pieces_around_the_largest_values():
    for places in ([(1, 2)], [(0, 0), (4, 6)], [(0, 1), (4, 1), (2, 6), (0, 6)]):
        cells = outline(values_at(*places))
        assert cells is not None and cells.mean() == pytest.approx(SHARE, abs=0.02)
        assert len(list(pieces(cells))) <= PIECES
    assert outline(np.zeros((5, 7))) is None and outline(-np.ones((5, 7))) is None


def test_an_outline_is_moved_to_where_it_overlaps_itself_least():
    cells = outline(values_at((0, 1), (3, 5)))
    assert cells is not None
    steps = CELLS // 14
    overlaps = {
        (down, right): (cells & np.roll(cells, (steps * down, steps * right), (0, 1))).mean()
        for down in range(14)
        for right in range(14)
    }
    found = moves(cells)
    assert len(set(found)) == PLACES
    assert max(overlaps[by] for by in found) <= sorted(overlaps.values())[PLACES - 1] + 0.05 * cells.mean()


def test_a_mask_is_moved_inside_what_the_encoder_saw():
    cells = outline(values_at((0, 0)))
    assert cells is not None
    mask = on_photo(cells, SIZE, BOX)
    assert mask.shape == (79, 83) and not mask[:, :7].any() and not mask[73:].any()
    assert (on_cells(mask, BOX) != cells).mean() < 0.02
    for by in moves(cells):
        moved = move(mask, by, BOX)
        assert moved.sum() == mask.sum() and not moved[:3].any() and not moved[:, 77:].any() and (moved != mask).any()


def test_a_place_is_boxes_or_a_mask_or_runs():
    mask = of_place([(-5, 2, 3, 4), (80, 70, 900, 900)], SIZE, BOX)
    assert mask.shape == (79, 83) and mask.sum() == 3 * 2 + 3 * 9
    part = outline(values_at((0, 1), (3, 5)))
    assert part is not None
    for place, expected in ((mask.astype(int), mask), (runs(part), on_photo(part, SIZE, BOX))):
        np.testing.assert_array_equal(of_place(place, SIZE, BOX), expected)
    for wrong in ([(1, 2, 3)], ["left"], 5, [], [(0, 0, float("nan"), 4)], [3, 4], [-1, 3137], mask.T):
        with pytest.raises(InvalidValue, match=r"\(79, 83\)"):
            of_place(wrong, SIZE, BOX)


@pytest.mark.parametrize(
    ("word", "before", "after", "verdict"),
    [
        ("dog", "a dog runs", "a dog sits", ("stays", None)),
        ("tshirt", "a man in a tshirt", "a man in a shirt", ("renamed", "shirt")),
        ("girl", "a girl and a woman", "a woman", ("gone", None)),  # she was there before
        ("microwave", "a microwave", "a counter", ("gone", None)),
        ("shepherd/dog", "a shepherd/dog", "a dog", ("renamed", "dog")),  # the name of a class
        ("dog", "a dog", "a shepherd/dog", ("renamed", "shepherd")),
    ],
)
def test_what_became_of_a_word(word, before, after, verdict):
    def words(text: str) -> list[Word]:
        return [Word(each.split("/")[0], each.split("/")[-1]) for each in text.split()]

    assert judge(words(word)[0], words(before), words(after)) == Verdict(*verdict)
