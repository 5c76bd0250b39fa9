"""Training: batches of one length, an objective, selection by free-running BLEU-4 on validation photos.

`Trainer` is the loop; `TrainingConfig` all that it depends on. Two folders come out of it: the checkpoint that ships
(see `show_attend_tell.checkpoint`), rewritten whenever validation improves, and the training state, from which an
interrupted training goes on exactly where it stopped.
"""

import dataclasses
import hashlib
import json
import math
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.device import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import replace
from show_attend_tell.model import kernels
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import Told, tell
from show_attend_tell.model.precision import wide
from show_attend_tell.model.registry import build
from show_attend_tell.model.unroll import UnrolledTell
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, annotation_scale, batches
from show_attend_tell.training.selection import validation_bleu

LONG_TRAINING = 1000  # mini-batches


class Epoch(NamedTuple):
    """What an epoch came to."""

    number: int
    scores: dict[str, float]  # validation BLEU ×100, greedy or with the validation beam
    watch: dict[str, float]  # means over the epoch's batches
    seconds: float


class Trainer:
    """One training: the loop, its progress on the screen, and its state on disk."""

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        *,
        device: torch.device,
        initial: dict[str, Tensor] | None = None,
    ) -> None:
        """``initial`` are decoder weights to start from instead of random ones."""
        torch.manual_seed(config.seed)
        self.config, self.data, self.device = config, data, device
        self.decoder = build(config.decoder).to(device)
        if initial is not None:
            self.decoder.load_state_dict(initial)
        elif isinstance(self.decoder, AttentionDecoder) and self.decoder.config.annotation_norm == "scale":
            self.decoder.annotation_scale.fill_(annotation_scale(data))
        self.average = build(config.decoder).to(device).eval()
        self.average.load_state_dict(self.decoder.state_dict())
        self.objective = config.objective()
        self.entropy_weight_start = self.objective.entropy_weight
        self.generator = torch.Generator().manual_seed(config.seed)
        groups: list[dict[str, Any]] = [{"params": list(self.decoder.parameters()), "lr": config.learning_rate}]
        if data.encoder is not None:
            groups.append({"params": list(data.encoder.parameters()), "lr": data.encoder_learning_rate})
        self.optimiser: torch.optim.Optimizer
        if config.optimiser == "adam":
            self.optimiser = torch.optim.AdamW(groups, weight_decay=config.weight_decay, fused=True)
        else:  # Graves' centred RMSProp with the authors' program's constants
            self.optimiser = torch.optim.RMSprop(
                groups, alpha=0.95, eps=1e-2, momentum=0.9, centered=True, weight_decay=config.weight_decay
            )
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.batches_an_epoch = len(batches(data.captions, config.batch_size, 0))
        self.epoch = self.batch = self.taken = 0  # epochs finished, batches of this one taken, batches taken in all
        self.best = -1.0
        self.best_epoch = 0
        self.kernels = kernels.compiled() if self.compiling_pays() else kernels.PLAIN
        self.tell: Callable[..., Told] = tell if self.kernels is kernels.PLAIN else UnrolledTell(self.kernels)
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=native_bf16(device))

    def compiling_pays(self) -> bool:
        """Whether compiled loops, which take up to a minute to compile, save more than that."""
        long = self.config.epochs * self.batches_an_epoch >= LONG_TRAINING
        here = self.device.type == "cpu" and kernels.can_compile()
        return long and here and isinstance(self.decoder, AttentionDecoder)

    def progress(self) -> float:
        """The share of the whole training that is done, 0 to 1."""
        return self.taken / (self.config.epochs * self.batches_an_epoch)

    def run(
        self,
        *,
        on_epoch: Callable[[Epoch, bool], None] = lambda epoch, better: None,
        state: Path | None = None,
        show: bool = True,
    ) -> None:
        """Train until the last epoch or until patience ends; ``on_epoch`` is told each epoch and whether it was the
        best yet.

        Ctrl-C lets the batch end, writes the training state (if ``state`` names a file) and raises KeyboardInterrupt;
        a second one does not wait.
        """
        with between_batches() as pressed:

            def pause() -> None:
                if pressed():
                    if state is not None:
                        self.save(state)
                    raise KeyboardInterrupt

            while self.epoch < self.config.epochs and self.epoch - self.best_epoch < self.config.patience:
                began = time.monotonic()
                watch = self.one_epoch(show, pause)
                if state is not None and self.epoch == 0:
                    self.save(state)  # before there is a checkpoint: whatever ends the process from here, this resumes
                scores = self.validate()
                pause()
                self.epoch, self.batch = self.epoch + 1, 0
                better = scores["bleu_4"] > self.best
                if better:
                    self.best, self.best_epoch = scores["bleu_4"], self.epoch
                on_epoch(Epoch(self.epoch, scores, watch, time.monotonic() - began), better)
                if state is not None:
                    self.save(state)
                pause()

    def one_epoch(self, show: bool, pause: Callable[[], None] = lambda: None) -> dict[str, float]:
        """The rest of the epoch's batches; returns the means of what the objective watches. ``pause`` is called after
        each batch."""
        self.decoder.train()
        todo = batches(self.data.captions, self.config.batch_size, self.config.seed * 1_000_003 + self.epoch)
        totals: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        with tqdm(
            total=len(todo),
            initial=self.batch,
            desc=f"epoch {self.epoch + 1}",
            unit="batch",
            disable=not show,
            mininterval=1,
        ) as bar:
            for indices in todo[self.batch :]:
                for name, value in self.one_batch(indices).items():
                    totals[name] += value
                    counts[name] += 1
                self.batch += 1
                bar.update()
                bar.set_postfix({name: f"{totals[name] / counts[name]:.3f}" for name in totals}, refresh=False)
                pause()
        return {name: totals[name] / counts[name] for name in totals}

    def one_batch(self, indices: list[int]) -> dict[str, float]:
        """One step of the optimiser."""
        config, objective = self.config, self.objective
        self.adjust()
        names = [self.data.captions[i][0] for i in indices]
        captions = torch.tensor([self.data.captions[i][1] for i in indices], device=self.device)
        draws = objective.draw(len(indices), captions.shape[1], self.generator)
        annotations = self.annotations(names)
        with self.autocast:
            history = self.history(annotations, captions)
            told = self.tell(
                self.decoder, annotations, captions, paths=objective.paths, look=draws.look, history=history
            )
            loss = objective(told, captions, draws, word_scores=self.kernels.word_scores)
        if not torch.isfinite(loss.total):
            raise SatError(
                f"the loss became {loss.total.item()} at batch {self.taken + 1}: lower the learning rate "
                f"({config.learning_rate}) or clip the gradient"
            )
        self.optimiser.zero_grad(set_to_none=True)
        # a mean over the batch, so that a caption of a rare length, in a small batch, weighs what any other does
        loss.total.backward(loss.total.new_tensor(len(indices) / config.batch_size))  # type: ignore[no-untyped-call]
        if config.clip:
            for group in self.optimiser.param_groups:
                nn.utils.clip_grad_norm_(group["params"], config.clip)
        self.optimiser.step()
        self.taken += 1
        self.follow()
        watch = {"loss": loss.total.item(), **{name: value.item() for name, value in loss.watch.items()}}
        if told.beta is not None:
            watch["beta"] = told.beta.detach().mean().item()
        return watch

    def annotations(self, names: Sequence[str]) -> Tensor:
        """A batch's annotations, each photo's of a view drawn at random."""
        if len(self.data.views) == 1:
            return self.data.views[0][names].to(self.device)
        drawn = torch.randint(len(self.data.views), (len(names),), generator=self.generator).tolist()
        parts: dict[int, Tensor] = {}
        for number, view in enumerate(self.data.views):
            if rows := [row for row, chosen in enumerate(drawn) if chosen == number]:
                parts |= zip(rows, view[[names[row] for row in rows]], strict=True)
        return torch.stack([parts[row] for row in range(len(names))]).to(self.device)

    @torch.no_grad()
    def history(self, annotations: Tensor, captions: Tensor) -> Tensor:
        """The captions (B, C) as the decoder is told that it has said them: scheduled sampling.

        A share of the words is drawn from the decoder's own distribution, as at test time all are (Bengio et al. 2015,
        "Scheduled Sampling"). They are drawn by one pass over the true history, and not
        word by word, which would cost a search; never the end token, after which nothing is said.
        """
        first, last = self.config.scheduled_sampling, self.config.scheduled_sampling_end
        share = first if last is None else first + (last - first) * self.progress()
        if share == 0:
            return captions
        logits = wide(self.tell(self.decoder, annotations, captions).logits[:, 0])  # (B, C, K)
        logits[..., Vocabulary.END] = float("-inf")
        own = torch.softmax(logits, dim=-1).flatten(0, 1).multinomial(1).view_as(captions)
        return torch.where(torch.rand(captions.shape, device=captions.device) < share, own, captions)

    def adjust(self) -> None:
        """Set the learning rate and the entropy weight for where the training has come to."""
        factor = min(1.0, (self.taken + 1) / max(1, self.config.warmup))
        if self.config.schedule == "cosine":
            factor *= 0.5 * (1 + math.cos(math.pi * self.progress()))
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        if self.config.entropy_weight_end is not None:
            start = self.entropy_weight_start
            self.objective.entropy_weight = start + (self.config.entropy_weight_end - start) * self.progress()

    def follow(self) -> None:
        """Move the weights that ship: equal to the decoder's, or their moving average."""
        decay = min(self.config.averaging, (1 + self.taken) / (10 + self.taken))
        ours: list[Tensor] = list(self.average.parameters())
        theirs: list[Tensor] = list(self.decoder.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(ours, theirs, 1 - decay)

    def validate(self) -> dict[str, float]:
        """BLEU ×100 on the validation photos of the weights that would ship."""
        config = self.config
        return validation_bleu(self.average, self.data, beam=config.validation_beam, max_length=config.max_length)[0]

    def save(self, file: Path) -> None:
        """Write the whole state of the training, atomically, as safetensors: tensors, and a JSON header for the
        numbers."""
        tensors = {f"decoder.{name}": value for name, value in self.decoder.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        if self.data.encoder is not None:
            tensors |= {f"encoder.{name}": value for name, value in self.data.encoder.state_dict().items()}
        for index, entry in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": value for name, value in entry.items()}
        tensors |= {"random.global": torch.get_rng_state(), "random.training": self.generator.get_state()}
        if self.device.type == "cuda":  # dropout draws there
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        tensors |= {f"objective.{name}": value for name, value in self.objective.state_dict().items()}
        header = {
            "config": json.dumps(self.identity()),
            "progress": json.dumps([self.epoch, self.batch, self.taken, self.best, self.best_epoch]),
        }
        copies = {
            name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, lambda scratch: save_file(copies, scratch, metadata=header))

    def resume(self, file: Path) -> None:
        """Go on from the state in ``file``; raises `SatError` when it is of another training or damaged."""
        try:
            with safe_open(file, framework="pt") as stored:
                header = stored.metadata() or {}
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            ours = json.loads(json.dumps(self.identity()))
            ours.pop("visual_ngrams")  # made after the training, whatever it was
            # of versions without other kinds, without crops, and without a record of an encoder that is fine-tuned
            before = {"decoder.kind": "attention", "crops": 0, "encoder": ours.get("encoder")}
            theirs = {**before, **json.loads(header["config"])}
            different = [
                f"{name} was {theirs.get(name)!r}, is {ours[name]!r}" for name in ours if theirs.get(name) != ours[name]
            ]
            if different:
                raise SatError(
                    f"the training in {file} had other settings ({'; '.join(different)}): give the same or start afresh"
                )
            self.restore(tensors)
            self.epoch, self.batch, self.taken, self.best, self.best_epoch = json.loads(header["progress"])
        except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
            raise SatError(
                f"the training state {file} cannot be read ({error}): start afresh without --resume"
            ) from error

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over the tensors that `save` wrote."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        self.decoder.load_state_dict(part("decoder."))
        self.average.load_state_dict(part("average."))
        if self.data.encoder is not None:
            self.data.encoder.load_state_dict(part("encoder."))
        entries: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for name, value in part("optimiser.").items():
            index, _, entry = name.partition(".")
            entries[int(index)][entry] = value
        self.optimiser.load_state_dict(
            {"state": dict(entries), "param_groups": self.optimiser.state_dict()["param_groups"]}
        )
        for parameter, entry in self.optimiser.state.items():  # the fused step needs the layout of the weights,
            for name, value in entry.items():  # which an encoder may have in channels_last
                if value.shape == parameter.shape:
                    entry[name] = torch.empty_like(parameter).copy_(value)
        torch.set_rng_state(tensors["random.global"])
        self.generator.set_state(tensors["random.training"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.objective.load_state_dict(part("objective."))

    def identity(self) -> dict[str, Any]:
        """What a resumed training must share with the interrupted one: settings, captions, and annotations (by those
        of the first photo) or the rate at which the encoder learns."""
        data = self.data
        captions = json.dumps([data.vocabulary.to_list(), list(data.captions), list(data.validation)])
        found = {**self.config_dict(), "captions": hashlib.sha256(captions.encode()).hexdigest()[:12]}
        if data.encoder is not None:
            return found | {"encoder_learning_rate": data.encoder_learning_rate, "encoder": data.encoder_record}
        first = torch.stack([view[[data.captions[0][0]]] for view in data.views])
        return found | {"annotations": hashlib.sha256(first.numpy().tobytes()).hexdigest()[:12]}

    def config_dict(self) -> dict[str, Any]:
        """The settings as plain values, flat, "decoder.hidden_size" and the like."""
        return flat({**dataclasses.asdict(self.config), "decoder": self.config.decoder.to_dict()})


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, their keys joined by dots."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        result |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return result


@contextmanager
def between_batches() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back, and say whether it was pressed, so that it never cuts a step of the optimiser in two.

    A second Ctrl-C raises KeyboardInterrupt at once. In a thread other than the main one, which Ctrl-C does not reach,
    nothing changes.
    """
    times = 0

    def press(*_: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread
        yield lambda: False
        return
    try:
        yield lambda: times > 0
    finally:
        signal.signal(signal.SIGINT, before)
