"""A model on disk: one folder with its configuration, weights, vocabulary and card.

| file | what it holds |
| --- | --- |
| config.json | decoder (kind and sizes), encoder (name, SHA-256, preprocessing), decoding, training, scores |
| model.safetensors | the decoder's weights, in 32, 16, 8 or 4 bits each |
| vocabulary.json | the words in the order of their ids |
| README.md | the card: what the model is, what it was trained on, what it scores |
| encoder.safetensors | weights of the encoder that were fine-tuned: blocks of it in 8 bits, or all of it |
| ngrams.safetensors | the reranker's visual n-grams, in 4 and 8 bits a weight; only when there is a reranker |
| doubt.safetensors | the scale of doubt; only when val had photos enough to make one |

Models may share their visual n-grams and their encoder's tuned weights: config.json names these by their SHA-256, and
they may lie in a folder of their own beside the models, NAME-ngrams or NAME-encoder. The shipped models share their
visual n-grams so.

Nothing here is ever unpickled. `save` writes all files under temporary names before it renames the first, and renames
config.json last. So a reader never finds half a file, and a save that is killed while it writes leaves the old model.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor

from show_attend_tell.checkpoint import card
from show_attend_tell.checkpoint.arrays import (
    DOUBT,
    NGRAMS,
    TUNED,
    not_finite,
    read_doubt,
    read_ngrams,
    read_tuned,
    read_weights,
)
from show_attend_tell.checkpoint.config import Configuration
from show_attend_tell.checkpoint.hub import model_name, named
from show_attend_tell.checkpoint.packing import SCALE, as_tensors, pack, unpack
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write_all, make_folder
from show_attend_tell.model.config import misfit
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import build
from show_attend_tell.rerank.doubt import Doubt
from show_attend_tell.rerank.visual_ngrams import VisualNgrams
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.vision.encoder import Encoder, load_encoder, weights_digest

Bits = Literal[32, 16, 8, 4]


@dataclass(kw_only=True)
class Checkpoint:
    """A trained decoder with everything that is needed to use it."""

    decoder: Decoder
    vocabulary: Vocabulary
    encoder: EncoderRecord
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    training: dict[str, Any] = field(default_factory=dict)  # data, settings, seed, epochs: for the card
    scores: dict[str, Any] = field(default_factory=dict)  # by split, or "test, attention alone": for the card
    tuned_encoder: dict[str, Tensor] | None = None  # those weights of the encoder that were tuned with the decoder
    reranker: VisualNgrams | None = None  # which captions are ranked by too
    doubt: Doubt | None = None  # how much captions should be doubted

    def save(self, folder: str | os.PathLike[str], *, bits: Bits = 32) -> None:
        """Write the folder; make it if it is not there.

        ``bits`` is the size of a weight; 8 and 4 bits have a scale for each row (see `packing`). Raises `SatError` for
        other bits, for an ensemble, for weights that are not finite or too large for so many bits, for a folder
        with files that are not a model's (`check_vacant`), and for one that cannot be made.
        """
        folder = named(folder)
        if bits not in get_args(Bits):
            raise SatError(f"{bits} bits a weight: choose 32, 16, 8 or 4")
        self.configuration()  # which an ensemble refuses
        check_vacant(folder)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.decoder.state_dict().items()}
        if bits == 8 or bits == 4:
            weights = pack(weights, bits)
        elif bits == 16:
            weights = {name: value.half() if value.dim() > 1 else value for name, value in weights.items()}
        if name := not_finite(weights):
            raise SatError(
                f"{folder} was not written: {name} holds values that are not numbers, or that are too large for {bits} "
                "bits a weight. Train at a lower learning rate"
            )
        make_folder(folder, "name another folder")
        tensors: dict[str, dict[str, Tensor] | None] = {
            TUNED: None if self.tuned_encoder is None else smallest(self.tuned_encoder),
            NGRAMS: None if self.reranker is None else self.reranker.packed,
            DOUBT: None if self.doubt is None else self.doubt.tensors,
            "model.safetensors": weights,
        }
        files: dict[Path, Callable[[Path], object]] = {
            folder / name: partial(save_file, values, metadata={"format": "pt"})
            for name, values in tensors.items()
            if values is not None
        }
        atomic_write_all({**files, folder / "vocabulary.json": self.vocabulary.save, **self._described(folder)})
        for name, values in tensors.items():
            if values is None:  # of a model that was here before
                (folder / name).unlink(missing_ok=True)

    def describe(self, folder: str | os.PathLike[str]) -> None:
        """Write the card and the configuration, with the scores, and leave weights and words as they are."""
        atomic_write_all(self._described(named(folder)))

    def _described(self, folder: Path) -> dict[Path, Callable[[Path], object]]:
        """What writes the card and the configuration; last the configuration, which names the other files' digests."""
        texts = {"README.md": self.card(model_name(folder)), "config.json": self.configuration().to_json()}
        return {folder / name: partial(Path.write_text, data=text, encoding="utf-8") for name, text in texts.items()}

    def card(self, name: str) -> str:
        """The model's card, in Markdown, under a name; raises `SatError` for an ensemble."""
        reranker = None if self.reranker is None else str(self.reranker)
        return card.card(self.configuration(), name, tuned=self.tuned_encoder is not None, reranker=reranker)

    def configuration(self) -> Configuration:
        """What config.json says of this model; raises `SatError` for an ensemble."""
        return Configuration(
            decoder=self.decoder.config,
            encoder=self.encoder,
            generation=self.generation,
            ngrams=None if self.reranker is None else self.reranker.digest,
            tuned=None if self.tuned_encoder is None else weights_digest(self.tuned_encoder),
            training=self.training,
            scores=self.scores,
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Checkpoint":
        """Read a folder that this version or an older one wrote.

        Raises `SatError` that names the file when one is missing, is damaged, or was written by a newer version.
        """
        folder = Path(folder)
        config = Configuration.read(folder / "config.json")
        try:
            with torch.device("meta"):  # sizes alone: an absurd configuration takes no memory
                shell = build(config.decoder)
        except (TypeError, RuntimeError) as error:  # sizes that are not whole numbers, or are absurd
            raise SatError(f"{folder / 'config.json'} is damaged: its decoder cannot be made ({error})") from error
        vocabulary = config.read_vocabulary(folder)
        weights = unpack(read_weights(folder / "model.safetensors"))
        if difference := misfit(weights, {name: tuple(each.shape) for name, each in shell.state_dict().items()}):
            raise SatError(f"{folder / 'model.safetensors'} does not fit its config.json: {difference}")
        decoder = build(config.decoder)
        decoder.load_state_dict(weights)
        if name := not_finite(weights):
            raise SatError(f"{folder / 'model.safetensors'} is damaged: {name} holds values that are not numbers")
        ngrams = read_ngrams(folder, config.ngrams, lambda file: VisualNgrams(read_weights(file)))
        config.check_reranker(folder, there=ngrams is not None or decoder.own_reranker() is not None)
        tuned = read_tuned(folder, config.tuned)
        return cls(
            decoder=decoder.eval(),
            vocabulary=vocabulary,
            encoder=config.encoder,
            generation=config.generation,
            training=config.training,
            scores=config.scores,
            tuned_encoder=None if tuned is None else as_tensors(tuned),
            reranker=ngrams,
            doubt=read_doubt(folder, decoder.config.annotation_size, lambda file: Doubt(read_weights(file))),
        )

    def load_encoder(self, model: str, weights: str | Path | None = None) -> Encoder:
        """The encoder that this model was trained on, as `EncoderRecord.load` documents it."""
        return self.encoder.load(load_encoder, model, weights=weights, tuned=self.tuned_encoder)


def smallest(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights as they are stored: each in 8, 16 or 32 bits, the fewest to which it was rounded, which lose nothing."""
    whole = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    if name := not_finite(whole):
        raise SatError(f"the encoder's {name} holds values that are not numbers: train at a lower learning rate")
    packed = pack(whole)
    again = unpack(packed)
    stored: dict[str, Tensor] = {}
    for name, value in whole.items():
        if torch.equal(again[name], value):
            stored |= {part: packed[part] for part in (name, name + SCALE) if part in packed}
        else:
            half = value.half()
            stored[name] = half if torch.equal(half.float(), value) else value
    return stored


def check_vacant(folder: Path) -> None:
    """Raise `SatError` when saving would overwrite a file of a folder that holds neither a model nor a training."""
    if (folder / "config.json").exists() or (folder / "training" / "state.safetensors").exists():
        return
    for name in ("README.md", "vocabulary.json", "model.safetensors", TUNED, NGRAMS, DOUBT):
        if (folder / name).exists():
            raise SatError(f"{folder} is not a model, and its {name} would be overwritten: name another folder")


def join(names: Sequence[str], checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The ensemble of models. It decodes as the first does, with the first reranker that a member has.

    Raises `SatError` naming the first model whose encoder, preprocessing or vocabulary differs from the first model's.
    """
    first = checkpoints[0]
    for name, other in zip(names[1:], checkpoints[1:], strict=True):
        for what, same in (
            ("encoder", other.encoder == first.encoder and other.tuned_encoder is None and first.tuned_encoder is None),
            ("vocabulary", other.vocabulary == first.vocabulary),
        ):
            if not same:
                raise SatError(
                    f"{names[0]} and {name} cannot be an ensemble, because they do not have the same {what}: train "
                    "both on the same captions and with the same frozen encoder"
                )
    return Checkpoint(
        decoder=Ensemble([checkpoint.decoder for checkpoint in checkpoints]).eval(),
        vocabulary=first.vocabulary,
        encoder=first.encoder,
        generation=first.generation,
        reranker=next((checkpoint.reranker for checkpoint in checkpoints if checkpoint.reranker is not None), None),
    )
