"""The paper's own recipe to its end, with the variance of its gradient: one training of the preset `paper`.

    OMP_NUM_THREADS=1 python research/paper_recipe.py flickr8k/ runs/ soft 1    # runs/paper-soft-1
    OMP_NUM_THREADS=1 python research/paper_recipe.py flickr8k/ runs/ hard 1    # the same command goes on

It stops when greedy BLEU-4 on val has not improved for ten epochs, or after 20 epochs (soft) and 40 (hard). The paper
stops by validation BLEU too; the authors' program stops by −log p of val, with a patience of 10. `ARGMAX` are the
scores of a hard model by argmax.

A line for each epoch in training/log.jsonl has scores of val, nats a word and the entropy of α. Of the gradient g_k of
mini-batch k it has

- ``gradient_variance``: the mean of ‖g_k − g_{k−1}‖² / 2, over all weights, so without the drift of its mean;
- ``gradient_square``: the mean of ‖g_k‖².
"""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from stages import new_parser, reporting
from torch import Tensor

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.training.config import TrainingPlan, changed
from show_attend_tell.training.likelihood import MiniBatch
from show_attend_tell.training.presets import preset
from show_attend_tell.training.run import train
from show_attend_tell.training.selection import captions_of, nats_a_word, scores_of, usual_decoding
from show_attend_tell.training.start import choose_start
from show_attend_tell.training.trainer import Trainer

ARGMAX = ("bleu_4", "bleu_4_no_brevity", "cider")


@torch.compile(dynamic=True)
def update(
    rate: Tensor, weight: Tensor, gradient: Tensor, before: Tensor, square: Tensor, mean: Tensor, momentum: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of the centred RMSProp of `Trainer`, in one loop; returns ‖g‖² and ‖g − g before‖²."""
    squares, means = 0.95 * square + 0.05 * gradient * gradient, mean + 0.05 * (gradient - mean)
    momenta = 0.9 * momentum + gradient / ((squares - means * means).sqrt() + 1e-2)
    change = gradient - before
    sums = (gradient * gradient).sum(), (change * change).sum()
    for kept, value in (square, squares), (mean, means), (momentum, momenta), (before, gradient):
        kept.copy_(value)
    weight.sub_(rate * momenta)
    return sums


class WatchedRMSprop(torch.optim.RMSprop):
    """PyTorch's RMSProp as `Trainer` has it, with the same state; ``sums`` are those of `update` over all weights."""

    sums: tuple[Tensor, Tensor]
    first: bool  # of this process: it has no difference to say

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the weights from their gradients."""
        (group,) = self.param_groups
        sums = torch.zeros(2, dtype=torch.float64, device=group["params"][0].device)
        self.first = not hasattr(self, "before")
        if self.first:
            self.before = [torch.zeros_like(each) for each in group["params"]]
        for weight, before in zip(group["params"], self.before, strict=True):
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros(())
                state |= {name: torch.zeros_like(weight) for name in ("square_avg", "grad_avg", "momentum_buffer")}
            state["step"] += 1
            kept = state["square_avg"], state["grad_avg"], state["momentum_buffer"]
            tensors = weight.detach(), weight.grad.contiguous(), before, *kept
            sums += torch.stack(update(torch.tensor(group["lr"]), *(each.view(-1) for each in tensors)))
        self.sums = sums[0], sums[1]


class Watching(Trainer):
    """A training that watches its gradient, in the pass over the weights that the optimizer makes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if isinstance(self.optimizer, torch.optim.RMSprop):  # an ablation may have Adam, whose gradient is not watched
            self.optimizer = WatchedRMSprop(self.optimizer.param_groups)
        for ours, theirs in zip(self.average.parameters(), self.decoder.parameters(), strict=True):
            ours.data = theirs.data  # the recipe has no moving average, so that what is saved is the decoder's own

    def update_average(self) -> None:
        """Nothing, since these are the same tensors."""

    def validate(self) -> dict[str, float]:
        """The scores of val, and −log p a word of its captions, by which the authors' program stops."""
        scores = {**super().validate(), "nats": nats_a_word(self.average, self.data)}
        if self.config.decoder.attention != "hard":
            return scores
        usual = usual_decoding(self.config, self.data)
        by_argmax = dataclasses.replace(usual, config=usual.config.merge(attention_mode="argmax"))
        (captions,) = captions_of(self.average, self.data, by_argmax)
        scores_by_argmax = scores_of(captions, self.data)
        return scores | {f"{key}_argmax": scores_by_argmax[key] for key in ARGMAX}

    def step(self, batch: MiniBatch) -> dict[str, Tensor]:
        """One step of the optimizer, and what the module says of its gradient."""
        watch = super().step(batch)
        if not isinstance(self.optimizer, WatchedRMSprop):
            return watch
        watch["gradient_square"], change = self.optimizer.sums
        if not self.optimizer.first:
            watch["gradient_variance"] = change / 2
        return watch


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Train, or go on."""
    parser = new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("output", type=Path, help="folder for the models")
    parser.add_argument("attention", choices=("soft", "hard", "uniform"))
    parser.add_argument("seed", type=int)
    parser.add_argument("--name", default="paper", help="start of the model's name")
    parser.add_argument("--init-from", default="none", help="model to start from")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as in sat train")
    parser.add_argument("--device", default="auto", help="device to compute on")
    options = parser.parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = changed(preset("paper", options.attention), [f"seed={options.seed}", *options.set])
    dataset = read_dataset(options.data)
    output = options.output / f"{options.name}-{options.attention}-{options.seed}"
    start = choose_start(dataset, config, init_from=options.init_from, fit_to_data=False, resize="squash")
    plan = TrainingPlan(
        dataset=dataset, start=start, config=config, output=output, device=options.device, notes={"preset": "paper"}
    )
    train(dataclasses.replace(plan, resume=plan.state.exists()), trainer=Watching)


if __name__ == "__main__":
    main()
