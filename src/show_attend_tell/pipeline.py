"""From a data folder to a trained checkpoint, and from a checkpoint to its scores: what `sat train` and `sat
evaluate` do."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from show_attend_tell.attention import LookName
from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.checkpoint import Bits, Checkpoint, Decoding, EncoderRecord, check_vacant
from show_attend_tell.datasets import Dataset, Example
from show_attend_tell.decoder import DROPOUTS, Decoder, DecoderConfig, check_window, tell, ungated
from show_attend_tell.encoder import Encoder
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import Tokens, assess, check_scorers
from show_attend_tell.features import Annotations, FeatureCache
from show_attend_tell.photos import open_photo
from show_attend_tell.search import beam_search, photos_together
from show_attend_tell.training import (
    Epoch,
    MeanAnnotations,
    Trainer,
    TrainingConfig,
    TrainingData,
    validation_bleu,
)
from show_attend_tell.visual_ngrams import LEAST, VisualNgrams
from show_attend_tell.visualize import Exhibit, strip
from show_attend_tell.vocabulary import Vocabulary

# Tried on validation after training, each with each; the best become the checkpoint's default.
BEAMS = (1, 3, 5, 10, 20)
WIDE = (40, 100)  # with visual n-grams too: the more captions there are to choose from, the more they are worth
NORMALISATIONS = (0.0, 0.25, 0.5, 0.75)
AGREEMENTS = (0.0, 32.0, 64.0, 96.0, 128.0)  # with visual n-grams
BRIEFLY = ("caption", "words", "log_probability", "complete")  # of a caption in an evaluation without attention
Say = Callable[[str], None]


class LivePhotos:
    """Annotations computed at each call, with gradient while the encoder trains: what fine-tuning reads instead of a
    cache."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, view: str = "original") -> None:
        self.photos = {example.name: example.photo for example in examples}
        self.encoder, self.view = encoder, view

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        square = self.encoder.preprocessing
        pixels = torch.stack([square(open_photo(self.photos[name]), self.view, name) for name in names])
        pixels = pixels.to(next(self.encoder.parameters()).device)
        if not torch.is_grad_enabled():
            return self.encoder.annotate(pixels)
        self.encoder.train()
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self.encoder.precision == "bfloat16"):
            annotations: Tensor = self.encoder(pixels)
        return annotations


def cached(
    dataset: Dataset,
    encoder: Encoder,
    cache: Path,
    *,
    splits: Sequence[str],
    view: str = "original",
    show: bool = True,
) -> FeatureCache:
    """The annotations of whole splits, encoded now if they are not yet in the cache.

    Each data set has its own folder in the cache, since two may use one name for different photos.
    """
    where = hashlib.sha256(str(dataset.folder.resolve()).encode()).hexdigest()[:8]
    photos = {example.name: example.photo for example in dataset.examples if example.split in splits}
    return FeatureCache.build(cache / f"{dataset.name}-{where}", photos, encoder, view=view, progress=show)


