"""`sat analyze ablation`: does where a model looks matter to what it says?

Photos of a split are drawn and captioned. Each caption is told to the model again, and at every word something is done
to what the model sees: its α is replaced (`controls`), or places are hidden (`occlusion`). No boxes are needed.

T words of a caption, end token excluded · L places in a grid of rows and columns.
"""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.analysis.ablation.captions import caption_photos, scores_of_controls
from show_attend_tell.analysis.ablation.controls import costs_at_words, losses_throughout
from show_attend_tell.analysis.ablation.occlusion import (
    VARIANTS,
    WAYS,
    falls_in_annotations,
    falls_in_photo,
    hidden_locations,
)
from show_attend_tell.analysis.ablation.teacher_forcing import Looking, Watched, watch
from show_attend_tell.analysis.parts_of_speech import PARTS, part_of_speech
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, Example
from show_attend_tell.errors import SatError
from show_attend_tell.generation import photo_seed
from show_attend_tell.metrics.bootstrap import Bootstrap, Mean
from show_attend_tell.metrics.scores import check_scorers
from show_attend_tell.progress import Progress
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.settings import AttentionModeName
from show_attend_tell.training.losses import entropy
from show_attend_tell.vision.sources import Annotations, cached

Captions = Literal["own", "reference"]
STILL = 0.05  # a caption's maps do not move when less of α than this is elsewhere at the next word, on average
CLASSES = (*PARTS, "unclassified", "all")


class Measured(NamedTuple):
    """What was measured on one caption."""

    watched: Watched
    masks: Tensor  # the places hidden (U, L)
    costs: dict[str, NDArray[np.float64]]  # by control (T,)
    losses: dict[str, NDArray[np.float64]]  # by look and control (T + 1,)
    falls: dict[str, NDArray[np.float64]]  # by way of hiding (T, V)


