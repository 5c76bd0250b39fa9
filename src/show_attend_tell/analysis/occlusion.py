"""Does a model look where it should? Places are hidden, and what that costs each word is measured; no boxes are needed.

T words of a caption, end token excluded · U masks of hidden places · L places in a grid of rows and columns · D
annotation size · S side of the encoder's square of pixels · V choices of hidden places · N photos · W words of all
captions.

A word's *fall* is log p(word) with everything visible less log p(word) with places hidden, in nats: above zero, what
was hidden had spoken for the word. The words are the model's own caption, each told after its own words, whatever
the model would rather say now. A tenth of the places is hidden every time, whatever the map: two models, or a flat map
and a sharp one, compare only when equally much is hidden. (The fewest places with half of α would be one place of a
hard model and some thirty of a soft one.) The part of α that the hidden places held is given beside.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate, one_hot
from tqdm import tqdm

from show_attend_tell.analysis.parts_of_speech import PARTS, part_of_speech
from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.checkpoint.records import Decoding
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import Look, LookName, Sampled, look_by_name
from show_attend_tell.model.interface import (
    Decoder,
    Parts,
    State,
    at_step,
    map_parts,
    previous_words,
    tell,
    word_log_probabilities,
)
from show_attend_tell.scoring.bootstrap import Bootstrap, Mean
from show_attend_tell.training.losses import entropy

HIDDEN = 0.1  # of the places
DRAWS = 4  # of random places a photo
BATCH = 16  # photos with hidden places that are encoded or told at once
STILL = 0.05  # a caption's maps do not move when less of α than this is elsewhere at the next word, on average

VARIANTS = {  # which places are hidden
    "most": "most attended",
    "other": "another word's",
    "patch": "random patch",
    "random": "random",
    "least": "least attended",
}
WAYS = {  # how
    "annotations": "hidden in the annotations",
    "annotations_at_word": "hidden in the annotations, only while the word is being said",
    "grey": "greyed in the photo, which is encoded again",
    "blur": "blurred in the photo, which is encoded again",
}
CLASSES = (*PARTS, "unclassified", "all")


class Looking(NamedTuple):
    """A way of looking at a photo, with the photo's seed for places that are sampled."""

    name: LookName
    seed: int

    def along(self, ids: Tensor, rows: int = 1) -> Look:
        """For telling a caption (1, T) in that many rows: all draw alike, so that only what is hidden differs."""
        steps = ids.shape[1]
        return look_by_name(self.name, seeds=[self.seed] * rows, paths=1, steps=steps, device=ids.device)

    def at_once(self, ids: Tensor, rows: int) -> Look:
        """For one step in which each word of a caption (1, T) is a path: with the draws that `along` has for it."""
        look = self.along(ids, rows)
        return Sampled(look.uniforms.mT) if isinstance(look, Sampled) else look  # (rows, 1, T) → (rows, T, 1)


class Watched(NamedTuple):
    """A photo's own caption, where the model looked, and what hiding places did to every word."""

    example: Example
    looking: Looking
    ids: Tensor  # (1, T)
    words: list[str]  # T
    alpha: Tensor  # (T, L)
    beta: Tensor | None  # (T,)
    masks: Tensor  # (U, L), true where hidden
    visible: Tensor  # log p of each word with nothing hidden (T,)
    falls: dict[str, NDArray[np.float64]]  # by way (T, V)