def prepare(
    dataset: Dataset,
    config: TrainingConfig,
    encoder: Encoder,
    cache: Path,
    *,
    vocabulary: Vocabulary | None = None,
    fine_tune: float | None = None,
    show: bool = True,
) -> TrainingData:
    """Vocabulary, captions and annotations for a training; raises `SatError` without train or val photos.

    ``vocabulary`` is that of the model to start from, None to make one of the training captions; ``fine_tune`` is the
    encoder's own learning rate, None to keep it frozen.
    """
    train, validation = dataset.split("train"), dataset.split("val")
    vocabulary = vocabulary or Vocabulary.build(
        (caption for example in train for caption in example.captions),
        minimum_count=config.minimum_count,
        size=config.vocabulary_size,
    )
    views: list[Annotations]
    if fine_tune is None:
        views = [cached(dataset, encoder, cache, splits=("train", "val"), show=show)]
        views += [cached(dataset, encoder, cache, splits=("train",), view=view, show=show) for view in config.views]
        if config.decoder.attention == "none":  # nothing tells the places apart
            views = [MeanAnnotations(view) for view in views]
    else:
        encoder.unfreeze()
        views = [LivePhotos((*train, *validation), encoder)]
        views += [LivePhotos(train, encoder, view) for view in config.views]
    return TrainingData(
        vocabulary=vocabulary,
        captions=[(example.name, vocabulary.encode(caption)) for example in train for caption in example.captions],
        validation=[(example.name, example.captions) for example in validation],
        views=views,
        encoder=None if fine_tune is None else encoder,
        encoder_learning_rate=fine_tune or 0.0,
        encoder_record=None if fine_tune is None else {"name": encoder.name, **encoder.preprocessing.to_dict()},
    )


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
        best.ngrams = VisualNgrams.fit(data.views[0], captions, device=device, show=show)
        if best.ngrams is None:
            say(f"no word is in {LEAST} training captions, so there are no visual n-grams to rank captions by")
    best.decoding, scores = choose_decoding(decoder, data, config.max_length, ngrams=best.ngrams, say=say, show=show)
    best.training["validation_bleu_4"] = scores
    if not best.decoding.agreement:
        best.ngrams = None
    best.save(output, bits=bits)
    say(f"{output} decodes with {best.decoding.told()}. Trained for {time.monotonic() - began:.0f} s")
    return best


def choose_decoding(
    decoder: Decoder,
    data: TrainingData,
    max_length: int,
    *,
    ngrams: VisualNgrams | None = None,
    say: Callable[[str], None],
    show: bool = False,
) -> tuple[Decoding, dict[str, float]]:
    """The beam, length normalisation γ and weight ω of the agreement of the best val BLEU-4 (with penalty, ×100), and
    each beam's best score.

    ω other than 0 is tried where there are visual n-grams and several captions to rank. A hard model is judged by its
    likeliest places, as its epochs are, although it looks by expectation unless told.
    """
    chosen, best, scores = Decoding(max_length=max_length), -1.0, {}
    say("val BLEU-4 by length normalisation   " + "  ".join(f"{gamma:5g}" for gamma in NORMALISATIONS))
    for beam in BEAMS if ngrams is None else (*BEAMS, *WIDE):
        weights = (0.0,) if ngrams is None or beam == 1 else AGREEMENTS
        rankings = [(gamma, weight) for weight in weights for gamma in NORMALISATIONS]
        found = validation_bleu(
            decoder, data, beam=beam, max_length=max_length, rankings=rankings, ngrams=ngrams, show=show
        )
        by_ranking = {ranking: each["bleu_4"] for ranking, each in zip(rankings, found, strict=True)}
        for weight in weights:
            by_gamma = {gamma: by_ranking[gamma, weight] for gamma in NORMALISATIONS}
            told = f"{beam}, agreement {weight:g}" if weight else f"{beam}"
            say(f"  beam {told:<29}" + "  ".join(f"{score:5.2f}" for score in by_gamma.values()))
        gamma, weight = max(by_ranking, key=lambda ranking: by_ranking[ranking])
        score = by_ranking[gamma, weight]
        scores[f"beam {beam}, γ {gamma:g}" + (f", ω {weight:g}" if weight else "")] = round(score, 2)
        if score > best:
            chosen = dataclasses.replace(chosen, beam=beam, length_normalisation=gamma, agreement=weight)
            best = score
    return chosen, scores


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


