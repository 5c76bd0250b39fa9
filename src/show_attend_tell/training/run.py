"""The recipe of a training, from captioned photos to a checkpoint: `train`.

It needs no framework beside PyTorch. Lightning Fabric and Accelerate bring twenty packages and save what `ranks` has
in about 30 lines (to join, to end, to gather); they know no resuming to the bit in the middle of an epoch, and their
states are pickled. PyTorch's `AveragedModel` and schedulers keep counters of their own, which a state would hold twice.
"""

import dataclasses
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from safetensors import SafetensorError, safe_open

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint, check_vacant
from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable, file_lock
from show_attend_tell.generation import Decoding
from show_attend_tell.progress import Progress
from show_attend_tell.training import finish, ranks
from show_attend_tell.training.config import TrainingPlan
from show_attend_tell.training.data import TrainingData, identity, prepare
from show_attend_tell.training.judge import judge_by_divisions, judge_by_val
from show_attend_tell.training.ranks import log
from show_attend_tell.training.reports import duration, log_end, log_size, report
from show_attend_tell.training.selection import Chosen, choose_generation, fit_confidence
from show_attend_tell.training.start import competes, mismatch, start_decoder
from show_attend_tell.training.trainer import Epoch, Trainer, Watch


def train(
    plan: TrainingPlan,
    data: TrainingData | None = None,
    *,
    trainer: type[Trainer] = Trainer,
    choose: Callable[..., Chosen] = choose_generation,
    show: bool = True,
) -> Checkpoint:
    """Train, and leave the best checkpoint in the plan's output.

    Messages go to the logger "show_attend_tell" at level INFO; ``show`` shows progress bars. ``trainer`` is the class
    that takes the steps, ``choose`` the function that chooses how the model generates captions, and ``data`` what is
    learnt from where it need not be made of the plan's photos. If ``torchrun`` started several processes, all of them
    call this with the same plan. Ctrl-C lets the batch end, writes the state and raises KeyboardInterrupt; a second
    Ctrl-C does not wait. Ctrl-C in one process ends all.

    Raises `SatError` for an output that holds a model already (unless the plan resumes), for an output in which another
    process trains, for settings that do not fit together, and for a start or a state that does not fit the training.
    """
    began = time.monotonic()
    with ranks.together(pick_device(plan.device)) as device:
        show = show and ranks.first()
        plan = check(plan)
        plan.start.encoder.to(device)
        if data is None:  # encode the photos, make the vocabulary
            plan, data = prepare(plan, show=show)
        ranks.check_alike(lambda: identity(plan.config, data))  # first, since it alone waits for slow encoders
        refusal = f"another process trains in {plan.output}: wait for it, or give another --output"
        plan.state.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(plan.state.parent, refusal=refusal) if ranks.first() else nullcontext():
            check(plan)  # another process may have trained here meanwhile
            config, start, state = plan.config, plan.start.checkpoint, plan.state
            goes_on = ranks.gathered(plan.resume and state.exists())[0]
            competing = competes(plan.start, config.decoder)
            before = None  # random weights
            if start is not None and (competing or not goes_on):
                before = start_decoder(plan, data, device, show=show)
            judged = before if competing and data.encoder is None else None  # the start, with which val may compare
            verdict = None if judged is None else judge_by_divisions(plan, data, judged, trainer, show=show)
            stop = config.epochs if verdict is None else verdict.epochs
            if verdict is not None:
                log(verdict.text)
            initial = None if before is None else before.state_dict()
            loop = trainer(config, data, device=device, initial=initial, init_from=plan.start.name, show=show)
            if goes_on:
                loop.resume(state)
            elif plan.resume:
                log(f"there is nothing to resume in {plan.output} yet, so the training starts")
            log_size(loop)
            zero = start is not None and loop.taken == 0  # the start is validated as an epoch before the first
            with ctrl_c_held_back() as pressed:

                def pause() -> None:
                    if ranks.any_of(pressed()):
                        loop.save(state)
                        ranks.any_of(False)  # until it is written
                        raise KeyboardInterrupt

                saved = time.monotonic()
                while zero or not loop.ended(stop):
                    epoch_began, watch = time.monotonic(), Watch()
                    todo = [] if zero else loop.batches()
                    what = f"epoch {loop.epoch + 1} of {stop}"
                    with Progress(
                        total=len(todo), initial=loop.batch, desc=what, unit="batch", disable=zero or not show
                    ) as bar:
                        for indices in todo[loop.batch :]:
                            bar.set_postfix(watch.add(loop.one_batch(indices), len(indices)), refresh=False)
                            bar.update()
                            loop.batch += 1
                            pause()
                    if loop.epoch == 0:
                        loop.save(state)  # before there is a checkpoint, so that each checkpoint can be resumed
                        saved = time.monotonic()
                    scores = loop.validate(show=show)
                    pause()
                    if not zero:
                        loop.epoch, loop.batch = loop.epoch + 1, 0
                    score = loop.selection(scores) if verdict is None else loop.epoch
                    better = competing if zero else score > loop.best
                    if better:
                        loop.best, loop.best_epoch = score, loop.epoch
                    seconds = time.monotonic() - epoch_began
                    report(plan, loop, Epoch(loop.epoch, scores, watch.means(), seconds, better), verdict)
                    if loop.taken and (loop.ended(stop) or time.monotonic() - saved > loop.saved_every):
                        loop.save(state)
                        saved = time.monotonic()
                    pause()
                    zero = False
            ranks.any_of(False)  # until the last checkpoint is written
            log_end(loop, chosen=verdict is None)
            best = Checkpoint.load(plan.output)
            ranks.any_of(False)  # until all have read it, since the first writes it again
            decoder = build_decoder(best).to(device)
            ended = any(name.startswith("validation_") or name == "decoding" for name in best.training)
            if judged is not None and not ended:
                if verdict is None and best.training["epochs"]:  # 0: the start itself was best, or was given back
                    verdict = judge_by_val(plan, data, decoder, judged)
                    log(verdict.text)
                if verdict is not None:
                    finish.apply_verdict(plan, verdict, best, decoder, judged)
            if start is not None and best.training["epochs"] == 0:
                finish.give_start_back(plan, best)
            else:
                if best.tuned_encoder is not None:  # that of the best epoch, which the decoder was trained with
                    plan.start.encoder.adopt(as_tensors(best.tuned_encoder))
                best.reranker = best.confidence = None
                replaced = config.visual_ngrams and finish.fit_reranker(plan, data, best, show=show)
                finish.fit_class_words(plan, data, best, show=show)
                finish.choose_decoding(plan, data, best, decoder, choose=choose, replaced=replaced, show=show)
                if ranks.first():  # last, since the others do not wait for it
                    best.confidence = fit_confidence(decoder, data, Decoding.of(best), show=show)
            if ranks.first():
                best.save(plan.output, bits=plan.bits)
        took = duration(time.monotonic() - began)
        log(f"{plan.output} generates captions with {best.generation.summary()}. Training took {took}")
        return best


