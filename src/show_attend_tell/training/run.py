"""From a data set to a trained checkpoint: encode, leave out what cannot be read, fit the settings, train."""

import dataclasses
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from show_attend_tell.backends.torch import build_decoder, decoder_weights
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker, check_vacant
from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable, file_lock
from show_attend_tell.messages import first_three, plural, times
from show_attend_tell.model.config import DecoderConfig, check_window
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import build
from show_attend_tell.rerank.adapt import adapt_ngrams
from show_attend_tell.rerank.fit import LEAST, fit_ngrams
from show_attend_tell.rerank.registry import load_reranker
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training import ranks
from show_attend_tell.training.config import Start, TrainingConfig, TrainingPlan
from show_attend_tell.training.data import TrainingData, encode_readable, training_data
from show_attend_tell.training.loop import RESTART, Trainer
from show_attend_tell.training.presets import custom
from show_attend_tell.training.presets.caution import (
    DECODING,
    LARGE_BEAM_SIZE,
    VAL_FOR_DECODING,
    choose_share,
    gain,
    is_better,
)
from show_attend_tell.training.ranks import log
from show_attend_tell.training.reports import Reports, TensorBoard, duration, summary_writer
from show_attend_tell.training.selection import (
    Chosen,
    Metric,
    captions_by,
    choose_generation,
    ciders_of,
    default_attention_mode,
    divergence,
    fit_confidence,
    nats_of_photos,
    training_nats,
)
from show_attend_tell.training.start import check_start, competes, initial_weights, learnt_vocabulary
from show_attend_tell.training.state import check_origin, stored_epochs

SHOWN = 200  # photos of val, of which a model is compared with its start at the end


class Prepared(NamedTuple):
    """What a training learns from."""

    dataset: Dataset  # without photos that cannot be read
    config: TrainingConfig  # fitted to the data, with the sizes of the vocabulary and of the annotations
    data: TrainingData


def train(
    plan: TrainingPlan,
    *,
    trainer: type[Trainer] = Trainer,
    choose: Callable[..., Chosen] = choose_generation,
    show: bool = True,
) -> Checkpoint:
    """Train, and leave the best checkpoint in the plan's output.

    Messages go to the logger "show_attend_tell" at level INFO; ``show`` shows progress bars. ``trainer`` is the class
    of the training loop, and ``choose`` the function that chooses how the model generates captions. If ``torchrun``
    started several processes, all of them call this with the same plan.

    Raises `SatError` for an output that holds a model already (unless the plan resumes), for an output in which another
    process trains, for settings that do not fit together, and for a start or a state that does not fit the training.
    """
    began = time.monotonic()
    with ranks.together(pick_device(plan.device)) as device:
        show = show and ranks.first()
        if plan.resume and plan.given is not None and "epochs" not in plan.given:
            plan = with_stored_epochs(plan)
        check_plan(plan)
        plan.start.encoder.to(device)
        prepared = prepare(plan, show=show)
        with exclusive(plan):
            if ranks.first():
                check_output(plan)  # another process may have trained here meanwhile
            best = trained(plan, prepared, device, trainer=trainer, choose=choose, show=show)
        took = duration(time.monotonic() - began)
        log(f"{plan.output} generates captions with {best.generation.summary()}. Training took {took}")
        return best


def with_stored_epochs(plan: TrainingPlan) -> TrainingPlan:
    """The plan with the number of epochs of the training that it resumes, if there is one."""
    epochs = stored_epochs(plan.state)
    if epochs is None:
        return plan
    config = dataclasses.replace(plan.config, epochs=epochs)
    return dataclasses.replace(plan, config=config, given={*(plan.given or ()), "epochs"})