@torch.inference_mode()
def ablation(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    *,
    cache: Path,
    photos: int = 200,
    captions: Captions = "own",
    captioned: int | None = None,
    encoded: int = 0,
    attention_mode: AttentionModeName | None = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    rerank_weight: float | None = None,
    seed: int = 0,
    show: bool = True,
) -> dict[str, Any]:
    """Measure whether the places that a model attends to matter to its words, and how its gaze and gate behave.

    ``photos`` of the split are drawn by ``seed``. The words measured are those of each photo's caption by the model
    itself or, with ``captions`` "reference", of its first reference. ``captioned`` is on how many of the photos the
    model also makes captions with each control at every step, all by default and 0 for none. ``encoded`` is on how many
    places are hidden in the photo too, which takes about 80 encodings a photo. ``attention_mode`` and the settings
    of the search are the checkpoint's by default.

    The result has, where a figure is the ``mean`` over words with ``low`` and ``high``, its 95 % interval by
    bootstrapping photos, and classes of words are `CLASSES`:

    - ``at_word``, by class: ``log_loss``, −log p by the own α, and what each of `controls.CONTROLS` costs, in nats, at
      the word's own step with everything before it unchanged;
    - ``throughout``: ``log_loss`` in nats a word, end tokens counted as words, told with each of `controls.OWN` and
      `controls.CONTROLS` from the first word on, and its ``cost``, how much it is above that of the own look;
    - ``captions_made``: scores of the captions made with each control, see `captions.scores_of_controls`, or None;
    - ``occlusion``, by way of hiding (`occlusion.WAYS`) and class: the mean fall for each choice of hidden places
      (`occlusion.VARIANTS`); ``most_minus_…`` and ``ratio_…``, how much more and how many times as much as each other
      choice the ``most`` attended places cost. A ratio is None where what it is over is not above zero with its whole
      interval. An annotation of VGG-19 sees nearly the whole photo, so annotations and photo need not agree;
    - ``attention``, by class: ``beta``, the ``entropy`` of α in nats, and ``share``, the part of α on the places hidden
      as most attended; ``beta_noun_minus_function``: how much wider the gate opens for nouns than for function words;
    - ``travel``: the distance between the centroids of successive words' α, in sides of the square that the encoder
      sees; ``moved``: the part of α that is elsewhere than at the word before; ``still``: the photos on which that is
      below `STILL` on average, whose maps do not move.

    Without a gate there is no ``beta``, and ``beta_missing`` says so. Raises `SatError` for a model without attention,
    for fewer than two photos, and where fewer than two captions have two words.
    """
    captioner.check_attention()
    dataset = dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer)
    check_numbers(dataset, split, photos=photos, encoded=encoded, captioned=captioned)
    examples = sorted(dataset.split(split), key=lambda example: example.name)
    drawn = random.Random(seed).sample(examples, min(photos, len(examples)))
    captioned = len(drawn) if captioned is None else min(captioned, len(drawn))
    if captioned:
        check_scorers()
    generation = captioner.checkpoint.generation.merge(
        attention_mode=attention_mode,
        beam_size=beam_size,
        length_penalty=length_penalty,
        rerank_weight=rerank_weight,
    )
    captioner.generation(generation)
    annotations = cached(
        dataset, captioner.backend.encoder, cache, splits=(split,), encode=captioner.backend.encode, show=show
    )
    lookings = [Looking(generation.attention_mode, photo_seed(seed, example.name.encode())) for example in drawn]
    result: dict[str, Any] = {
        "model": captioner.name,
        "data": dataset.name,
        "split": split,
        "photos": len(drawn),
        "seed": seed,
        "attention_mode": generation.attention_mode,
        "beam_size": generation.beam_size,
        "length_penalty": generation.length_penalty,
        "rerank_weight": generation.rerank_weight,
        "captions": captions,
    }

    number = len(drawn) if captions == "own" else captioned
    own = caption_photos(captioner, annotations, drawn[:number], lookings, generation, show=show)
    watched = watch_all(captioner, annotations, drawn, lookings, own if captions == "own" else None, show=show)
    if len(watched) < 2:
        raise SatError(f"{len(watched)} of {len(drawn)} captions have two words or more: is {captioner.name} trained?")
    again = {example.name for example in drawn[:encoded]}
    measured = []
    for one, other in Progress(
        zip(watched, [*watched[1:], watched[0]], strict=True),
        total=len(watched),
        desc="ablation",
        unit="photo",
        disable=not show,
    ):
        measured.append(measure(captioner, annotations, one, other, encoded=one.example.name in again))
    made = None
    if captioned:
        parts = (drawn[:captioned], lookings[:captioned], generation, own[:captioned])
        made = scores_of_controls(captioner, annotations, *parts, seed=seed, show=show)
    return {
        **result,
        **summarize(measured, captioner.backend.encoder.grid, generation.attention_mode, seed),
        "captions_made": made,
    }


def check_numbers(dataset: Dataset, split: str, *, photos: int, encoded: int, captioned: int | None) -> None:
    """Raise `SatError` for numbers of photos that give no interval, which comes from how photos differ."""
    there = len(dataset.split(split))
    if there < 2:
        raise SatError(f"the split {split!r} has one photo, and a gaze takes 2 or more: give another split")
    if photos < 2:
        raise SatError(f"{photos} photos give no interval: give 2 or more")
    if encoded < 0 or encoded == 1:
        raise SatError(f"{encoded} photos encoded again (--encoded) give no interval: give 2 or more, or 0 for none")
    if captioned == 1:
        raise SatError("1 photo (--captioned) has no other photo's attention: give 2 or more, or 0 for none")


