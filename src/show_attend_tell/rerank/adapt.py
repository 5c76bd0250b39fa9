"""Visual n-grams of a model that are adapted to few photos, by a ridge regression on what they expect wrongly.

The model's n-grams keep their directions, and get more. These are fitted to the residuals: the shares of captions that
have each n-gram, less what the model expects. N-grams that the model lacks begin with an expectation of zero. A larger
ridge keeps more of the model. The ridge is chosen by leave-one-out errors, which have a closed form, so every photo
judges: `first_not_worse` keeps the model as it is unless the photos show that another one is better. Photos of another
kind (charts, for example) show that n-grams of their own are better than adapted ones.

N photos · M second moments · R directions · G n-grams.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.backends.torch import second_moments
from show_attend_tell.checkpoint.packing import SCALE, as_array, pack, pack_4bit, unpack_4bit
from show_attend_tell.metrics.bootstrap import first_not_worse
from show_attend_tell.rerank.fit import (
    BATCH_SIZE,
    DIRECTIONS,
    RIDGE,
    frequent_ngrams,
    mean_length,
    scaled,
    shares_of,
)
from show_attend_tell.rerank.ngrams import VisualNgrams, as_rows
from show_attend_tell.values import Array
from show_attend_tell.vision.sources import Annotations

RIDGES = (math.inf, 200.0, 60.0, 20.0, 6.0, 2.0, 0.6)  # of the mean squared length of the moments; the first: as it is


@torch.no_grad()
def adapt_ngrams(
    start: dict[str, Array],
    annotations: Annotations,
    captions: Mapping[str, Sequence[Sequence[int]]],
    *,
    device: torch.device,
) -> dict[str, Array] | None:
    """The visual n-grams ``start`` adapted to photos, given by name, and their ``captions`` as word ids.

    Returns ``start`` itself where no ridge is better, and None where n-grams of these photos alone are.
    """
    device = torch.device("cpu") if device.type == "mps" else device  # mps lacks eigh
    before = VisualNgrams(start)
    names = list(captions)
    known = list(before.numbers)
    known += [ngram for ngram in frequent_ngrams(captions) if ngram not in before.numbers]
    new = len(known) - len(before.prior)
    channels = torch.from_numpy(before.channels).to(device)
    batches = (annotations[names[at : at + BATCH_SIZE]].to(device) for at in range(0, len(names), BATCH_SIZE))
    moments = torch.cat([second_moments(batch, channels).float() for batch in batches])  # (N, M)
    expected = np.pad(before.linear(as_array(moments)), ((0, 0), (0, new)))
    shares = shares_of(names, captions, known).to(device)  # (N, G)
    residuals = shares - torch.from_numpy(expected).to(device)
    center = moments.mean(0)
    centered = moments - center
    kernel, scale = scaled(centered @ centered.T)
    kernel += 1  # that of a constant
    values, vectors = torch.linalg.eigh(kernel)
    values = values.clamp_min(0)
    errors = []
    for targets, ridge in [*((residuals, ridge) for ridge in RIDGES), (shares, RIDGE)]:
        hat = vectors * (values / (values + ridge)) @ vectors.T
        left_out = (targets - hat @ targets) / (1 - hat.diagonal())[:, None]
        errors.append(as_array(left_out.square().sum(1)))
    choice = first_not_worse(np.stack(errors))
    if choice == len(RIDGES):
        return None
    ridge = RIDGES[choice]
    if math.isinf(ridge):
        return start
    dual = vectors / (values + ridge) @ vectors.T @ residuals  # (N, G)
    axes: Tensor = torch.linalg.svd((kernel - 1) @ dual, full_matrices=False).Vh[:DIRECTIONS].mT.contiguous()  # (G, R)
    fresh = as_array((centered.T @ (dual @ axes) / scale).T)  # (R, M)
    constant = np.zeros_like(fresh[:1])  # a direction along which every photo lies at 1
    packed, scales = pack_4bit(np.concatenate([before.directions, fresh, constant]))
    rounded = unpack_4bit(packed, scales)[len(before.offset) : -1, : len(center)]
    weight = len(names) / (len(names) + ridge)
    prior = np.concatenate([before.prior, weight * as_array(shares.mean(0))[len(before.prior) :]])
    shift = as_array(dual.sum(0))
    shift[len(before.prior) :] -= prior[len(before.prior) :]
    small = {
        "channels": before.channels,
        "offset": np.concatenate([before.offset, rounded @ as_array(center), [-1]]).astype(np.float32),
        "shares": np.concatenate([np.pad(before.shares, ((0, new), (0, 0))), as_array(axes), shift[:, None]], 1),
        "prior": prior.astype(np.float32),
        "ngrams": as_rows(known),
        "length": np.array(before.length + weight * (mean_length(captions) - before.length), dtype=np.float32),
    }
    return {"directions": packed, "directions" + SCALE: scales, **pack(small)}
