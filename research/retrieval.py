"""A caption borrowed from the most similar training photos: the one on which their captions agree best.

    python research/retrieval.py flickr8k/ --split test --json retrieval.json

After Devlin et al., *Exploring Nearest Neighbor Approaches for Image Captioning* (2015), in the spirit of the paper's
related work (Kuznetsova et al. 2012, Ordonez et al. 2011). Similar photos are those whose mean annotations have the
largest cosine, after taking the training photos' mean away, or after whitening too. Captions agree by CIDEr's
similarity: the cosine of their n-grams' tf-idf weights, averaged over n = 1 to 4. Validation BLEU-4 chooses how many
photos count, and whether they are whitened.

N training photos · D annotation size · k neighbors.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from measure import arguments
from numpy.typing import NDArray
from stages import reporting
from torch import Tensor

from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.cli.evaluate import write_scores
from show_attend_tell.data.datasets import Dataset, Example, read_dataset
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import score_split
from show_attend_tell.metrics.bleu import bleu
from show_attend_tell.metrics.cider import ngrams
from show_attend_tell.metrics.scores import Evaluation, check_scorers
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import Encoder, load_encoder
from show_attend_tell.vision.sources import cached

NEIGHBORS = (1, 5, 10, 20, 40, 80)  # tried on validation photos
SHRINKAGE = 0.1  # of the mean variance, added to each before whitening: the smallest ones are noise

Words = tuple[str, ...]


class Space(NamedTuple):
    """Where photos are compared: (mean annotation − centre) · axes, scaled to length one."""

    centre: Tensor  # (D,)
    axes: Tensor  # (D, D)

    def __call__(self, means: Tensor) -> Tensor:
        """Photos' mean annotations (N, D) as points on the unit sphere, (N, D)."""
        return torch.nn.functional.normalize((means - self.centre) @ self.axes, dim=-1)


def space(means: Tensor, *, whitened: bool) -> Space:
    """The space of training photos' mean annotations (N, D): centred, and then whitened or not."""
    centre = means.mean(0)
    if not whitened:
        return Space(centre, torch.eye(means.shape[1]))
    variances, directions = torch.linalg.eigh(torch.cov((means - centre).T))
    return Space(centre, directions / (variances + SHRINKAGE * variances.mean()).sqrt())


