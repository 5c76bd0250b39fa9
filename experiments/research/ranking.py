"""Judging captions that people wrote: which caption belongs to which photo, and how good is it?

    python experiments/research/ranking.py flickr8k/ flickr8k-soft --captions 1   # 21 minutes on one core
    python experiments/research/ranking.py flickr8k/ flickr8k-soft --captions 1 --photos 200 \\
        --experts flickr8k/text/ExpertAnnotations.txt --json ranked.json

A captioner can rank captions by their log p given a photo. Two questions are asked:

- Does a photo find its own captions among all others, and a caption its photo (the task of Kiros 2014b)?
- Does log p rise with the ratings that experts gave to captions of other photos (Hodosh et al. 2013)?

B photos · P paths, here different beginnings of captions · N captions · K vocabulary.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import REFERENCES, Dataset, Example, read_dataset
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_lines, write_text
from show_attend_tell.metrics.scores import check_scorers, score
from show_attend_tell.model.interface import Decoder, State, initial_state
from show_attend_tell.model.precision import promote
from show_attend_tell.progress import Progress
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached

BATCH_SIZE = 128  # captions of one tree, so at most as many paths: more take memory and are not faster on a CPU
Array = NDArray[np.float64]

# ---------------------------------------------------------------- log p of many captions for each photo


class Level(NamedTuple):
    """What the captions of a tree say at one step: each word once for every different beginning before it."""

    parents: Tensor  # the beginning that each continues, a path of this step (W,)
    words: Tensor  # (W,)
    running: Tensor  # those of the W that are not the end token, the paths of the next step (P′,)
    captions: Tensor  # the captions that end here, as columns of the scores
    ends: Tensor  # their end tokens, among the W


def grow(captions: Sequence[Sequence[int]], size: int = BATCH_SIZE) -> list[list[Level]]:
    """The captions (ids, each ending with the end token) as trees of their beginnings, of ``size`` captions each.

    A decoder's state depends on the words so far, so a beginning that several captions share is computed once. For the
    5,000 test captions of Flickr8k two steps in three remain.
    """
    order = sorted(range(len(captions)), key=lambda i: list(captions[i]))  # neighbors share the longest beginnings
    trees = []
    for start in range(0, len(order), size):
        beginning = dict.fromkeys(order[start : start + size], 0)  # of each caption that still runs
        levels: list[Level] = []
        while beginning:
            time = len(levels)
            rows: dict[tuple[int, int], int] = {}
            row = {i: rows.setdefault((path, captions[i][time]), len(rows)) for i, path in beginning.items()}
            ended = [i for i in row if captions[i][time] == Vocabulary.END]
            running = [number for (_, word), number in rows.items() if word != Vocabulary.END]
            parents, words = zip(*rows, strict=True)
            parts = (parents, words, running, ended, [row[i] for i in ended])
            levels.append(Level(*(torch.tensor(part, dtype=torch.long) for part in parts)))
            path_of = {number: path for path, number in enumerate(running)}
            beginning = {i: path_of[number] for i, number in row.items() if number in path_of}
        trees.append(levels)
    return trees


@torch.inference_mode()
def log_probabilities(
    decoder: Decoder, annotations: Tensor, captions: Sequence[Sequence[int]], size: int = BATCH_SIZE
) -> Tensor:
    """log p of every caption for every photo (B, N), end tokens included, by the expected context.

    annotations (B, L, D); captions are N lists of ids, each ending with the end token.
    """
    batch, device = annotations.shape[0], annotations.device
    scores = torch.empty(batch, len(captions), device=device)
    start = initial_state(decoder, annotations)
    for levels in grow(captions, size):
        state: State = start
        words = torch.full((batch, 1), decoder.vocabulary_size, device=device)
        total = torch.zeros(batch, 1, device=device)  # log p of each beginning
        for level in levels:
            parents, next_words, running = level.parents.to(device), level.words.to(device), level.running.to(device)
            step = decoder.step(decoder.embed(words), state)
            logits = promote(decoder.read_out(step.output))  # (B, P, K)
            total = (total - logits.logsumexp(-1))[:, parents] + logits[:, parents, next_words]  # (B, W)
            scores[:, level.captions.to(device)] = total[:, level.ends.to(device)]
            total, words = total[:, running], next_words[running].expand(batch, -1)
            state = step.state.select(parents[running].expand(batch, -1))
    return scores


# ---------------------------------------------------------------- retrieval


def less_mean(scores: Array, among: int | None = None) -> Array:
    """Each value less the mean of the same caption's values for the other photos, of values (photos, captions).

    What is left is what the photo adds to how likely the caption is anyway. The mean is over the first ``among``
    photos, two or more, or over all.
    """
    among = len(scores) if among is None else among
    inside = (np.arange(len(scores)) < among)[:, None]
    others: Array = (scores[:among].sum(0) - np.where(inside, scores, 0.0)) / (among - inside)
    return scores - others


def retrieval(scores: Array, owners: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    """How well values (photos, captions) find the captions of a photo and the photo of a caption.

    ``owners`` (captions,) is each caption's own photo, as a row number. ``image_to_caption`` has the rank of each
    photo's best own caption among the other photos' captions; ``caption_to_image`` the rank of each caption's photo
    among all photos. ``recall_1``, ``recall_5`` and ``recall_10`` are the shares ×100 whose rank is at most that;
    ``median_rank`` 1 is best. A value equal to the right one's counts as ranked before it.
    """
    own = owners[None] == np.arange(len(scores))[:, None]
    best = np.where(own, scores, -np.inf).max(1, keepdims=True)
    right = scores[owners, np.arange(len(owners))]
    return {
        "image_to_caption": ranks(1 + ((scores >= best) & ~own).sum(1)),
        "caption_to_image": ranks((scores >= right).sum(0)),
    }


def ranks(found: NDArray[np.int64]) -> dict[str, float]:
    """Recall ×100 at 1, 5 and 10, and the median, of ranks from 1."""
    recall = {f"recall_{k}": 100 * float((found <= k).mean()) for k in (1, 5, 10)}
    return {**recall, "median_rank": float(np.median(found)), "queries": len(found)}


# ---------------------------------------------------------------- the experts


class Judgement(NamedTuple):
    """What three experts said of a caption as the description of a photo."""

    photo: str
    source: str  # the photo that the caption was written for
    number: int  # of the caption among that photo's, from 0
    ratings: tuple[int, int, int]  # 1 (unrelated) to 4 (describes the photo)


def read_experts(file: Path, examples: Sequence[Example]) -> list[Judgement]:
    """Read Flickr8k's ExpertAnnotations.txt: a photo, a caption as PHOTO#NUMBER and three ratings, by tabs.

    ``examples`` are the photos that may occur. Raises `SatError` naming the first line that is of another form or
    names a photo or caption that is not there.
    """
    known = {example.name: len(example.captions) for example in examples}
    found = []
    for at, line in enumerate(filter(str.strip, read_lines(file)), start=1):
        fields = line.split("\t")
        source, _, number = fields[1].rpartition("#") if len(fields) == 5 else ("", "", "")
        if not number.isdecimal() or any(rating not in ("1", "2", "3", "4") for rating in fields[2:]):
            raise SatError(
                f"{file}, line {at}: {line!r} is not a photo, a caption PHOTO#NUMBER and three ratings from 1 to 4, "
                "with tabs between"
            )
        if fields[0] not in known or int(number) >= known.get(source, 0):
            raise SatError(
                f"{file}, line {at}: the photo {fields[0]!r} or the caption {fields[1]!r} is not among those of the "
                f"{len(known)} photos ranked"
            )
        first, second, third = map(int, fields[2:])
        found.append(Judgement(fields[0], source, int(number), (first, second, third)))
    if not found:
        raise SatError(f"{file} has no ratings in it")
    return found


def read_of_others(file: Path, examples: Sequence[Example]) -> tuple[list[Judgement], int]:
    """The ratings of captions of other photos, and how many of a photo's own captions were dropped.

    Raises `SatError` as `read_experts`, and where no ratings remain or all are the same.
    """
    found = read_experts(file, examples)
    judgements = [judged for judged in found if judged.photo != judged.source]
    if not judgements:
        raise SatError(f"{file}: each photo is rated with its own captions only: give ratings of other captions")
    if len({rating for judged in judgements for rating in judged.ratings}) < 2:
        raise SatError(f"{file}: all ratings are the same, so there is nothing to correlate with: give others")
    return judgements, len(found) - len(judgements)


def kendall_tau_c(scores: Array, ratings: NDArray[np.int64]) -> float:
    """Stuart's τ_c = 2m (P − Q) / (n² (m − 1)) of n scores with n ratings, −1 to 1.

    P pairs are in the same order by both, and Q in the opposite order; pairs with equal values in either count for
    neither. m is the smaller number of different values. Raises `SatError` where all scores or all ratings are equal.
    """
    values = np.unique(ratings)
    m = min(len(values), len(np.unique(scores)))
    if m < 2:
        raise SatError("Kendall's tau_c needs scores and ratings that vary, and here all of one are equal")
    balance = 0  # P − Q
    for low, high in combinations(values, 2):
        below, above = np.sort(scores[ratings == low]), scores[ratings == high]
        balance += int(np.searchsorted(below, above, "left").sum())
        balance -= int((len(below) - np.searchsorted(below, above, "right")).sum())
    return 2 * m * balance / (len(scores) ** 2 * (m - 1))


def reference_metrics(judgements: Sequence[Judgement], examples: Sequence[Example]) -> dict[str, Array]:
    """The scores of each judged caption by the usual metrics, against its photo's own captions."""
    of = {example.name: [" ".join(words) for words in example.captions] for example in examples}
    keys = [f"{judged.photo} {judged.source}#{judged.number}" for judged in judgements]
    captions = {key: of[judged.source][judged.number] for key, judged in zip(keys, judgements, strict=True)}
    references = {key: of[judged.photo] for key, judged in zip(keys, judgements, strict=True)}
    each = score(captions, references).photos
    return {name: np.array([each[key][name] for key in keys]) for name in each[keys[0]]}