def check(plan: TrainingPlan) -> TrainingPlan:
    """The plan, which resumes with the epochs of before and their choice where the user gives no others.

    Raises `SatError`, before any photo is encoded, for one that cannot be carried out.
    """
    output, state, start, config = plan.output, plan.state, plan.start, plan.config
    try:
        with safe_open(state, framework="pt") as stored:
            header = {name: json.loads(text) for name, text in (stored.metadata() or {}).items()}
    except (OSError, SafetensorError, ValueError):
        header = {}
    identity = header.get("identity")
    if plan.resume and plan.given is not None and isinstance(identity, dict):
        before = {name: identity[name] for name in ("epochs", "selected_by") if name in identity.keys() - {*plan.given}}
        config = dataclasses.replace(config, **before)
        plan = dataclasses.replace(plan, config=config, given={*plan.given, *before})
    if ranks.first():
        model = (output / "config.json").exists()
        if plan.resume and model and not state.exists():
            raise SatError(
                f"{output} holds a model without the state of its training: it cannot be resumed. Give another "
                f"--output; --init-from {output} starts from this model"
            )
        if not plan.resume and (model or state.exists()):
            held = "a model" if model else "an interrupted training"
            further = ", or --resume to go on with its training" if state.exists() else ""
            raise SatError(f"{output} holds {held} already: give another --output{further}")
        check_vacant(output)
        origin = header.get("init_from", start.name) if plan.resume else start.name
        if origin != start.name:
            raise SatError(
                f"the training in {state} started from {origin or 'none'}, and this command starts from "
                f"{start.name or 'none'}: give --init-from {origin or 'none'}"
            )
    (rows, columns), window = start.encoder.grid, getattr(config.decoder, "annotation_window", 1)
    if window > 1 and rows != columns:
        raise SatError(f"annotation_window is {window}, and {rows} × {columns} locations are not a square grid: give 1")
    if start.checkpoint is not None and (found := mismatch(start, config.decoder)):
        raise SatError(f"the model to start from {found.reason}", remedy=found.remedy)
    if ranks.first():
        check_writable(state, make=True)
    return plan


@contextmanager
def ctrl_c_held_back() -> Iterator[Callable[[], bool]]:
    """Hold a first Ctrl-C back, and give a function that says whether it was pressed: no step is left half done."""
    times = 0

    def press(*_: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread, which alone Ctrl-C reaches
        yield lambda: False
        return
    try:
        yield lambda: times > 0
    finally:
        signal.signal(signal.SIGINT, before)