@torch.inference_mode()
def gaze(
    captioner: Captioner,
    examples: Sequence[Example],
    *,
    photos: int = 200,
    encoded: int = 50,
    seed: int = 0,
    decoding: Decoding | None = None,
    show: bool = True,
) -> dict[str, Any]:
    """Measure whether the places that a model attends to matter to its words, and how its gaze and gate behave.

    ``photos`` of the examples are drawn by ``seed`` and captioned; on the first ``encoded`` of them places are hidden
    in the photo too, which costs about 60 encodings a photo. ``decoding`` is the checkpoint's unless given.

    ``occlusion`` has, by way of hiding (`WAYS`) and by class of word (`CLASSES`), the mean fall for each choice of
    hidden places (`VARIANTS`): those that the word attended to ``most`` and ``least``, as many at ``random``, those
    that another word of the caption attended to most (``other``, the mean over the others), and a ``patch``, the most
    attended places of some word moved elsewhere as a whole. Random places lie scattered, so that their neighbours still
    tell of them; a patch hides as compactly as attention does. ``ratio_random``, ``ratio_patch`` and ``ratio_other``
    are the mean fall of ``most`` over theirs, None where theirs is not above zero with its whole interval;
    ``most_minus_random`` is there always.

    Places hidden in the annotations get the mean of those left, which knows nothing of them; in the photo, the
    encoder's mean colour (``grey``) or the photo's mean colour thereabouts, over about two by two cells (``blur``).
    An annotation of VGG-19 sees nearly the whole photo, so annotations and photo need not agree.

    ``attention`` has by class ``beta``, the ``entropy`` of α in nats, and ``share``, the part of α on the places hidden
    as most attended. ``beta_noun_minus_function`` is how much wider the gate opens for nouns than for function words.
    ``travel`` is the distance between the centroids of successive words' α, in sides of the square that the encoder
    sees; ``moved`` the part of α that is elsewhere than at the word before; ``still`` names the photos on which that
    is below `STILL` on average: their maps do not move.

    Each figure is the ``mean`` over words (or steps from word to word), with ``low`` and ``high``, its 95 % interval
    by bootstrapping photos. For a model without attention ``occlusion`` and ``attention`` are None and
    ``attention_missing`` says why; without a gate there is no ``beta``, and ``beta_missing`` says so.

    Raises `SatError` for fewer than two photos, and where no two captions have two words.
    """
    if min(photos, len(examples)) < 2 or encoded < 0 or encoded == 1:
        raise SatError(
            f"{photos} of {len(examples)} photos, {encoded} of them encoded again: give at least 2 of each, since "
            "intervals come from how photos differ, or 0 to encode none again"
        )
    decoding = decoding or captioner.checkpoint.decoding
    drawn = sorted(examples, key=lambda example: example.name)
    drawn = random.Random(seed).sample(drawn, min(photos, len(drawn)))
    settings = {"photos": len(drawn), "seed": seed, "beam": decoding.beam, "look": decoding.look}

    watched: list[Watched] = []
    for example in tqdm(drawn, desc="gaze", unit="photo", disable=not show):
        looking = Looking(decoding.look, photo_seed(seed, example.name.encode()))
        pixels = captioner.encoder.preprocessing(open_photo(example.photo))
        annotations = captioner.encoder.annotate(pixels[None].to(captioner.device))
        best = captioner.search(annotations, decoding, seeds=[looking.seed])[0][0]
        if best.alpha is None:
            missing = f"{captioner.name} has no attention: there is no gaze to examine"
            return {**settings, "occlusion": None, "attention": None, "attention_missing": missing}
        if len(best.words) > 1:
            watched.append(watch(captioner, example, annotations, best.words, looking))
    if len(watched) < 2:
        raise SatError(f"{len(watched)} of {len(drawn)} captions have two words or more: is {captioner.name} trained?")

    again = {example.name for example in drawn[:encoded]}
    encoded_again = [one for one in watched if one.example.name in again]
    for one in tqdm(encoded_again, desc="photos with hidden places", unit="photo", disable=not show):
        hide_in_photo(captioner, one)
    return {**settings, **summarise(watched, captioner.encoder.grid, seed)}


# ---------------------------------------------------------------- one photo


def watch(captioner: Captioner, example: Example, annotations: Tensor, words: list[int], looking: Looking) -> Watched:
    """Tell a photo's own caption, with everything visible and with places of its annotations (1, L, D) hidden."""
    decoder, ids = captioner.decoder, torch.tensor([words], device=captioner.device)
    told = tell(decoder, annotations, ids, look=looking.along(ids))
    assert told.alpha is not None  # as in the search that found the words
    visible = word_log_probabilities(told.logits, ids)[0, 0]
    masks = hidden_places(told.alpha[0, 0], captioner.encoder.grid, torch.Generator().manual_seed(looking.seed))
    hidden = hide_annotations(annotations, masks)
    memory = memories(decoder, annotations, ids, looking)
    return Watched(
        example=example,
        looking=looking,
        ids=ids,
        words=captioner.checkpoint.vocabulary.decode(words),
        alpha=told.alpha[0, 0],
        beta=None if told.beta is None else told.beta[0, 0],
        masks=masks,
        visible=visible,
        falls={
            "annotations": by_variant(visible - sentence_told(decoder, hidden, ids, looking)),
            "annotations_at_word": by_variant(visible - word_told(decoder, hidden, ids, memory, looking)),
        },
    )


