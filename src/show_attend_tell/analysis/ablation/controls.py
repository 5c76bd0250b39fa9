"""Do a word's own places matter to it? α is replaced by something else, and what that costs each word is measured.

A control is a `AttentionMode` that does not use the α that it is handed. A word's *cost* is log p(word) by its own α less
log p(word) by the control, in nats: above zero, its own α served the word better.

T words of a caption, end token excluded · R rows, each another control · B photos · P paths · C steps · L places · D
annotation size.
"""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.analysis.ablation.teacher_forcing import Looking, Watched, force_at_words, force_throughout
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import (
    ArgmaxAttention,
    Attended,
    AttentionMode,
    MeanAttention,
    SampleAttention,
    attention_mode_by_name,
)
from show_attend_tell.model.interface import Decoder

DRAWS = 8  # of places a word, for what looks at a random place

CONTROLS = {  # what stands for a word's α
    "uniform": "uniform alpha",
    "static": "one map a photo, its mean alpha",
    "other_word": "another word's alpha",
    "other_photo": "another photo's alpha",
    "random": "a random place",
    "other_view": "another photo's alpha and annotations",
}
OWN = {  # the word's own α, by every way of looking
    "mean": "own alpha, by expectation",
    "argmax": "own alpha, by its likeliest place",
    "sample": "own alpha, by a sampled place",
}


class Uniform:
    """ẑ_t = (1/L) Σ_i a_i: the expectation under α that is the same everywhere."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        return MeanAttention()(torch.full_like(alpha, 1 / alpha.shape[-1]), annotations)


class RandomLocation(SampleAttention):
    """ẑ_t = a_i at a place drawn with the same probability for each."""

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        return super().__call__(torch.full_like(alpha, 1 / alpha.shape[-1]), annotations)


class Given:
    """Looks as another look does, but by maps given beforehand, (B, P, C, L) or (B, 1, C, L): one a step.

    It counts the steps, so it serves one caption or one search.
    """

    def __init__(self, maps: Tensor, mode: AttentionMode) -> None:
        self.maps, self.mode, self.time = maps, mode, 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        given = self.maps[:, :, self.time].to(alpha).expand_as(alpha)
        self.time += 1
        return self.mode(given, annotations)

    def __copy__(self) -> "Given":
        """A copy counts its steps apart, as an ensemble's members need."""
        other = Given(self.maps, copy.copy(self.mode))
        other.time = self.time
        return other


def maps_of(control: str, alpha: Tensor, other: Tensor, steps: int, shift: int) -> Tensor:
    """The maps (C, L) of a control for that many steps, from the caption's own α (T, L) and another photo's (T′, L).

    ``static`` is the mean of the own α at every step; ``other_word`` the own α of the step that comes ``shift`` later,
    where the first step follows the last; ``other_photo`` the other photo's α, step by step, also in a round.
    """
    if control == "static":
        return alpha.mean(0).expand(steps, -1)
    time = torch.arange(steps, device=alpha.device)
    return alpha[(time + shift) % len(alpha)] if control == "other_word" else other[time % len(other)]


