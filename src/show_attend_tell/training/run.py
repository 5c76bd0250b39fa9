"""The recipe of a training, from captioned photos to a checkpoint: `train`.

It needs no framework beside PyTorch. Lightning Fabric and Accelerate bring twenty packages and save what `ranks` has
in about 30 lines (to join, to end, to gather); they know no resuming to the bit in the middle of an epoch, and their
states are pickled. PyTorch's `AveragedModel` and schedulers keep counters of their own, which a state would hold twice.
"""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_tensors, weights_digest
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY
from show_attend_tell.devices import computes_bf16, pick_device
from show_attend_tell.files import file_lock
from show_attend_tell.generation import Decoding
from show_attend_tell.model.interface import Decoder
from show_attend_tell.progress import Progress, progress_shown
from show_attend_tell.training import cautious, ranks
from show_attend_tell.training.cautious import Verdict
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.data import TrainingData, identity
from show_attend_tell.training.plan import checked, plan_for
from show_attend_tell.training.ranks import log
from show_attend_tell.training.reports import duration, keep_best, log_end, log_size
from show_attend_tell.training.selection import Chosen, choose_generation
from show_attend_tell.training.stages import Stage, complete
from show_attend_tell.training.stages.class_words import fit_class_words
from show_attend_tell.training.stages.confidence import confidence_of, fit_confidence, if_it_fits
from show_attend_tell.training.stages.data import prepare
from show_attend_tell.training.stages.decoding import choose_decoding
from show_attend_tell.training.stages.reranker import fit_reranker
from show_attend_tell.training.stages.start import start_decoder
from show_attend_tell.training.stages.weights import VERDICT, apply_verdict, give_start_back
from show_attend_tell.training.trainer import Trainer
from show_attend_tell.vision.feature_cache import default_cache

# mini-batches between two readings of the losses, each of which waits for the device; and between two checks for
# Ctrl-C, where there are several ranks
READ_EVERY = 16


def train(
    plan: TrainingPlan | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    data: TrainingData | None = None,
    *,
    trainer: type[Trainer] = Trainer,
    choose: Callable[..., Chosen] = choose_generation,
    show: bool = True,
    **options: Any,
) -> Checkpoint:
    """Train, and leave the best checkpoint in the plan's output; or on folders, with the options of `plan_for`.

    Messages go to the logger "show_attend_tell" at level INFO; ``show`` shows progress bars. ``trainer`` takes the
    steps, ``choose`` chooses how the model generates captions, and ``data`` is learnt from instead of the plan's
    photos. If ``torchrun`` started several processes, all call this with the same plan. Ctrl-C lets the batch end,
    writes the state and raises KeyboardInterrupt; a second Ctrl-C does not wait. Ctrl-C in one process ends all.

    Raises `SatError` for an output that holds a model already (unless the plan resumes) or in which another process
    trains, for settings that do not fit together, and for a start or a state that does not fit the training.
    """
    began = time.monotonic()
    if not isinstance(plan, TrainingPlan):
        plan = plan_for(plan, **options)
    with ranks.process_group(pick_device(plan.device)) as device, progress_shown(show and ranks.is_main()):
        plan = checked(plan, device)
        if data is None:
            plan, data = prepare_data(plan, device)
        # before all else that ranks do together: it alone waits as long as encoding may take
        ranks.check_alike(lambda: identity(plan.config, data))
        with lock_output(plan, device):
            work = Work(plan, data, device, trainer, choose)
            start = prepare_start(work)
            verdict = judge_small_data(work, start)
            epochs = plan.config.epochs if verdict is None else verdict.epochs
            training = prepare_trainer(work, start)
            with pausing(training, plan) as pause:
                if plan.start.checkpoint is not None and training.taken == 0:
                    validate_start(work, training, verdict, pause)
                while not training.ended(epochs):
                    training.begin_epoch()
                    with mini_batches_left(training, epochs) as batches:
                        for batch in batches:
                            training.take(batch)
                            if training.batch % READ_EVERY == 0:
                                batches.set_postfix(training.read_losses(), refresh=False)
                            pause(training.batch)
                    training.read_losses()
                    if training.epoch == 0:
                        # before the first checkpoint: a model without a state cannot be resumed
                        training.save(plan.state)
                    scores = training.validate()
                    pause()
                    training.end_epoch()
                    keep_best(plan, training, scores, verdict)
                    training.save_if_due(plan.state, ended=training.ended(epochs))
                    pause()
            ranks.barrier()  # until the last checkpoint is written
            log_end(training, chosen=verdict is None)
            model = complete_model(work, start, verdict)
        took = duration(time.monotonic() - began)
        log(f"{plan.output} generates captions with {model.generation.summary()}. Training took {took}")
        return model


