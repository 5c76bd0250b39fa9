"""What each epoch leaves: a log message, a line in a file, and the checkpoint if it is the best."""

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

from show_attend_tell.backends.torch import decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array, pack, unpack, weights_digest
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.files import write_text
from show_attend_tell.training import ranks
from show_attend_tell.training.cautious import Verdict
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.ranks import log
from show_attend_tell.training.selection import usual_generation
from show_attend_tell.training.trainer import Trainer

# What an epoch's message says of its captions of val, see `Trainer.validate`.
REPORTED = {
    "bleu_4": "BLEU-4 {:.2f}",
    "bleu_4_no_brevity": "{:.2f} without penalty",
    "cider": "CIDEr {:.2f}",
    "nats": "{:.3f} nats a word",
    "distinct": "{:.0f} % distinct",
    "words_used": "{:.0f} different words",
}

DIVERGED = 1.5  # times the nats a word of guessing all words alike; random weights at the start have hardly more


def keep_best(
    plan: TrainingPlan,
    training: Trainer,
    scores: dict[str, float],
    verdict: Verdict | None,
    *,
    better: bool | None = None,
) -> None:
    """Log an epoch, and save its checkpoint if it is the best so far, or by a verdict the last.

    ``better`` says whether it is, where the scores cannot: of the model to start from.
    """
    score = training.selection(scores) if verdict is None else training.epoch
    if better is None:
        better = score > training.best
    if better:
        training.best = score
        training.best_epoch = training.epoch
    if not ranks.is_main():
        return
    seconds = time.monotonic() - training.began
    watch = training.means()
    write_log(plan.output / "training" / "log.jsonl", training.epoch, {**scores, **watch, "seconds": round(seconds, 1)})
    log(epoch_line(training, scores, watch, seconds, verdict, best=better and verdict is None))
    nats = watch.get("nats_per_word", 0.0)
    guessing = math.log(len(training.data.vocabulary))
    if nats > DIVERGED * guessing:
        log(
            f"epoch {training.epoch} has diverged: {nats:,.1f} nats a word of the training captions, and guessing has "
            f"{guessing:.1f}: lower the learning rate ({training.config.learning_rate:g}; --set learning_rate=RATE), "
            "or clip the gradient"
        )
    if better:
        checkpoint_of(plan, training).save(plan.output, bits=plan.bits)


def epoch_line(
    training: Trainer,
    scores: dict[str, float],
    watch: dict[str, float],
    seconds: float,
    verdict: Verdict | None,
    *,
    best: bool,
) -> str:
    """What an epoch reached, in words; ``best`` marks the score by which it is the best so far."""
    config = training.config
    shown = {name: form.format(scores[name]) for name, form in REPORTED.items() if name in scores}
    marked = "nats" if config.selected_by == "cider_and_nats" else config.selected_by
    if best and marked in shown:
        shown[marked] += " (best)"
    watched = [f"{name} {value:.3f}" for name, value in watch.items()]  # none if resumed after the last batch
    text = ", ".join([f"val {', '.join(shown.values())}", *watched, duration(seconds)])
    if training.epoch == 0:
        return f"epoch 0, the model to start from: {text}"
    left = ((config.epochs if verdict is None else verdict.epochs) - training.epoch) * seconds
    return f"epoch {training.epoch}: {text}{f'; at most {duration(left)} left' if left else ''}"


def checkpoint_of(plan: TrainingPlan, loop: Trainer) -> Checkpoint:
    """The model as it is now, with a provisional generation config until the training ends."""
    encoder = plan.start.encoder
    before = plan.start.checkpoint
    weights = {name: as_array(value.detach()) for name, value in encoder.body.state_dict().items()}
    own = {*loop.data.tuned_names, *((before and before.tuned_encoder) or ())}  # not what the encoder's name stands for
    tuned = {name: weights[name] for name in sorted(own)}
    if len(tuned) < len(weights):  # blocks of it are stored in 8 bits
        tuned = unpack(pack(tuned))
    tokenizer = plan.dataset.tokenizer
    training: dict[str, Any] = {
        "data": plan.dataset.name,
        **({} if tokenizer == KARPATHY else {"tokenizer": tokenizer.name}),
    }
    training |= {**plan.notes, "seed": loop.config.seed, "epochs": loop.epoch, "settings": loop.config.to_dict()}
    return Checkpoint(
        config=loop.average.config,
        weights=decoder_weights(loop.average),
        vocabulary=loop.data.vocabulary,
        encoder=dataclasses.replace(EncoderRecord.of(encoder), digest=weights_digest({**weights, **tuned})),
        generation=usual_generation(loop.config),
        training=training,
        tuned_encoder=tuned or None,
    )


def log_size(loop: Trainer) -> None:
    """Log how much there is to learn."""
    data = loop.data
    photos = len({name for name, _ in loop.data.captions})
    weights = sum(parameter.numel() for parameter in loop.decoder.parameters()) / 1e6
    log(
        f"{len(data.captions):,} captions of {photos:,} photos, {len(data.vocabulary):,} words, "
        f"{weights:.1f} million weights, {loop.batches_an_epoch} batches an epoch"
    )


def log_end(loop: Trainer, *, chosen: bool) -> None:
    """Log that a training may still improve; ``chosen`` says that val chose its best epoch."""
    if chosen and 0 < loop.best_epoch == loop.epoch:
        epochs = loop.config.epochs
        further = epochs + max(1, epochs // 2)
        log(
            "the last epoch was the best on val, so more may help: the same command with --resume --epochs "
            f"{further} goes on"
        )


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def write_log(file: Path, epoch: int, figures: dict[str, float]) -> None:
    """Add an epoch to the log, one JSON object a line, in the place of later ones."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    kept = [line for line in lines if json.loads(line)["epoch"] < epoch]
    write_text(file, "".join(f"{line}\n" for line in [*kept, json.dumps({"epoch": epoch, **figures})]))