class Consensus:
    """Which of some photos' captions agrees best with the others of them (CIDEr's similarity, its mean)."""

    def __init__(self, captions: Sequence[Sequence[Words]]) -> None:
        """``captions`` are those of each of N photos; they also give the n-grams' weights."""
        self.captions = captions
        counts = [[Counter(ngrams(caption)) for caption in each] for each in captions]
        photos_with: Counter[Words] = Counter(ngram for each in counts for ngram in set().union(*each))
        uses: Counter[Words] = Counter(ngram for each in counts for caption in each for ngram in caption)
        number = {ngram: index for index, ngram in enumerate(n for n, times in uses.items() if times > 1)}
        self.size = len(number)  # an n-gram of one caption alone makes it like no other, and counts in its norm only
        self.vectors: list[list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = []  # n-grams and weights, by photo
        for each in counts:
            vectors = []
            for caption in each:
                weights = {n: times * math.log(len(captions) / photos_with[n]) for n, times in caption.items()}
                norms = {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}
                for ngram, weight in weights.items():
                    norms[len(ngram)] += weight * weight
                shared = [ngram for ngram, weight in weights.items() if ngram in number and weight]
                vectors.append(
                    (
                        np.array([number[ngram] for ngram in shared], dtype=np.int64),
                        np.array([weights[ngram] / math.sqrt(4 * norms[len(ngram)]) for ngram in shared]),
                    )
                )
            self.vectors.append(vectors)

    def __call__(self, photos: Sequence[int]) -> tuple[int, Words]:
        """The photo and the caption of it that agrees best with all other captions of these photos."""
        candidates = [(photo, index) for photo in photos for index in range(len(self.captions[photo]))]
        parts = [self.vectors[photo][index] for photo, index in candidates]
        owner = np.repeat(np.arange(len(parts)), [len(ids) for ids, _ in parts])
        ids, weights = (np.concatenate(both) for both in zip(*parts, strict=True))
        total = np.bincount(ids, weights, minlength=self.size)  # Σ of all the captions' vectors
        with_all = np.bincount(owner, weights * total[ids], minlength=len(parts))
        with_itself = np.bincount(owner, weights * weights, minlength=len(parts))
        photo, index = candidates[int((with_all - with_itself).argmax())]
        return photo, self.captions[photo][index]


def neighbors(photos: Tensor, training: Tensor, k: int) -> list[list[int]]:
    """The k nearest of the training photos' points (N, D) for each of the photos' (B, D), nearest first."""
    found: list[list[int]] = (photos @ training.T).topk(min(k, len(training)), dim=-1).indices.tolist()
    return found


def evaluate(dataset: Dataset, encoder: Encoder, split: str, *, cache: Path, show: bool = True) -> Evaluation:
    """Caption a whole split by retrieval from the train split, with what is best on val, and score it.

    Each of the ``results`` has the training photo that its caption was ``borrowed_from``. ``settings["retrieval"]``
    holds what was chosen, and val BLEU-4 (with brevity penalty, ×100) of everything that was tried. Raises `SatError`
    for a data set without train or val photos, for an unknown split, and for train, whose photos are the nearest to
    themselves.
    """
    if split == "train":
        raise SatError("a training photo would borrow its own captions: retrieve for val or test")
    check_scorers()
    train, val, asked = dataset.split("train"), dataset.split("val"), dataset.split(split)
    consensus = Consensus([example.captions for example in train])
    means = {
        name: mean_annotations(dataset, encoder, examples, cache, show=show)
        for name, examples in (("train", train), ("val", val), (split, asked))
    }
    tried: dict[tuple[bool, int], float] = {}
    tokenizer = dataset.tokenizer
    references = [[tokenizer.units(words) for words in example.captions] for example in val]
    for whitened in (False, True):
        where = space(means["train"], whitened=whitened)
        nearest = neighbors(where(means["val"]), where(means["train"]), max(NEIGHBORS))
        for k in Progress(NEIGHBORS, desc=named(whitened), unit="k", disable=not show):
            captions = [tokenizer.units(consensus(photos[:k])[1]) for photos in nearest]
            tried[whitened, k] = bleu(captions, references)[3]
    whitened, k = max(tried, key=lambda choice: tried[choice])
    where = space(means["train"], whitened=whitened)
    entries = []
    for example, photos in zip(asked, neighbors(where(means[split]), where(means["train"]), k), strict=True):
        photo, words = consensus(photos)
        file = str(example.photo.resolve())
        caption = {"caption": tokenizer.text(words), "words": list(words), "borrowed_from": train[photo].name}
        entries.append({"photo": example.name, "file": file, **caption})
    chosen = {
        "neighbors": k,
        "whitened": whitened,
        "validation_bleu_4": {f"{named(whitened)}, {k}": round(score, 2) for (whitened, k), score in tried.items()},
    }
    language = {} if tokenizer == KARPATHY else {"tokenizer": tokenizer.name}
    settings = {"model": "retrieval", **language, "retrieval": chosen}
    return score_split(dataset, split, entries, settings=settings)


def named(whitened: bool) -> str:
    """What a space is called."""
    return "whitened" if whitened else "centred"


def mean_annotations(
    dataset: Dataset, encoder: Encoder, examples: Sequence[Example], cache: Path, *, show: bool
) -> Tensor:
    """The examples' mean annotations (N, D)."""
    encode, names = fastest_encode(encoder), [example.name for example in examples]
    found = cached(dataset, encoder, cache, splits=(examples[0].split,), encode=encode, show=show)
    return torch.cat([found[names[start : start + 100]].float().mean(1) for start in range(0, len(names), 100)])


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Caption a split, print its scores, and write them with the captions."""
    parser = arguments("Score captions borrowed from similar training photos.", split="test", seeded=False)
    parser.add_argument("--encoder", default="vgg19", help="encoder, as for sat train")
    parser.add_argument("--resize", choices=["crop", "squash"], default="squash", help="shape of the encoder's square")
    options = parser.parse_args(given)
    dataset = read_dataset(options.data)
    encoder = load_encoder(options.encoder, resize=options.resize).to(pick_device(options.device))
    result = evaluate(dataset, encoder, options.split, cache=options.cache)
    chosen = result.settings["retrieval"]
    how = f"each from {chosen['neighbors']} photos, {named(chosen['whitened'])}"
    write_scores(options.json and str(options.json), result, f"retrieval on {dataset.name} {options.split}", how)


if __name__ == "__main__":
    main()
