"""A model on disk: one folder with its configuration, weights, vocabulary and card.

    config.json        decoder (its kind and sizes), encoder (its name, the SHA-256 of its weights, its preprocessing),
    decoding defaults, training, scores
    model.safetensors  the decoder's weights, in 32, 16 or 8 bits each
    vocabulary.json    the words in the order of their ids
    README.md          the card: what it is, what it was trained on, what it scores
    encoder.safetensors  only when the encoder was fine-tuned: its weights
    ngrams.safetensors  only when captions are ranked by them too: the visual n-grams, in 4 and 8 bits a weight; those
    that the shipped models share are beside them, in a folder of their own

Nothing here is ever unpickled. `save` writes each file under a temporary name and then renames it, so that a reader
finds an old file or a new one, never half a one.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from show_attend_tell.checkpoint import find
from show_attend_tell.checkpoint.card import card
from show_attend_tell.checkpoint.find import named
from show_attend_tell.checkpoint.records import Decoding, EncoderRecord
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.files import replace
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import build, read_config
from show_attend_tell.packing import pack_8bit, unpack_8bit
from show_attend_tell.rerank.visual_ngrams import VisualNgrams
from show_attend_tell.vision.encoder import Encoder, load_encoder

FORMAT = 2  # 1, which is read too, had no visual n-grams
NGRAMS = "ngrams.safetensors"
Bits = Literal[32, 16, 8]


@dataclass(kw_only=True)
class Checkpoint:
    """A trained decoder with everything that it takes to use it."""

    decoder: Decoder
    vocabulary: Vocabulary
    encoder: EncoderRecord
    decoding: Decoding = field(default_factory=Decoding)
    training: dict[str, Any] = field(default_factory=dict)  # data, settings, seed, epochs: for the card
    scores: dict[str, Any] = field(default_factory=dict)  # by split: for the card
    tuned_encoder: dict[str, Tensor] | None = None  # the weights of an encoder that was fine-tuned along
    reranker: VisualNgrams | None = None  # which captions are ranked by too

    def save(self, folder: str | os.PathLike[str], *, bits: Bits = 32) -> None:
        """Write the folder, creating it if need be; ``bits`` a weight, 8 with one scale per row (see `packing`).

        Raises `SatError` for other bits, for weights that are not finite or too large for so many bits, and for a
        folder with files that are not a model's (`check_vacant`).
        """
        folder = named(folder)
        if bits not in get_args(Bits):
            raise SatError(f"{bits} bits a weight: choose 32, 16 or 8")
        check_vacant(folder)
        card(self, folder.name)  # an ensemble has none, and is not saved
        weights = {name: value.detach().cpu().contiguous() for name, value in self.decoder.state_dict().items()}
        if bits == 8:
            weights = pack_8bit(weights)
        elif bits == 16:
            weights = {name: value.half() if value.dim() > 1 else value for name, value in weights.items()}
        if name := not_finite(weights):
            raise SatError(
                f"{folder} is not written, for {name} holds values that are no numbers, or too large for the bits of a "
                "weight: train at a lower learning rate"
            )
        folder.mkdir(parents=True, exist_ok=True)
        if self.tuned_encoder is not None:
            tuned = {name: value.detach().cpu().contiguous() for name, value in self.tuned_encoder.items()}
            replace(folder / "encoder.safetensors", lambda file: save_file(tuned, file))
        else:  # of a model that was here before
            (folder / "encoder.safetensors").unlink(missing_ok=True)
        if self.reranker is not None:
            packed = self.reranker.packed
            replace(folder / NGRAMS, lambda file: save_file(packed, file))
        replace(folder / "model.safetensors", lambda file: save_file(weights, file, metadata={"format": "pt"}))
        self.vocabulary.save(folder / "vocabulary.json")
        self.describe(folder)
        if self.reranker is None:  # of a model that was here before
            (folder / NGRAMS).unlink(missing_ok=True)

    def describe(self, folder: str | os.PathLike[str]) -> None:
        """Write what is not weights or words: the card and the configuration, with the scores."""
        folder = named(folder)
        config = {
            "format": FORMAT,
            "decoder": self.decoder.config.to_dict(),
            "encoder": {**asdict(self.encoder), "preprocessing": self.encoder.preprocessing.to_dict()},
            "decoding": asdict(self.decoding),
            "ngrams": None if self.reranker is None else self.reranker.digest,
            "training": self.training,
            "scores": self.scores,
        }
        replace(folder / "README.md", lambda file: file.write_text(card(self, folder.name), encoding="utf-8"))
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        replace(folder / "config.json", lambda file: file.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Checkpoint":
        """Read a folder that `save` wrote; raises `SatError` naming the file that is missing, damaged or of a newer
        format."""
        folder = Path(folder)
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if config["format"] not in (1, FORMAT):
                raise SatError(f"has format {config['format']}, this version reads {FORMAT}: update show-attend-tell")
            decoder = build(read_config(config["decoder"]))
            encoder = config["encoder"]
            record = EncoderRecord(
                name=encoder["name"],
                digest=encoder["digest"],
                preprocessing=Preprocessing.from_dict(encoder["preprocessing"]),
                grid=tuple(encoder["grid"]),
            )
            decoding, training, scores = Decoding(**renamed(config["decoding"])), config["training"], config["scores"]
        except FileNotFoundError as error:
            raise SatError(f"{folder} is not a model: it has no config.json") from error
        except (ValueError, KeyError, TypeError, RecursionError, RuntimeError) as error:  # the last of absurd sizes
            raise SatError(f"{folder / 'config.json'} is damaged or from another program ({error!r})") from error
        except SatError as error:
            raise SatError(f"{folder / 'config.json'}: {error}") from error
        vocabulary = Vocabulary.load(folder / "vocabulary.json")
        if len(vocabulary) != decoder.vocabulary_size:
            raise SatError(
                f"{folder / 'vocabulary.json'} has {len(vocabulary)} words and the decoder "
                f"{decoder.vocabulary_size}: they are of different models"
            )
        weights = unpack_8bit(read_weights(folder / "model.safetensors"))
        try:
            decoder.load_state_dict(weights)
        except RuntimeError as error:
            raise SatError(f"{folder / 'model.safetensors'} does not fit its config.json: {error}") from error
        if name := not_finite(weights):
            raise SatError(f"{folder / 'model.safetensors'} is damaged: {name} holds values that are no numbers")
        ngrams = read_ngrams(folder, config.get("ngrams"))
        if decoding.reranker_weight and ngrams is None:
            raise SatError(f"{folder / 'config.json'} ranks captions by visual n-grams, and the model has none")
        tuned = folder / "encoder.safetensors"
        return cls(
            decoder=decoder.eval(),
            vocabulary=vocabulary,
            encoder=record,
            decoding=decoding,
            training=training,
            scores=scores,
            tuned_encoder=read_weights(tuned) if tuned.exists() else None,
            reranker=ngrams,
        )

    def load_encoder(self, model: str, weights: str | Path | None = None) -> Encoder:
        """The encoder that this model was trained on, checked by its digest; ``weights`` as in
        `encoder.load_encoder`."""
        encoder = load_encoder(self.encoder.name, weights=weights, geometry=self.encoder.preprocessing.geometry)
        if self.tuned_encoder is not None:
            try:
                encoder.body.load_state_dict(self.tuned_encoder)
            except RuntimeError as error:
                raise SatError(f"{model}: its encoder.safetensors does not fit {self.encoder.name}: {error}") from error
        encoder.preprocessing = self.encoder.preprocessing
        return encoder


def renamed(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a decoding under today's names: formats 1 and 2 called the reranker's weight "agreement"."""
    return {{"agreement": "reranker_weight"}.get(name, name): value for name, value in decoding.items()}