def prepare(plan: TrainingPlan, *, show: bool) -> Prepared:
    """Encode the photos, leave out those that cannot be read, and fit settings and vocabulary to the others."""
    start, encoder = plan.start.checkpoint, plan.start.encoder
    dataset, why = custom.retokenize(plan.dataset, plan.config, start)
    for line in (*dataset.report.lines(), *plan.start.lines, why):
        log(line)
    dataset, sources = encode_readable(dataset, plan, show=show)
    config = plan.config
    if plan.fit_to_data and dataset.custom:
        config, lines = custom.fitted(dataset, config, given=plan.given or (), started=start is not None)
        for line in lines:
            log(line)
    notes: list[str] = []
    corpus = () if plan.text_corpus is None else read_text_corpus(plan.text_corpus, dataset.tokenizer, notes)
    for line in notes:
        log(line)
    vocabulary = learnt_vocabulary(start, dataset, config, corpus)
    if start is not None:
        log_new_words(start.vocabulary, vocabulary, config)
    data = training_data(dataset, vocabulary, sources, corpus)
    if corpus:
        left_out = len(corpus) - len(data.text_corpus)
        log(
            f"{plural(len(data.text_corpus), 'caption')} without photos, and {left_out:,} left out, which have words "
            "that no photo's caption has"
        )
    sizes = {"vocabulary_size": len(vocabulary), "annotation_size": encoder.annotation_size}
    config = dataclasses.replace(config, decoder=dataclasses.replace(config.decoder, **sizes))
    return Prepared(dataset, config, data)


