"""How precise numbers must be."""

import torch
from torch import Tensor


def promote(values: Tensor) -> Tensor:
    """The values in float32 at least, as softmax, sums of log-probabilities and the LSTM's memory need it."""
    return values if values.dtype == torch.float64 else values.float()