def costs_at_words(
    decoder: Decoder, annotations: Tensor, watched: Watched, other_annotations: Tensor, other: Watched
) -> dict[str, NDArray[np.float64]]:
    """What each of `CONTROLS` costs each word (T,) at the word's own step, with everything before it unchanged.

    annotations (1, L, D) are the watched photo's, ``other_annotations`` those of the ``other`` photo. ``other_word`` is
    the mean over all other words of the caption, which needs two or more; ``random`` the mean over `DRAWS` places;
    ``other_view`` looks at the other photo's annotations by its α, so it is what seeing the wrong photo costs.
    """
    ids, steps = watched.ids, watched.ids.shape[1]
    source = decoder.start(annotations, paths=steps).source

    def told(maps: Tensor, source: object = source) -> Tensor:
        mode = Given(maps[:, :, None], watched.looking.at_once(ids, len(maps)))
        return force_at_words(decoder, source, watched, mode, len(maps))

    def own(control: str, shift: int = 0) -> Tensor:
        return maps_of(control, watched.alpha, other.alpha, steps, shift)

    other_words = told(torch.stack([own("other_word", shift) for shift in range(1, steps)]))
    found = {
        "uniform": force_at_words(decoder, source, watched, Uniform(), 1)[0],
        "static": told(own("static")[None])[0],
        "other_word": other_words.mean(0),
        "other_photo": told(own("other_photo")[None])[0],
        "random": force_at_words(
            decoder, source, watched, RandomLocation(draws(watched.looking, steps)[:, :, None]), DRAWS
        ).mean(0),
        "other_view": told(own("other_photo")[None], decoder.start(other_annotations, paths=steps).source)[0],
    }
    return {name: (watched.visible - found[name]).double().cpu().numpy() for name in CONTROLS}


def losses_throughout(
    decoder: Decoder, annotations: Tensor, watched: Watched, other: Watched
) -> dict[str, NDArray[np.float64]]:
    """−log p of each word and of the end token (T + 1,), told by each of `OWN` and `CONTROLS` from the first word on.

    ``other_word`` is one other word's α, the same number of steps away at every step. Where places are drawn it is the
    mean over `DRAWS` captions. Without ``other_view``, whose captions belong to another photo.
    """
    ids = torch.cat([watched.ids, watched.ids.new_full((1, 1), Vocabulary.END)], dim=1)
    steps = ids.shape[1]
    num_captions = draws(watched.looking, steps)[None]  # (1, DRAWS, C): paths of one photo
    looks: dict[str, AttentionMode] = {
        "mean": MeanAttention(),
        "argmax": ArgmaxAttention(),
        "sample": SampleAttention(num_captions),
        "uniform": Uniform(),
        "random": RandomLocation(num_captions),
    }
    for name in ("static", "other_word", "other_photo"):
        maps = maps_of(name, watched.alpha, other.alpha, steps, shift_of(watched.looking, len(watched.alpha)))
        looks[name] = Given(maps[None, None], watched.looking.along(ids))
    found = {}
    for name, mode in looks.items():
        paths = DRAWS if isinstance(mode, SampleAttention) else 1
        log_p = force_throughout(decoder, annotations, ids, mode, paths=paths)  # (1, P, T + 1)
        found[name] = -log_p[0].mean(0).double().cpu().numpy()
    return {name: found[name] for name in (*OWN, *CONTROLS) if name in found}


def mode_for_search(
    control: str, alphas: list[Tensor], others: list[Tensor], lookings: list[Looking], *, paths: int, steps: int
) -> AttentionMode:
    """The look of a control for a search of B photos' captions, from their own captions' α (T, L) and other photos'.

    The maps of ``other_word`` are the own caption's, a number of steps away that the photo's seed draws.
    """
    seeds, device = [looking.seed for looking in lookings], alphas[0].device
    if control == "uniform":
        return Uniform()
    if control == "random":
        return RandomLocation(SampleAttention.for_photos(seeds, paths=paths, steps=steps, device=device).uniforms)
    maps = [
        maps_of(control, alpha, other, steps, shift_of(looking, len(alpha)))
        for alpha, other, looking in zip(alphas, others, lookings, strict=True)
    ]
    mode = attention_mode_by_name(lookings[0].name, seeds=seeds, paths=paths, steps=steps, device=device)
    return Given(torch.stack(maps)[:, None], mode)


def shift_of(looking: Looking, length: int) -> int:
    """How many steps away the other word is, for a caption of T words: 1 to T − 1, by the photo's seed."""
    return 1 + looking.seed % max(1, length - 1)


def draws(looking: Looking, steps: int) -> Tensor:
    """Uniform numbers (DRAWS, C) by the photo's seed, to draw places with."""
    return torch.rand(DRAWS, steps, generator=torch.Generator().manual_seed(looking.seed))
