"""How a part of a photo is hidden: blurred until it has no detail, in the encoder's square of pixels.

The photo's mean color and gray hide as well, but blurred places have the largest gap between own evidence and the moved
outline on val (`research/hide.py`).

S side of the square · V variants.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLUR = 1 / 8  # sigma of the Gaussian, in sides of the square

Pixels = NDArray[np.float32]


def hide(square: Pixels, cover: Pixels, parts: Sequence[Pixels]) -> Pixels:
    """The square (3, S, S), then once for each part of it with the ``cover`` (3, S, S) there: (1 + V, 3, S, S).

    A part says how much of each pixel is hidden (S, S), 0 to 1.
    """
    return np.stack([square, *(square + part * (cover - square) for part in parts)])


def blurred(square: Pixels) -> Pixels:
    """The square (3, S, S) without detail."""
    at = np.arange(square.shape[-1]) / (BLUR * square.shape[-1])
    weights = np.exp(-(np.subtract.outer(at, at) ** 2) / 2)
    weights /= weights.sum(1, keepdims=True)
    across = weights.astype(np.float32)
    found: Pixels = across @ square @ across.T
    return found
