"""What each epoch leaves: a log message, a line in a file, TensorBoard's data, and the checkpoint if it is the best."""

import dataclasses
import json
import math
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np
import torch

from show_attend_tell.backends.torch import TorchBackend, decoder_weights
from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint
from show_attend_tell.checkpoint.packing import as_array, pack, unpack, weights_digest
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import MissingPackage
from show_attend_tell.files import atomic_write
from show_attend_tell.generation import search_candidates
from show_attend_tell.messages import install_command
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.show.pictures import strip
from show_attend_tell.show.pictures.figure import FigureData
from show_attend_tell.training.loop import Epoch, Trainer
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import default_attention_mode, divergence
from show_attend_tell.vision import registry
from show_attend_tell.vision.encoder import Encoder

# What an epoch's message says of its captions of val, see `Trainer.validate`.
REPORTED = {
    "bleu_4": "BLEU-4 {:.2f}",
    "bleu_4_no_brevity": "{:.2f} without penalty",
    "cider": "CIDEr {:.2f}",
    "nats": "{:.3f} nats a word",
    "truncated": "{:.1f} % truncated",
    "repetitive": "{:.1f} % repetitive",
    "distinct": "{:.0f} % distinct",
    "words_used": "{:.0f} different words",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reports:
    """Reports the epochs of a training, and saves the best one's checkpoint."""

    output: Path
    trainer: Trainer
    encoder: Encoder
    tuned: Set[str]  # the encoder's weights that are not those that its name stands for, so they are stored too
    notes: dict[str, Any]  # for the model card
    bits: Bits
    board: "TensorBoard | None"

    def epoch(self, epoch: Epoch, better: bool) -> None:
        """Report an epoch."""
        write_log(self.output / "training" / "log.jsonl", epoch)
        watched = [f"{name} {value:.3f}" for name, value in epoch.watch.items()]  # none if resumed after the last batch
        left = (self.trainer.config.epochs - epoch.number) * epoch.seconds if epoch.number else 0
        best = self.trainer.config.selected_by
        scores = {name: form.format(epoch.scores[name]) for name, form in REPORTED.items() if name in epoch.scores}
        if best != "bleu_4_no_brevity":  # which only those who select by it look for
            scores.pop("bleu_4_no_brevity", None)
        if better and best in scores:
            scores[best] += " (best)"
        text = ", ".join([f"val {', '.join(scores.values())}", *watched, duration(epoch.seconds)])
        what = f"epoch {epoch.number}" if epoch.number else "epoch 0, the model to start from"
        log(f"{what}: {text}{f'; at most {duration(left)} left' if left else ''}")
        if diverged := divergence(epoch.watch.get("nats_per_word", 0.0), self.trainer.data):
            log(f"epoch {epoch.number} has {diverged}")
        if better:
            self.checkpoint(epoch).save(self.output, bits=self.bits)
        if self.board is not None:
            self.board.epoch(epoch)

    def checkpoint(self, epoch: Epoch) -> Checkpoint:
        """The model as it is now, with a provisional generation config until the training ends."""
        config = self.trainer.config
        weights = {name: as_array(value.detach()) for name, value in self.encoder.body.state_dict().items()}
        tuned = {name: weights[name] for name in sorted(self.tuned)}
        if len(tuned) < len(weights):  # blocks of it are stored in 8 bits
            tuned = unpack(pack(tuned))
        return Checkpoint(
            config=self.trainer.average.config,
            weights=decoder_weights(self.trainer.average),
            vocabulary=self.trainer.data.vocabulary,
            encoder=dataclasses.replace(EncoderRecord.of(self.encoder), digest=weights_digest({**weights, **tuned})),
            generation=GenerationConfig(
                beam_size=config.validation_beam_size,
                attention_mode=default_attention_mode(config.decoder),
                max_length=config.max_length,
            ),
            training={**self.notes, "epochs": epoch.number, "settings": config.to_dict()},
            tuned_encoder=tuned or None,
        )


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def write_log(file: Path, epoch: Epoch) -> None:
    """Add an epoch to the log, one JSON object a line.

    An epoch that is trained again replaces its earlier line. Damaged lines are left out.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    kept = [line for line in lines if logged_epoch(line) < epoch.number]
    line = {"epoch": epoch.number, **epoch.scores, **epoch.watch, "seconds": round(epoch.seconds, 1)}
    text = "".join(f"{line}\n" for line in [*kept, json.dumps(line)])
    atomic_write(file, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def logged_epoch(line: str) -> float:
    """The number of the epoch in a line of the log; infinity for a damaged line, which is not kept."""
    try:
        return int(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


def summary_writer() -> Any:
    """TensorBoard's writer; raises `MissingPackage` naming the extra when it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingPackage("TensorBoard is not installed", remedy=install_command("tensorboard")) from error
    return SummaryWriter


class TensorBoard:
    """Scalars of every epoch and the attention of a few validation photos, for TensorBoard (an extra)."""

    def __init__(self, folder: Path, dataset: Dataset, trainer: Trainer, encoder: Encoder) -> None:
        # a training that is resumed at an epoch makes those after it again
        self.writer = summary_writer()(str(folder), purge_step=trainer.epoch + 1)
        self.examples = dataset.split("val")[:4]
        self.trainer, self.encoder = trainer, encoder

    def epoch(self, epoch: Epoch) -> None:
        """Write one epoch."""
        for name, value in {**epoch.scores, **epoch.watch}.items():
            self.writer.add_scalar(name, value, epoch.number)
        data, decoder = self.trainer.data, self.trainer.average
        with torch.no_grad():
            annotations = data.views[0][[example.name for example in self.examples]].to(self.trainer.device)
        config = GenerationConfig(beam_size=1, attention_mode=default_attention_mode(decoder.config))
        found_by_photo = search_candidates(TorchBackend(decoder), annotations, config, seeds=[0] * len(annotations))
        for example, found in zip(self.examples, found_by_photo, strict=True):
            image = open_photo(example.photo)
            best = found[0]
            if best.alpha is None or not best.words:
                continue
            figure = FigureData(
                photo=image,
                words=data.vocabulary.decode(best.words),
                between=data.vocabulary.tokenizer.between,
                attention=as_array(best.alpha).reshape(-1, *self.encoder.grid),
                gate=as_array(best.beta),
                visible_box=self.encoder.preprocessing.seen(*image.size),
                offset=registry.offset(self.encoder.name),
            )
            picture = np.array(strip([figure]))
            self.writer.add_image(example.name, picture, epoch.number, dataformats="HWC")
        self.writer.flush()