def summary_writer() -> Any:
    """TensorBoard's writer; raises `SatError` naming the extra when it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SatError("TensorBoard is not installed: pip install 'show-attend-tell[tensorboard]'") from error
    return SummaryWriter


class TensorBoard:
    """Scalars of every epoch and the attention of a few validation photos, for TensorBoard (an extra)."""

    def __init__(self, folder: Path, dataset: Dataset, data: TrainingData, trainer: Trainer, encoder: Encoder) -> None:
        self.writer = summary_writer()(str(folder))
        self.examples = dataset.split("val")[:4]
        self.data, self.trainer, self.encoder = data, trainer, encoder

    def epoch(self, epoch: Epoch) -> None:
        """Write one epoch."""
        for name, value in {**epoch.scores, **epoch.watch}.items():
            self.writer.add_scalar(name, value, epoch.number)
        with torch.no_grad():
            annotations = self.data.views[0][[example.name for example in self.examples]].to(self.trainer.device)
        for example, found in zip(self.examples, beam_search(self.trainer.average, annotations), strict=True):
            image = open_photo(example.photo)
            best = found[0]
            if best.alpha is None or not best.words:
                continue
            exhibit = Exhibit(
                photo=image,
                words=self.data.vocabulary.decode(best.words),
                attention=best.alpha.cpu().numpy().reshape(-1, *self.encoder.grid),
                gate=None if best.beta is None else best.beta.cpu().numpy(),
                seen=self.encoder.preprocessing.seen(*image.size),
            )
            picture = np.array(strip([exhibit]))
            self.writer.add_image(example.name, picture, epoch.number, dataformats="HWC")
        self.writer.flush()


def evaluate(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    *,
    cache: Path,
    beam: int | None = None,
    look: LookName | None = None,
    length_normalisation: float | None = None,
    agreement: float | None = None,
    tokens: Tokens = "split",
    attention: bool = False,
    seed: int = 0,
    show: bool = True,
) -> dict[str, Any]:
    """Caption a whole split, each photo once, and score it.

    Returns the metrics ×100, how they were made, and the captions themselves under ``results``: the ``photo``'s name,
    its ``file``, the caption (with ``attention`` all that `Caption.to_dict` says of it, some 30 kB a photo; otherwise
    the sentence, its words, log p and whether it is complete), its references and its own scores. ``tokens`` names
    the convention: "split" for the data set's own tokens joined by spaces, "ptb" for PTB tokenisation of the raw
    captions. Places that are sampled are seeded by ``seed`` and the photo's name. Raises `SatError` for an unknown
    split.
    """
    check_scorers()
    examples = dataset.split(split)
    decoding = captioner.checkpoint.decoding.but(
        beam=beam, look=look, length_normalisation=length_normalisation, agreement=agreement
    )
    captioner.check_decoding(decoding)
    annotations = cached(dataset, captioner.encoder, cache, splits=(split,), show=show)
    entries = []
    with tqdm(total=len(examples), desc="captions", unit="photo", disable=not show) as bar:
        together = photos_together(decoding.beam, captioner.device)
        for start in range(0, len(examples), together):
            batch = examples[start : start + together]
            names = [example.name for example in batch]
            found = captioner.search(
                annotations[names].to(captioner.device),
                decoding,
                seeds=[photo_seed(seed, name.encode()) for name in names],
            )
            for example, hypotheses in zip(batch, found, strict=True):
                size = open_photo(example.photo).size if attention else None
                file = str(example.photo.resolve())
                caption = captioner.told(hypotheses, decoding, None, seed, size=size, source=file).to_dict()
                kept = caption if attention else {name: caption[name] for name in BRIEFLY}
                entries.append({"photo": example.name, "file": file, **kept})
            bar.update(len(batch))
    return {
        **scored(dataset, split, entries, tokens=tokens, show=show),
        "model": captioner.name,
        "beam": decoding.beam,
        "look": decoding.look,
        "length_normalisation": decoding.length_normalisation,
        "agreement": decoding.agreement,
        "seed": seed,
    }


def scored(
    dataset: Dataset,
    split: str,
    entries: Sequence[Mapping[str, Any]],
    *,
    tokens: Tokens = "split",
    show: bool = True,
) -> dict[str, Any]:
    """The evaluation (`evaluation.assess`) of captions of a whole split, however they were made.

    ``entries`` have a ``photo`` and its ``caption``, and may have more. Raises `SatError` when they are not one for
    each photo of the split.
    """
    examples = dataset.split(split)
    if tokens == "ptb":
        references = {example.name: list(example.raw) for example in examples}
    else:
        references = {example.name: [" ".join(words) for words in example.captions] for example in examples}
    training = [words for example in dataset.examples if example.split == "train" for words in example.captions]
    return {
        **assess(entries, references, tokens=tokens, training=training or None, show=show),
        "data": dataset.name,
        "split": split,
    }
