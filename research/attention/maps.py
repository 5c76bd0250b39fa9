"""Which map of a word lies on what the word is about, and does the map say what moved the model?

z = Σ_i α_i a_i is the mean context of a word's step, ā the mean annotation and g = ∂ log p(word) / ∂ z. Evidence is
α_i g · (a_i − z), the gradient of log p(word) by the energies of the attention (`Backend.evidence`). With uniform α it
is gradient × input, as in Grad-CAM (Selvaraju et al. 2017). `MAPS` has the maps that it is compared with. Each is made
of nonnegative parts that add up to 1, and is measured where it is known what a word is about: in mosaics
(`attention.mosaics`) and in generated scenes (`scenes`).

T words of a caption, end token excluded · L locations in a grid of rows and columns · D annotation size.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scenes import Box
from torch import Tensor
from torch.nn.functional import cosine_similarity, one_hot

from attention.controls import GivenMaps
from attention.forcing import Forced, SeededMode, force, log_p_at_words
from attention.occlusion import DRAWS, falls_of_masks, hidden_in_annotations, largest
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import MeanAttention
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import Decoder, Parts
from show_attend_tell.settings import AttentionModeName
from show_attend_tell.show.pictures.maps import cell_edges

MAPS = {  # what is compared; of those that may be negative, the positive part
    "alpha": "alpha",
    "evidence": "evidence: alpha_i g·(a_i - z)",
    "posterior": "posterior, to first order: alpha_i exp(g·(a_i - z))",
    "gain": "posterior minus alpha",
    "gradient": "without alpha: g·(a_i - mean a)",
    "uniform": "the same, g at alpha = 1/L",
    "location": "evidence, g at the location read",
}
HIDDEN = {  # which locations are hidden, besides those of the largest values of `MAPS`
    "other_word": "those of another word's evidence",
    "chance": "scattered random locations",
}
CONTROLLED = 100  # captions, the first, of which locations are hidden and weights are shuffled
PARTS = {"read_out": "output_", "lstm": "gates_", "attention": "attention."}  # how the names of their weights begin

Array = NDArray[np.float64]


class Target(NamedTuple):
    """A word that says what it is about, and where that is."""

    step: int
    inside: Array  # the part of each location that is in its place (L,)
    centred: NDArray[np.bool_]  # whether each location has its centre there (L,)
    kinds: Sequence[str]  # the classes of words that it is in
    others: Sequence[int]  # the steps of the nouns of other things


class Reading(NamedTuple):
    """A caption that is read by teacher forcing, and the words of it that are measured."""

    photo: int  # its number; the intervals are over photos
    example: Example
    features: Tensor  # (1, L, D)
    words: Sequence[str]
    seed: int  # of sampled locations
    targets: Sequence[Target]


class Word(NamedTuple):
    """What was measured of a word."""

    photo: int
    kinds: Sequence[str]
    groups: dict[str, dict[str, float]]  # chance and each map, and hidden and shuffled as in `evidence.summarize`


def attentive(captioner: Captioner) -> Decoder:
    """The model's decoder; one with uniform α as the soft decoder that weighs every location the same.

    Raises `SatError` for a model that has no α.
    """
    decoder = captioner.torch_backend().decoder
    if isinstance(decoder, AttentionDecoder) and decoder.config.attention == "uniform":
        soft = AttentionDecoder(replace(decoder.config, attention="soft")).eval()
        soft.load_state_dict(decoder.state_dict() | {"attention.energy": torch.zeros_like(decoder.attention.energy)})
        return soft
    check_attention(captioner)
    return decoder


def check_attention(captioner: Captioner) -> None:
    """Raise `SatError` for a model without attention, or with uniform α."""
    if not captioner.torch_backend().decoder.attends:
        raise SatError(f"{captioner.name} has no attention: give a model with soft or hard attention")


def shuffled(decoder: Decoder, prefix: str, seed: int) -> Decoder:
    """A copy whose weights with names that begin so are shuffled, each tensor by itself."""
    other, generator = copy.deepcopy(decoder), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in other.named_parameters():
            if name.startswith(prefix):
                order = torch.randperm(value.numel(), generator=generator).to(value.device)
                value.copy_(value.flatten()[order].view_as(value))
    return other


def slopes(decoder: Decoder, source: Parts, forced: Forced, weights: Tensor) -> Tensor:
    """g_t · a_i (T, L) with g_t = ∂ log p(y_t) / ∂ context, where the context is the mean by weights (T, L).

    β_t and the state before the step are held fixed.
    """
    weights = weights.detach().float().requires_grad_()
    with torch.enable_grad():
        mode = GivenMaps(weights[None, :, None], MeanAttention())
        (found,) = torch.autograd.grad(log_p_at_words(decoder, source, forced, mode, 1).sum(), weights)
    return found.double()


def evidence(alpha: Tensor, along: Tensor) -> Tensor:
    """α_i g · (a_i − z) of each word (T, L) in nats, from α and g · a_i."""
    return alpha * (along - (alpha * along).sum(-1, keepdim=True))


def maps_of(decoder: Decoder, features: Tensor, forced: Forced) -> dict[str, Tensor]:
    """`MAPS` of each word (T, L), before what is negative is left out; ``location`` only where one location is read."""
    source = decoder.start(features).source
    alpha = forced.alpha.double()
    even = torch.full_like(alpha, 1 / alpha.shape[1])
    along = slopes(decoder, source, forced, alpha)
    posterior = torch.softmax(alpha.log() + along, -1)
    at_even = slopes(decoder, source, forced, even)
    found = {
        "alpha": alpha,
        "evidence": evidence(alpha, along),
        "posterior": posterior,
        "gain": posterior - alpha,
        "gradient": along - along.mean(-1, keepdim=True),
        "uniform": at_even - at_even.mean(-1, keepdim=True),
    }
    read = forced.mode.at_once(forced.ids, 1)(forced.alpha[None], features).locations
    if read is not None:
        found["location"] = evidence(alpha, slopes(decoder, source, forced, one_hot(read[0], alpha.shape[1])))
    return found


def positive(values: Tensor) -> Array:
    """The positive part of maps (T, L), each with the sum 1; even where a map has none."""
    part = values.clamp(min=0)
    total = part.sum(-1, keepdim=True)
    even = torch.full_like(part, 1 / part.shape[1])
    found: Array = torch.where(total > 0, part / total, even).cpu().numpy()
    return found


def figures_of(maps: Mapping[str, Array], target: Target) -> dict[str, dict[str, float]]:
    """The figures of `evidence.summarize` of one word by map, from all words' maps (T, L)."""
    shares = {name: values @ target.inside for name, values in maps.items()}  # of every word (T,)
    return {
        name: {
            "share": share[target.step],
            "peak": float(target.centred[maps[name][target.step].argmax()]),
            "minus_alpha": share[target.step] - shares["alpha"][target.step],
            "minus_words": share[target.step] - _mean(np.delete(share, target.step)),
            "minus_nouns": share[target.step] - _mean(share[list(target.others)]),
        }
        for name, share in shares.items()
    }


