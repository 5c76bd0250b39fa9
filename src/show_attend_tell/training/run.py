"""From a data folder to a trained checkpoint: what `sat train` does."""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.backends.torch import build_decoder, decoder_weights
from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint, check_vacant
from show_attend_tell.checkpoint.packing import as_array, as_tensors, pack, unpack, weights_digest
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, check_writable, file_lock
from show_attend_tell.messages import first_three, plural, times
from show_attend_tell.model.config import Config, DecoderConfig, check_window
from show_attend_tell.model.decoder import AttentionDecoder, grown, ungated
from show_attend_tell.model.interface import Decoder, teacher_forcing
from show_attend_tell.progress import Progress
from show_attend_tell.rerank import Reranker
from show_attend_tell.rerank.fit import LEAST, fit_ngrams
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, check_mosaics, prepare
from show_attend_tell.training.loop import RESTART, Epoch, Trainer
from show_attend_tell.training.selection import Metric, choose_generation, default_attention_mode, fit_doubt
from show_attend_tell.training.state import check_origin, load_state, stored_epochs
from show_attend_tell.training.tensorboard import TensorBoard, summary_writer
from show_attend_tell.vision.encoder import Encoder
from show_attend_tell.vision.feature_cache import UnreadablePhotos

Log = Callable[[str], None]
Refit = Callable[[Dataset], tuple[TrainingConfig, list[str]]]  # the settings for a data set, and lines about them

# Settings of a decoder that say how it learns, not which weights it has. A model may start from one with other ones.
FREE = {"attention", "annotation_window", "dropout", "annotation_dropout", "initial_dropout", "embedding_dropout"}

# What an epoch's line says of its captions of val, see `Trainer.validate`.
REPORTED = {
    "bleu_4": "BLEU-4 {:.2f}",
    "cider": "CIDEr {:.2f}",
    "nats": "{:.3f} nats a word",
    "truncated": "{:.1f} % truncated",
    "repetitive": "{:.1f} % repetitive",
    "distinct": "{:.0f} % distinct",
    "words_used": "{:.0f} different words",
}


