"""Fitting visual n-grams: ridge regression in closed form on training photos and captions, cut to R main directions.

N training photos · B photos · L locations · D annotation size · C ≤ D channels · M = C (C + 1) / 2 second moments ·
R directions · G n-grams.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from show_attend_tell.backends.torch import second_moments
from show_attend_tell.checkpoint.packing import SCALE, as_array, pack, pack_4bit, unpack_4bit
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.progress import Progress
from show_attend_tell.rerank.ngrams import Ngram, as_rows, counted, without_end
from show_attend_tell.values import Array
from show_attend_tell.vision.sources import Annotations

CAPTIONS_OF_NGRAM = 10  # training captions that an n-gram is in
MOST = 6_000  # n-grams: the most frequent, where there are more
DIRECTIONS = 64
CHANNELS = 256  # the channels that vary most, where an encoder has more
PHOTOS = 10_000  # training photos, evenly chosen where there are more: the N × N system must fit into memory
RIDGE = 0.6  # of the mean squared length of the centerd second moments
BATCH_SIZE = 32  # photos whose second moments are made at once
SLICE = 8192  # second moments multiplied at once


@torch.no_grad()
def fit_ngrams(
    annotations: Annotations,
    captions: Mapping[str, Sequence[Sequence[int]]],
    *,
    device: torch.device,
) -> dict[str, Array] | None:
    """The visual n-grams of training photos, given by name, and their ``captions`` as word ids.

    The directions have 4 bits a weight, the rest has 8. None when no n-gram is in `CAPTIONS_OF_NGRAM` captions.
    """
    device = torch.device("cpu") if device.type == "mps" else device  # mps lacks cholesky_solve
    known = frequent_ngrams(captions)
    if not known:
        return None
    names = evenly(list(captions), PHOTOS)
    shares = shares_of(names, captions, known)
    channels = varied(annotations, names).to(device)
    moments = torch.empty(len(names), len(channels) * (len(channels) + 1) // 2, dtype=torch.bfloat16, device=device)
    for start in Progress(range(0, len(names), BATCH_SIZE), desc="visual n-grams", unit="batch"):
        batch = annotations[names[start : start + BATCH_SIZE]].to(device)
        moments[start : start + BATCH_SIZE] = second_moments(batch, channels).bfloat16()
    center = torch.empty(moments.shape[1], device=device)
    for part in slices(moments):
        center[part] = moments[:, part].float().mean(0)
        moments[:, part] = (moments[:, part].float() - center[part]).bfloat16()
    prior = shares.mean(0)
    directions, axes = reduced_ridge(moments, (shares - prior).to(device))
    packed, scale = pack_4bit(as_array(directions))
    rounded = unpack_4bit(packed, scale)[:, : len(center)]
    small = {
        "channels": as_array(channels),
        "offset": rounded @ as_array(center),
        "shares": as_array(axes),
        "prior": as_array(prior),
        "ngrams": as_rows(known),
        "length": np.array(mean_length(captions), dtype=np.float32),
    }
    return {"directions": packed, "directions" + SCALE: scale, **pack(small)}


def frequent_ngrams(captions: Mapping[str, Sequence[Sequence[int]]]) -> list[Ngram]:
    """The n-grams that at least `CAPTIONS_OF_NGRAM` captions have, the `MOST` frequent of them, as they come first."""
    seen: Counter[Ngram] = Counter(ngram for each in captions.values() for words in each for ngram in counted(words))
    frequent = {ngram for ngram, times in seen.most_common(MOST) if times >= CAPTIONS_OF_NGRAM}
    return [ngram for ngram in seen if ngram in frequent]


def shares_of(names: Sequence[str], captions: Mapping[str, Sequence[Sequence[int]]], known: Sequence[Ngram]) -> Tensor:
    """The shares of the captions of each photo that have each known n-gram: (N, G)."""
    number = {ngram: index for index, ngram in enumerate(known)}
    shares = torch.zeros(len(names), len(known))
    for row, name in enumerate(names):
        for words in captions[name]:
            for ngram in counted(words):
                if ngram in number:
                    shares[row, number[ngram]] += 1 / len(captions[name])
    return shares


def mean_length(captions: Mapping[str, Sequence[Sequence[int]]]) -> float:
    """The mean number of words of the captions, without the end token."""
    lengths = [len(without_end(words)) for each in captions.values() for words in each]
    return sum(lengths) / len(lengths)


def reduced_ridge(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The ridge regression of centerd targets (N, G) on centerd inputs (N, M), cut to R = `DIRECTIONS` or fewer.

    Returns the directions (R, M) and the axes (G, R). Their product maps inputs to targets: it is the regression's
    matrix of coefficients, projected on the main axes of its predictions for the inputs.
    """
    dtype = torch.bfloat16 if native_bf16(inputs.device) else torch.float32
    kernel = torch.zeros(len(inputs), len(inputs), device=inputs.device)
    for part in slices(inputs):
        factor = inputs[:, part].to(dtype)
        kernel += (factor @ factor.T).float()
    kernel, scale = scaled(kernel)
    ridge = kernel + RIDGE * torch.eye(len(inputs), device=inputs.device)
    dual = torch.cholesky_solve(targets, torch.linalg.cholesky(ridge))  # (N, G)
    rank = min(DIRECTIONS, *dual.shape)
    with torch.random.fork_rng(devices=[inputs.device] if inputs.device.type == "cuda" else []):
        torch.manual_seed(0)  # of the randomized decomposition
        axes = torch.svd_lowrank(kernel @ dual, q=min(rank + 16, *dual.shape), niter=4)[2][:, :rank].contiguous()
    dual = (dual @ axes / scale).to(dtype)  # (N, R)
    directions = torch.cat([(inputs[:, part].to(dtype).T @ dual).float() for part in slices(inputs)])
    return directions.T.contiguous(), axes


def scaled(kernel: Tensor) -> tuple[Tensor, Tensor]:
    """A kernel (N, N) divided by the mean of its diagonal, and this mean. Raises `SatError` for infinite values."""
    if not kernel.isfinite().all():
        raise SatError("the encoder's annotations hold values that are not finite: train it at a lower rate")
    scale = kernel.diagonal().mean().clamp_min(torch.finfo(torch.float32).tiny)
    return kernel / scale, scale


def varied(annotations: Annotations, names: Sequence[str]) -> Tensor:
    """The `CHANNELS` channels that vary most over some photos' locations, or all where there are no more: (C,)."""
    few = evenly(names, 200)
    parts = [annotations[few[start : start + BATCH_SIZE]].cpu().float() for start in range(0, len(few), BATCH_SIZE)]
    D = parts[0].shape[-1]
    if D <= CHANNELS:
        return torch.arange(D)
    normal = nn.functional.layer_norm(torch.cat(parts), (D,)).flatten(0, 1)
    return normal.var(0).topk(CHANNELS).indices.sort().values


def evenly(names: Sequence[str], most: int) -> list[str]:
    """All of the names, or so many of them at even distances."""
    return [names[index * len(names) // most] for index in range(most)] if len(names) > most else list(names)


def slices(moments: Tensor) -> list[slice]:
    """The columns in parts, so that only one of them at a time is in float32."""
    return [slice(start, start + SLICE) for start in range(0, moments.shape[1], SLICE)]
