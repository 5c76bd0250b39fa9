"""Word detectors: which words a photo's captions have, by noisy-OR over its windows (Fang et al. 2014, section 3).

    h_i = max(0, W ā_i + b),    p_w = 1 − Π_i (1 − σ(v_w · h_i + b_w))

with ā_i the mean annotation of a window. A word is in the photo if it is in one of the windows. This is
multiple-instance learning: people say that a photo has a word, and not where it is. In the original, the fully
connected layers of a network run over the photo, and see 224 of 565 pixels at once. So windows here are of 8 × 8 of
the 14 × 14 locations (of 6, 8 and 10 the best on val; of 2 × 2 they are worse than a probe of the mean), and a hidden
layer comes before the detectors. They are trained alone, and read by `msr` and by `templates`.

The threshold τ_w of a word is the one by which it is detected in `WIDTH` times as many photos of val as have it.

N photos · L locations · R windows · D annotation size · H hidden units · W words with detectors.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from show_attend_tell.backends.torch import fastest_encode
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.decoder import Dropout
from show_attend_tell.model.kernels import promote
from show_attend_tell.progress import Progress
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.sources import cached

FIRST = Vocabulary.UNKNOWN + 1  # the first word with a detector; frequent words have small ids
BATCH_SIZE = 64
LEARNING_RATE = 1e-3
WIDTH = 4


class Detectors(nn.Module):
    """The detectors of W words, with their thresholds; a linear probe of the annotations without ``hidden`` units."""

    threshold: Tensor

    def __init__(self, size: int, hidden: int, words: int, *, window: int = 1, stride: int = 1, dropout: float) -> None:
        super().__init__()
        self.window, self.stride = window, stride
        self.dropout = Dropout(dropout)
        layers = [nn.Linear(size, hidden), nn.ReLU(), Dropout(dropout)] if hidden else []
        self.hidden = nn.Sequential(*layers)
        self.word = nn.Linear(hidden or size, words)
        self.register_buffer("threshold", torch.full((words,), 0.5))  # τ_w

    def forward(self, annotations: Tensor) -> Tensor:
        """log(p_w / (1 − p_w)) (N, W) of annotations (N, L, D)."""
        windows = self.windows(promote(annotations))
        seen = self.dropout(nn.functional.layer_norm(windows, windows.shape[-1:]))
        found = promote(self.word(self.hidden(seen)))
        absent = -nn.functional.softplus(found).sum(1)  # log(1 − p_w)
        return torch.log(-torch.expm1(absent.clamp(-30, -1e-6))) - absent

    def windows(self, annotations: Tensor) -> Tensor:
        """The mean annotations (N, R, D) of the windows of a square grid of annotations (N, L, D).

        Raises `SatError` for a grid that is not square, or smaller than a window.
        """
        if self.window == 1:
            return annotations
        side = math.isqrt(annotations.shape[1])
        if side * side != annotations.shape[1] or side < self.window:
            raise SatError(
                f"{annotations.shape[1]} locations have no windows of {self.window} × {self.window}: give a square grid"
            )
        grid = annotations.transpose(1, 2).reshape(len(annotations), -1, side, side)
        return nn.functional.avg_pool2d(grid, self.window, self.stride).flatten(2).transpose(1, 2)


def annotations_of(dataset: Dataset, split: str, encoder: Encoder, cache: Path, *, show: bool) -> Tensor:
    """The annotations (N, L, D) of a split in half precision, encoded now if they are not yet in the cache."""
    names = [example.name for example in dataset.split(split)]
    source = cached(dataset, encoder, cache, splits=(split,), encode=fastest_encode(encoder), show=show)
    return torch.cat([source[names[start : start + 100]] for start in range(0, len(names), 100)])


def present(captions: Sequence[Sequence[Sequence[int]]], words: int) -> Tensor:
    """Which of the words are in one of the captions of each photo: (N, W), 0 or 1."""
    result = torch.zeros(len(captions), words)
    for row, of_photo in enumerate(captions):
        ids = {word - FIRST for caption in of_photo for word in caption}
        result[row, [word for word in ids if 0 <= word < words]] = 1
    return result


def fit(
    detectors: Detectors, annotations: Sequence[Tensor], truth: Sequence[Tensor], *, epochs: int, show: bool
) -> float:
    """Train detectors on annotations (N, L, D) and truth (N, W) of train, and choose the best epoch and τ_w on val.

    Both are given for train and for val. Returns the mean average precision on val.
    """
    (train, val), (known, known_val) = annotations, truth
    prior = known.mean(0).clamp(1e-4, 1 - 1e-4)
    nn.init.normal_(detectors.word.weight, std=0.01)
    in_a_window = -torch.expm1(torch.log1p(-prior) / detectors.windows(train[:1].float()).shape[1])
    detectors.word.bias.data = torch.logit(in_a_window)  # p_w is the share of photos with the word before training
    detectors.requires_grad_(True)
    optimizer = torch.optim.Adam(detectors.parameters(), lr=LEARNING_RATE)
    steps = epochs * -(-len(train) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    best, best_weights, best_scores = -1.0, detectors.state_dict(), known_val
    for epoch in range(epochs):
        detectors.train()
        for rows in Progress(
            torch.split(torch.randperm(len(train)), BATCH_SIZE), desc=f"epoch {epoch + 1}", disable=not show
        ):
            scores = detectors(train[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(scores, known[rows], reduction="none").sum(1).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
        scores = detected(detectors, val)
        found = mean_average_precision(scores, known_val)
        print(f"epoch {epoch + 1}: loss {loss:.2f}, mean average precision on val {100 * found:.2f}", flush=True)
        if found > best:
            best, best_scores = found, scores
            best_weights = {name: value.clone() for name, value in detectors.state_dict().items()}
    detectors.load_state_dict(best_weights)
    detectors.requires_grad_(False)
    detectors.threshold.copy_(thresholds(best_scores.sigmoid(), known_val))
    return best


@torch.inference_mode()
def detected(detectors: Detectors, annotations: Tensor) -> Tensor:
    """The logits (N, W) of photos with annotations (N, L, D), a batch at a time."""
    detectors.eval()
    return torch.cat([detectors(part) for part in torch.split(annotations, BATCH_SIZE)])


def mean_average_precision(scores: Tensor, truth: Tensor) -> float:
    """The mean of the words' average precisions over photos, of scores (N, W); words that no photo has do not count."""
    order = scores.argsort(0, descending=True)
    right = truth.gather(0, order)
    ranks = torch.arange(1, len(truth) + 1)[:, None]
    precision = right.cumsum(0) / ranks  # at each photo
    each = (precision * right).sum(0) / truth.sum(0)
    return float(each[truth.sum(0) > 0].mean())


def thresholds(shares: Tensor, truth: Tensor) -> Tensor:
    """The thresholds τ_w (W,) for the shares p_w (N, W) of photos of val; 1 for a word of no photo."""
    ordered = shares.sort(0, descending=True).values
    count = (WIDTH * truth.sum(0).long()).clamp_max(len(truth))
    return torch.where(count > 0, ordered.gather(0, (count - 1).clamp_min(0)[None])[0], 1.0)
