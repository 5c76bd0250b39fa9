"""Do a word's own locations matter to it? α is replaced by another map, and what that costs each word is measured.

A control is an `AttentionMode` that does not use the α that it is handed. A word's *cost* is log p(word) by its own α
minus log p(word) by the control, in nats: above zero, its own α served the word better.

T words of a caption, end token excluded · R rows, each another map · B photos · P paths · C steps · L locations · D
annotation size.
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attention.forcing import Forced, SeededMode, log_p_at_words
from show_attend_tell.model.attention import (
    Attended,
    AttentionMode,
    MeanAttention,
    SampleAttention,
    attention_mode_by_name,
)
from show_attend_tell.model.interface import Decoder

DRAWS = 8  # of random locations a word

CONTROLS = {  # what replaces a word's α
    "uniform": "uniform alpha",
    "static": "one map a photo, its mean alpha",
    "other_word": "another word's alpha",
    "other_photo": "another photo's alpha",
    "random": "a random location",
    "other_view": "another photo's alpha and annotations",
}


class GivenMaps:
    """Reads annotations as another attention mode does, but by maps given beforehand (B, P or 1, C, L), one a step.

    It counts the steps, so it serves one caption or one search.
    """

    def __init__(self, maps: Tensor, mode: AttentionMode) -> None:
        self.maps, self.mode, self.time = maps, mode, 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        given = self.maps[:, :, self.time].to(alpha).expand_as(alpha)
        self.time += 1
        return self.mode(given, annotations)

    def __copy__(self) -> "GivenMaps":
        """A copy counts its steps apart, as an ensemble's members need."""
        other = GivenMaps(self.maps, copy.copy(self.mode))
        other.time = self.time
        return other


def maps_of(control: str, alpha: Tensor, other: Tensor, steps: int, shift: int) -> Tensor:
    """The maps (C, L) of a control for that many steps, from the caption's own α (T, L) and another photo's (T′, L).

    ``uniform`` and ``random`` have even maps; ``static`` the mean of the own α at every step; ``other_word`` the own α
    of the step that comes ``shift`` later, where the first step follows the last; ``other_photo`` the other photo's α,
    step by step, which also begins again after the last.
    """
    if control in ("uniform", "random"):
        return torch.full((steps, alpha.shape[1]), 1 / alpha.shape[1], device=alpha.device)
    if control == "static":
        return alpha.mean(0).expand(steps, -1)
    time = torch.arange(steps, device=alpha.device)
    return alpha[(time + shift) % len(alpha)] if control == "other_word" else other[time % len(other)]


def costs_at_words(
    decoder: Decoder, annotations: Tensor, forced: Forced, other_annotations: Tensor, other: Forced
) -> dict[str, NDArray[np.float64]]:
    """What each of `CONTROLS` costs each word (T,) at the word's own step, with everything before it unchanged.

    annotations (1, L, D) are the caption's photo's, ``other_annotations`` those of the ``other`` photo. ``other_word``
    is the mean over all other words of the caption, which needs two or more; ``random`` the mean over `DRAWS`
    locations; ``other_view`` reads the other photo's annotations by its α, so it is what the wrong photo costs.
    """
    ids, steps = forced.ids, forced.ids.shape[1]
    source, other_source = (decoder.start(each, paths=steps).source for each in (annotations, other_annotations))
    numbers = torch.rand(DRAWS, steps, 1, generator=torch.Generator().manual_seed(forced.mode.seed))
    found = {}
    for control in CONTROLS:
        shifts = range(1, steps) if control == "other_word" else (0,)
        of = "other_photo" if control == "other_view" else control
        maps = torch.stack([maps_of(of, forced.alpha, other.alpha, steps, shift) for shift in shifts])  # (R, T, L)
        rows = DRAWS if control == "random" else len(maps)
        mode: AttentionMode = forced.mode.at_once(ids, rows)
        if control in ("uniform", "random"):
            mode = MeanAttention() if control == "uniform" else SampleAttention(numbers)
        seen = other_source if control == "other_view" else source
        log_p = log_p_at_words(decoder, seen, forced, GivenMaps(maps[:, :, None], mode), rows).mean(0)
        found[control] = (forced.log_p - log_p).double().cpu().numpy()
    return found


def mode_for_search(
    control: str,
    alphas: Sequence[Tensor],
    others: Sequence[Tensor],
    modes: Sequence[SeededMode],
    *,
    paths: int,
    steps: int,
) -> AttentionMode:
    """The mode of a control for a search of B photos' captions, from their own captions' α (T, L) and other photos'.

    The maps of ``other_word`` are the own caption's, a number of steps away that the photo's seed draws.
    """
    name = {"uniform": "mean", "random": "sample"}.get(control, modes[0].name)
    seeds, device = [mode.seed for mode in modes], alphas[0].device
    mode = attention_mode_by_name(name, seeds=seeds, paths=paths, steps=steps, device=device)
    maps = [
        maps_of(control, alpha, other, steps, shift_of(seed, len(alpha)))
        for alpha, other, seed in zip(alphas, others, seeds, strict=True)
    ]
    return GivenMaps(torch.stack(maps)[:, None], mode)


def shift_of(seed: int, length: int) -> int:
    """How many steps away the other word is, for a caption of T words: 1 to T − 1, by the photo's seed."""
    return 1 + seed % max(1, length - 1)