def watch_all(
    captioner: Captioner,
    annotations: Annotations,
    examples: Sequence[Example],
    lookings: Sequence[Looking],
    own: Sequence[Hypothesis] | None,
    *,
    show: bool,
) -> list[Watched]:
    """Tell each photo's own caption, or its first reference where none are given, if it has two words or more."""
    found = []
    vocabulary = captioner.checkpoint.vocabulary
    for number, example in enumerate(Progress(examples, desc="telling", unit="photo", disable=not show)):
        words = vocabulary.encode(example.captions[0])[:-1] if own is None else own[number].words
        if len(words) > 1:
            photo = annotations[[example.name]].to(captioner.torch_backend().torch_device).float()
            ids = torch.tensor([words], device=captioner.torch_backend().torch_device)
            found.append(
                watch(
                    captioner.torch_backend().decoder, example, photo, vocabulary.decode(words), ids, lookings[number]
                )
            )
    return found


def measure(
    captioner: Captioner, annotations: Annotations, watched: Watched, other: Watched, *, encoded: bool
) -> Measured:
    """Replace a caption's α and hide its photo's places; ``other`` is the caption of another photo."""
    decoder = captioner.torch_backend().decoder
    photo, other_photo = (
        annotations[[one.example.name]].to(captioner.torch_backend().torch_device).float() for one in (watched, other)
    )
    generator = torch.Generator().manual_seed(watched.looking.seed)
    masks = hidden_locations(watched.alpha, other.alpha, captioner.backend.encoder.grid, generator)
    falls = falls_in_annotations(decoder, photo, watched, masks)
    if encoded:
        falls |= falls_in_photo(captioner, watched, masks)
    return Measured(
        watched=watched,
        masks=masks,
        costs=costs_at_words(decoder, photo, watched, other_photo, other),
        losses=losses_throughout(decoder, photo, watched, other),
        falls=falls,
    )


# ---------------------------------------------------------------- all photos


def summarize(
    measured: Sequence[Measured], grid: tuple[int, int], attention_mode: AttentionModeName, seed: int
) -> dict[str, Any]:
    """What `ablation` says of all captions."""
    watched = [one.watched for one in measured]
    words = [word for one in watched for word in one.words]
    unknown = Counter(word for word in words if part_of_speech(word) is None)
    result: dict[str, Any] = {
        "captions_told": len(watched),
        "words": len(words),
        "unclassified_share": unknown.total() / len(words),
        "unclassified_words": [word for word, _ in unknown.most_common(10)],
        "locations": measured[0].masks.shape[1],
        "hidden": int(measured[0].masks[0].sum()),
    }
    columns = {"log_loss": [-one.visible.double().cpu().numpy() for one in watched]}
    columns |= {name: [one.costs[name] for one in measured] for name in measured[0].costs}
    result["at_word"] = {
        kind: {**count, **{name: mean.to_dict() for name, mean in means.items()}}
        for kind, (count, means) in by_class(watched, columns, seed).items()
    }
    bootstrap = Bootstrap(len(measured), seed)
    photos = np.repeat(np.arange(len(measured)), [len(one.words) + 1 for one in watched])
    losses = {
        name: bootstrap(np.concatenate([one.losses[name] for one in measured]), photos) for name in measured[0].losses
    }
    result["throughout"] = {
        "words": len(photos),
        **{
            name: {"log_loss": mean.to_dict(), "cost": mean.minus(losses[attention_mode]).to_dict()}
            for name, mean in losses.items()
        },
    }
    result["captions_by_way"] = {way: sum(way in one.falls for one in measured) for way in WAYS}
    result["occlusion"] = {way: occlusion(measured, way, seed) for way in WAYS}
    result |= describe_ablation(measured, grid, seed)
    return result


def occlusion(measured: Sequence[Measured], way: str, seed: int) -> dict[str, Any]:
    """The falls by class of word for one way of hiding, on the captions for which it was measured, if two or more."""
    hidden = [one for one in measured if way in one.falls]
    if len(hidden) < 2:
        return {}
    falls = {name: [one.falls[way][:, column] for one in hidden] for column, name in enumerate(VARIANTS)}
    result = {}
    for kind, (count, means) in by_class([one.watched for one in hidden], falls, seed).items():
        others = [name for name in VARIANTS if name != "most"]
        result[kind] = {
            **count,
            **{name: mean.to_dict() for name, mean in means.items()},
            **{f"most_minus_{name}": means["most"].minus(means[name]).to_dict() for name in others},
            **{f"ratio_{name}": means["most"].over(means[name]) for name in others},
        }
    return result


