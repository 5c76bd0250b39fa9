"""From a data folder to a trained checkpoint, and from a checkpoint to its scores: what `sat train` and `sat
evaluate` do."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm

from show_attend_tell.attention import LookName, look_by_name
from show_attend_tell.captioner import Captioner, photo_seed
from show_attend_tell.checkpoint import Bits, Checkpoint, Decoding, EncoderRecord
from show_attend_tell.datasets import Dataset, Example
from show_attend_tell.decoder import DROPOUTS, tell
from show_attend_tell.encoder import Encoder
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import check_scorers, describe, score
from show_attend_tell.features import FeatureCache
from show_attend_tell.objectives import entropy, word_log_probabilities
from show_attend_tell.photos import open_photo
from show_attend_tell.search import beam_search
from show_attend_tell.training import Annotations, Epoch, Trainer, TrainingConfig, TrainingData, validation_bleu
from show_attend_tell.visualize import attention_strip
from show_attend_tell.vocabulary import Vocabulary

BEAMS = (1, 3, 5, 10)  # tried on validation after training; the best becomes the checkpoint's default
Say = Callable[[str], None]


class LivePhotos:
    """Annotations computed at each call, with gradient while the encoder trains: what fine-tuning reads instead of a
    cache."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, *, flipped: bool = False) -> None:
        self.photos = {example.name: example.photo for example in examples}
        self.encoder, self.flipped = encoder, flipped

    def __getitem__(self, names: Sequence[str]) -> Tensor:
        pixels = torch.stack([self.encoder.preprocessing(open_photo(self.photos[name])) for name in names])
        pixels = (pixels.flip(-1) if self.flipped else pixels).to(next(self.encoder.parameters()).device)
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
        if config.flipped:
            views.append(cached(dataset, encoder, cache, splits=("train",), view="flipped", show=show))
    else:
        encoder.unfreeze()
        views = [LivePhotos((*train, *validation), encoder)]
        if config.flipped:
            views.append(LivePhotos(train, encoder, flipped=True))
    return TrainingData(
        vocabulary=vocabulary,
        captions=[(example.name, vocabulary.encode(caption)) for example in train for caption in example.captions],
        validation=[(example.name, example.captions) for example in validation],
        views=views,
        encoder=None if fine_tune is None else encoder,
        encoder_learning_rate=fine_tune or 0.0,
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

    ``start_from`` gives initial decoder weights and the vocabulary that they need. ``notes`` go on the model card.
    Raises `SatError` for an output that holds a model already (unless ``resume``), and for a start or state that does
    not fit.
    """
    if tensorboard:
        summary_writer()  # or say now that it is missing
    state = output / "training" / "state.safetensors"
    if resume and not state.exists():
        raise SatError(f"there is nothing to resume: {state} does not exist. Leave out --resume to start")
    if not resume and ((output / "config.json").exists() or state.exists()):
        held = "a model" if (output / "config.json").exists() else "an interrupted training"
        raise SatError(f"{output} holds {held} already: give another --output, or --resume to go on with its training")
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
    data = prepare(dataset, config, encoder, cache, vocabulary=known, fine_tune=fine_tune, show=show)
    decoder_config = dataclasses.replace(
        config.decoder, vocabulary_size=len(data.vocabulary), annotation_size=encoder.annotation_size
    )
    config = dataclasses.replace(config, decoder=decoder_config)
    initial = None
    if start_from is not None:
        theirs = dataclasses.replace(start_from.decoder.config, attention=decoder_config.attention)
        for name in DROPOUTS:
            theirs = dataclasses.replace(theirs, **{name: getattr(decoder_config, name)})
        wanted, have = theirs.to_dict(), decoder_config.to_dict()
        if different := [f"decoder.{name}={wanted[name]}" for name in wanted if wanted[name] != have[name]]:
            raise SatError(f"the model to start from has another decoder: give --set {' --set '.join(different)}")
        initial = start_from.decoder.state_dict()
    trainer = Trainer(config, data, device=device, initial=initial)
    if resume:
        trainer.resume(state)
        say(f"resumed after {trainer.epoch} epochs and {trainer.batch} batches")
    unknown = sum(words.count(Vocabulary.UNKNOWN) for _, words in data.captions)
    total = sum(len(words) - 1 for _, words in data.captions)
    if 10 * unknown > total:
        say(
            f"{100 * unknown / total:.0f} % of the training captions' words are unknown, being seen fewer than "
            f"{config.minimum_count} times: --set minimum_count=1 keeps every word"
        )
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
            tuned_encoder=None if fine_tune is None else encoder.body.state_dict(),
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
    beams = {beam: validation_bleu(decoder, data, beam=beam, max_length=config.max_length)["bleu_4"] for beam in BEAMS}
    chosen = max(beams, key=lambda beam: beams[beam])
    best.decoding = dataclasses.replace(best.decoding, beam=chosen)
    best.training["validation_bleu_4_by_beam"] = {str(beam): round(value, 2) for beam, value in beams.items()}
    best.save(output, bits=bits)
    say(
        "val BLEU-4 by beam: "
        + ", ".join(f"{beam}: {value:.2f}" for beam, value in beams.items())
        + f"; {output} decodes with {chosen}. Trained for {time.monotonic() - began:.0f} s"
    )
    return best


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
            strip = attention_strip(
                image,
                self.data.vocabulary.decode(best.words),
                best.alpha.cpu().numpy().reshape(-1, *self.encoder.grid),
                None if best.beta is None else best.beta.cpu().numpy(),
                seen=self.encoder.preprocessing.seen(*image.size),
            )
            pixels = torch.frombuffer(bytearray(strip.convert("RGB").tobytes()), dtype=torch.uint8)
            picture = pixels.view(strip.height, strip.width, 3)
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
    tokens: Literal["split", "ptb"] = "split",
    bound_samples: int = 0,
    seed: int = 0,
    show: bool = True,
) -> dict[str, Any]:
    """Caption a whole split, each photo once, and score it.

    Returns the metrics ×100, how they were made, and the captions themselves under ``results``. ``tokens`` names the
    convention: "split" for the data set's own tokens joined by spaces, "ptb" for PTB tokenisation of the raw
    captions. Places that are sampled are seeded by ``seed`` and the photo's name. ``bound_samples`` N adds the lower
    bound L_s by N sampled sequences of places (`sampled_bound`). Raises `SatError` for an unknown split.
    """
    check_scorers()
    examples = dataset.split(split)
    given: dict[str, Any] = {"beam": beam, "look": look, "length_normalisation": length_normalisation}
    decoding = dataclasses.replace(
        captioner.checkpoint.decoding, **{name: value for name, value in given.items() if value is not None}
    )
    annotations = cached(dataset, captioner.encoder, cache, splits=(split,), show=show)
    vocabulary, captions = captioner.checkpoint.vocabulary, []
    with tqdm(total=len(examples), desc="captions", unit="photo", disable=not show) as bar:
        for start in range(0, len(examples), 50):
            names = [example.name for example in examples[start : start + 50]]
            found = captioner.search(
                annotations[names].to(captioner.device),
                decoding,
                seeds=[photo_seed(seed, name.encode()) for name in names],
            )
            for name, hypotheses in zip(names, found, strict=True):
                words = " ".join(vocabulary.decode(hypotheses[0].words))
                captions.append({"photo": name, "caption": words, "log_probability": hypotheses[0].log_probability})
            bar.update(len(names))
    told = {str(caption["photo"]): str(caption["caption"]) for caption in captions}
    if tokens == "ptb":
        references = {example.name: list(example.raw) for example in examples}
    else:
        references = {example.name: [" ".join(words) for words in example.captions] for example in examples}
    scores = score(told, references, tokens=tokens)
    known = [words for example in dataset.examples if example.split == "train" for words in example.captions]
    if bound_samples:
        scores["bound"] = sampled_bound(captioner, examples, annotations, samples=bound_samples, seed=seed, show=show)
    return {
        **scores,
        "variety": describe(told, known or None),
        "model": captioner.name,
        "data": dataset.name,
        "split": split,
        "beam": decoding.beam,
        "look": decoding.look,
        "length_normalisation": decoding.length_normalisation,
        "seed": seed,
        "results": captions,
    }


@torch.inference_mode()
def sampled_bound(
    captioner: Captioner,
    examples: Sequence[Example],
    annotations: Annotations,
    *,
    samples: int,
    seed: int = 0,
    show: bool = True,
) -> dict[str, float]:
    """L_s = Σ_s p(s|a) log p(y|s,a) ≤ log p(y|a) (eq. 5), by that many sampled sequences of places for each photo's
    first caption.

    In nats: ``nats_per_caption`` and ``nats_per_word``, end tokens counted, are −L_s; ``entropy`` is the mean H[α_t]
    on the way. A soft model can be asked too: it is then made to look at one sampled place a word, which it was not
    trained for.
    """
    total, words, uncertainty = 0.0, 0, 0.0
    by_length: dict[int, list[tuple[str, list[int]]]] = {}
    for example in examples:
        ids = captioner.checkpoint.vocabulary.encode(example.captions[0])
        by_length.setdefault(len(ids), []).append((example.name, ids))
    with tqdm(total=len(examples), desc="L_s", unit="photo", disable=not show) as bar:
        for length, told in sorted(by_length.items()):
            for start in range(0, len(told), 16):
                names = [name for name, _ in told[start : start + 16]]
                captions = torch.tensor([ids for _, ids in told[start : start + 16]], device=captioner.device)
                seeds = [photo_seed(seed, name.encode()) for name in names]
                look = look_by_name("sampled", seeds=seeds, paths=samples, steps=length, device=captioner.device)
                run = tell(
                    captioner.decoder, annotations[names].to(captioner.device), captions, paths=samples, look=look
                )
                total -= float(word_log_probabilities(run.logits, captions).sum(-1).mean(-1).sum())
                words += length * len(names)
                if run.alpha is not None:
                    uncertainty += float(entropy(run.alpha).mean(1).sum())
                bar.update(len(names))
    return {
        "samples": samples,
        "nats_per_caption": total / len(examples),
        "nats_per_word": total / words,
        "entropy": uncertainty / words,
    }
