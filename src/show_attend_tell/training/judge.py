"""Whether a training beats the model that it starts from, and how far it should go, by CIDEr and nats a word together.

Of the weights between the start's and the trained ones those are considered that have fewer nats a word than the start,
by more than one standard error. Of these and the start, the nearest to the start is taken whose mean worth is at most
one standard error below the best (`bootstrap.first_not_worse`). The worth of a model on a photo is CIDEr − `NAT` · nats
a word. So nats, which few photos measure well, say whether there is something to learn, and CIDEr whether it helps
captions. N photos.

Where val has fewer than `custom.VAL_TO_JUDGE` photos it decides too little. Then the photos of train and val are
divided at random into two halves, and a training on the train photos of each half is judged by the other: every photo
is judged once, by a training without it (two-fold cross-validation). The training itself takes as many epochs as were
best in these two, on average, and none if neither had an epoch with fewer nats than the start.
"""

import dataclasses
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.checkpoint.packing import weights_digest
from show_attend_tell.files import read_json, write_text
from show_attend_tell.messages import plural
from show_attend_tell.metrics.bootstrap import RESAMPLES, draw, first_not_worse, interval
from show_attend_tell.model.interface import Decoder
from show_attend_tell.progress import Progress
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig, TrainingPlan
from show_attend_tell.training.data import TrainingData, identity
from show_attend_tell.training.presets.custom import VAL_TO_JUDGE
from show_attend_tell.training.selection import NAT, captions_of, ciders_of, nats_of_photos, usual_decoding
from show_attend_tell.training.trainer import Trainer

SHOWN = 200  # photos of val, by which a model is compared with its start
SHARES = (0.0, 0.25, 0.5, 1.0)  # of the way from the start's weights to the trained ones
WORSE = 3  # epochs with more nats a word than the best, after which a division's training ends


@dataclass(frozen=True)
class Figures:
    """What a model reaches on each of N photos."""

    nats: NDArray[np.float64]  # −log p of the captions, and the number of their words: (2, N)
    ciders: NDArray[np.float64]  # (N,)

    @property
    def worth(self) -> NDArray[np.float64]:
        """u of each photo (N,); their mean is CIDEr − `NAT` · nats a word."""
        nats: NDArray[np.float64] = self.nats[0] * len(self.ciders) / self.nats[1].sum()
        return self.ciders - NAT * nats

    def beside(self, start: "Figures") -> str:
        """These figures beside those of the start, with the 95 % intervals of the differences, in words."""
        photos, words = len(self.ciders), self.nats[1]
        drawn = draw(np.random.default_rng(0), photos, photos, RESAMPLES)
        low, high = interval((drawn @ (self.nats[0] - start.nats[0])) / (drawn @ words))
        least, most = interval(drawn @ (self.ciders - start.ciders) / photos)
        now, before = (each.nats[0].sum() / words.sum() for each in (self, start))
        cider, earlier = self.ciders.mean(), start.ciders.mean()
        return (
            f"CIDEr {cider:.1f}, start {earlier:.1f} ({cider - earlier:+.1f}, 95 % interval {least:+.1f} to "
            f"{most:+.1f}); {now:.2f} nats a word, start {before:.2f} ({now - before:+.2f}, {low:+.2f} to "
            f"{high:+.2f}); of {plural(photos, 'photo')}"
        )


@dataclass(frozen=True)
class Verdict:
    """What a training should do."""

    share: float  # of the way from the start's weights; 0: the start is as good
    epochs: int
    text: str  # what was compared


def figures_of(decoder: Decoder, data: TrainingData, plan: TrainingPlan) -> Figures:
    """A decoder's figures on the validation photos, by captions as after an epoch."""
    (captions,) = captions_of(decoder, data, usual_decoding(plan.config, data))
    return Figures(nats_of_photos(decoder, data), ciders_of(captions, data))


def mixed(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
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
    plan: TrainingPlan,
    shares: Sequence[float] = SHARES,
) -> list[Figures]:
    """The figures of weights at each share of the way; the decoder has the last of them afterwards."""
    found = []
    for share in shares:
        decoder.load_state_dict(mixed(start, trained, share))
        found.append(figures_of(decoder, data, plan))
    return found


def choose(found: Sequence[Figures]) -> int:
    """Which of `SHARES`, by the figures of each, the start's first."""
    learnt = [first_not_worse(np.stack([found[0].nats[0], each.nats[0]])) for each in found]  # 1 for fewer nats
    worth = np.stack([each.worth for each in found])
    open_to = [row for row, fewer in enumerate(learnt) if fewer or row == 0]
    return open_to[first_not_worse(-worth[open_to])]