def read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; raises `SatError` when it is missing or damaged."""
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise SatError(f"{file} is missing or damaged ({error}): copy the model again") from error


def read_ngrams(folder: Path, digest: str | None) -> VisualNgrams | None:
    """The visual n-grams of that digest, from a model's folder or from those shipped, or None for none.

    Raises `SatError` when there are none, or others.
    """
    if digest is None:
        return None
    for file in (folder / NGRAMS, *find.SHIPPED.glob(f"*/{NGRAMS}")):
        if file.exists():
            try:
                ngrams = VisualNgrams(read_weights(file))
            except SatError as error:
                raise SatError(f"{file} is damaged: {error}") from error
            if ngrams.digest == digest:
                return ngrams
    raise SatError(f"{folder / NGRAMS} is missing or not the model's own: copy the model again")


def check_vacant(folder: Path) -> None:
    """Raise `SatError` for a folder with a file of the name of one of a model's, and neither a model nor a training."""
    if (folder / "config.json").exists() or (folder / "training" / "state.safetensors").exists():
        return
    for name in ("README.md", "vocabulary.json", "model.safetensors", "encoder.safetensors", NGRAMS):
        if (folder / name).exists():
            raise SatError(f"{folder} is no model, and its {name} would be overwritten: name another folder")


def not_finite(weights: Mapping[str, Tensor]) -> str | None:
    """The name of the first weights that are not all numbers, if there are any."""
    return next((name for name, value in weights.items() if not value.isfinite().all()), None)


def join(names: Sequence[str], checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The ensemble of models, with the decoding defaults of the first and the visual n-grams of the first that has any.

    Raises `SatError` naming the first model whose encoder, preprocessing or vocabulary is not the first's.
    """
    first = checkpoints[0]
    for name, other in zip(names[1:], checkpoints[1:], strict=True):
        for what, same in (
            ("encoder", other.encoder == first.encoder and other.tuned_encoder is None and first.tuned_encoder is None),
            ("vocabulary", other.vocabulary == first.vocabulary),
        ):
            if not same:
                raise SatError(
                    f"{names[0]} and {name} cannot be an ensemble, for they have not the same {what}: train both on "
                    "the same captions and frozen encoder"
                )
    return Checkpoint(
        decoder=Ensemble([checkpoint.decoder for checkpoint in checkpoints]).eval(),
        vocabulary=first.vocabulary,
        encoder=first.encoder,
        decoding=first.decoding,
        reranker=next((checkpoint.reranker for checkpoint in checkpoints if checkpoint.reranker is not None), None),
    )