def falls_of_words(
    decoder: Decoder, features: Tensor, forced: Forced, maps: Mapping[str, Tensor], steps: Sequence[int]
) -> list[dict[str, float]]:
    """How far log p of the words at some steps falls when locations are hidden, by map and `HIDDEN`."""
    generator = torch.Generator().manual_seed(forced.mode.seed)
    chance = torch.rand(DRAWS, maps["alpha"].shape[1], generator=generator).to(features.device)
    by_map = torch.cat([values[list(steps)] for values in maps.values()])
    masks = largest(torch.cat([maps["evidence"], chance, by_map]))
    found = falls_of_masks(decoder, forced, hidden_in_annotations(features, masks)).double().cpu().numpy()  # (U, T)
    of_words, of_chance, of_maps = np.split(found, [len(forced.words), len(forced.words) + DRAWS])
    of_maps = of_maps.reshape(len(maps), len(steps), -1)
    return [
        {
            **{name: of_maps[row, number, step] for row, name in enumerate(maps)},
            "other_word": _mean(np.delete(of_words[:, step], step)),
            "chance": of_chance[:, step].mean(),
        }
        for number, step in enumerate(steps)
    ]


def rank_correlation(one: Tensor, other: Tensor) -> Array:
    """Spearman's correlation of two maps of each word (T, L), over the locations (T,)."""
    first, second = (each.argsort(-1).argsort(-1).double() - (each.shape[-1] - 1) / 2 for each in (one, other))
    found: Array = cosine_similarity(first, second, dim=-1).cpu().numpy()
    return found


