"""Small data: what few photos cannot prove stays as it was in the model to start from (the setting ``cautious``).

A training is cautious with fewer than `SMALL` training photos. `bootstrap.first_not_worse` is the rule of proof: of
several choices, the nearest to the start that is at most one standard error worse than the best.

- **Weights.** They go a share of the way from the start's, with new words added, to the best epoch's (Wortsman et al.
  2022). Only shares count whose nats a word are fewer than the start's by more than one standard error. Of these and
  the start, the rule takes one by its worth: CIDEr − `CIDER_PER_NAT` · nats a word. So nats, which few photos measure
  well, say whether there is something to learn, and CIDEr whether it helps captions. At share 0, the start is given
  back as it is.
- **Epochs.** Where val has fewer than `VAL_TO_JUDGE` photos it decides too little. Then the photos of train and val are
  divided at random into two halves, and a training on the train photos of each half is judged by the other: every photo
  is judged once, by a training without it (two-fold cross-validation). The training itself takes as many epochs as were
  best in these two, on average, and none if neither had an epoch with fewer nats than the start.
- **Reranker.** That of the start is kept, or adapted or fitted anew if leave-one-out errors on the training photos
  prove the gain (`rerank.adapt`). A start without one gets one that is fitted to the photos.
- **Class words.** Those of the start stay, and fit the new words.
- **Confidence.** Where halves judge, each half's photos are captioned by the other half's training, or by the start
  where this is given back, at most `COMPARED` photos in all. The start's confidence moves as these captions say, and
  val raises that of a training that is kept.
- **Decoding.** The generation config stays that of the start, with a beam size of `LARGE_BEAM_SIZE` if its reranker was
  fitted anew, or is `DECODING` where the start had none. If val has `VAL_FOR_DECODING` photos or more, the best config
  on val replaces it if its CIDEr is better by more than two standard errors.
"""

import dataclasses
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.files import read_json, write_text
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, first_not_worse, interval
from show_attend_tell.model.interface import Decoder
from show_attend_tell.progress import Progress
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.selection import (
    CIDER_PER_NAT,
    captions_of,
    ciders_of,
    nats_of_photos,
    usual_decoding,
    usual_generation,
)
from show_attend_tell.training.trainer import Trainer

SMALL = 2000  # training photos; with this many or more, a training starts afresh
VAL_TO_JUDGE = 100  # photos
VAL_FOR_DECODING = 200  # photos
COMPARED = 200  # photos of val, by which a model is compared with its start
SHARES = (0.0, 0.25, 0.5, 1.0)  # of the way from the start's weights to the trained ones
PATIENCE = 3  # epochs without fewer nats a word, after which a training on half of the photos ends
# How a model with a reranker makes captions where val cannot choose: as the default model does.
DECODING = {"beam_size": 20, "length_penalty": 0.75, "rerank_weight": 16.0, "rare_word_exponent": 0.75}
RERANKER = "reranker"  # entry of a model's training that says what became of the start's
ANEW = "fitted anew"
LARGE_BEAM_SIZE = 100  # where photos are so unlike those of the start that its reranker was replaced


@dataclass(frozen=True)
class Figures:
    """What a model reaches on each of N photos."""

    nats: NDArray[np.float64]  # −log p of the captions, and the number of their words: (2, N)
    ciders: NDArray[np.float64]  # (N,)

    @property
    def worth(self) -> NDArray[np.float64]:
        """What a photo's captions are worth (N,); their mean is CIDEr − `CIDER_PER_NAT` · nats a word."""
        nats: NDArray[np.float64] = self.nats[0] * len(self.ciders) / self.nats[1].sum()
        return self.ciders - CIDER_PER_NAT * nats

    def beside(self, start: "Figures") -> str:
        """These figures beside those of the start, with the 95 % intervals of the differences, in words."""
        photos, words = len(self.ciders), self.nats[1]
        drawn = draw(np.random.default_rng(0), photos, photos, RESAMPLES)
        least, most = interval(drawn @ (self.ciders - start.ciders) / photos)
        now, before = (each.nats[0].sum() / words.sum() for each in (self, start))
        cider, earlier = self.ciders.mean(), start.ciders.mean()
        return (
            f"CIDEr {cider:.1f}, start {earlier:.1f} ({cider - earlier:+.1f}, 95 % interval {least:+.1f} to "
            f"{most:+.1f}); {now:.2f} nats a word, start {before:.2f}; of {plural(photos, 'photo')}"
        )