def hide_in_photo(captioner: Captioner, watched: Watched) -> None:
    """Add the falls from hiding places in the photo, greyed and blurred, to those of a watched photo."""
    pixels = captioner.encoder.preprocessing(open_photo(watched.example.photo)).to(captioner.device)  # (3, S, S)
    rows, columns = captioner.encoder.grid
    thumbnail = adaptive_avg_pool2d(pixels[None], (max(1, rows // 2), max(1, columns // 2)))
    blurred = interpolate(thumbnail, size=pixels.shape[1:], mode="bilinear")[0]
    grey = torch.zeros_like(pixels)  # the mean colour, once normalised
    masks = watched.masks.view(-1, 1, rows, columns).float()
    cover = interpolate(masks, size=pixels.shape[1:], mode="nearest").bool()  # (U, 1, S, S)
    for way, instead in (("grey", grey), ("blur", blurred)):
        parts = [
            sentence_told(
                captioner.decoder,
                captioner.encoder.annotate(torch.where(part, instead, pixels)),
                watched.ids,
                watched.looking,
            )
            for part in torch.split(cover, BATCH)
        ]
        watched.falls[way] = by_variant(watched.visible - torch.cat(parts))


def hidden_places(alpha: Tensor, grid: tuple[int, int], generator: torch.Generator) -> Tensor:
    """What to hide for one caption with α (T, L): the masks (U, L) of T most attended places, T least attended, `DRAWS`
    patches and `DRAWS` random ones.

    Each hides as many places. A patch is some word's most attended places, moved as a whole by a random distance; what
    leaves the grid comes back on its other side.
    """
    steps, places = alpha.shape
    count = max(1, round(HIDDEN * places))

    def largest(values: Tensor) -> Tensor:
        return one_hot(values.topk(count).indices, places).sum(1).bool()

    most = largest(alpha)
    patches = []
    for _ in range(DRAWS):
        word = int(torch.randint(steps, (), generator=generator))
        moved = int(torch.randint(1, places, (), generator=generator))
        by = (moved // grid[1], moved % grid[1])  # never (0, 0), where it was
        patches.append(most[word].view(grid).roll(by, (0, 1)).flatten())
    scattered = largest(torch.rand(DRAWS, places, generator=generator).to(alpha.device))
    return torch.cat([most, largest(-alpha), torch.stack(patches), scattered])


def by_variant(falls: Tensor) -> NDArray[np.float64]:
    """The falls of each word by `VARIANTS` (T, V), from those of all under every mask of `hidden_places` (U, T)."""
    steps = falls.shape[1]
    of_most, of_least, of_patches, of_random = falls.double().split_with_sizes([steps, steps, DRAWS, DRAWS])
    most = of_most.diagonal()
    others = (of_most.sum(0) - most) / (steps - 1)
    variants = torch.stack([most, others, of_patches.mean(0), of_random.mean(0), of_least.diagonal()], dim=1)
    return variants.cpu().numpy()


def hide_annotations(annotations: Tensor, masks: Tensor) -> Tensor:
    """Annotations (1, L, D) with masked places (U, L) replaced by the mean of the others: (U, L, D)."""
    left = (~masks).float()
    mean = left @ annotations[0] / left.sum(1, keepdim=True)  # (U, D)
    return torch.where(masks[..., None], mean[:, None], annotations)


def sentence_told(decoder: Decoder, hidden: Tensor, ids: Tensor, looking: Looking) -> Tensor:
    """log p of every word (U, T) of a caption (1, T), with annotations (U, L, D) whose places are hidden throughout."""

    def part(annotations: Tensor) -> Tensor:
        rows = len(annotations)
        told = tell(decoder, annotations, ids.expand(rows, -1), look=looking.along(ids, rows))
        return word_log_probabilities(told.logits, ids.expand(rows, -1))[:, 0]

    return torch.cat([part(annotations) for annotations in torch.split(hidden, BATCH)])


def memories(decoder: Decoder, annotations: Tensor, ids: Tensor, looking: Looking) -> Parts:
    """The decoder's memory before each word with everything visible, a path a word: parts (1, T, ...)."""
    look = looking.along(ids)
    embedded = decoder.embed(previous_words(decoder, ids))  # (1, T, ·)
    state = decoder.start(annotations)
    before = []
    for time in range(ids.shape[1]):
        before.append(state.memory)
        state = decoder.step(at_step(embedded, time, 1), state, look).state
    return map_parts(lambda *steps: torch.cat(steps, dim=1), *before)


def word_told(decoder: Decoder, hidden: Tensor, ids: Tensor, memory: Parts, looking: Looking) -> Tensor:
    """log p of every word (U, T) of a caption (1, T), with annotations (U, L, D) whose places are hidden only at the
    word's own step.

    Every word is a path of its own with the memory that it had when all was visible: one step tells them all.
    """
    steps = ids.shape[1]
    embedded = decoder.embed(previous_words(decoder, ids))  # (1, T, ·)

    def part(annotations: Tensor) -> Tensor:
        rows = len(annotations)

        def of_every_row(part: Tensor) -> Tensor:
            return part.expand(rows, *part.shape[1:])

        state = State(decoder.start(annotations, paths=steps).source, map_parts(of_every_row, memory))
        step = decoder.step(map_parts(of_every_row, embedded), state, looking.at_once(ids, rows))
        logits = decoder.read_out(step.output)[:, None]  # (U, 1, T, K): as if T were the steps of one path
        return word_log_probabilities(logits, ids.expand(rows, -1))[:, 0]

    return torch.cat([part(annotations) for annotations in torch.split(hidden, BATCH)])


# ---------------------------------------------------------------- all photos


def summarise(watched: Sequence[Watched], grid: tuple[int, int], seed: int) -> dict[str, Any]:
    """What `gaze` says of watched photos."""
    words = [word for one in watched for word in one.words]
    unknown = Counter(word for word in words if part_of_speech(word) is None)
    result: dict[str, Any] = {
        "captions": len(watched),
        "words": len(words),
        "unclassified_share": unknown.total() / len(words),
        "unclassified_words": [word for word, _ in unknown.most_common(10)],
        "places": watched[0].masks.shape[1],
        "hidden": int(watched[0].masks[0].sum()),
        "captions_by_way": {way: sum(way in one.falls for one in watched) for way in WAYS},
        "occlusion": {},
    }
    for way in WAYS:
        shown = [one for one in watched if way in one.falls]
        falls = {name: [one.falls[way][:, column] for one in shown] for column, name in enumerate(VARIANTS)}
        found = by_class(shown, falls, seed) if len(shown) > 1 else {}
        result["occlusion"][way] = {
            kind: {
                "words": count,
                **{name: mean.to_dict() for name, mean in means.items()},
                "most_minus_random": means["most"].minus(means["random"]).to_dict(),
                **{f"ratio_{name}": means["most"].over(means[name]) for name in ("random", "patch", "other")},
            }
            for kind, (count, means) in found.items()
        }

    columns = {
        "entropy": [entropy(one.alpha) for one in watched],
        "share": [(one.alpha * one.masks[: len(one.words)]).sum(1) for one in watched],
    }
    gates = [one.beta for one in watched if one.beta is not None]
    if gates:
        columns["beta"] = gates
    found = by_class(watched, {name: [part.cpu().numpy() for part in parts] for name, parts in columns.items()}, seed)
    result["attention"] = {
        kind: {"words": count, **{name: mean.to_dict() for name, mean in means.items()}}
        for kind, (count, means) in found.items()
    }
    if not gates:
        result["beta_missing"] = "the model has no gate"
    elif "noun" in found and "function" in found:
        nouns, functions = found["noun"][1]["beta"], found["function"][1]["beta"]
        result["beta_noun_minus_function"] = nouns.minus(functions).to_dict()

    steps = [movement(one.alpha.cpu().numpy(), grid) for one in watched]  # N of (T − 1, 2)
    photos = np.repeat(np.arange(len(watched)), [len(step) for step in steps])
    bootstrap, moves = Bootstrap(len(watched), seed), np.concatenate(steps)
    result["travel"] = bootstrap(moves[:, 0], photos).to_dict()
    result["moved"] = bootstrap(moves[:, 1], photos).to_dict()
    result["still"] = [one.example.name for one, step in zip(watched, steps, strict=True) if step[:, 1].mean() < STILL]
    return result


def by_class(
    watched: Sequence[Watched], columns: dict[str, list[NDArray[Any]]], seed: int
) -> dict[str, tuple[int, dict[str, Mean]]]:
    """How many words, and the mean of every column, of each class that has words; a column is N arrays (T,)."""
    kinds = np.array([part_of_speech(word) or "unclassified" for one in watched for word in one.words])
    photos = np.repeat(np.arange(len(watched)), [len(one.words) for one in watched])
    bootstrap = Bootstrap(len(watched), seed)
    joined = {name: np.concatenate(parts).astype(np.float64) for name, parts in columns.items()}  # (W,)
    found = {}
    for kind in CLASSES:
        inside = (kinds == kind) | (kind == "all")
        if inside.any():
            means = {name: bootstrap(values[inside], photos[inside]) for name, values in joined.items()}
            found[kind] = (int(inside.sum()), means)
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


# ---------------------------------------------------------------- in words


def gaze_table(result: dict[str, Any]) -> str:
    """What `gaze` found, as lines of text; the intervals of the single falls are in the result alone."""
    if result["attention"] is None:
        return str(result["attention_missing"])
    unclassified = f"{100 * result['unclassified_share']:.1f} % in no class"
    if result["unclassified_words"]:
        unclassified += f" ({', '.join(result['unclassified_words'])})"
    lines = [
        f"gaze on {result['photos']} photos drawn by seed {result['seed']}, look by {result['look']}, beam "
        f"{result['beam']}: {result['words']:,} words, {unclassified}",
        f"hidden: {result['hidden']} of {result['places']} places. Falls of a word's log p in nats, [95 % intervals "
        "over photos]; no ratio (–) where what it is over is not surely above zero",
    ]
    compared = {"most_minus_random": "most less random", "ratio_random": "most/random", "ratio_patch": "most/patch"}
    for way, classes in result["occlusion"].items():
        if classes:
            lines += ["", f"{WAYS[way]}: {result['captions_by_way'][way]} photos"]
            lines += _rows(classes, means=VARIANTS, intervals=compared)
    lines += ["", f"how it looked (even attention has an entropy of {np.log(result['places']):.2f} nats)"]
    columns = {"beta": "beta", "entropy": "entropy of alpha", "share": "alpha on the hidden"}
    lines += _rows(result["attention"], means={}, intervals=columns)
    if "beta_missing" in result:
        lines.append(f"  no beta: {result['beta_missing']}")
    if "beta_noun_minus_function" in result:
        lines.append(f"  beta of nouns less that of function words: {_figure(result['beta_noun_minus_function'])}")
    lines += [
        f"  from word to word the centroid of alpha goes {_figure(result['travel'])} of the photo's side, and "
        f"{_figure(result['moved'])} of alpha moves",
        f"  maps that do not move (less than {STILL} of alpha from word to word): {len(result['still'])} of "
        f"{result['captions']} captions",
    ]
    return "\n".join(lines)


def _rows(classes: dict[str, dict[str, Any]], *, means: dict[str, str], intervals: dict[str, str]) -> list[str]:
    """A header and a line for each class, for those of the columns, titles by name, that the classes have."""
    means, intervals = ({n: title for n, title in part.items() if n in classes["all"]} for part in (means, intervals))
    header = "".join(f"{title:>16}" for title in means.values()) + "".join(f"{t:>27}" for t in intervals.values())
    lines = [f"  {'':<12}{'words':>6}{header}"]
    for kind, row in classes.items():
        figures = "".join(f"{row[name]['mean']:>16.3f}" for name in means)
        figures += "".join(f"{_figure(row[name]):>27}" for name in intervals)
        lines.append(f"  {kind:<12}{row['words']:>6}{figures}")
    return lines


def _figure(mean: dict[str, float] | None) -> str:
    return "–" if mean is None else f"{mean['mean']:.3f} [{mean['low']:.3f}, {mean['high']:.3f}]"
