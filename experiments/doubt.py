"""How well doubt tells photos that a model knows from others: `python experiments/doubt.py MODEL DATA OTHER`.

MODEL was trained on DATA. The known photos are DATA's test split. The others are photos of OTHER's test split, of which
no caption names a person or a dog, as most captions of Flickr8k do. Printed is the AUROC, the probability that another
photo is doubted more than a known one, with its 95 % interval over photos. Beside it stand the two halves of doubt by
themselves: the distance from the training photos, and log p / C. The scale of doubt is the model's own or, for a model
without one, is fitted now.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.data.datasets import Example, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.rerank.doubt import distances, likelihood, summary
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import prepare
from show_attend_tell.training.selection import fit_doubt
from show_attend_tell.vision.feature_cache import default_cache
from show_attend_tell.vision.sources import cached

PEOPLE_AND_DOGS = frozenset(
    "person persons people man men woman women boy boys girl girls child children kid kids baby babies toddler "
    "adult adults lady ladies guy guys someone he she his her him crowd family couple player players rider riders "
    "skier skiers surfer surfers snowboarder snowboarders skateboarder skateboarders pedestrian pedestrians "
    "dog dogs puppy puppies".split()
)


def unfamiliar(example: Example) -> bool:
    """Whether no caption of the photo names a person or a dog."""
    return not any(word in PEOPLE_AND_DOGS for caption in example.captions for word in caption)


def auroc(others: NDArray[np.float64], known: NDArray[np.float64]) -> float:
    """The probability that one of the others is larger than one of the known, ties counted half."""
    ranks = np.searchsorted(np.sort(known), others, side="left") + np.searchsorted(np.sort(known), others, side="right")
    return float(ranks.mean() / (2 * len(known)))


def interval(others: NDArray[np.float64], known: NDArray[np.float64], repeats: int = 2000) -> tuple[float, float]:
    """The 95 % interval of `auroc` over photos, by the bootstrap."""
    chance = np.random.default_rng(0)
    found = [auroc(chance.choice(others, len(others)), chance.choice(known, len(known))) for _ in range(repeats)]
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


@torch.inference_mode()
def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name or folder of the model")
    parser.add_argument("data", type=Path, help="folder of the data that the model was trained on")
    parser.add_argument("other", type=Path, help="folder of other captioned photos")
    parser.add_argument("--cache", type=Path, default=None, help="folder of the feature cache")
    chosen = parser.parse_args()
    cache = chosen.cache or default_cache()
    captioner = Captioner.from_pretrained(chosen.model)
    checkpoint, data, other = captioner.checkpoint, read_dataset(chosen.data), read_dataset(chosen.other)
    if checkpoint.doubt is None:
        training = prepare(data, TrainingConfig(), captioner.encoder, cache, vocabulary=checkpoint.vocabulary)
        checkpoint.doubt = fit_doubt(
            captioner.decoder, training, checkpoint.decoding, ngrams=captioner.reranker, show=True
        )
    doubt = checkpoint.doubt
    if doubt is None:
        raise SatError(f"{chosen.data} has too few photos of val to make a scale of doubt")
    found: list[list[NDArray[np.float64]]] = []
    for dataset, examples in (
        (other, [example for example in other.split("test") if unfamiliar(example)]),
        (data, data.split("test")),
    ):
        annotations = cached(dataset, captioner.encoder, cache, splits=("test",))
        rows = []
        for start in range(0, len(examples), 8):
            names = [example.name for example in examples[start : start + 8]]
            batch, seeds = annotations[names], [photo_seed(0, name.encode()) for name in names]
            best = [each[0] for each in captioner.search(batch, checkpoint.decoding, seeds=seeds)]
            away = distances(summary(batch), doubt.mean, doubt.whitening)
            unlikely = -likelihood(best)
            rows.append(torch.stack([torch.tensor([each.doubt for each in best]), away, unlikely]))
            print(f"\r{dataset.name}: {start + len(names)} of {len(examples)} photos", end="", file=sys.stderr)
        print(file=sys.stderr)
        found.append(list(torch.cat(rows, 1).double().numpy()))
    print(f"{len(found[0][0])} photos without person or dog, {len(found[1][0])} known ones")
    for name, others, known in zip(("doubt", "distance alone", "-log p / C alone"), *found, strict=True):
        low, high = interval(others, known)
        print(f"{name:<18} AUROC {auroc(others, known):.3f} [{low:.3f}, {high:.3f}]")
    unsure = [float((part[0] > 0.95).mean()) for part in found]
    print(f"called unsure: {100 * unsure[0]:.0f} % of the others, {100 * unsure[1]:.0f} % of the known")


if __name__ == "__main__":
    try:
        main()
    except SatError as error:
        sys.exit(f"error: {error}")