@dataclass(frozen=True)
class Verdict:
    """What a training should do."""

    share: float  # of the way from the start's weights; 0: the start is as good
    epochs: int
    text: str  # what was compared
    confidence: dict[str, Any] | None = None  # what `rerank.confidence.fit` gave by photos that no training has seen


def figures_of(decoder: Decoder, data: TrainingData, config: TrainingConfig) -> Figures:
    """A decoder's figures on the validation photos, by captions as after an epoch."""
    (captions,) = captions_of(decoder, data, usual_decoding(config, data))
    return Figures(nats_of_photos(decoder, data), ciders_of(captions, data))


def interpolate(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Weights that lie this share of the way from ``start`` to ``trained`` (Wortsman et al. 2022)."""
    return {
        name: torch.lerp(before.float(), trained[name].float(), share) if before.is_floating_point() else before
        for name, before in start.items()
    }


def figures_by_share(
    decoder: Decoder,
    start: Mapping[str, Tensor],
    trained: Mapping[str, Tensor],
    data: TrainingData,
    config: TrainingConfig,
) -> list[Figures]:
    """The figures of weights at each share of the way; the decoder has the last of them afterwards."""
    figures = []
    for share in SHARES:
        decoder.load_state_dict(interpolate(start, trained, share))
        figures.append(figures_of(decoder, data, config))
    return figures


def choose_share(figures: Sequence[Figures]) -> int:
    """Which of `SHARES`, by the figures of each, the start's first."""
    start = figures[0]
    fewer_nats = [first_not_worse(np.stack([start.nats[0], each.nats[0]])) == 1 for each in figures]
    open_to = [row for row, fewer in enumerate(fewer_nats) if fewer or row == 0]
    worth = np.stack([each.worth for each in figures])
    return open_to[first_not_worse(-worth[open_to])]


# Weights and epochs


def verdict_of(file: Path, about: object, judge: Callable[[], Verdict]) -> Verdict:
    """The verdict that a file keeps ``about`` something, so that a resumed training does not judge again."""
    identity = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
    known = ranks.gathered(read_json(file) if file.exists() else {})[0]
    if known.pop("identity", None) == identity:
        return Verdict(**known)
    verdict = judge()
    if ranks.is_main():
        write_text(file, json.dumps({"identity": identity, **dataclasses.asdict(verdict)}))
    return verdict


def judge_by_val(config: TrainingConfig, data: TrainingData, decoder: Decoder, start: Decoder) -> Verdict:
    """How far from ``start`` a trained decoder should go, by `COMPARED` photos of val at most."""
    figures = figures_by_share(decoder, weights_copy(start), weights_copy(decoder), at_most(data, COMPARED), config)
    choice = choose_share(figures)
    return Verdict(SHARES[choice], config.epochs, f"on val: {figures[choice or -1].beside(figures[0])}")


def at_most(data: TrainingData, photos: int) -> TrainingData:
    """The data with so many of the validation photos at most, at even distances."""
    return replace(data, validation=data.validation[:: -(-len(data.validation) // photos)], parts=())


def judged_by_halves(config: TrainingConfig, val: int) -> bool:
    """Whether halves judge a training from a model, where val has that many photos."""
    return config.cautious and config.selected_by == "cider_and_nats" and val < VAL_TO_JUDGE


def epochs_to_judge(config: TrainingConfig, *, gains: bool = True) -> int:
    """Epochs of each half's training, so that both together take less than the training itself.

    If it does not gain anything from the first epoch on, it ends by `PATIENCE`.
    """
    return -(-config.epochs // 2) if gains else min(PATIENCE + 1, config.epochs)


def judge_by_halves(
    config: TrainingConfig,
    data: TrainingData,
    dataset: Dataset,
    start: Decoder,
    name: str,
    trainer: type[Trainer],
) -> tuple[Verdict, list[tuple[Decoder, TrainingData]]]:
    """How far from ``start``, the model ``name``, and how long to train, by two trainings on half of the photos.

    Also the decoders at that share, each with data whose val it has not seen (`COMPARED` photos in all).
    """
    references = dict(data.validation) | {each.name: each.captions for each in dataset.split("train")}
    before = weights_copy(start)
    last = epochs_to_judge(config)
    trainings: list[Trainer] = []
    trained: list[Mapping[str, Tensor]] = []
    for number, half in enumerate(halves(config, data, references), start=1):
        what = f"training {number} of 2 that judge"
        with Progress(total=last, desc=what, unit="epoch", leave=False) as bar:
            training = trainer(config, half, device=next(start.parameters()).device, initial=before, init_from=name)
            trained.append(train_half(training, before, last, bar.update))
        trainings.append(training)
    what = f"two trainings, each on one half of {plural(len(references), 'photo')} and judged by the other half"
    # one that was still improving at its end says that the training needs all its epochs
    epochs = [config.epochs if each.best_epoch == last else each.best_epoch for each in trainings]
    if not any(epochs):
        unseen = at_most(replace(data, validation=[*references.items()]), COMPARED)
        return Verdict(0.0, 0, f"{what}: neither had an epoch with fewer nats a word than {name}"), [(start, unseen)]
    of_halves = [
        figures_by_share(training.average, before, best, training.data, config)
        for training, best in zip(trainings, trained, strict=True)
    ]
    figures = [
        Figures(np.concatenate([a.nats, b.nats], 1), np.concatenate([a.ciders, b.ciders]))
        for a, b in zip(*of_halves, strict=True)
    ]
    choice = choose_share(figures)
    chosen = max(1, round(sum(epochs) / 2)) if choice else 0
    for training, best in zip(trainings, trained, strict=True):
        training.average.load_state_dict(interpolate(before, best, SHARES[choice]))
    verdict = Verdict(SHARES[choice], chosen, f"{what}: {figures[choice or -1].beside(figures[0])}")
    return verdict, [(each.average, at_most(each.data, COMPARED // 2)) for each in trainings]


def halves(
    config: TrainingConfig, data: TrainingData, references: Mapping[str, Sequence[Sequence[str]]]
) -> list[TrainingData]:
    """Two trainings' data: each has half of the photos of train and of val to learn from, and the others as val."""
    train = [*dict.fromkeys(name for name, _ in data.captions)]
    val = [name for name, _ in data.validation]
    for names in (train, val):
        random.Random(config.seed).shuffle(names)
    parts = []
    for half in range(2):
        held_out = {*train[half::2], *val[half::2]}
        rows = [row for row, (name, _) in enumerate(data.captions) if name not in held_out]
        parts.append(
            replace(
                data,
                captions=[data.captions[row] for row in rows],
                weights=[data.weights[row] for row in rows] if data.weights else (),
                validation=[(name, texts) for name, texts in references.items() if name in held_out],
                parts=(),
            )
        )
    return parts


def train_half(
    training: Trainer, start: Mapping[str, Tensor], epochs: int, epoch_ended: Callable[[], object]
) -> Mapping[str, Tensor]:
    """The weights of the best epoch of a training; it ends after so many, or `PATIENCE` without fewer nats a word."""
    least = nats_of_photos(training.average, training.data)[0].sum()
    trained = start
    while training.epoch < epochs and training.epoch - training.best_epoch < PATIENCE:
        for batch in training.mini_batches():
            training.take(batch)
        training.read_losses()
        training.end_epoch()
        nats = nats_of_photos(training.average, training.data)[0].sum()
        if nats < least:
            least = nats
            training.best_epoch = training.epoch
            trained = weights_copy(training.average)
        epoch_ended()
    return trained


def weights_copy(decoder: Decoder) -> dict[str, Tensor]:
    """A copy of a decoder's weights."""
    return {name: value.clone() for name, value in decoder.state_dict().items()}


# Decoding


def kept_generation(
    config: TrainingConfig, model: Checkpoint, start: Checkpoint | None, *, own_length: bool
) -> GenerationConfig:
    """How a model generates captions unless val proves that another way is better: as the start, where it fits.

    ``start`` is None where there is none of the model's own kind. It must use a reranker just where the model has one.
    With ``own_length``, captions are as long as the settings say.
    """
    kept = usual_generation(config)
    if model.reranker is not None:
        kept = kept.merge(**DECODING)
    if start is not None:
        if bool(start.generation.rerank_weight) == (model.reranker is not None):
            kept = start.generation.merge(max_length=config.max_length if own_length else None)
        if model.class_words is None:
            kept = kept.merge(class_weight=0.0)
    return kept.merge(beam_size=LARGE_BEAM_SIZE) if model.training.get(RERANKER) == ANEW else kept
