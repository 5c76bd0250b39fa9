"""From a data folder to a trained checkpoint, and from a checkpoint to its scores: what `sat train` and `sat
evaluate` do."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint, check_vacant
from show_attend_tell.checkpoint.records import Decoding, EncoderRecord
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.decoder import DROPOUTS, DecoderConfig, check_window, ungated
from show_attend_tell.model.interface import Decoder, tell
from show_attend_tell.rerank.visual_ngrams import LEAST, VisualNgrams
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, prepare
from show_attend_tell.training.selection import choose_decoding
from show_attend_tell.training.tensorboard import TensorBoard, summary_writer
from show_attend_tell.training.trainer import Epoch, Trainer
from show_attend_tell.vision.encoder import Encoder

Say = Callable[[str], None]


def train(
    dataset: Dataset,
    config: TrainingConfig,
    encoder: Encoder,
    output: Path,
    *,
    cache: Path,
    device: torch.device,
    resume: bool = False,
    start_from: Checkpoint | None = None,
    fine_tune: float | None = None,
    bits: Bits = 32,
    tensorboard: bool = False,
    notes: dict[str, Any] | None = None,
    say: Say = print,
    show: bool = True,
) -> Checkpoint:
    """Train on a data set and leave the best checkpoint in ``output``, the training's own state in
    ``output/training``.

    ``start_from`` gives initial decoder weights and the vocabulary that they need. A gate that the
    training has not is taken out of them (`ungated`). ``notes`` go on the model card. Raises `SatError` for an output
    that holds a model already (unless ``resume``), and for a start or state that does not fit.
    """
    if tensorboard:
        summary_writer()  # or say now that it is missing
    state = output / "training" / "state.safetensors"
    if resume and not state.exists():
        raise SatError(f"there is nothing to resume: {state} does not exist. Leave out --resume to start")
    if not resume and ((output / "config.json").exists() or state.exists()):
        if not state.exists():
            raise SatError(f"{output} holds a model already: give another --output")
        held = "a model" if (output / "config.json").exists() else "an interrupted training"
        raise SatError(f"{output} holds {held} already: give another --output, or --resume to go on with its training")
    check_vacant(output)
    if config.visual_ngrams and config.decoder.attention == "none":
        raise SatError("visual_ngrams is on, and without attention only the places' mean is kept: leave it off")
    if start_from is not None:  # before the photos are encoded, which may take long
        start_from.encoder.check(encoder, "the model to start from")
        before, now = start_from.encoder.preprocessing, encoder.preprocessing
        if before != now:
            raise SatError(
                f"the model to start from saw photos by {before.geometry} to {before.size} pixels, and this training "
                f"by {now.geometry} to {now.size}: give --geometry {before.geometry}"
            )
    for line in dataset.report.lines():
        say(line)
    known = None if start_from is None else start_from.vocabulary
    if isinstance(config.decoder, DecoderConfig):
        check_window(config.decoder.annotation_window, *encoder.grid)
    data = prepare(dataset, config, encoder, cache, vocabulary=known, fine_tune=fine_tune, show=show)
    decoder_config = dataclasses.replace(
        config.decoder, vocabulary_size=len(data.vocabulary), annotation_size=encoder.annotation_size
    )
    config = dataclasses.replace(config, decoder=decoder_config)
    tuned = fine_tune is not None or (start_from is not None and start_from.tuned_encoder is not None)
    initial = None
    if start_from is not None:
        wanted, have = start_from.decoder.config.to_dict(), decoder_config.to_dict()
        if wanted["kind"] != have["kind"]:
            raise SatError(
                f"the model to start from is of the kind {wanted['kind']}, and this training of {have['kind']}: they "
                "share no weights"
            )
        gate_goes = wanted.get("gate", False) and not have.get("gate", False)
        free = {"attention", "annotation_window", *DROPOUTS}  # they change what is learnt, not which weights there are
        if gate_goes:
            free.add("gate")
        different = [name for name in wanted if name not in free and wanted[name] != have[name]]
        if different:
            settings = " ".join(f"--set decoder.{name}={wanted[name]}" for name in different)
            raise SatError(f"the model to start from has another decoder: give {settings}")
        initial = start_from.decoder.state_dict()
        if gate_goes:
            beta = mean_beta(start_from.decoder, data)
            say(f"the gate of the model to start from is taken out; its mean, {beta:.2f}, joins the context's weights")
            initial = ungated(initial, beta)
    trainer = Trainer(config, data, device=device, initial=initial)
    if resume:
        trainer.resume(state)
        say(f"resumed after {trainer.epoch} epochs and {trainer.batch} batches")
    unknown = sum(words.count(Vocabulary.UNKNOWN) for _, words in data.captions)
    total = sum(len(words) - 1 for _, words in data.captions)
    if 10 * unknown > total:
        share = f"{100 * unknown / total:.0f} % of the training captions' words are unknown"
        if known is None:
            say(f"{share}, being seen fewer than {config.minimum_count} times: --set minimum_count=1 keeps every word")
        else:
            say(f"{share} to the model to start from, whose vocabulary stays as it is: without a start they are learnt")
    weights = sum(parameter.numel() for parameter in trainer.decoder.parameters()) / 1e6
    say(
        f"{len(data.captions):,} captions of {len(dataset.split('train')):,} photos, {len(data.vocabulary):,} words, "
        f"{weights:.1f} million weights, {trainer.batches_an_epoch} batches an epoch"
    )
    began = time.monotonic()
    log = TensorBoard(output / "training" / "tensorboard", dataset, data, trainer, encoder) if tensorboard else None

    def checkpoint(epoch: Epoch) -> Checkpoint:
        return Checkpoint(
            decoder=trainer.average,
            vocabulary=data.vocabulary,
            encoder=EncoderRecord.of(encoder),
            decoding=Decoding(beam=config.validation_beam, max_length=config.max_length),
            training={
                "data": dataset.name,
                **(notes or {}),
                "seed": config.seed,
                "epochs": epoch.number,
                "settings": trainer.config_dict(),
            },
            tuned_encoder=encoder.body.state_dict() if tuned else None,
        )

    def on_epoch(epoch: Epoch, better: bool) -> None:
        line = {"epoch": epoch.number, **epoch.scores, **epoch.watch, "seconds": round(epoch.seconds, 1)}
        (output / "training").mkdir(parents=True, exist_ok=True)
        with open(output / "training" / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        watched = ", ".join(f"{name} {value:.3f}" for name, value in epoch.watch.items())
        say(
            f"epoch {epoch.number}: val BLEU-4 {epoch.scores['bleu_4']:.2f}{' (best)' if better else ''}, {watched}, "
            f"{epoch.seconds:.0f} s"
        )
        if better:
            checkpoint(epoch).save(output, bits=bits)
        if log is not None:
            log.epoch(epoch)

    trainer.run(on_epoch=on_epoch, state=state, show=show)
    best = Checkpoint.load(output)
    if best.tuned_encoder is not None:  # that of the best epoch, which the decoder learnt with
        encoder.body.load_state_dict(best.tuned_encoder)
    decoder = best.decoder.to(device)
    if config.visual_ngrams:
        captions: dict[str, list[list[int]]] = {}
        for name, words in data.captions:
            captions.setdefault(name, []).append(words)
        best.reranker = VisualNgrams.fit(data.views[0], captions, device=device, show=show)
        if best.reranker is None:
            say(f"no word is in {LEAST} training captions, so there are no visual n-grams to rank captions by")
    chosen = choose_decoding(decoder, data, config.max_length, ngrams=best.reranker, say=say, show=show)
    best.decoding = chosen.decoding
    best.training["validation_bleu_4"] = chosen.scores
    if chosen.decoding.reranker_weight:
        best.training["without_reranker"] = {
            "beam": chosen.alone.beam,
            "length_normalisation": chosen.alone.length_normalisation,
            "validation_bleu_4": chosen.alone_score,
        }
    else:
        best.reranker = None
    best.save(output, bits=bits)
    say(f"{output} decodes with {best.decoding.summary()}. Trained for {time.monotonic() - began:.0f} s")
    return best


@torch.no_grad()
def mean_beta(decoder: Decoder, data: TrainingData, captions: int = 500) -> float:
    """The mean β of a decoder over the words of that many training captions, with their true history."""
    chosen = data.captions[:: max(1, len(data.captions) // captions)]
    device = next(decoder.parameters()).device
    betas = []
    for name, words in chosen:
        told = tell(decoder, data.views[0][[name]].to(device), torch.tensor([words], device=device))
        if told.beta is not None:
            betas.append(told.beta.flatten())
    return float(torch.cat(betas).mean())
