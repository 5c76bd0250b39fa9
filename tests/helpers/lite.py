"""EfficientNet-Lite2 with random weights, as the published file has them, for tests without that file."""

import numpy as np
from numpy.typing import NDArray
from small_encoder import published_names

from show_attend_tell.vision import efficientnet


def published(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights under the names of the published file, with a batch norm after each convolution."""
    random = np.random.default_rng(seed)
    state: dict[str, NDArray[np.float32]] = {}
    for block in efficientnet.BLOCKS[:-1]:
        for each in block.convolutions:
            convolution, norm = published_names(each.name)
            inputs = each.shape[1] * each.kernel**2
            state[f"{convolution}.weight"] = random.normal(0, (2 / inputs) ** 0.5, each.shape).astype(np.float32)
            for part, low, high in (
                ("weight", 0.7, 1.3),
                ("bias", -0.3, 0.6),
                ("running_mean", -0.3, 0.3),
                ("running_var", 0.5, 1.5),
            ):
                state[f"{norm}.{part}"] = random.uniform(low, high, each.outputs).astype(np.float32)
    return state