class Work(NamedTuple):
    """What the stages of a training share. A stage's own file gets only what it needs of it."""

    plan: TrainingPlan
    data: TrainingData
    device: torch.device
    trainer: type[Trainer]
    choose: Callable[..., Chosen]

    @property
    def start_is_same_kind(self) -> bool:
        """Whether the model to start from, as it is, is a model of the kind that the training makes."""
        if self.plan.start.checkpoint is None:
            return False
        before, now = self.plan.start.checkpoint.config, self.plan.config.decoder
        alike = ("attention", "annotation_window", "gate")
        return all(getattr(before, name, None) == getattr(now, name, None) for name in alike)

    @property
    def start_may_be_given_back(self) -> bool:
        """Whether the training may end in the model that it starts from, or between them."""
        return self.start_is_same_kind and self.data.encoder is None

    @property
    def start_to_keep(self) -> Checkpoint | None:
        """The model to start from if its parts are replaced only where the photos prove a gain; else None."""
        return self.plan.start.checkpoint if self.plan.config.cautious else None


# Before the loop


def prepare_data(plan: TrainingPlan, device: torch.device) -> tuple[TrainingPlan, TrainingData]:
    """The stage "data": the data, and the plan whose data set and settings fit it."""
    plan.start.encoder.to(device)
    dataset, config, data = prepare(
        plan.dataset,
        plan.config,
        plan.start,
        plan,  # as its RunOptions
        cache=plan.cache or default_cache(),
        fit=plan.fit_to_data,
        given=plan.given or (),
    )
    return replace(plan, dataset=dataset, config=config), data


@contextmanager
def lock_output(plan: TrainingPlan, device: torch.device) -> Iterator[None]:
    """Lock the training's folder, so that no other process trains in it."""
    refusal = f"another process trains in {plan.output}: wait for it, or give another --output"
    plan.state.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(plan.state.parent, refusal=refusal) if ranks.is_main() else nullcontext():
        checked(plan, device)  # another process may have trained here meanwhile
        yield


def prepare_start(work: Work) -> Decoder | None:
    """The stage "start": the decoder that the training starts from.

    None for random weights, and for a start that a resumed training no longer needs.
    """
    model = work.plan.start.checkpoint
    if model is None or (is_resuming(work.plan) and not work.start_is_same_kind):
        return None
    return start_decoder(model, work.plan.config, work.data, work.device)


def is_resuming(plan: TrainingPlan) -> bool:
    """Whether there is a training to resume, and the plan resumes it; as the first rank finds."""
    return ranks.gathered(plan.resume and plan.state.exists())[0]


def judge_small_data(work: Work, start: Decoder | None) -> Verdict | None:
    """The stage "judge small data": how far from the start to go, and in how many epochs.

    None where val will decide, or there is no start.
    """
    plan, data = work.plan, work.data
    model = plan.start.checkpoint
    if start is None or model is None or not work.start_may_be_given_back:
        return None
    if not cautious.judged_by_halves(plan.config, len(data.validation)):
        return None

    def judge() -> Verdict:
        verdict, unseen = cautious.judge_by_halves(
            plan.config, data, plan.dataset, start, plan.start.name or "", work.trainer
        )
        of_start = Decoding.of(model)
        cases = []
        for decoder, half in unseen:
            decoding = replace(of_start, vocabulary=data.vocabulary)
            if verdict.share:
                # the start, whose parts the stages fill in
                filled = replace(model, vocabulary=data.vocabulary, training={}, confidence=None)
                for stage in caption_stages(work._replace(data=half), filled, decoder):
                    stage.run()
                decoding = Decoding.of(filled)
            cases.append((decoder, half, decoding))
        arrays = confidence_of(cases, of_start.confidence)  # of both halves together
        return replace(verdict, confidence=arrays and {name: array.tolist() for name, array in arrays.items()})

    about = identity(plan.config, data), weights_digest(model.weights), cautious.SHARES
    verdict = cautious.verdict_of(plan.state.with_name("divisions.json"), about, judge)
    log(verdict.text)
    return verdict


def prepare_trainer(work: Work, start: Decoder | None) -> Trainer:
    """The weights and the optimizer, as they are at the start or where the training was interrupted."""
    plan, device = work.plan, work.device
    initial = None if start is None else start.state_dict()
    training = work.trainer(plan.config, work.data, device=device, initial=initial, init_from=plan.start.name)
    if is_resuming(plan):
        training.resume(plan.state)
    elif plan.resume:
        log(f"there is nothing to resume in {plan.output} yet, so the training starts")
    if training.config.precision == "bfloat16" and not computes_bf16(device):
        log("the training computes in bfloat16, which this device only emulates, about ten times slower than float32")
    log_size(training)
    return training


# Around the loop


