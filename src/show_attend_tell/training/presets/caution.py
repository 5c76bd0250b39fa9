"""What a training on a small set leaves as it was, because val cannot prove that another choice is better.

`presets.custom` states the rules. N photos of val.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, interval
from show_attend_tell.model.interface import Decoder
from show_attend_tell.rerank.adapt import cautious
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.selection import nats_of_photos

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
LITTLE = 0.1  # nats a word; a training that gains less had photos like those that its start learnt from
VAL_FOR_DECODING = 200  # photos
# How a model with a reranker makes captions where val cannot choose: as the default model does.
DECODING = {"beam_size": 20, "length_penalty": 0.75, "rerank_weight": 16.0, "rare_word_exponent": 0.75}
LARGE_BEAM_SIZE = 100  # where photos are so unlike those of the start that its reranker was replaced


def mixed(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Weights that lie this share of the way from ``start`` to ``trained`` (Wortsman et al. 2022)."""
    return {
        name: torch.lerp(before.float(), trained[name].float(), share) if before.is_floating_point() else before
        for name, before in start.items()
    }


def choose_share(decoder: Decoder, start: Mapping[str, Tensor], data: TrainingData) -> float:
    """How far from ``start`` to its own weights a decoder should go, by nats on val; it then has these weights.

    It is the first of `SHARES` that val does not prove worse than the best of them, by `cautious`. If the best gains
    less than `LITTLE` on the start, it is at most a quarter: beyond that, CIDEr falls while nats a word still improve.
    """
    trained = {name: value.clone() for name, value in decoder.state_dict().items()}
    found = []
    for share in SHARES:
        decoder.load_state_dict(mixed(start, trained, share))
        found.append(nats_of_photos(decoder, data))
    nats = np.stack([each[0] for each in found])  # of each share and photo
    gained = (nats[0].sum() - nats.sum(1).min()) / found[0][1].sum()
    share = SHARES[cautious(nats if gained >= LITTLE else nats[:2])]
    decoder.load_state_dict(mixed(start, trained, share))
    return share


def is_better(scores: NDArray[Any], before: NDArray[Any]) -> bool:
    """Whether the mean of N photos' scores is above that of others by more than two standard errors."""
    above = scores - before
    return len(above) > 1 and float(above.mean()) > 2 * float(above.std(ddof=1)) / math.sqrt(len(above))


def gain(nats: NDArray[Any], nats_before: NDArray[Any], ciders: NDArray[Any], ciders_before: NDArray[Any]) -> str:
    """A model's figures on val beside those of its start, with the 95 % intervals of the differences, in words.

    ``nats`` and ``nats_before`` are those of `nats_of_photos` (2, N), the others CIDEr by photo (N,).
    """
    photos = len(ciders)
    drawn = draw(np.random.default_rng(0), photos, photos, RESAMPLES)
    low, high = interval((drawn @ (nats[0] - nats_before[0])) / (drawn @ nats[1]))
    least, most = interval(drawn @ (ciders - ciders_before) / photos)
    now, before = (each[0].sum() / each[1].sum() for each in (nats, nats_before))
    return (
        f"{now:.2f} nats a word, start {before:.2f} ({now - before:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}); "
        f"CIDEr {ciders.mean():.1f}, start {ciders_before.mean():.1f} ({ciders.mean() - ciders_before.mean():+.1f}, "
        f"{least:+.1f} to {most:+.1f}); of {plural(photos, 'photo')}"
    )