@torch.no_grad()
def measured_words(
    captioner: Captioner, readings: Iterable[Reading], mode: AttentionModeName, seed: int
) -> Iterator[Word]:
    """The figures of every word of readings that says what it is about; ``seed`` shuffles weights."""
    decoder = attentive(captioner)
    vocabulary, device = captioner.checkpoint.vocabulary, captioner.torch_backend().torch_device
    names = [name for name, _ in decoder.named_parameters()]
    parts = {part: prefix for part, prefix in PARTS.items() if any(name.startswith(prefix) for name in names)}
    others = {part: shuffled(decoder, prefix, seed) for part, prefix in parts.items()}
    for number, reading in enumerate(reading for reading in readings if reading.targets):
        features = reading.features.float().clone()  # encoders give tensors that autograd does not take
        ids = torch.tensor([vocabulary.encode(reading.words)[:-1]], device=device)
        subject = (reading.example, features, list(reading.words), ids, SeededMode(mode, reading.seed))
        forced = force(decoder, *subject)
        maps = maps_of(decoder, features, forced)
        by_map = {name: positive(values) for name, values in maps.items()}
        steps = [target.step for target in reading.targets]
        controls: list[dict[str, dict[str, float]]] = [{} for _ in steps]
        if number < CONTROLLED:
            same = {}
            for part, other in others.items():
                again = force(other, *subject)
                along = slopes(other, other.start(features).source, again, again.alpha)
                same[part] = rank_correlation(maps["evidence"], evidence(again.alpha.double(), along))
            falls = falls_of_words(decoder, features, forced, maps, steps)
            controls = [
                {"hidden": hidden, "shuffled": {part: float(values[step]) for part, values in same.items()}}
                for step, hidden in zip(steps, falls, strict=True)
            ]
        for target, controlled in zip(reading.targets, controls, strict=True):
            chance = {"share": float(target.inside.mean()), "peak": float(target.centred.mean())}
            yield Word(reading.photo, target.kinds, {"chance": chance, **figures_of(by_map, target), **controlled})


class Cover:
    """How boxes of a photo lie on the grid of locations, which is spread over the part of the photo that was seen.

    Each location's cell lies where the location looks, by the ``offset`` of the encoder, see `registry.offset`.
    """

    def __init__(self, seen: Box, grid: tuple[int, int], offset: tuple[float, float] = (0.0, 0.0)) -> None:
        left, top, right, bottom = seen
        self.rows = top + (bottom - top) * cell_edges(grid[0], offset[0])  # edges, in pixels
        self.columns = left + (right - left) * cell_edges(grid[1], offset[1])

    def share(self, box: Box) -> NDArray[np.float64]:
        """The part of each location's own area that is inside the box (L,)."""
        left, top, right, bottom = box
        return np.outer(_overlap(self.rows, top, bottom), _overlap(self.columns, left, right)).ravel()

    def centred(self, box: Box) -> NDArray[np.bool_]:
        """Whether each location has its centre inside the box (L,)."""
        left, top, right, bottom = box
        down, across = (self.rows[:-1] + self.rows[1:]) / 2, (self.columns[:-1] + self.columns[1:]) / 2
        return np.outer((top <= down) & (down < bottom), (left <= across) & (across < right)).ravel()

    def __call__(self, box: Box) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """`share` and `centred` of a box."""
        return self.share(box), self.centred(box)


def _overlap(edges: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    part: NDArray[np.float64] = np.clip(inside, 0, None) / np.diff(edges)
    return part


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")