def agreement(judgements: Sequence[Judgement], ours: dict[str, Array], examples: Sequence[Example]) -> dict[str, Any]:
    """How far values of the judged captions (N,) agree with the ratings, and how far the usual metrics do."""
    metrics = reference_metrics(judgements, examples)
    ratings = np.array([judged.ratings for judged in judgements])

    def correlation(values: Array) -> float | None:
        if len(np.unique(values)) < 2:  # a metric may be 0 for every pair of a few
            return None
        return 100 * kendall_tau_c(values.repeat(ratings.shape[1]), ratings.ravel())

    return {
        "ratings": ratings.size,
        "tau_c": {name: correlation(values) for name, values in ours.items()},
        "metrics": {name: correlation(values) for name, values in metrics.items()},
        "pairs": [
            {
                "photo": judged.photo,
                "caption": f"{judged.source}#{judged.number}",
                "ratings": list(judged.ratings),
                **{name: float(values[number]) for name, values in (ours | metrics).items()},
            }
            for number, judged in enumerate(judgements)
        ],
    }


# ---------------------------------------------------------------- all of it


def rank(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    *,
    cache: Path,
    captions: int = REFERENCES,
    photos: int | None = None,
    experts: Path | None = None,
    show: bool = True,
) -> dict[str, Any]:
    """Rank the captions of a split for its photos and the photos for its captions, and compare with the experts.

    Each caption's log p is computed for each photo, by the expected context (also a hard model's), in bfloat16 where
    that is native. Captions and photos are ranked by three values:

    - ``log_p``, end token included;
    - ``per_word``: log p divided by the number of words, end token included;
    - ``less_mean``, see `less_mean`.

    The last two put the photos of one caption in the same order as the first, so they change ``image_to_caption``
    alone. The first ``captions`` captions of each of the first ``photos`` photos are ranked (by default of all photos),
    and the means of ``less_mean`` are over these photos. The experts' pairs are always all used.

    The result's ``retrieval`` has `retrieval` by value. With ``experts``, a file as `read_experts` reads it, the
    result's ``experts`` has

    - ``tau_c``: Kendall's τ_c ×100 (`kendall_tau_c`) of each value with all ratings, three a pair; pairs of a photo
      with its own caption are dropped;
    - ``metrics``: the same of the usual metrics' scores of these captions against the photo's own captions;
    - ``pairs``: each pair with its values and scores.

    Raises `SatError` for fewer than two photos and as `read_experts`.
    """
    examples = dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer).split(split)
    among = examples[:photos]
    if len(among) < 2:
        raise SatError(f"{len(among)} of the photos of the split {split!r} to rank among: give 2 or more")
    if captions < 1:
        raise SatError(f"{captions} captions of each photo: give at least 1")
    judgements: list[Judgement] = []
    own = 0
    if experts is not None:
        check_scorers()
        judgements, own = read_of_others(experts, examples)

    chosen = [(e.name, number) for e in among for number in range(min(captions, len(e.captions)))]
    ranked = len(chosen)
    chosen = list(dict.fromkeys([*chosen, *((judged.source, judged.number) for judged in judgements)]))
    column = {caption: number for number, caption in enumerate(chosen)}
    row = {example.name: number for number, example in enumerate(examples)}
    words = [captioner.checkpoint.vocabulary.encode(examples[row[name]].captions[number]) for name, number in chosen]
    lengths = np.array([len(ids) for ids in words])

    annotations = cached(
        dataset, captioner.backend.encoder, cache, splits=(split,), encode=captioner.backend.encode, show=show
    )
    fast = native_bf16(captioner.torch_backend().torch_device)
    # photos that are not ranked have a value for the experts' pairs alone
    log_p = np.full((len(examples), len(chosen)), np.nan)
    cells = [(row[judged.photo], column[judged.source, judged.number]) for judged in judgements]
    backend = captioner.torch_backend()
    with torch.inference_mode(), torch.autocast(backend.torch_device.type, torch.bfloat16, enabled=fast):
        for number, example in enumerate(
            Progress(examples, desc=f"{len(chosen):,} captions", unit="photo", disable=not show)
        ):
            columns = list(range(len(chosen))) if number < len(among) else [of for at, of in cells if at == number]
            if columns:
                photo = annotations[[example.name]].to(backend.torch_device)
                found = log_probabilities(backend.decoder, photo, [words[column] for column in columns])
                log_p[number, columns] = found[0].cpu().numpy()

    scores = {"log_p": log_p, "per_word": log_p / lengths, "less_mean": less_mean(log_p, len(among))}
    owners = np.array([row[name] for name, _ in chosen[:ranked]])
    result: dict[str, Any] = {
        "model": captioner.name,
        "data": dataset.name,
        "split": split,
        "photos": len(among),
        "captions": ranked,
        "attention_mode": "mean",
        "precision": "bfloat16" if fast else "float32",
        "retrieval": {name: retrieval(values[: len(among), :ranked], owners) for name, values in scores.items()},
    }
    if judgements:
        ours = {name: np.array([values[cell] for cell in cells]) for name, values in scores.items()}
        result["experts"] = {"own_captions_dropped": own, **agreement(judgements, ours, examples)}
    return result


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What `rank` found, in lines for a terminal."""
    yield (
        f"{found['model']} on {found['data']} {found['split']}: {found['photos']:,} photos, {found['captions']:,} "
        f"captions, attention mode mean, {found['precision']}"
    )
    for task, title in (("image_to_caption", "a photo's captions"), ("caption_to_image", "a caption's photo")):
        for name, by_task in found["retrieval"].items():
            row = by_task[task]
            recall = "  ".join(f"R@{k} {row[f'recall_{k}']:.1f}" for k in (1, 5, 10))
            yield f"  {title:<18} by {name:<10} {recall}  median rank {row['median_rank']:g}"
    if "experts" in found:
        judged = found["experts"]
        yield (
            f"  Kendall's tau_c ×100 with {judged['ratings']:,} ratings of {len(judged['pairs']):,} pairs "
            f"({judged['own_captions_dropped']:,} of a photo with its own caption dropped)"
        )
        for name, value in (judged["tau_c"] | judged["metrics"]).items():
            yield f"    {name:<20} " + ("–" if value is None else f"{value:.1f}")


def main(given: Sequence[str] | None = None) -> None:
    """Rank, print what was found, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of captioned photos, as for sat train")
    parser.add_argument("model", help="name or folder of the model")
    parser.add_argument("--split", default="test", help="part of the data")
    parser.add_argument("--captions", type=int, default=REFERENCES, help="captions of each photo, the first ones")
    parser.add_argument("--photos", type=int, help="number of photos, the first ones; all by default")
    parser.add_argument("--experts", type=Path, help="ratings of experts: Flickr8k's ExpertAnnotations.txt")
    parser.add_argument("--json", type=Path, help="file for all figures and rated pairs")
    parser.add_argument("--cache", type=Path, default=None, help="folder of the feature cache")
    parser.add_argument("--device", default="auto", help="device to compute on")
    options = parser.parse_args(given)
    chosen = {name: getattr(options, name) for name in ("captions", "photos", "experts")}
    try:
        dataset = read_dataset(options.data)
        captioner = Captioner.from_pretrained(options.model, device=options.device, backend="torch")
        found = rank(captioner, dataset, options.split, cache=options.cache or default_cache(), **chosen)
        print("\n".join(lines(found)))
        if options.json:
            text = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
            write_text(options.json, text)
    except SatError as error:
        sys.exit(f"ranking: {error}")


if __name__ == "__main__":
    main()
