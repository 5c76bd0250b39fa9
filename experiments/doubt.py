"""How well doubt tells photos that a model knows from other pictures.

    python experiments/doubt.py flickr8k-soft flickr8k/ --other coco/
    python experiments/doubt.py everyday-soft flickr8k/ coco/ --made 300

The model was trained on the data folders that are named first, and their test splits are the known photos. The others
are photos of another folder's test split of which no caption names a person or a dog, as most captions of Flickr8k do;
or they are made here, as many of each kind: noise, drawings, and generated scenes.

Printed is the AUROC, the probability that another picture is doubted more than a known photo, with its 95 % interval
over pictures. Beside it stand the two halves of doubt by themselves: the distance from the training photos, and
log p / C. The scale of doubt is the model's own or, for a model without one, is fitted now. Last comes the CIDEr of the
surest half of each known test split beside that of all of it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from show_attend_tell.analysis.scenes import make_scene
from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.scores import score
from show_attend_tell.rerank.doubt import Doubt, distances, likelihood, summary
from show_attend_tell.rerank.ngrams import UNSURE
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


def noise(chance: np.random.Generator) -> Image.Image:
    """Random pixels, of one of three sizes: fine grain to coarse."""
    side = int(chance.choice((8, 32, 224)))
    pixels = chance.integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((224, 224), Image.Resampling.BILINEAR)


def drawing(chance: np.random.Generator) -> Image.Image:
    """A drawing in black lines on white: a few houses, suns, faces and trees, as a child draws them."""
    picture = Image.new("RGB", (224, 224), "white")
    draw = ImageDraw.Draw(picture)
    for _ in range(int(chance.integers(1, 5))):
        size = int(chance.integers(30, 90))
        x, y = (int(chance.integers(0, 224 - size)) for _ in range(2))
        right, low, middle, wide = x + size, y + size, x + size // 2, int(chance.integers(1, 5))
        match int(chance.integers(4)):
            case 0:  # a house
                draw.rectangle((x, y + size // 3, right, low), outline="black", width=wide)
                draw.line((x, y + size // 3, middle, y, right, y + size // 3), fill="black", width=wide)
            case 1:  # the sun
                draw.ellipse((x + size // 4, y + size // 4, right - size // 4, low - size // 4), outline="black")
                for angle in np.linspace(0, 2 * np.pi, 9)[:-1]:
                    ends = [
                        (middle + r * size * np.cos(angle), y + size / 2 + r * size * np.sin(angle)) for r in (0.3, 0.5)
                    ]
                    draw.line([*ends[0], *ends[1]], fill="black", width=wide)
            case 2:  # a face
                draw.ellipse((x, y, right, low), outline="black", width=wide)
                for eye in (x + size // 3, x + 2 * size // 3):
                    draw.ellipse((eye - 2, y + size // 3 - 2, eye + 2, y + size // 3 + 2), fill="black")
                draw.arc((x + size // 4, y + size // 3, right - size // 4, low - size // 5), 20, 160, "black", wide)
            case _:  # a tree
                draw.ellipse((x, y, right, y + 2 * size // 3), outline="black", width=wide)
                draw.line((middle, y + 2 * size // 3, middle, low), fill="black", width=2 * wide)
    return picture


def made(number: int) -> dict[str, list[Image.Image]]:
    """Pictures that are not photos, as many of each kind."""
    chance = np.random.default_rng(0)
    return {
        "noise": [noise(chance) for _ in range(number)],
        "drawings": [drawing(chance) for _ in range(number)],
        "generated scenes": [make_scene(0, each)[1] for each in range(number)],
    }


class Measured(NamedTuple):
    """Captions of pictures, and how far each is doubted."""

    captions: list[str]
    figures: NDArray[np.float64]  # (3, N): doubt, distance, −log p / C


def measure(captioner: Captioner, name: str, batches: Sequence[tuple[list[str], Tensor]]) -> Measured:
    """Caption pictures by their annotations, given with their names in batches."""
    doubt, vocabulary = captioner.checkpoint.doubt, captioner.checkpoint.vocabulary
    assert doubt is not None
    rows, captions = [], []
    for names, annotations in batches:
        seeds = [photo_seed(0, each.encode()) for each in names]
        best = [each[0] for each in captioner.search(annotations, captioner.checkpoint.generation, seeds=seeds)]
        captions += [" ".join(vocabulary.decode(each.words)) for each in best]
        away = distances(summary(annotations), doubt.mean, doubt.whitening)
        rows.append(torch.stack([torch.tensor([each.doubt for each in best]), away, -likelihood(best)]))
        print(f"\r{name}: {len(captions)} pictures", end="", file=sys.stderr)
    print(file=sys.stderr)
    return Measured(captions, torch.cat(rows, 1).double().numpy())


def of_split(captioner: Captioner, dataset: Dataset, examples: Sequence[Example], cache: Path) -> Measured:
    """Measure photos of a test split."""
    annotations = cached(dataset, captioner.encoder, cache, splits=("test",))
    names = [example.name for example in examples]
    groups = [names[start : start + 8] for start in range(0, len(names), 8)]
    return measure(captioner, dataset.name, [(group, annotations[group]) for group in groups])


def of_pictures(captioner: Captioner, name: str, pictures: Sequence[Image.Image]) -> Measured:
    """Measure pictures that were made here."""
    batches = []
    for start in range(0, len(pictures), 8):
        group = [captioner.encoder.preprocessing(picture) for picture in pictures[start : start + 8]]
        batches.append(
            ([f"{name} {start + at}" for at in range(len(group))], captioner.encoder.annotate(torch.stack(group)))
        )
    return measure(captioner, name, batches)


def fitted(captioner: Captioner, known: Sequence[Dataset], cache: Path) -> Doubt:
    """The scale of doubt of a model that has none. Raises `SatError` for too small a val."""
    training = prepare(known[0], TrainingConfig(), captioner.encoder, cache, vocabulary=captioner.checkpoint.vocabulary)
    doubt = fit_doubt(
        captioner.decoder, training, captioner.checkpoint.generation, reranker=captioner.reranker, show=True
    )
    if doubt is None:
        raise SatError(f"{known[0].name} has too few photos of val to make a scale of doubt")
    return doubt


@torch.inference_mode()
def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name or folder of the model")
    parser.add_argument("data", nargs="+", type=Path, help="folders of the data that the model was trained on")
    others = parser.add_mutually_exclusive_group(required=True)
    others.add_argument("--other", type=Path, help="folder of other captioned photos")
    others.add_argument("--made", type=int, help="number of pictures of each kind to make")
    parser.add_argument("--cache", type=Path, default=None, help="folder of the feature cache")
    chosen = parser.parse_args()
    cache = chosen.cache or default_cache()
    captioner = Captioner.from_pretrained(chosen.model)
    known = [read_dataset(folder) for folder in chosen.data]
    if captioner.checkpoint.doubt is None:
        captioner.checkpoint.doubt = fitted(captioner, known, cache)
    strange = {}
    if chosen.other is not None:
        other = read_dataset(chosen.other)
        unknown = [example for example in other.split("test") if unfamiliar(example)]
        strange[f"{other.name} without person or dog"] = of_split(captioner, other, unknown, cache)
    else:
        for name, pictures in made(chosen.made).items():
            strange[name] = of_pictures(captioner, name, pictures)
    familiar = {dataset.name: of_split(captioner, dataset, dataset.split("test"), cache) for dataset in known}
    everything = np.concatenate([found.figures for found in strange.values()], 1)
    if len(strange) > 1:
        strange = {**strange, "all of these": Measured([], everything)}
    for name, found in strange.items():
        for split, at_home in familiar.items():
            print(f"{found.figures.shape[1]} of {name} against {at_home.figures.shape[1]} of {split}, test:")
            for title, one, two in zip(
                ("doubt", "distance alone", "-log p / C alone"), found.figures, at_home.figures, strict=True
            ):
                low, high = interval(one, two)
                print(f"  {title:<18} AUROC {auroc(one, two):.3f} [{low:.3f}, {high:.3f}]")
    for name, found in {**strange, **familiar}.items():
        print(f"called unsure of {name}: {100 * float((found.figures[0] > UNSURE).mean()):.0f} %")
    for dataset in known:
        examples, found = dataset.split("test"), familiar[dataset.name]
        captions = {example.name: caption for example, caption in zip(examples, found.captions, strict=True)}
        scores = score(
            captions, {example.name: [" ".join(words) for words in example.captions] for example in examples}
        )
        cider = np.array([scores.photos[example.name]["cider"] for example in examples])
        surest = np.argsort(found.figures[0], kind="stable")[: len(examples) // 2]
        print(f"CIDEr of {dataset.name}, test: {cider.mean():.1f}; of its surest half: {cider[surest].mean():.1f}")


if __name__ == "__main__":
    try:
        main()
    except SatError as error:
        sys.exit(f"error: {error}")
