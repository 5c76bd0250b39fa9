"""Attention or evidence over a photo, upsampled and smoothed as the paper does, and where in the photo it is.

Letters in shapes: H height and W width in pixels.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rectangle = tuple[float, float, float, float]  # left, top, right, bottom, in pixels

CELLS = 112  # side of the map by which a place is told
PLACE = 0.5  # of the map's largest value: a word's place is the largest connected part that is brighter
SIGMA = 20 / 224  # of the Gaussian, in sides of the visible part: the authors' 20 pixels of 224
NORMAL = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))  # the standard normal distribution function


def attention_map(
    alpha: NDArray[Any], size: tuple[int, int], visible_box: Rectangle, offset: tuple[float, float] = (0.0, 0.0)
) -> NDArray[np.float64]:
    """One word's attention over its photo (H, W): each location covers its part of the photo, then all is smoothed.

    ``alpha`` is (rows, columns), ``size`` the photo's (W, H), and ``visible_box`` the rectangle of it, in its pixels,
    that the encoder saw. ``offset`` is how far below and to the right of its cell a location looks, in cells: each cell
    is moved there. The result has the units of alpha: uniform attention is 1 / L at every visible pixel, and other
    pixels have 0. This is section 5.4 of the paper with the authors' sigma of 20 pixels in 224, as a formula.
    """
    left, top, right, bottom = visible_box
    rows = _spread(alpha.shape[0], size[1], top, bottom, offset[0])  # (H, rows)
    columns = _spread(alpha.shape[1], size[0], left, right, offset[1])  # (W, columns)
    return rows @ alpha.astype(np.float64) @ columns.T


def place(laid: NDArray[np.float64]) -> tuple[float, float]:
    """The middle (x, y), 0 to 1, of the part with the most light above half of a map's (H, W) peak."""
    best = 0.0
    middle = (0.5, 0.5)
    for rows, columns in pieces(laid > PLACE * laid.max()):
        light = laid[rows, columns]
        if light.sum() > best:
            best = float(light.sum())
            down, across = (light @ (at + 0.5) / best for at in (rows, columns))
            middle = float(across) / laid.shape[1], float(down) / laid.shape[0]
    return middle


def pieces(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The connected pieces of a mask (H, W), by their first cell: the rows and columns of the cells of each."""
    height, width = mask.shape
    waiting = mask.copy()
    for start in np.argwhere(mask).tolist():
        if not waiting[tuple(start)]:
            continue
        waiting[tuple(start)] = False
        piece = [start]
        for y, x in piece:  # which grows meanwhile
            for row, column in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= row < height and 0 <= column < width and waiting[row, column]:
                    waiting[row, column] = False
                    piece.append([row, column])
        rows, columns = np.array(piece).T
        yield rows, columns


def region(x: float, y: float) -> str:
    """Where in a photo a point is, in words; x and y are in sides of the photo."""
    vertical = "upper" if y < 1 / 3 else "lower" if y > 2 / 3 else ""
    horizontal = "left" if x < 1 / 3 else "right" if x > 2 / 3 else ""
    if vertical:
        return f"{vertical} {horizontal or 'middle'}"
    return horizontal or "centre"


def cell_edges(locations: int, offset: float) -> NDArray[np.float64]:
    """The borders of the cells along one side, from 0 to 1, moved by ``offset`` cells, but for the first and last."""
    edges = np.linspace(0, 1, locations + 1)
    edges[1:-1] += offset / locations
    return edges


@lru_cache(maxsize=64)  # the words of a caption share theirs
def _spread(locations: int, pixels: int, start: float, end: float, offset: float) -> NDArray[np.float64]:
    """How much of each location a pixel shows along one side (pixels, locations); 0 outside the visible part."""
    centers = np.arange(pixels) + 0.5
    at = (centers - start) / (end - start)  # in sides of the visible part
    edges = cell_edges(locations, offset)
    weights = np.zeros((pixels, locations))
    for mirrored in (-at, at, 2 - at):  # beyond its borders the map is continued by its mirror image
        weights += np.diff(NORMAL((edges[None, :] - mirrored[:, None]) / SIGMA), axis=1)
    weights[(at < 0) | (at > 1)] = 0
    total = weights.sum(1, keepdims=True)
    weights /= np.where(total > 0, total, 1)
    weights.flags.writeable = False
    return weights