def validate_start(work: Work, training: Trainer, verdict: Verdict | None, pause: Callable[[], None]) -> None:
    """Epoch 0: the model to start from is validated, and is the best so far if it may be given back."""
    training.begin_epoch()
    training.save(work.plan.state)
    scores = training.validate()
    pause()
    keep_best(work.plan, training, scores, verdict, better=work.start_is_same_kind)


def mini_batches_left(training: Trainer, epochs: int) -> Progress:
    """The mini-batches that are left of an epoch, with their progress."""
    what = f"epoch {training.epoch + 1} of {epochs}"
    total = training.batches_an_epoch
    return Progress(training.mini_batches(), total=total, initial=training.batch, desc=what, unit="batch")


@contextmanager
def pausing(training: Trainer, plan: TrainingPlan) -> Iterator[Callable[..., None]]:
    """Hold a first Ctrl-C back, so that no step is left half done, and give a function that looks for it.

    Once Ctrl-C was pressed in any process, this function saves the state and ends the training. It is called with the
    number of a mini-batch, or without; several processes ask each other after every `READ_EVERY` mini-batches only.
    """
    pressed = False

    def press(*_: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def pause(batch: int = 0) -> None:
        if batch % READ_EVERY and ranks.world_size() > 1:
            return
        if ranks.any_rank(pressed):
            training.save(plan.state)
            ranks.barrier()  # until it is written
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread, which alone Ctrl-C reaches
        yield pause
        return
    try:
        yield pause
    finally:
        signal.signal(signal.SIGINT, before)


# After the loop


def complete_model(work: Work, start: Decoder | None, verdict: Verdict | None) -> Checkpoint:
    """The model of the best epoch, its weights as far from the start as the verdict says, with all else that it needs.

    Stages: "weights"; those of `caption_stages` and "confidence", or the start's own parts where it is given back;
    "card".
    """
    plan, data = work.plan, work.data
    config, origin = plan.config, plan.start
    name = origin.name or ""
    model = Checkpoint.load(plan.output)
    decoder = build_decoder(model).to(work.device)
    # with VERDICT in it, an earlier run moved these weights already
    if start is not None and work.start_may_be_given_back and VERDICT not in model.training:
        if verdict is None and config.cautious and model.training["epochs"]:  # 0: the start itself was best
            verdict = cautious.judge_by_val(config, data, decoder, start)
            log(verdict.text)
        if verdict is not None:
            apply_verdict(model, decoder, start, verdict, name)
    by_halves = None if verdict is None else verdict.confidence
    stages: list[Stage] = []
    if origin.checkpoint is not None and model.training["epochs"] == 0:
        # the start was best in the loop, or by apply_verdict
        give_start_back(model, origin.checkpoint, name, config.learning_rate)
        model.confidence = if_it_fits(by_halves, Decoding.of(model)) or model.confidence
    else:
        if model.tuned_encoder is not None:  # that of the best epoch, which the decoder was trained with
            origin.encoder.adopt(as_tensors(model.tuned_encoder))
        model.confidence = None
        confidence = partial(fit_confidence, model, decoder, data, work.start_to_keep, by_halves)
        stages = [*caption_stages(work, model, decoder), Stage("confidence", confidence)]
    if ranks.is_main():  # which alone writes
        stages.append(Stage("card", partial(model.save, plan.output, bits=plan.bits)))
    settings = identity(config, data), config.visual_ngrams, sorted(plan.given or ())
    digest = hashlib.sha256(repr((settings, weights_digest(model.weights))).encode()).hexdigest()
    complete(model, stages, plan.state.with_name("unfinished"), digest)
    return model


def caption_stages(work: Work, model: Checkpoint, decoder: Decoder) -> list[Stage]:
    """The stages that say how a model captions whose weights are trained.

    A new one is a file in `stages/` and a line here.
    """
    plan, data = work.plan, work.data
    config = plan.config
    custom_english = plan.dataset.custom and data.vocabulary.tokenizer in (KARPATHY, ENGLISH)
    before = work.start_to_keep
    reranker = None if before is None else before.reranker
    same_kind = plan.start.checkpoint if work.start_is_same_kind else None
    own_length = "max_length" in (plan.given or ())
    # called late: it depends on the reranker and the class words
    kept = partial(cautious.kept_generation, config, model, same_kind, own_length=own_length)
    wanted = config.visual_ngrams
    return [
        Stage("reranker", partial(fit_reranker, model, data, reranker, work.device, wanted=wanted)),
        Stage("class words", partial(fit_class_words, model, data, before, wanted=custom_english)),
        Stage(
            "decoding",
            partial(
                choose_decoding,
                model,
                decoder,
                data,
                config,
                kept=kept if config.cautious else None,
                filters=custom_english,
                choose=work.choose,
            ),
        ),
    ]
