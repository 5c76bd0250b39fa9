"""Which part of a photo is hidden: a word's outline, boxes or a mask, and the same part moved to other places.

H, W sides of the photo in pixels · C cells along a side of what the encoder saw, in which outlines are drawn.
"""

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.errors import InvalidValue
from show_attend_tell.messages import shorten
from show_attend_tell.show.pictures.maps import Rectangle, attention_map, pieces

CELLS = 56  # C, four for each move
SHARE = 0.2  # of what the encoder saw, that an outline hides
PIECES = 2  # of an outline at most
PLACES = 5  # to which an outline is moved
MOVES = 14  # places along a side to which it can be moved
CLOSE = 0.05  # of a mask: overlaps that differ by less count as equal
SEED = 2654435761  # multiplies the number of a move, which orders moves of equal overlap (Knuth's multiplicative hash)

Mask = NDArray[np.bool_]
Move = tuple[int, int]  # down and to the right, in sides of what the encoder saw divided by `MOVES`


def outline(values: NDArray[Any], offset: tuple[float, float] = (0.0, 0.0)) -> Mask | None:
    """The part (C, C) of what the encoder saw with most of a map (rows, columns); None where no value is positive.

    The positive values are smoothed as in pictures (`attention_map`). The outline is the `PIECES` pieces with most
    light of what is lighter than a threshold. The threshold is chosen so that they are `SHARE` of the whole.
    ``offset`` is where a location looks, as in `Caption`.
    """
    if not (values > 0).any():
        return None
    light = attention_map(values.clip(0), (CELLS, CELLS), (0, 0, CELLS, CELLS), offset)
    order = np.argsort(-light, axis=None, kind="stable")
    wanted = round(SHARE * light.size)
    counts = range(wanted, light.size)  # of cells that are lighter than the threshold
    least = bisect_left(counts, wanted, key=lambda count: largest_pieces(light, order[:count]).sum())
    return largest_pieces(light, order[: wanted + least])


def largest_pieces(light: NDArray[Any], cells: NDArray[np.int64]) -> Mask:
    """The `PIECES` connected pieces with most light, of some cells of a map by their numbers."""
    mask = np.zeros(light.shape, dtype=bool)
    mask.flat[cells] = True
    for piece in sorted(pieces(mask), key=lambda piece: light[piece].sum())[:-PIECES]:
        mask[piece] = False
    return mask


def moves(cells: Mask) -> list[Move]:
    """The `PLACES` moves after which a part (C, C) overlaps itself least; in the order of a fixed hash among equals.

    What leaves on one side comes back on the other, so the area hidden is the same.
    """
    steps = CELLS // MOVES

    def rank(number: int) -> tuple[int, int]:
        down, right = divmod(number, MOVES)
        overlap = (cells & np.roll(cells, (down * steps, right * steps), (0, 1))).sum() / cells.sum()
        return round(overlap / CLOSE), number * SEED % 2**32

    return [divmod(number, MOVES) for number in sorted(range(1, MOVES * MOVES), key=rank)[:PLACES]]


def move(mask: Mask, by: Move, box: Rectangle) -> Mask:
    """A mask (H, W) moved inside the box that the encoder saw; what leaves on one side comes back on the other."""
    left, top, right, bottom = map(round, box)
    inside = mask[top:bottom, left:right]
    shift = [round(steps * side / MOVES) for steps, side in zip(by, inside.shape, strict=True)]
    found = np.zeros_like(mask)
    found[top:bottom, left:right] = np.roll(inside, shift, (0, 1))
    return found


def on_photo(cells: Mask, size: tuple[int, int], box: Rectangle) -> Mask:
    """A part (C, C) of what the encoder saw as a mask (H, W) of the photo, with a smooth border."""
    left, top, right, bottom = map(round, box)
    smooth = Image.fromarray(cells).convert("L").resize((right - left, bottom - top), Image.Resampling.BICUBIC)
    found = np.zeros((size[1], size[0]), dtype=bool)
    found[top:bottom, left:right] = np.asarray(smooth) >= 128
    return found


def on_square(mask: Mask, box: Rectangle, side: int) -> NDArray[np.float32]:
    """How much of each pixel of a square of what the encoder saw is hidden by a mask (H, W): (side, side), 0 to 1."""
    found = Image.fromarray(mask).convert("L").resize((side, side), Image.Resampling.BILINEAR, box=box)
    return np.asarray(found, dtype=np.float32) / np.float32(255)


def of_place(place: Any, size: tuple[int, int], box: Rectangle) -> Mask:
    """The mask (H, W) of a place of a photo of that width and height, of which the encoder saw the box.

    A place is such a mask itself, true where it is hidden; boxes: left, top, right, bottom in pixels; or the `runs` of
    a part of what the encoder saw. Raises `InvalidValue` for anything else.
    """
    try:
        values = np.asarray(place, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    shape = size[1], size[0]
    if values.shape == shape:
        return values > 0
    if values.ndim == 1 and (values == abs(values).round()).all() and values.sum() == CELLS * CELLS:
        turns = np.arange(len(values)) % 2 > 0
        return on_photo(np.repeat(turns, values.astype(int)).reshape(CELLS, CELLS), size, box)
    if values.ndim != 2 or values.shape[1] != 4 or not np.isfinite(values).all():
        raise InvalidValue(
            f"place is {shorten(place)}: give boxes, each as left, top, right, bottom in the photo's pixels, or a mask "
            f"of its height and width, {shape}"
        )
    found = np.zeros(shape, dtype=bool)
    for left, top, right, bottom in values.clip(0).round().astype(int):
        found[top:bottom, left:right] = True
    return found


def on_cells(mask: Mask, box: Rectangle) -> Mask:
    """The part (C, C) of what the encoder saw that a mask (H, W) hides at least half of."""
    return on_square(mask, box, CELLS) >= 0.5


def runs(cells: Mask) -> list[int]:
    """The lengths of runs of equal cells, row after row: visible first, then hidden, and so on by turns."""
    flat = cells.ravel()
    changes = np.flatnonzero(np.diff(flat)) + 1
    lengths: list[int] = np.diff([0, *changes, flat.size]).tolist()
    return [0, *lengths] if flat[0] else lengths