def train(
    dataset: Dataset,
    config: TrainingConfig,
    encoder: Encoder,
    output: Path,
    *,
    cache: Path,
    device: torch.device,
    resume: bool = False,
    init_from: Checkpoint | None = None,
    encoder_lr: float | None = None,
    unfreeze_from: str | None = None,
    text_corpus: Sequence[Sequence[str]] = (),
    bits: Bits = 32,
    tensorboard: bool = False,
    notes: dict[str, Any] | None = None,
    plan: Sequence[str] = (),
    refit: Refit | None = None,
    log: Log = print,
    show: bool = True,
) -> Checkpoint:
    """Train on a data set. The best checkpoint is left in ``output``, and the training's own state in
    ``output/training``.

    ``resume`` goes on with the interrupted training in ``output``, and starts one where there is none yet.
    ``init_from`` gives initial decoder weights, and the vocabulary that they need, with new words behind it.
    ``encoder_lr`` is the encoder's learning rate, None to keep it frozen, and ``unfreeze_from`` the first block that is
    trained, None for all of it. ``text_corpus`` are captions without photos, in words. ``bits`` are those of a stored weight.
    ``notes`` go on the model card; ``started_from`` in it is the name of the model to start from. ``plan`` are lines to
    say first, about how the settings were chosen. Photos of own data that cannot be read are left out; ``refit`` gives
    the settings for the others. Where several ranks train together (`ranks.together`), all of them call this with the
    same arguments.

    Raises `SatError` for an output that holds a model already (unless ``resume``), for an output in which another
    process trains, for settings that do not fit together, and for a start or a state that does not fit the training.
    """
    began = time.monotonic()
    state = output / "training" / "state.safetensors"
    started_from = (notes or {}).get("init_from")
    first = ranks.first()
    if first:
        check_output(output, state, resume=resume)
        if resume:
            check_origin(state, started_from)
    else:
        log, show = silent, False
    check_settings(config, encoder, text_corpus=bool(text_corpus), tensorboard=tensorboard)
    if init_from is not None:
        check_start(init_from, config.decoder, encoder)
    if first:
        check_writable(state, make=True)

    dataset, config, data = prepared(
        dataset,
        config,
        encoder,
        cache,
        init_from=init_from,
        encoder_lr=encoder_lr,
        unfreeze_from=unfreeze_from,
        text_corpus=text_corpus,
        plan=plan,
        refit=refit,
        log=log,
        show=show,
    )
    refusal = f"another process trains in {output}: wait for it, or give another --output"
    if first:
        state.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(state.parent, refusal=refusal) if first else nullcontext():
        if ranks.as_the_first(resume and state.exists()):
            trainer = resumed(config, data, state, device=device, log=log)
        else:
            if resume:
                log(f"there is nothing to resume in {output} yet, so the training starts")
            trainer = started(config, data, init_from, device=device, log=log, show=show)
        trainer.started_from = started_from
        log_plan(trainer, data, own_vocabulary=init_from is None, log=log)

        reports = Reports(
            output=output,
            trainer=trainer,
            encoder=encoder,
            tuned={
                *data.tuned_names,
                *(init_from.tuned_encoder or () if init_from is not None else ()),
            },
            notes={
                "data": dataset.name,
                **({} if dataset.tokenizer == KARPATHY else {"tokenizer": dataset.tokenizer.name}),
                **(notes or {}),
                "seed": config.seed,
            },
            bits=bits,
            board=TensorBoard(output / "training" / "tensorboard", dataset, data, trainer, encoder)
            if tensorboard and first
            else None,
            log=log,
        )
        trainer.run(on_epoch=reports.epoch if first else lambda epoch, better: None, state=state, show=show)
        ranks.wait()  # until the last checkpoint is written
        if trainer.best_epoch == trainer.epoch and config.selected_by != "last":
            further = config.epochs + max(1, config.epochs // 2)
            log(
                "val was best after the last epoch, so it may still improve: the same command with --resume --epochs "
                f"{further} goes on"
            )

        best = finished(output, config, encoder, data, device=device, log=log, show=show)
        if first:
            best.save(output, bits=bits)
        log(f"{output} decodes with {best.generation.summary()}. Training took {duration(time.monotonic() - began)}")
        return best


def silent(text: str) -> None:
    """Say nothing."""


class Prepared(NamedTuple):
    """What a training learns from."""

    dataset: Dataset  # without photos that cannot be read
    config: TrainingConfig  # with the sizes of the vocabulary and of the annotations
    data: TrainingData


def prepared(
    dataset: Dataset,
    config: TrainingConfig,
    encoder: Encoder,
    cache: Path,
    *,
    init_from: Checkpoint | None,
    encoder_lr: float | None = None,
    unfreeze_from: str | None = None,
    text_corpus: Sequence[Sequence[str]] = (),
    plan: Sequence[str] = (),
    refit: Refit | None = None,
    log: Log,
    show: bool,
) -> Prepared:
    """Vocabulary, captions and annotations for a training, as `train` documents its arguments."""
    if init_from is not None:
        dataset = dataset.retokenize(init_from.vocabulary.tokenizer)
    told = [*dataset.report.lines(), *plan]
    for line in told:
        log(line)

    def learnt(dataset: Dataset) -> TrainingData:
        vocabulary = None if init_from is None else vocabulary_from(init_from, dataset, config, text_corpus)
        more: dict[str, Any] = {
            "encoder_lr": encoder_lr,
            "unfreeze_from": unfreeze_from,
            "text_corpus": text_corpus,
            "show": show,
        }
        return prepare(dataset, config, encoder, cache, vocabulary=vocabulary, **more)

    try:
        data = learnt(dataset)
    except UnreadablePhotos as error:
        dataset = without(dataset, error)
        log(f"left out: {error.reason}")
        config, lines = (config, []) if refit is None else refit(dataset)
        for line in (*dataset.report.lines(), *lines):
            if line not in told:
                log(line)
        data = learnt(dataset)  # without the words that only the captions of these photos have
    if init_from is not None:
        log_new_words(init_from.vocabulary, data.vocabulary, config, log=log)
    if text_corpus:
        left_out = (
            f"{len(text_corpus) - len(data.text_corpus):,} left out, which have words that no photo's caption teaches"
        )
        log(f"{plural(len(data.text_corpus), 'caption')} without photos, and {left_out}")
    sizes = {"vocabulary_size": len(data.vocabulary), "annotation_size": encoder.annotation_size}
    config = dataclasses.replace(config, decoder=dataclasses.replace(config.decoder, **sizes))
    return Prepared(dataset, config, data)


# Checks before the work


def check_output(output: Path, state: Path, *, resume: bool) -> None:
    """Raise `SatError` for an output where a model or a training would be lost, and for one that cannot be resumed."""
    model = (output / "config.json").exists()
    if resume and model and not state.exists():
        raise SatError(
            f"{output} holds a model without the state of its training: it cannot be resumed. Give another --output; "
            f"--init-from {output} starts from this model"
        )
    if not resume and state.exists():
        held = "a model" if model else "an interrupted training"
        raise SatError(f"{output} holds {held} already: give another --output, or --resume to go on with its training")
    if not resume and model:
        raise SatError(f"{output} holds a model already: give another --output")
    check_vacant(output)


def check_settings(
    config: TrainingConfig, encoder: Encoder, *, text_corpus: bool = False, tensorboard: bool = False
) -> None:
    """Raise `SatError` for settings that do not go together, or with the encoder, or with what is installed.

    ``text_corpus`` says whether there are captions without photos.
    """
    if tensorboard:
        summary_writer()
    if text_corpus and config.maximize == "cider":
        raise SatError("maximize is cider, which rewards captions of photos: leave out the captions without photos")
    has_alpha = isinstance(config.decoder, DecoderConfig) and config.decoder.attention != "uniform"
    if config.sharpening != 1 and not has_alpha:
        raise SatError(f"sharpening is {config.sharpening:g}, and this decoder has no α to sharpen: give 1")
    if config.visual_ngrams and config.decoder.attention == "none":
        raise SatError("visual_ngrams is on, and without attention only the mean of the places is kept: leave it off")
    if isinstance(config.decoder, DecoderConfig):
        check_window(config.decoder.annotation_window, *encoder.grid)
    if config.mosaics or config.mosaics_end:
        if config.decoder.attention == "none":
            raise SatError("mosaics is above 0, and without attention nothing can find the photo: give 0")
        check_mosaics(*encoder.grid)


def check_start(start: Checkpoint, decoder: Config, encoder: Encoder) -> None:
    """Raise `SatError` unless a training with this decoder and encoder can start from the model."""
    if start.encoder.digest is None:
        raise SatError(
            "the model to start from was imported without its encoder: import it again with --encoder-weights FILE"
        )
    start.encoder.check(encoder, "the model to start from")
    before, now = start.encoder.preprocessing, encoder.preprocessing
    if before != now:
        raise SatError(
            f"the model to start from saw photos by {before.resize} to {before.size} pixels, and this training by "
            f"{now.resize} to {now.size}: give --resize {before.resize}"
        )
    wanted, have = start.config.to_dict(), decoder.to_dict()
    if wanted["kind"] != have["kind"]:
        raise SatError(
            f"the model to start from is of the kind {wanted['kind']}, and this training of {have['kind']}: they share "
            "no weights"
        )
    free = FREE | {"vocabulary_size", "annotation_size"} | ({"gate"} if loses_gate(start.config, decoder) else set())
    different = [name for name in wanted if name not in free and wanted[name] != have[name]]
    if different:
        settings = " ".join(f"--set decoder.{name}={wanted[name]}" for name in different)
        raise SatError(f"the model to start from has another decoder: give {settings}")


# The start


def vocabulary_from(
    start: Checkpoint, dataset: Dataset, config: TrainingConfig, text_corpus: Sequence[Sequence[str]]
) -> Vocabulary:
    """The vocabulary of the model to start from, and the words of the training captions that it lacks."""
    if not config.new_words or not isinstance(start.config, DecoderConfig):
        return start.vocabulary
    captions = [words for example in dataset.split("train") for words in example.captions]
    return start.vocabulary.extended(
        captions, minimum_count=config.minimum_count, size=config.vocabulary_size, text_corpus=text_corpus
    )


def log_new_words(before: Vocabulary, vocabulary: Vocabulary, config: TrainingConfig, *, log: Log) -> None:
    """Say which words a vocabulary has behind those of the model to start from."""
    if new := vocabulary.words[len(before) :]:
        log(
            f"{plural(len(new), 'new word')} seen {times(config.minimum_count)} or more: {first_three(new)}; they are appended "
            f"to the {len(before):,} of the model to start from (--set new_words=false leaves them out)"
        )


def without(dataset: Dataset, error: UnreadablePhotos) -> Dataset:
    """Own data without photos that cannot be read.

    Raises the error itself for photos of the paper's data sets, which need all of theirs, and `SatError` when no photo
    of train or val remains.
    """
    papers = [part for part in dataset.parts if not part.dataset.custom]
    if not dataset.custom or any(part.own_names(error.problems) for part in papers):
        raise error
    readable = dataset.without(error.problems)
    for split in ("train", "val"):
        if dataset.report.photos.get(split) and not readable.report.photos[split]:
            raise SatError(
                f"no photo of {split} can be read: {error.reason}. Replace these photos, or put others in {split}"
            )
    return readable


def started(
    config: TrainingConfig,
    data: TrainingData,
    init_from: Checkpoint | None,
    *,
    device: torch.device,
    log: Log,
    show: bool,
) -> Trainer:
    """A training from its beginning, with random weights or those of the model to start from."""
    initial = None
    if init_from is not None:
        initial = initial_weights(build_decoder(init_from), config.decoder, data, seed=config.seed, log=log, show=show)
    return Trainer(config, data, device=device, initial=initial, show=show)


def resumed(config: TrainingConfig, data: TrainingData, state: Path, *, device: torch.device, log: Log) -> Trainer:
    """A training from where it was interrupted."""
    trainer = Trainer(config, data, device=device)
    before = stored_epochs(state)
    load_state(trainer, state)
    log(f"resumed after {plural(trainer.epoch, 'epoch')} and {plural(trainer.batch, 'batch')}")
    if before is not None and before < config.epochs:
        further = f"{config.epochs} epochs instead of {before}"
        if trainer.restart[1] < trainer.epoch:
            log(f"{further}: the schedules of the training are stretched")
        elif config.schedule == "cosine":
            log(
                f"{further}: the learning rate goes from {RESTART * config.learning_rate:g} to 0 again, by a new cosine"
            )
        else:
            log(f"{further}: the learning rate stays {config.learning_rate:g}")
    return trainer


def loses_gate(start: Config, decoder: Config) -> bool:
    """Whether the model to start from has the gate β and the training has not."""
    return getattr(start, "gate", False) and not getattr(decoder, "gate", False)


def initial_weights(
    start: Decoder, decoder: Config, data: TrainingData, *, seed: int, log: Log, show: bool
) -> dict[str, Tensor]:
    """The weights of the model to start from.

    They are without its gate, if the training has none (`ungated`), and with new words, if it has some (`grown`).
    """
    weights = start.state_dict()
    if loses_gate(start.config, decoder):
        beta = mean_beta(start, data, show=show)
        log(
            f"the gate of the model to start from is removed; its mean, {beta:.2f}, scales the context's weights "
            "instead"
        )
        weights = ungated(weights, beta)
    if len(data.vocabulary) > start.vocabulary_size:
        counts = torch.bincount(
            torch.tensor([word for _, words in data.captions for word in words]), minlength=len(data.vocabulary)
        )
        weights = grown(weights, counts, torch.Generator().manual_seed(seed))
    return weights


@torch.no_grad()
def mean_beta(decoder: Decoder, data: TrainingData, *, show: bool = False) -> float:
    """The mean gate β of a decoder over the words of 500 training captions, with their true history."""
    chosen = data.captions[:: max(1, len(data.captions) // 500)]
    device = next(decoder.parameters()).device
    betas = []
    for name, words in Progress(chosen, desc="mean of the gate", unit="caption", disable=not show, leave=False):
        known = [word if word < decoder.vocabulary_size else Vocabulary.UNKNOWN for word in words]
        told = teacher_forcing(decoder, data.views[0][[name]].to(device), torch.tensor([known], device=device))
        if told.beta is not None:
            betas.append(told.beta.flatten())
    return float(torch.cat(betas).mean())


# Reports


def log_plan(trainer: Trainer, data: TrainingData, *, own_vocabulary: bool, log: Log) -> None:
    """Say how much there is to learn, and that many words are unknown, if they are."""
    unknown = sum(words.count(Vocabulary.UNKNOWN) for _, words in data.captions)
    total = sum(len(words) - 1 for _, words in data.captions)
    if 10 * unknown > total:
        share = f"{100 * unknown / total:.0f} % of the words in the training captions are unknown"
        least = trainer.config.minimum_count
        if own_vocabulary or trainer.config.new_words:
            log(f"{share}: they are seen fewer than {least} times. --set minimum_count=1 keeps every word")
        else:
            log(f"{share} to the model to start from, which keeps its vocabulary: --set new_words=true adds to it")
    photos = len({name for name, _ in data.captions})
    weights = sum(parameter.numel() for parameter in trainer.decoder.parameters()) / 1e6
    log(
        f"{len(data.captions):,} captions of {photos:,} photos, {len(data.vocabulary):,} words, "
        f"{weights:.1f} million weights, {trainer.batches_an_epoch} batches an epoch"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reports:
    """What each epoch leaves: a line on the screen and one in the log, and the checkpoint if it is the best so far."""

    output: Path
    trainer: Trainer
    encoder: Encoder
    tuned: Set[str]  # the encoder's weights that are not those that its name stands for, so they are stored too
    notes: dict[str, Any]  # for the model card
    bits: Bits
    board: TensorBoard | None
    log: Log

    def epoch(self, epoch: Epoch, better: bool) -> None:
        """Report an epoch."""
        write_log(self.output / "training" / "log.jsonl", epoch)
        watched = [f"{name} {value:.3f}" for name, value in epoch.watch.items()]  # none if resumed after the last batch
        left = (self.trainer.config.epochs - epoch.number) * epoch.seconds
        val = val_line(epoch.scores, best=self.trainer.config.selected_by if better else "")
        told = ", ".join([f"val {val}", *watched, duration(epoch.seconds)])
        self.log(f"epoch {epoch.number}: {told}{f'; at most {duration(left)} left' if left else ''}")
        if better:
            self.checkpoint(epoch).save(self.output, bits=self.bits)
        if self.board is not None:
            self.board.epoch(epoch)

    def checkpoint(self, epoch: Epoch) -> Checkpoint:
        """The model as it is now, with decoding defaults that hold until the training ends."""
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
                beam_size=config.validation_beam,
                attention_mode=default_attention_mode(config.decoder),
                max_length=config.max_length,
            ),
            training={**self.notes, "epochs": epoch.number, "settings": config.to_dict()},
            tuned_encoder=tuned or None,
        )


def val_line(scores: Mapping[str, float], best: str = "") -> str:
    """The scores of an epoch's captions of val, and how varied and whole these are; ``best`` is a score never reached
    before."""
    shown = {name: form.format(scores[name]) for name, form in REPORTED.items() if name in scores}
    return ", ".join(f"{text} (best)" if name == best else text for name, text in shown.items())


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def write_log(file: Path, epoch: Epoch) -> None:
    """Add an epoch to the log, one JSON object a line; an epoch that is trained again replaces its earlier line, and
    damaged lines are left out."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    kept = [line for line in lines if logged_epoch(line) < epoch.number]
    line = {"epoch": epoch.number, **epoch.scores, **epoch.watch, "seconds": round(epoch.seconds, 1)}
    text = "".join(f"{line}\n" for line in [*kept, json.dumps(line)])
    atomic_write(file, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def logged_epoch(line: str) -> float:
    """The epoch that a line of the log tells of, and infinity for a damaged line, which is not kept."""
    try:
        return int(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


# The end


def finished(
    output: Path,
    config: TrainingConfig,
    encoder: Encoder,
    data: TrainingData,
    *,
    device: torch.device,
    log: Log,
    show: bool,
) -> Checkpoint:
    """The best checkpoint in ``output``, with sharpened attention and with the decoding that val chooses."""
    best = Checkpoint.load(output)
    decoder = build_decoder(best)
    if isinstance(decoder, AttentionDecoder) and not has_ended(best):
        decoder.attention.energy.data *= config.sharpening
        best.weights = decoder_weights(decoder)
    if best.tuned_encoder is not None:  # that of the best epoch, which the decoder learnt with
        encoder.adopt(as_tensors(best.tuned_encoder))
    decide_generation(best, decoder.to(device), config, data, log=log, show=show)
    return best


def has_ended(model: Checkpoint) -> bool:
    """Whether the training that made a model has ended: the choice of the decoding is its last step."""
    return any(name.startswith("validation_") for name in model.training)


def decide_generation(
    best: Checkpoint, decoder: Decoder, config: TrainingConfig, data: TrainingData, *, log: Log, show: bool
) -> None:
    """Fit the reranker, if the settings ask for one, and let val choose how the model generates."""
    best.ngrams = fit_visual_ngrams(decoder, data, log=log, show=show) if config.visual_ngrams else None
    fitted: Reranker | None = None if best.ngrams is None else VisualNgrams(best.ngrams)
    reranker = fitted or decoder.own_reranker()
    metric: Metric = "cider" if config.selected_by == "cider" else "bleu_4"
    chosen = choose_generation(
        decoder,
        data,
        config.max_length,
        metric=metric,
        reranker=reranker,
        usual=config.validation_beam,
        log=log,
        show=show,
    )
    score = f"validation_{metric}"
    best.generation = chosen.generation
    best.training[score] = chosen.scores
    if chosen.generation.rerank_weight:
        best.training["without_reranker"] = {
            "beam_size": chosen.alone.beam_size,
            "length_penalty": chosen.alone.length_penalty,
            score: chosen.alone_score,
        }
    else:
        best.ngrams = reranker = None
        best.training.pop("without_reranker", None)  # of an earlier decision, before the training went on
    if ranks.first():
        best.doubt = fit_doubt(decoder, data, best.generation, reranker=reranker, show=show)


def fit_visual_ngrams(decoder: Decoder, data: TrainingData, *, log: Log, show: bool) -> dict[str, NDArray[Any]] | None:
    """The visual n-grams of the training captions, on the decoder's device; None when no word is seen often enough."""
    captions: dict[str, list[list[int]]] = {}
    for name, words in data.captions:
        captions.setdefault(name, []).append(words)
    device = next(decoder.parameters()).device
    ngrams = fit_ngrams(data.views[0], captions, device=device, show=show)
    if ngrams is None:
        log(f"no word is in {LEAST} training captions or more, so there are no visual n-grams to rank captions by")
    return ngrams
