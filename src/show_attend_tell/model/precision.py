"""How precise numbers must be."""

import torch
from torch import Tensor


def promote(values: Tensor) -> Tensor:
    """The values in float32 at least: half precision becomes float32, float64 stays float64.

    Softmax, sums of log-probabilities and the LSTM's memory need it; half precision loses too many digits there.
    """
    return values if values.dtype == torch.float64 else values.float()
