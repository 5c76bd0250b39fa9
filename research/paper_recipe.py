"""The paper's own recipe to its end, with the variance of its gradient: one training of the preset `paper`.

    OMP_NUM_THREADS=1 python research/paper_recipe.py flickr8k/ runs/ soft 1    # runs/paper-soft-1
    OMP_NUM_THREADS=1 python research/paper_recipe.py flickr8k/ runs/ hard 1    # the same command goes on

It stops when greedy BLEU-4 on val has not improved for ten epochs, or after 20 epochs (soft) and 40 (hard). The paper
stops by validation BLEU too; the authors' program stops by −log p of val, with a patience of 10. A line for each epoch
in training/log.jsonl has scores of val, nats a word and the entropy of α. Of the gradient g_k of mini-batch k it has

- ``gradient_variance``: the mean of ‖g_k − g_{k−1}‖² / 2, over all weights, so without the drift of its mean;
- ``gradient_square``: the mean of ‖g_k‖².
"""

import argparse
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from stages import reporting
from torch import Tensor

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.presets import preset
from show_attend_tell.training.run import train
from show_attend_tell.training.start import choose_start
from show_attend_tell.training.trainer import Trainer

EPOCHS = {"soft": 20, "hard": 40}


class Watching(Trainer):
    """A training that watches its gradient."""

    before: Tensor | None = None  # the gradient of the mini-batch before

    def one_batch(self, indices: list[int]) -> dict[str, float]:
        """One step of the optimizer, and what the module says of its gradient."""
        watch = super().one_batch(indices)
        parts = [each.grad.flatten() for each in self.decoder.parameters() if each.grad is not None]
        gradient = torch.cat(parts).double()
        watch["gradient_square"] = float(gradient @ gradient)
        if self.before is not None:
            watch["gradient_variance"] = float((gradient - self.before).square().sum()) / 2
        self.before = gradient
        return watch


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Train, or go on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("output", type=Path, help="folder for the models")
    parser.add_argument("attention", choices=EPOCHS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--epochs", type=int, help="at most; default: 20 for soft, 40 for hard")
    parser.add_argument("--device", default="auto", help="device to compute on")
    options = parser.parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    epochs = options.epochs or EPOCHS[options.attention]
    config = dataclasses.replace(preset("paper", options.attention), seed=options.seed, epochs=epochs)
    dataset, output = read_dataset(options.data), options.output / f"paper-{options.attention}-{options.seed}"
    start = choose_start(dataset, config, init_from="none", fit_to_data=False, resize="squash")
    plan = TrainingPlan(
        dataset=dataset, start=start, config=config, output=output, device=options.device, notes={"preset": "paper"}
    )
    train(dataclasses.replace(plan, resume=plan.state.exists()), trainer=Watching)


if __name__ == "__main__":
    main()
