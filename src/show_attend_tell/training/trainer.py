"""One training: its weights, its step of the optimizer, its figures on val, and its state on disk."""

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.messages import plural
from show_attend_tell.metrics.scores import variety
from show_attend_tell.model import kernels
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.registry import build
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, annotation_scale, identity
from show_attend_tell.training.likelihood import Likelihood, MiniBatch, joined
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.losses import Loss
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import CIDER_PER_NAT, captions_of, nats_a_word, scores_of, usual_decoding

LONG_TRAINING = 1000  # mini-batches
RESTART = 0.5  # of the first learning rate, where an ended training got more epochs
WATCHED = ("words_used", "distinct", "repetitive", "truncated")  # of `metrics.variety`, after each epoch


class Trainer(Likelihood):
    """The weights and the optimizer of a training, and how far it has come; `run.train` has the loop over epochs."""

    saved_every = 30.0  # seconds between two saved states, after an epoch; after the last one it is always saved

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        *,
        device: torch.device,
        initial: Mapping[str, Tensor] | None = None,
        init_from: str | None = None,
    ) -> None:
        """``initial`` are the weights of the model ``init_from``; the precision auto is resolved for the device."""
        if config.precision == "auto":
            config = replace(config, precision="bfloat16" if native_bf16(device) else "float32")
        super().__init__(config, data, device)
        self.init_from = init_from
        self.identity = identity(config, data)
        if initial is not None:
            self.decoder.load_state_dict(initial)
        elif isinstance(self.decoder, AttentionDecoder) and self.decoder.config.annotation_norm == "scale":
            self.decoder.annotation_scale.fill_(annotation_scale(data))
        self.average = build(config.decoder).to(device).eval()
        self.average.load_state_dict(self.decoder.state_dict())
        groups = [{"params": list(self.decoder.parameters()), "lr": config.learning_rate}]
        if data.encoder is not None:
            groups.append({"params": list(data.encoder.parameters()), "lr": data.encoder_learning_rate})
        self.optimizer: torch.optim.Optimizer
        if config.optimizer == "adam":
            self.optimizer = torch.optim.Adam(groups, fused=True)
        else:  # Graves' centred RMSProp with the authors' program's constants; they have √(v + 1e-4), not √v + 1e-2
            self.optimizer = torch.optim.RMSprop(groups, alpha=0.95, eps=1e-2, momentum=0.9, centered=True)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.best = -math.inf  # highest selection() so far
        self.best_epoch = 0
        self.restart = [0, 0]  # batches taken and epochs finished when an ended training got more epochs
        self.saved = time.monotonic()  # when the state was last written
        # weights of mini-batches, and what is watched in them; it stays on the device until it is read
        self.unread: list[tuple[float, dict[str, Tensor]]] = []
        self.begin_epoch()
        self.batches_an_epoch = len(self.batches())
        is_long = config.epochs * self.batches_an_epoch >= LONG_TRAINING  # to compile takes up to a minute
        if is_long and device.type == "cpu" and kernels.can_compile():
            self.decoder.kernels = kernels.compiled()
            self.objective.word_scores = self.decoder.kernels.word_scores
        self.loss = ranks.in_parallel(self.decoder, data.encoder)

    def ended(self, epochs: int) -> bool:
        """Whether a training of that many epochs has ended, by their number or by patience."""
        return self.epoch >= epochs or self.epoch - max(self.best_epoch, self.restart[1]) >= self.config.patience

    def selection(self, scores: dict[str, float]) -> float:
        """What the best epoch has highest: a score, a score minus nats a word, or minus nats."""
        match self.config.selected_by:
            case "cider_and_nats":
                return scores["cider"] - CIDER_PER_NAT * scores["nats"]
            case "nats":
                return -scores["nats"]
            case score:
                return scores[score]

    def step(self, batch: MiniBatch) -> dict[str, Tensor]:
        """One step of the optimizer; returns the loss and what to watch with it, which the device may still compute."""
        self.set_schedules()
        self.optimizer.zero_grad(set_to_none=True)
        captions = sum(piece.captions for piece in batch)
        losses = []
        for self.piece, piece in enumerate(batch):
            with ranks.averaging(self.loss, last=piece is batch[-1]):
                loss = self.loss(piece.loss)
                # a mean over the batch, so that a caption of a rare length, in a small batch, weighs as any other does
                weight = piece.captions / self.config.batch_size
                loss.total.backward(loss.total.new_full((), weight))  # type: ignore[no-untyped-call]
            losses.append((piece.captions / captions, Loss(loss.total.detach(), loss.watch)))
        self.objective.end_batch()
        if self.config.clip:
            parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.config.clip)
        self.optimizer.step()
        self.batch += 1
        self.taken += 1
        self.update_average()
        total, watch = joined(losses)
        return {"loss": total, **watch}

    def take(self, batch: MiniBatch) -> None:
        """A step, of which the figures are watched."""
        captions = sum(piece.captions for piece in batch)
        weight = ranks.part_of(captions).share * captions  # each caption weighs the same, as in the step
        self.unread.append((weight, self.step(batch)))

    def read_losses(self) -> dict[str, float]:
        """Wait for the steps so far; the means of what is watched. All ranks call this together.

        Raises `SatError`, with the number of the mini-batch, for a loss that is not finite on any rank.
        """
        number = self.taken - len(self.unread)
        read = [(weight, {name: value.item() for name, value in values.items()}) for weight, values in self.unread]
        self.unread.clear()
        for of_ranks in zip(*ranks.gathered(read), strict=True):  # of one mini-batch
            number += 1
            loss = sum(values["loss"] for _, values in of_ranks) / len(of_ranks)
            if not math.isfinite(loss):
                raise SatError(
                    f"the loss became {loss} at batch {number}: lower the learning rate "
                    f"({self.config.learning_rate}) or clip the gradient"
                )
            for weight, values in of_ranks:
                for name, value in {**values, "loss": loss}.items():
                    self.watched[name] += weight * value, weight
        return self.means()

    def means(self) -> dict[str, float]:
        """The means over the epoch's captions, those of all ranks, of what was watched and read."""
        return {name: float(total / weights) for name, (total, weights) in self.watched.items() if weights}

    def begin_epoch(self) -> None:
        """Watch a new epoch, or what is left of one."""
        # sums of the values, each times its mini-batch's weight, and of these weights
        self.watched: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
        self.began = time.monotonic()

    def end_epoch(self) -> None:
        """Count an epoch."""
        self.epoch += 1
        self.batch = 0

    def set_schedules(self) -> None:
        """Set what moves over the training: the learning rate, scheduled sampling's share, λ_e of hard attention."""
        config = self.config
        last = config.epochs * self.batches_an_epoch
        done = of_cosine = min(1.0, self.taken / last)
        scale = 1.0
        if self.restart[1]:  # an ended training got more epochs: a new cosine, and the rest stays where it ended
            done = 1.0
            scale = RESTART
            of_cosine = min(1.0, (self.taken - self.restart[0]) / max(1, last - self.restart[0]))
        factor = min(1.0, (self.taken + 1) / max(1, config.warmup))
        if config.schedule == "cosine":
            factor *= scale * 0.5 * (1 + math.cos(math.pi * of_cosine))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

        def between(start: float, end: float | None) -> float:
            return start if end is None else start + (end - start) * done

        self.sampling = between(config.scheduled_sampling, config.scheduled_sampling_end)
        if isinstance(self.objective, HardObjective):
            self.objective.entropy_weight = between(config.hard.entropy_weight, config.entropy_weight_end)

    def update_average(self) -> None:
        """Update the weights that are saved: the decoder's own, or their moving average."""
        decay = min(self.config.averaging, (1 + self.taken) / (10 + self.taken))
        ours: list[Tensor] = list(self.average.parameters())
        theirs: list[Tensor] = list(self.decoder.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(ours, theirs, 1 - decay)
            for mine, its in zip(self.average.buffers(), self.decoder.buffers(), strict=True):
                mine.copy_(its)  # such as the statistics of a batch norm

    def validate(self) -> dict[str, float]:
        """The scores ×100 of captions of val, by the weights that would be saved, and nats a word where these count."""
        (captions,) = captions_of(self.average, self.data, usual_decoding(self.config, self.data))
        tokenizer = self.data.vocabulary.tokenizer
        generated = {
            name: tokenizer.text(words) for (name, _), words in zip(self.data.validation, captions, strict=True)
        }
        training = [self.data.vocabulary.decode(words) for _, words in self.data.captions]
        varied = variety(generated, training, cut=tokenizer.words)
        scores = scores_of(captions, self.data)
        scores |= {name: getattr(varied, name) for name in WATCHED if getattr(varied, name) is not None}
        if "nats" in self.config.selected_by or self.init_from is not None:
            scores["nats"] = nats_a_word(self.average, self.data)
        return scores

    def stateful(self) -> dict[str, Any]:
        """What has a state of its own, besides the optimizer."""
        modules = {"decoder": self.decoder, "average": self.average, "objective": self.objective}
        return modules if self.data.encoder is None else {**modules, "encoder": self.data.encoder}

    def save(self, file: Path) -> None:
        """Write the state of the training, whole or not at all; the first rank alone does.

        It is one safetensors file: all weights, the optimizer's and the objective's own state, and those of the random
        generators. Its header has numbers in JSON: how far the training has come, and its `identity`. A training may
        go on from it on another device; on a processor it ends with the same weights, to the bit, as one that was never
        interrupted. All ranks call this together; one whose loss became infinite or NaN raises `SatError` instead.
        """
        self.read_losses()
        self.saved = time.monotonic()
        if not ranks.is_main():
            return
        tensors = {
            f"{module}.{name}": value
            for module, of in self.stateful().items()
            for name, value in of.state_dict().items()
        }
        for index, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in entry.items()}
        generator = self.generator.get_state() if self.state_before_ahead is None else self.state_before_ahead
        tensors |= {"random.global": torch.get_rng_state(), "random.training": generator}
        if self.device.type == "cuda":  # dropout draws there
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        progress = (self.epoch, self.batch, self.taken, self.best, self.best_epoch, *self.restart)
        header = {"identity": self.identity, "progress": progress, "init_from": self.init_from}
        metadata = {name: json.dumps(value) for name, value in header.items()}
        copied = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, lambda scratch: save_file(copied, scratch, metadata=metadata), sync=True)

    def save_if_due(self, file: Path, *, ended: bool) -> None:
        """Write the state if the training has ``ended``, or if the last one is `saved_every` seconds old."""
        if self.taken and (ended or time.monotonic() - self.saved > self.saved_every):
            self.save(file)

    def resume(self, file: Path) -> None:
        """Go on from the state in a file, and log what more epochs than before mean for the training."""
        config = self.config
        try:
            with safe_open(file, framework="pt") as state:
                tensors = {name: state.get_tensor(name) for name in state.keys()}  # noqa: SIM118
                header = {name: json.loads(text) for name, text in (state.metadata() or {}).items()}
            theirs = {"precision": config.precision, **header["identity"]}  # older states do not say theirs
            theirs["init_from"] = header.get("init_from", self.init_from)
            before = theirs.get("epochs", 0)
            different = [
                "the captions, their weights, the texts or the vocabulary have changed since"
                if name == "captions"
                else f"{name} was {theirs.get(name)!r}, is {value!r}"
                for name, value in {**self.identity, "init_from": self.init_from}.items()
                if theirs.get(name) != value and not (name == "epochs" and before < config.epochs)
            ]
            if different:
                raise SatError(
                    f"the training in {file} had other settings or data ({'; '.join(different)}): give the same, or "
                    "another --output to start afresh"
                )
            self._restore(tensors, header["progress"])
            ended = before < config.epochs and self.ended(before)
        except SatError:
            raise
        except (OSError, SafetensorError, KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
            raise SatError(
                f"the training state {file} cannot be read ({error}): give another --output to start afresh"
            ) from error
        log(f"resumed after {plural(self.epoch, 'epoch')} and {plural(self.batch, 'batch')}")
        if ended:
            self.restart = [self.taken, self.epoch]
        if before < config.epochs:
            again = f"a cosine goes to 0 again from {RESTART:g} of it" if config.schedule == "cosine" else "it stays"
            log(
                f"{config.epochs} epochs instead of {before}, at a learning rate of {config.learning_rate:g}; "
                f"{again if ended else 'schedules are stretched'}"
            )

    def _restore(self, tensors: Mapping[str, Tensor], progress: Sequence[Any]) -> None:
        """Take over the tensors and counters that `save` wrote, on whatever device."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        self.epoch, self.batch, self.taken, self.best, self.best_epoch, *self.restart = progress
        for name, of in self.stateful().items():
            of.load_state_dict(part(f"{name}."))
        entries: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for name, value in part("optimizer.").items():
            index, _, entry = name.partition(".")
            entries[int(index)][entry] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": dict(entries)})
        for parameter, values in self.optimizer.state.items():  # the fused step needs the layout of the weights,
            for name, value in values.items():  # which an encoder may have in channels_last
                if value.shape == parameter.shape:
                    values[name] = torch.empty_like(parameter).copy_(value)
        torch.set_rng_state(tensors["random.global"])
        self.generator.set_state(tensors["random.training"])
        if self.device.type == "cuda" and "random.cuda" in tensors:  # else, keep those of the seed
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