def describe_ablation(measured: Sequence[Measured], grid: tuple[int, int], seed: int) -> dict[str, Any]:
    """How wide the gate opens, how sharp α is and how it moves."""
    watched = [one.watched for one in measured]
    result: dict[str, Any] = {}
    columns = {
        "entropy": [entropy(one.alpha) for one in watched],
        "share": [(one.watched.alpha * one.masks[: len(one.watched.words)]).sum(1) for one in measured],
    }
    gates = [one.beta for one in watched if one.beta is not None]
    if gates:
        columns["beta"] = gates
    found = by_class(watched, {name: [part.cpu().numpy() for part in parts] for name, parts in columns.items()}, seed)
    result["attention"] = {
        kind: {**count, **{name: mean.to_dict() for name, mean in means.items()}}
        for kind, (count, means) in found.items()
    }
    if not gates:
        result["beta_missing"] = "the model has no gate"
    elif "noun" in found and "function" in found:
        nouns, functions = found["noun"][1]["beta"], found["function"][1]["beta"]
        result["beta_noun_minus_function"] = nouns.minus(functions).to_dict()

    steps = [movement(one.alpha.cpu().numpy(), grid) for one in watched]  # (T − 1, 2) each
    photos = np.repeat(np.arange(len(watched)), [len(step) for step in steps])
    bootstrap, moves = Bootstrap(len(watched), seed), np.concatenate(steps)
    result["travel"] = bootstrap(moves[:, 0], photos).to_dict()
    result["moved"] = bootstrap(moves[:, 1], photos).to_dict()
    result["still"] = [one.example.name for one, step in zip(watched, steps, strict=True) if step[:, 1].mean() < STILL]
    return result


def by_class(
    watched: Sequence[Watched], columns: dict[str, list[NDArray[Any]]], seed: int
) -> dict[str, tuple[dict[str, int], dict[str, Mean]]]:
    """How many words of how many photos, and the mean of every column, of each class that has words.

    A column has (T,) of each caption.
    """
    kinds = np.array([part_of_speech(word) or "unclassified" for one in watched for word in one.words])
    photos = np.repeat(np.arange(len(watched)), [len(one.words) for one in watched])
    bootstrap = Bootstrap(len(watched), seed)
    joined = {name: np.concatenate(parts).astype(np.float64) for name, parts in columns.items()}  # of all words
    found = {}
    for kind in CLASSES:
        inside = (kinds == kind) | (kind == "all")
        if inside.any():
            means = {name: bootstrap(values[inside], photos[inside]) for name, values in joined.items()}
            found[kind] = ({"words": int(inside.sum()), "photos": len(set(photos[inside].tolist()))}, means)
    return found


def movement(alpha: NDArray[Any], grid: tuple[int, int]) -> NDArray[np.float64]:
    """From each word to the next, how far α's centroid goes and how much of α moves: (T − 1, 2) from (T, L).

    The centroid is in sides of the square that the grid covers. What moves is the total variation ½ Σ_i |α_ti −
    α_(t−1)i|, which also sees a map that spreads or splits about one centroid.
    """
    rows, columns = np.indices(grid).reshape(2, -1)
    centres = np.stack([(rows + 0.5) / grid[0], (columns + 0.5) / grid[1]], axis=1)  # (L, 2)
    far = np.linalg.norm(np.diff(alpha @ centres, axis=0), axis=1)
    return np.stack([far, np.abs(np.diff(alpha, axis=0)).sum(1) / 2], axis=1)