def trained(
    plan: TrainingPlan,
    prepared: Prepared,
    device: torch.device,
    *,
    trainer: type[Trainer],
    choose: Callable[..., Chosen],
    show: bool,
) -> Checkpoint:
    """Run the training loop on what was prepared, and finish the best epoch's checkpoint."""
    dataset, config, data = prepared
    start, encoder = plan.start.checkpoint, plan.start.encoder
    if ranks.as_the_first(plan.resume and plan.state.exists()):
        loop = made(trainer, prepared, plan.start, device)
        resume(loop, plan.state)
    else:
        if plan.resume:
            log(f"there is nothing to resume in {plan.output} yet, so the training starts")
        loop = started(prepared, plan.start, device, trainer=trainer, show=show)
    log_size(loop, keeps_vocabulary=start is not None and not config.new_words)
    tokenizer = {} if dataset.tokenizer == KARPATHY else {"tokenizer": dataset.tokenizer.name}
    notes = {"data": dataset.name, **tokenizer, **plan.notes, "seed": config.seed}
    before = () if start is None else start.tuned_encoder or ()
    board = None
    if plan.tensorboard and ranks.first():
        board = TensorBoard(plan.output / "training" / "tensorboard", dataset, loop, encoder)
    reports = Reports(
        output=plan.output,
        trainer=loop,
        encoder=encoder,
        tuned={*data.tuned_names, *before},
        notes=notes,
        bits=plan.bits,
        board=board,
    )
    loop.run(on_epoch=reports.epoch if ranks.first() else lambda epoch, better: None, state=plan.state, show=show)
    ranks.wait()  # until the last checkpoint is written
    if diverged := divergence(training_nats(loop.average, data), data):
        log(f"the training has {diverged} ({config.learning_rate:g}; --set learning_rate=RATE)")
    elif 0 < loop.best_epoch == loop.epoch and config.selected_by != "last":
        further = config.epochs + max(1, config.epochs // 2)
        log(
            "val was best after the last epoch, so it may still improve: the same command with --resume --epochs "
            f"{further} goes on"
        )
    best = finished(plan, prepared, loop, choose=choose, show=show)
    if ranks.first():
        best.save(plan.output, bits=plan.bits)
    return best


# Checks before the work


def check_plan(plan: TrainingPlan) -> None:
    """Raise `SatError` for a plan that cannot be carried out, before any photo is encoded."""
    if ranks.first():
        check_output(plan)
    check_settings(plan)
    check_start(plan.start, plan.config.decoder)
    if ranks.first():
        check_writable(plan.state, make=True)


def check_output(plan: TrainingPlan) -> None:
    """Raise `SatError` for an output where a model or a training would be lost, and for one that cannot be resumed."""
    output, state = plan.output, plan.state
    model = (output / "config.json").exists()
    if plan.resume and model and not state.exists():
        raise SatError(
            f"{output} holds a model without the state of its training: it cannot be resumed. Give another --output; "
            f"--init-from {output} starts from this model"
        )
    if not plan.resume and (model or state.exists()):
        held = "a model" if model else "an interrupted training"
        further = ", or --resume to go on with its training" if state.exists() else ""
        raise SatError(f"{output} holds {held} already: give another --output{further}")
    check_vacant(output)
    if plan.resume:
        check_origin(state, plan.start.name)


def check_settings(plan: TrainingPlan) -> None:
    """Raise `SatError` for settings that do not go together, or with the encoder, or with what is installed."""
    config = plan.config
    if plan.tensorboard:
        summary_writer()
    if isinstance(config.decoder, DecoderConfig):
        check_window(config.decoder.annotation_window, *plan.start.encoder.grid)


def exclusive(plan: TrainingPlan) -> Any:
    """A context in which no other process trains in the output. Raises `SatError` where one does."""
    if not ranks.first():
        return nullcontext()
    plan.state.parent.mkdir(parents=True, exist_ok=True)
    refusal = f"another process trains in {plan.output}: wait for it, or give another --output"
    return file_lock(plan.state.parent, refusal=refusal)


# The start


def started(
    prepared: Prepared, start: Start, device: torch.device, *, trainer: type[Trainer] = Trainer, show: bool
) -> Trainer:
    """A training from its beginning, with random weights or those of the model to start from."""
    _, config, data = prepared
    initial = None
    if start.checkpoint is not None:
        initial = initial_weights(build_decoder(start.checkpoint), config.decoder, data, seed=config.seed, show=show)
    return made(trainer, prepared, start, device, initial=initial, show=show)


def made(trainer: type[Trainer], prepared: Prepared, start: Start, device: torch.device, **options: Any) -> Trainer:
    """The loop of a training that starts from a model, or from none."""
    competing = competes(start, prepared.config.decoder)
    return trainer(
        prepared.config, prepared.data, device=device, init_from=start.name, start_competes=competing, **options
    )


def resume(trainer: Trainer, state: Path) -> None:
    """Let a training go on from where it was interrupted, and log what more epochs mean for it."""
    before = stored_epochs(state)
    trainer.resume(state)
    config = trainer.config
    log(f"resumed after {plural(trainer.epoch, 'epoch')} and {plural(trainer.batch, 'batch')}")
    if before is None or before >= config.epochs:
        return
    further = f"{config.epochs} epochs instead of {before}"
    if trainer.restart[1] < trainer.epoch:
        log(f"{further}: the schedules of the training are stretched")
    elif config.schedule == "cosine":
        log(f"{further}: the learning rate goes from {RESTART * config.learning_rate:g} to 0 again, by a new cosine")
    else:
        log(f"{further}: the learning rate stays {config.learning_rate:g}")


def log_new_words(before: Vocabulary, vocabulary: Vocabulary, config: TrainingConfig) -> None:
    """Log which words a vocabulary has behind those of the model to start from."""
    if new := vocabulary.words[len(before) :]:
        log(
            f"{plural(len(new), 'new word')} seen {times(config.minimum_count)} or more: {first_three(new)}; they are "
            f"appended to the {len(before):,} of the model to start from (--set new_words=false leaves them out)"
        )


def log_size(trainer: Trainer, *, keeps_vocabulary: bool) -> None:
    """Log how much there is to learn, and that many words are unknown, if they are."""
    data, least = trainer.data, trainer.config.minimum_count
    unknown = sum(words.count(Vocabulary.UNKNOWN) for _, words in data.captions)
    total = sum(len(words) - 1 for _, words in data.captions)
    if 10 * unknown > total:
        share = f"{100 * unknown / total:.0f} % of the words in the training captions are unknown"
        if keeps_vocabulary:
            log(f"{share} to the model to start from, which keeps its vocabulary: --set new_words=true adds to it")
        else:
            log(f"{share}: they are seen fewer than {least} times. --set minimum_count=1 keeps every word")
    photos = len({name for name, _ in data.captions})
    weights = sum(parameter.numel() for parameter in trainer.decoder.parameters()) / 1e6
    log(
        f"{len(data.captions):,} captions of {photos:,} photos, {len(data.vocabulary):,} words, "
        f"{weights:.1f} million weights, {trainer.batches_an_epoch} batches an epoch"
    )


# The end


def log_gain(best: Checkpoint, start: Start, config: TrainingConfig, data: TrainingData, device: torch.device) -> None:
    """Log the model's figures on val beside those of the model to start from, and note them for the card.

    Both are measured as they make captions, on `SHOWN` photos of val at most.
    """
    assert start.checkpoint is not None
    few = dataclasses.replace(data, validation=data.validation[:: -(-len(data.validation) // SHOWN)], parts=())
    nats, ciders = [], []
    for model in (best, start.checkpoint):
        decoder = build_decoder(model).to(device)
        reranker = load_reranker(model)
        if model is start.checkpoint:  # its weights with the words of this training, so that both know the same
            initial = initial_weights(decoder, config.decoder, data, seed=config.seed, show=False)
            decoder = build(config.decoder).to(device).eval()
            decoder.load_state_dict(initial)
        nats.append(nats_of_photos(decoder, few))
        ciders.append(ciders_of(captions_by(decoder, few, model.generation, reranker=reranker), few))
    best.training["on_val"] = gain(*nats, *ciders)
    log(f"on val: {best.training['on_val']}")


def is_start(best: Checkpoint, start: Start, config: TrainingConfig, output: Path) -> Checkpoint:
    """The model to start from, in the place of the best epoch's, and a message that says what to try."""
    assert start.checkpoint is not None
    before = start.checkpoint
    best.generation, best.reranker, best.confidence = before.generation, before.reranker, before.confidence
    best.training["epochs"] = 0
    log(
        f"no epoch was better on val than {start.name}, so the model in {output} is this one, with the "
        f"words of this training: give more photos, or a learning rate below {config.learning_rate:g} "
        "(--set learning_rate=RATE)"
    )
    return best


def finished(
    plan: TrainingPlan, prepared: Prepared, loop: Trainer, *, choose: Callable[..., Chosen], show: bool
) -> Checkpoint:
    """The best checkpoint in the output of a loop that has ended, with the generation config that val chooses.

    A reranker is fitted, if the settings ask for one, and kept if val chooses it. For a small set,
    `presets.custom` has other rules.
    """
    _, config, data = prepared
    best, start = Checkpoint.load(plan.output), plan.start.checkpoint
    device, competing = loop.device, loop.start_competes
    if start is not None and best.training["epochs"] == 0:  # no epoch was better, so the start stays as it is
        return is_start(best, plan.start, config, plan.output)
    decoder = build_decoder(best).to(device)
    ended = any(name.startswith("validation_") or name == "decoding" for name in best.training)  # the last step
    if start is not None and competing and config.cautious and data.encoder is None and not ended:
        initial = initial_weights(build_decoder(start).to(device), config.decoder, data, seed=config.seed, show=False)
        share = choose_share(decoder, initial, data)
        best.weights = decoder_weights(decoder)
        if share == 0:
            return is_start(best, plan.start, config, plan.output)
        if share < 1:
            best.training["share"] = f"{share:g} of the way from the start's weights, by val"
            log(f"the weights go {share:g} of the way from those of {plan.start.name} to the best epoch's, by val")
    if best.tuned_encoder is not None:  # that of the best epoch, which the decoder was trained with
        plan.start.encoder.adopt(as_tensors(best.tuned_encoder))
    before = start.reranker if start is not None and config.cautious else None
    best.reranker, replaced = None, False
    if config.visual_ngrams:
        best.reranker, replaced = fit_visual_ngrams(decoder, data, before=before, show=show)
    reranker = load_reranker(best)
    earlier = [
        name for name in best.training if name.startswith("validation_") or name in ("without_reranker", "decoding")
    ]
    for name in earlier:  # decisions before the training went on
        del best.training[name]
    kept = kept_generation(start if competing else None, config, reranked=reranker is not None, replaced=replaced)
    photos, better = len(data.validation), False
    if not config.cautious or photos >= VAL_FOR_DECODING:
        metric: Metric = config.selected_by if config.selected_by in ("bleu_4_no_brevity", "cider") else "bleu_4"
        usual = config.validation_beam_size
        chosen = choose(decoder, data, config.max_length, metric=metric, reranker=reranker, usual=usual, show=show)
        better = not config.cautious or is_better(
            *(
                ciders_of(captions_by(decoder, data, each, reranker=reranker, show=show), data)
                for each in (chosen.generation, kept)
            )
        )
    if better:
        score = f"validation_{metric}"
        best.generation = chosen.generation
        best.training[score] = chosen.scores
        if chosen.generation.rerank_weight:
            best.training["without_reranker"] = {
                "beam_size": chosen.without_reranker.beam_size,
                "length_penalty": chosen.without_reranker.length_penalty,
                score: chosen.score_without_reranker,
            }
    else:
        best.generation = kept
        why = "no other is clearly better" if photos >= VAL_FOR_DECODING else f"fewer than {VAL_FOR_DECODING}"
        best.training["decoding"] = f"not chosen on val, which has {plural(photos, 'photo')}: {why}"
        log(f"decoding is {best.training['decoding']}")
    if not best.generation.rerank_weight:
        best.reranker = reranker = None
    if competing and data.encoder is None:
        log_gain(best, plan.start, config, data, device)
    if ranks.first():  # last, since the others do not wait for it
        best.confidence = fit_confidence(decoder, data, best.generation, reranker=reranker, show=show)
    return best


def kept_generation(
    start: Checkpoint | None, config: TrainingConfig, *, reranked: bool, replaced: bool
) -> GenerationConfig:
    """The generation config where val does not choose one: that of the model to start from, if it fits, or the usual.

    It fits if it uses a reranker just where there is one. Where its reranker was replaced, the beam is large: n-grams
    of photos of another kind gain from more captions to choose from.
    """
    usual = GenerationConfig(attention_mode=default_attention_mode(config.decoder), max_length=config.max_length)
    kept = usual.merge(**DECODING) if reranked else usual.merge(beam_size=config.validation_beam_size)
    if start is not None and bool(start.generation.rerank_weight) == reranked:
        kept = start.generation
    return kept.merge(beam_size=LARGE_BEAM_SIZE) if replaced else kept


def fit_visual_ngrams(
    decoder: Decoder, data: TrainingData, *, before: StoredReranker | None = None, show: bool
) -> tuple[StoredReranker | None, bool]:
    """The visual n-grams of the training captions, on the decoder's device; None when no word is seen often enough.

    ``before`` are those of the model to start from. They are adapted, unless new ones are better. Also returns whether
    they were replaced.
    """
    captions: dict[str, list[list[int]]] = {}
    for name, words in data.captions:
        captions.setdefault(name, []).append(words)
    device = next(decoder.parameters()).device
    if before is not None and before.kind == "ngrams":
        adapted = adapt_ngrams(before.arrays, data.views[0], captions, device=device)
        made = "fitted anew" if adapted is None else "kept" if adapted is before.arrays else "adapted"
        log(f"the reranker of the model to start from is {made}")
        if adapted is not None:
            return StoredReranker("ngrams", adapted), False
    ngrams = fit_ngrams(data.views[0], captions, device=device, show=show)
    if ngrams is None:
        log(f"no word is in {LEAST} training captions or more, so there are no visual n-grams to rank captions by")
        return None, False
    return StoredReranker("ngrams", ngrams), before is not None