def judge_by_val(plan: TrainingPlan, data: TrainingData, decoder: Decoder, start: Decoder) -> Verdict:
    """How far from ``start`` a trained decoder should go, by `SHOWN` photos of val at most; else all of it."""
    few = replace(data, validation=data.validation[:: -(-len(data.validation) // SHOWN)], parts=())
    before, trained = ({name: v.clone() for name, v in each.state_dict().items()} for each in (start, decoder))
    shares = SHARES if plan.config.cautious else (0.0, 1.0)
    found = figures_by_share(decoder, before, trained, few, plan, shares)
    choice = choose(found) if plan.config.cautious else 1
    return Verdict(shares[choice], plan.config.epochs, f"on val: {found[choice or -1].beside(found[0])}")


def by_divisions(config: TrainingConfig, photos: int) -> bool:
    """Whether a training from a model is judged by divisions, for a val of so many photos."""
    return config.cautious and config.selected_by == "cider_and_nats" and photos < VAL_TO_JUDGE


def judge_by_divisions(
    plan: TrainingPlan, data: TrainingData, start: Decoder, trainer: type[Trainer], *, show: bool
) -> Verdict | None:
    """How far from ``start``, and for how many epochs, a training should go; None where val decides, see above.

    The verdict is kept in the training's folder, so that a training that is resumed does not judge again.
    """
    config, file = plan.config, plan.state.with_name("divisions.json")
    if not by_divisions(config, len(data.validation)):
        return None
    photos = [*dict.fromkeys(name for name, _ in data.captions)], [name for name, _ in data.validation]
    references: dict[str, list[list[str]]] = {name: [list(words) for words in texts] for name, texts in data.validation}
    references |= {each.name: [list(words) for words in each.captions] for each in plan.dataset.split("train")}
    assert plan.start.checkpoint is not None
    of = identity(config, data), weights_digest(plan.start.checkpoint.weights), SHARES, NAT
    judged = hashlib.sha256(repr(of).encode()).hexdigest()[:16]
    known = ranks.gathered(read_json(file) if file.exists() else {})[0]
    if known.get("identity") == judged:
        return Verdict(known["share"], known["epochs"], known["text"])
    for names in photos:
        random.Random(config.seed).shuffle(names)
    before = {name: value.clone() for name, value in start.state_dict().items()}
    most = -(-config.epochs // 2)  # epochs of each, so that both together take less than the training itself
    trainings: list[tuple[Trainer, dict[str, Tensor], TrainingData]] = []
    told = np.zeros(3)  # nats by the start, nats by the best epoch after it, and words, of all photos
    for half in range(2):
        held = {name for names in photos for name in names[half::2]}
        kept = [row for row, (name, _) in enumerate(data.captions) if name not in held]
        part = replace(
            data,
            captions=[data.captions[row] for row in kept],
            weights=[data.weights[row] for row in kept] if data.weights else (),
            validation=[(name, texts) for name, texts in references.items() if name in held],
            parts=(),
        )
        loop = trainer(config, part, device=next(start.parameters()).device, initial=before, init_from=plan.start.name)
        (least, words), fewest, trained = nats_of_photos(loop.average, part).sum(1), np.inf, before
        told += least, 0, words
        what = f"training {half + 1} of 2 that judge"
        with Progress(total=most, desc=what, unit="epoch", disable=not show, leave=False) as bar:
            while loop.epoch < most and loop.epoch - loop.best_epoch < WORSE:
                for indices in loop.batches():
                    loop.one_batch(indices)
                loop.epoch += 1
                nats = nats_of_photos(loop.average, part)[0].sum()
                fewest = min(fewest, nats)
                if nats < least:
                    least, loop.best_epoch = nats, loop.epoch
                    trained = {name: value.clone() for name, value in loop.average.state_dict().items()}
                bar.update()
        told[1] += fewest
        trainings.append((loop, trained, part))
    what = f"two trainings, each on one half of {plural(len(references), 'photo')} and judged by the other half"
    # one that was still improving at its end says that the training needs all its epochs
    epochs = [config.epochs if loop.best_epoch == most else loop.best_epoch for loop, _, _ in trainings]
    first, best = told[:2] / told[2]
    none = f"neither had an epoch with fewer nats a word than {plan.start.name} ({first:.2f}; at best {best:.2f})"
    verdict = Verdict(0.0, 0, f"{what}: {none}")
    if any(epochs):
        halves = [figures_by_share(loop.average, before, trained, part, plan) for loop, trained, part in trainings]
        found = [
            Figures(np.concatenate([a.nats, b.nats], 1), np.concatenate([a.ciders, b.ciders]))
            for a, b in zip(*halves, strict=True)
        ]
        choice = choose(found)
        chosen = max(1, round(sum(epochs) / 2)) if choice else 0
        verdict = Verdict(SHARES[choice], chosen, f"{what}: {found[choice or -1].beside(found[0])}")
    if ranks.first():
        write_text(file, json.dumps({"identity": judged, **dataclasses.asdict(verdict)}))
    return verdict
