"""One training: its weights, its step of the optimizer, its figures on val, and its state on disk."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.messages import plural
from show_attend_tell.metrics.scores import variety
from show_attend_tell.model import kernels
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import drawn_words
from show_attend_tell.model.kernels import promote
from show_attend_tell.model.registry import build
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import (
    TrainingData,
    annotation_scale,
    batches,
    batches_of_photos,
    identity,
    of_one_length,
)
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.losses import Loss, word_losses
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import NAT, captions_of, nats_a_word, scores_of, usual_decoding

LONG_TRAINING = 1000  # mini-batches
RESTART = 0.5  # of the first learning rate, where an ended training got more epochs
WATCHED = ("words_used", "distinct", "repetitive", "truncated")  # of `metrics.variety`, after each epoch


class Epoch(NamedTuple):
    """What an epoch reached."""

    number: int
    scores: dict[str, float]  # of validation captions, see `Trainer.validate`
    watch: dict[str, float]  # means over the epoch's captions
    seconds: float
    better: bool = False  # than all before


class Watch:
    """The means of what is watched over an epoch's captions."""

    def __init__(self) -> None:
        self.sums: dict[str, NDArray[np.float64]] = {}  # of the values, each times its batch's weight, and of these

    def add(self, values: Mapping[str, float], captions: int) -> dict[str, str]:
        """Add those of a batch of that many captions; returns the means so far of this rank's own, to be shown."""
        weight = ranks.part_of(captions).share * captions  # each caption weighs the same, as in the step
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + np.array([weight * value, weight])
        return {name: f"{total / weights:.3f}" for name, (total, weights) in self.sums.items() if weights}

    def means(self) -> dict[str, float]:
        """The means over the captions of all ranks."""
        sums: dict[str, NDArray[np.float64]] = {}
        for part in ranks.gathered(self.sums):
            for name, pair in part.items():
                sums[name] = sums.get(name, 0.0) + pair
        return {name: float(total / weights) for name, (total, weights) in sums.items() if weights}


