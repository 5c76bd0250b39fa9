"""What a training starts from: the encoder, and the model whose weights and words it takes over, if there is one."""

from dataclasses import replace
from typing import Any

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import find_model
from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.data.photos import Resize
from show_attend_tell.model.config import Config
from show_attend_tell.training.cautious import SMALL
from show_attend_tell.training.config import Start, TrainingConfig
from show_attend_tell.training.presets import custom
from show_attend_tell.vision import encoder as encoders

PAPERS_ENCODER = "vgg19"
EVERYDAY_ENCODER = "efficientnet-lite2-1280"  # of the everyday models; CIDEr 60.3, and 52.5 with VGG-19
# Settings of a decoder that say how it learns, not which weights it has: those of the start may differ.
MAY_DIFFER = {"attention", "annotation_window", "dropout", "annotation_dropout", "embedding_dropout"}


def choose_start(
    dataset: Dataset, config: TrainingConfig, *, init_from: str | None, fit_to_data: bool, **encoder: Any
) -> Start:
    """What a training starts from: ``init_from``, a model's name or "none", with an ``encoder`` as in `load_start`.

    If it is None, and the settings are fitted to the data, then soft attention starts from the default model where the
    data are few photos with English captions. Custom data without a model to start from get the encoder of the everyday
    models, unless an encoder or its weights are given.
    """
    if init_from not in (None, "none"):
        return load_start(init_from, **encoder)
    lines: tuple[str, ...] = ()
    if init_from is None and fit_to_data and config.decoder.attention == "soft":
        model = custom.START
        reason = custom.why_afresh(dataset)
        if not reason:
            start = load_start(model, **encoder)
            problem = mismatch(start, config.decoder)
            if not problem:
                why = (
                    f"fewer than {SMALL:,} training photos, with English captions: the training starts from {model} "
                    f"and sees photos as it does (--resize {start.encoder.preprocessing.resize}). --init-from none "
                    "starts afresh"
                )
                return replace(start, lines=(why,))
            reason = f"{model} {problem}"
        lines = (f"the training starts afresh, not from {model}: {reason}",)
    if dataset.custom and not encoder.get("encoder") and not encoder.get("encoder_weights"):
        encoder["encoder"] = EVERYDAY_ENCODER
        lines += (f"photos are encoded by {EVERYDAY_ENCODER}, which is better than {PAPERS_ENCODER} (--encoder NAME)",)
    return replace(load_start(None, **encoder), lines=lines)


def load_start(
    init_from: str | None,
    *,
    encoder: str | None = None,
    encoder_weights: str | None = None,
    resize: Resize | None = None,
) -> Start:
    """The model of that name, if there is one, and the encoder, with the weights that this model was trained with.

    Settings of the encoder that are None come from the model to start from, or else are the defaults.
    """
    model = None if init_from is None else Checkpoint.load(find_model(init_from))
    tuned = None if model is None else model.tuned_encoder
    resize = resize or ("crop" if model is None else model.encoder.preprocessing.resize)
    name = encoder or (PAPERS_ENCODER if model is None else model.encoder.name)
    network = encoders.load_encoder(name, weights=encoder_weights, resize=resize)
    if model is not None and tuned is not None and model.encoder.name == network.name:
        network.adopt(as_tensors(tuned))
    return Start(network, model, init_from)


def mismatch(start: Start, decoder: Config) -> str:
    """Why a training of this decoder cannot start from the model, and what to do; "" if it can."""
    assert start.checkpoint is not None
    record = start.checkpoint.encoder
    encoder = start.encoder
    model = start.checkpoint.config
    if record.digest is None:
        return "was imported without its encoder: import it again with --encoder-weights FILE"
    if record.digest != encoder.digest:
        return record.difference(encoder)
    before = record.preprocessing
    now = encoder.preprocessing
    if before != now:
        return (
            f"saw photos by {before.resize} to {before.size} pixels, and this training by {now.resize} to {now.size}: "
            f"give --resize {before.resize}"
        )
    theirs = model.to_dict()
    ours = decoder.to_dict()
    if theirs["kind"] != ours["kind"]:
        return f"is of the kind {theirs['kind']}, and this training of {ours['kind']}: they share no weights"
    free = MAY_DIFFER | {"vocabulary_size", "annotation_size"} | ({"gate"} if loses_gate(model, decoder) else set())
    different = [name for name in theirs if name not in free and theirs[name] != ours[name]]
    if different:
        settings = " ".join(f"--set decoder.{name}={theirs[name]}" for name in different)
        return f"has another decoder: give {settings}"
    return ""


def loses_gate(start: Config, decoder: Config) -> bool:
    """Whether the model to start from has the gate β and the training has not."""
    return getattr(start, "gate", False) and not getattr(decoder, "gate", False)