class Trainer:
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
        bfloat16: bool | None = None,
        show: bool = False,
    ) -> None:
        """``initial`` are the weights of the model ``init_from``; ``bfloat16`` None stands for where it is native."""
        torch.manual_seed(config.seed)
        self.config, self.data, self.device, self.init_from = config, data, device, init_from
        self.identity = identity(config, data)
        self.decoder = build(config.decoder).to(device)
        if initial is not None:
            self.decoder.load_state_dict(initial)
        elif isinstance(self.decoder, AttentionDecoder) and self.decoder.config.annotation_norm == "scale":
            self.decoder.annotation_scale.fill_(annotation_scale(data, show=show))
        self.average = build(config.decoder).to(device).eval()
        self.average.load_state_dict(self.decoder.state_dict())
        self.objective = config.objective()
        self.generator = torch.Generator().manual_seed(config.seed)
        groups = [{"params": list(self.decoder.parameters()), "lr": config.learning_rate}]
        if data.encoder is not None:
            groups.append({"params": list(data.encoder.parameters()), "lr": data.encoder_learning_rate})
        self.optimizer: torch.optim.Optimizer
        if config.optimizer == "adam":
            self.optimizer = torch.optim.Adam(groups, fused=True)
        else:  # Graves' centred RMSProp with the authors' program's constants; they have √(v + 1e-4), not √v + 1e-2
            self.optimizer = torch.optim.RMSprop(groups, alpha=0.95, eps=1e-2, momentum=0.9, centered=True)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.text_corpus = of_one_length([("", words) for words in data.text_corpus], range(len(data.text_corpus)))
        self.epoch = self.batch = self.taken = 0  # epochs finished, batches of this one taken, batches taken in all
        self.best = -math.inf  # by `selection`
        self.best_epoch = 0
        self.restart = [0, 0]  # batches taken and epochs finished when an ended training got more epochs
        self.sampling = config.scheduled_sampling  # the share of the previous words that are the decoder's own now
        self.batches_an_epoch = len(self.batches())
        self.kernels = kernels.REFERENCE
        long = config.epochs * self.batches_an_epoch >= LONG_TRAINING  # to compile takes up to a minute
        if long and device.type == "cpu" and kernels.can_compile():
            self.kernels = self.decoder.kernels = kernels.compiled()
        bfloat16 = native_bf16(device) if bfloat16 is None else bfloat16
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=bfloat16)
        self.loss = ranks.in_parallel(self.loss_of, self.decoder, data.encoder)

    def ended(self, epochs: int) -> bool:
        """Whether a training of that many epochs has ended, by their number or by patience."""
        return self.epoch >= epochs or self.epoch - max(self.best_epoch, self.restart[1]) >= self.config.patience

    def selection(self, scores: dict[str, float]) -> float:
        """What is highest for the best epoch: the selecting score, minus nats a word, or the epoch's number."""
        by = self.config.selected_by
        if by == "last":
            return self.epoch
        if by == "cider_and_nats":
            return scores["cider"] - NAT * scores["nats"]
        return -scores["nats"] if by == "nats" else scores[by]

    def batches(self) -> list[list[int]]:
        """The mini-batches of the next epoch, or of the one that is under way: numbers of captions."""
        of = batches if self.data.encoder is None else batches_of_photos
        seed = self.config.seed * 1_000_003 + self.epoch
        return of(self.data.captions, self.config.batch_size, seed, self.data.weights)

    def one_batch(self, indices: list[int]) -> dict[str, float]:
        """One step of the optimizer."""
        config = self.config
        self.adjust()
        loss = self.loss(indices)
        value = ranks.total(loss.total.detach().clone()).item() / ranks.count()
        if not math.isfinite(value):
            raise SatError(
                f"the loss became {value} at batch {self.taken + 1}: lower the learning rate "
                f"({config.learning_rate}) or clip the gradient"
            )
        self.optimizer.zero_grad(set_to_none=True)
        # a mean over the batch, so that a caption of a rare length, in a small batch, weighs what any other does
        loss.total.backward(loss.total.new_tensor(len(indices) / config.batch_size))  # type: ignore[no-untyped-call]
        if config.clip:
            together = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(together, config.clip)
        self.optimizer.step()
        self.taken += 1
        self.update_average()
        return {"loss": value, **{name: value.item() for name, value in loss.watch.items()}}

    def loss_of(self, indices: list[int]) -> Loss:
        """The loss of a mini-batch. If several ranks share it, the mean of their losses is the loss of all of it."""
        loss = self.likelihood(indices) if self.data.encoder is None else self.likelihood_of_photos(indices)
        if not self.text_corpus or not self.config.text_weight:
            return loss
        text_corpus = self.likelihood_of_texts(len(indices))
        return Loss(loss.total + self.config.text_weight * text_corpus.total, loss.watch | text_corpus.watch)

    def likelihood_of_photos(self, indices: Sequence[int]) -> Loss:
        """The loss of training captions of any lengths while the encoder is trained, which encodes each photo once."""
        groups = of_one_length(self.data.captions, indices)
        names = list(dict.fromkeys(self.data.captions[i][0] for i in indices))
        mine = {self.data.captions[i][0] for group in groups for i in group[ranks.part_of(len(group)).rows]}
        rows = [row for row, name in enumerate(names) if name in mine]
        encoded = dict(zip([names[row] for row in rows], self.annotations(names, rows), strict=True))
        losses = [(len(group) / len(indices), self.likelihood(group, encoded)) for group in groups]
        watch: dict[str, Tensor] = {}
        for name in dict.fromkeys(name for _, loss in losses for name in loss.watch):
            having = [(share, loss.watch[name]) for share, loss in losses if name in loss.watch]  # not all groups do
            together = sum(share for share, _ in having)
            watch[name] = torch.stack([share / together * value for share, value in having]).sum()
        return Loss(torch.stack([share * loss.total for share, loss in losses]).sum(), watch)

    def likelihood(self, indices: Sequence[int], encoded: Mapping[str, Tensor] | None = None) -> Loss:
        """The loss of this rank's part of training captions of one length; ``encoded``: annotations (L, D) by photo."""
        objective = self.objective
        part = ranks.part_of(len(indices))
        names = [self.data.captions[i][0] for i in indices]
        captions = torch.tensor([self.data.captions[i][1] for i in indices], device=self.device)
        draws = objective.draw(len(indices), captions.shape[1], self.generator, part)
        if encoded is None:
            annotations = self.annotations(names, part.rows)
        else:
            annotations = torch.stack([encoded[name] for name in names[part.rows]])
        with self.autocast:
            history = self.history(annotations, captions, part.rows)
            captions = captions[part.rows]
        with self.autocast, ranks.own_dropout(self.device, self.config.seed, self.taken, 1, captions.shape[1]):
            output = self.decoder.teacher_forcing(
                annotations, captions, paths=objective.paths, mode=draws.mode, history=history
            )
            loss = objective(output, captions, draws, word_scores=self.kernels.word_scores)
        beta = {} if output.beta is None else {"beta": output.beta.detach().mean()}
        return Loss(part.share * loss.total, {**loss.watch, **beta})

    def likelihood_of_texts(self, count: int) -> Loss:
        """The loss of ``count`` captions without photos, all of one length, drawn at random.

        Their photo's annotations are zero (Venugopalan et al. 2017, "Captioning Images with Diverse Objects").
        """
        sizes = torch.tensor([len(group) for group in self.text_corpus], dtype=torch.float32)
        group = self.text_corpus[int(torch.multinomial(sizes, 1, generator=self.generator))]
        chosen = torch.randint(len(group), (count,), generator=self.generator).tolist()
        part = ranks.part_of(count)
        words = [self.data.text_corpus[group[number]] for number in chosen[part.rows]]
        captions = torch.tensor(words, dtype=torch.int64, device=self.device).view(len(words), -1)
        nothing = torch.zeros(len(words), 1, self.config.decoder.annotation_size, device=self.device)
        with self.autocast, ranks.own_dropout(self.device, self.config.seed, self.taken, 4):
            output = self.decoder.teacher_forcing(nothing, captions)
            smoothing = self.objective.label_smoothing
            log_p, losses = word_losses(output.logits, captions, smoothing, self.kernels.word_scores)
        return Loss(part.share * losses.sum(-1).mean(), {"text_nats": -log_p.detach().mean()})

    def annotations(self, names: Sequence[str], mine: slice | Sequence[int] = slice(None)) -> Tensor:
        """The annotations (B, L, D) of a batch's rows ``mine``; the view of each photo is drawn at random."""
        rows = range(len(names))[mine] if isinstance(mine, slice) else mine
        views = torch.zeros(len(names), dtype=torch.int64)
        if len(self.data.views) > 1:
            views = torch.randint(len(self.data.views), (len(names),), generator=self.generator)
        parts: dict[int, Tensor] = {}
        with ranks.own_dropout(self.device, self.config.seed, self.taken, 2):  # of an encoder that is fine-tuned
            for number, view in enumerate(self.data.views):
                if chosen := [row for row in rows if views[row] == number]:
                    if len(chosen) == len(rows):
                        return view[[names[row] for row in chosen]].to(self.device)
                    parts |= zip(chosen, view[[names[row] for row in chosen]], strict=True)
        return torch.stack([parts[row] for row in rows]).to(self.device)

    @torch.no_grad()
    def history(self, annotations: Tensor, captions: Tensor, mine: slice = slice(None)) -> Tensor:
        """The previous words that the decoder is given, for the rows ``mine`` of captions (B, C): scheduled sampling.

        A share of them is drawn from the decoder's own distribution, as all of them are at test time (Bengio et al.
        2015, "Scheduled Sampling"). They are drawn in one pass over the true captions, because word by word would cost
        as much as a search. The end token is never drawn, since no word comes after it.
        """
        if self.sampling == 0:
            return captions[mine]
        chosen = torch.rand(captions.shape, device=captions.device) < self.sampling
        with ranks.own_dropout(self.device, self.config.seed, self.taken, 3, captions.shape[1]):
            output = self.decoder.teacher_forcing(annotations, captions[mine])
            logits = promote(output.logits[:, 0][chosen[mine]])  # (N, K)
        logits[:, Vocabulary.END] = float("-inf")
        uniforms = torch.rand(int(chosen.sum()), device=captions.device)[int(chosen[: mine.start or 0].sum()) :]
        own = drawn_words(torch.softmax(logits, dim=-1), uniforms[: len(logits)])
        return captions[mine].masked_scatter(chosen[mine], own)

    def adjust(self) -> None:
        """Set what moves over the training: the learning rate, scheduled sampling's share, λ_e of hard attention."""
        config, last = self.config, self.config.epochs * self.batches_an_epoch
        done = turned = min(1.0, self.taken / last)
        scale = 1.0
        if self.restart[1]:  # an ended training got more epochs: a new cosine, and the rest stays where it ended
            done, scale = 1.0, RESTART
            turned = min(1.0, (self.taken - self.restart[0]) / max(1, last - self.restart[0]))
        factor = min(1.0, (self.taken + 1) / max(1, config.warmup))
        if config.schedule == "cosine":
            factor *= scale * 0.5 * (1 + math.cos(math.pi * turned))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

        def moved(start: float, end: float | None) -> float:
            return start if end is None else start + (end - start) * done

        self.sampling = moved(config.scheduled_sampling, config.scheduled_sampling_end)
        if isinstance(self.objective, HardObjective):
            self.objective.entropy_weight = moved(config.hard.entropy_weight, config.entropy_weight_end)

    def update_average(self) -> None:
        """Update the weights that are saved: the decoder's own, or their moving average."""
        decay = min(self.config.averaging, (1 + self.taken) / (10 + self.taken))
        ours: list[Tensor] = list(self.average.parameters())
        theirs: list[Tensor] = list(self.decoder.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(ours, theirs, 1 - decay)
            for mine, its in zip(self.average.buffers(), self.decoder.buffers(), strict=True):
                mine.copy_(its)  # such as the statistics of a batch norm

    def validate(self, *, show: bool = False) -> dict[str, float]:
        """The scores ×100 of captions of val, by the weights that would be saved, and nats a word where these count."""
        (found,) = captions_of(self.average, self.data, usual_decoding(self.config, self.data), show=show)
        tokenizer = self.data.vocabulary.tokenizer
        generated = {name: tokenizer.text(words) for (name, _), words in zip(self.data.validation, found, strict=True)}
        training = [self.data.vocabulary.decode(words) for _, words in self.data.captions]
        varied = variety(generated, training, cut=tokenizer.words)
        scores = scores_of(found, self.data) | {name: n for name in WATCHED if (n := getattr(varied, name)) is not None}
        if "nats" not in self.config.selected_by and self.init_from is None:
            return scores
        return scores | {"nats": nats_a_word(self.average, self.data)}

    def parts(self) -> list[tuple[str, Any]]:
        """What has a state of its own, besides the optimizer."""
        parts = [("decoder", self.decoder), ("average", self.average), ("objective", self.objective)]
        return parts if self.data.encoder is None else [*parts, ("encoder", self.data.encoder)]

    def save(self, file: Path) -> None:
        """Write the state of the training, whole or not at all; the first rank alone does.

        It is one safetensors file: all weights, the optimizer's and the objective's own state, and those of the random
        generators. Its header has numbers in JSON: how far the training has come, and its `identity`. A training may
        go on from it on another device; on a processor it ends with the same weights, to the bit, as one that was never
        interrupted.
        """
        if not ranks.first():
            return
        tensors = {f"{part}.{name}": value for part, of in self.parts() for name, value in of.state_dict().items()}
        for index, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in entry.items()}
        tensors |= {"random.global": torch.get_rng_state(), "random.training": self.generator.get_state()}
        if self.device.type == "cuda":  # dropout draws there
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        progress = (self.epoch, self.batch, self.taken, self.best, self.best_epoch, *self.restart)
        header = {"identity": self.identity, "progress": progress, "init_from": self.init_from}
        texts = {name: json.dumps(value) for name, value in header.items()}
        copied = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, lambda scratch: save_file(copied, scratch, metadata=texts), sync=True)

    def resume(self, file: Path) -> None:
        """Go on from the state in a file, and log what more epochs than before mean for the training."""
        config = self.config
        try:
            with safe_open(file, framework="pt") as state:
                tensors = {name: state.get_tensor(name) for name in state.keys()}  # noqa: SIM118
                header = {name: json.loads(text) for name, text in (state.metadata() or {}).items()}
            theirs = header["identity"]
            before = theirs.get("epochs", 0)
            different = {
                name: f"{name} was {theirs.get(name)!r}, is {value!r}"
                for name, value in self.identity.items()
                if theirs.get(name) != value
            }
            if "captions" in different:
                different["captions"] = "the captions, their weights, the texts or the vocabulary have changed since"
            if before < config.epochs:
                different.pop("epochs", None)
            if different:
                raise SatError(
                    f"the training in {file} had other settings or data ({'; '.join(different.values())}): give the "
                    "same, or another --output to start afresh"
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
            means = f"the learning rate stays {config.learning_rate:g}"
            if self.restart[1] < self.epoch:
                means = "the schedules of the training are stretched"
            elif config.schedule == "cosine":
                rate = RESTART * config.learning_rate
                means = f"the learning rate goes from {rate:g} to 0 again, by a new cosine"
            log(f"{config.epochs} epochs instead of {before}: {means}")

    def _restore(self, tensors: Mapping[str, Tensor], progress: Sequence[Any]) -> None:
        """Take over the tensors and counters that `save` wrote, on whatever device."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        self.epoch, self.batch, self.taken, self.best, self.best_epoch, *self.restart = progress
        counters = [self.epoch, self.batch, self.taken, self.best_epoch, *self.restart]
        if len(counters) != 6 or not all(isinstance(value, int) for value in counters):
            raise ValueError(f"its counters are {progress!r}")
        for name, of in self.parts():
            of.load_state_dict(part(f"{name}."))
        entries: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for name, value in part("optimizer.").items():
            index, _, entry = name.partition(".")
            entries[int(index)][entry] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": dict(entries), "param_groups": groups})
        for parameter, values in self.optimizer.state.items():  # the fused step needs the layout of the weights,
            for name, value in values.items():  # which an encoder may have in channels_last
                if value.shape == parameter.shape:
                    values[name] = torch.empty_like(parameter).copy_(value)
        torch.set_rng_state(tensors["random.global"])
        self.generator.set_state(tensors["random.training"])
        if self.device.type == "cuda" and "random.cuda" in tensors:  # else, keep those of the seed
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
