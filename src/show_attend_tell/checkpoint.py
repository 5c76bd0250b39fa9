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

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from show_attend_tell.attention import LOOKS, LookName
from show_attend_tell.decoder import Decoder
from show_attend_tell.encoder import Encoder, load_encoder
from show_attend_tell.errors import SatError
from show_attend_tell.kinds import build, read_config
from show_attend_tell.packing import pack_8bit, unpack_8bit
from show_attend_tell.photos import Preprocessing
from show_attend_tell.visual_ngrams import VisualNgrams
from show_attend_tell.vocabulary import Vocabulary
from show_attend_tell.writing import replace

FORMAT = 2  # 1, which is read too, had no visual n-grams
SHIPPED = Path(__file__).parent / "models"
NGRAMS = "ngrams.safetensors"
Bits = Literal[32, 16, 8]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How captions are made unless told otherwise: what the scores of a model's card were made with.

    Raises `SatError` for a beam or length below one, a look that does not exist and a γ or ω that is no number from 0.
    """

    beam: int = 5
    look: LookName = "expectation"
    length_normalisation: float = 0.0  # γ of log p / length^γ; 0 is none
    agreement: float = 0.0  # ω, the weight of a caption's agreement with the photo's visual n-grams; 0 is none
    max_length: int = 40  # words, end token included

    def __post_init__(self) -> None:
        if not all(isinstance(number, int) and number >= 1 for number in (self.beam, self.max_length)):
            raise SatError(
                f"beam is {self.beam} and the longest caption {self.max_length}: give whole numbers from 1 for both"
            )
        if self.look not in LOOKS:
            raise SatError(f"look {self.look!r} is not known: choose one of {', '.join(LOOKS)}")
        if not 0 <= self.length_normalisation < math.inf:
            raise SatError(f"length normalisation {self.length_normalisation}: give a number from 0, 0 for none")
        if not 0 <= self.agreement < math.inf:
            raise SatError(f"agreement {self.agreement}: give a number from 0, 0 for none")

    def but(self, **given: Any) -> "Decoding":
        """This decoding with what is given instead; None is nothing given."""
        return dataclasses.replace(self, **{name: value for name, value in given.items() if value is not None})

    def told(self) -> str:
        """The numbers in words."""
        agreement = f", agreement {self.agreement:g}" if self.agreement else ""
        return f"beam {self.beam}, length normalisation {self.length_normalisation:g}{agreement}"


@dataclass(frozen=True, kw_only=True)
class EncoderRecord:
    """Which encoder a model was trained on: another one's annotations mean nothing to it."""

    name: str
    digest: str  # SHA-256, see `Encoder.digest`
    preprocessing: Preprocessing
    grid: tuple[int, int]  # rows and columns of places

    @classmethod
    def of(cls, encoder: Encoder) -> "EncoderRecord":
        """The record of an encoder at hand."""
        return cls(name=encoder.name, digest=encoder.digest, preprocessing=encoder.preprocessing, grid=encoder.grid)

    def check(self, encoder: Encoder, model: str) -> None:
        """Raise `SatError` unless the encoder is the one recorded."""
        digest = encoder.digest
        if digest != self.digest:
            raise SatError(
                f"{model} was trained on an encoder {self.name} whose weights have SHA-256 {self.digest[:12]}…, "
                f"and these have {digest[:12]}…: its captions would be wrong. Give the right --encoder-weights"
            )


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
    ngrams: VisualNgrams | None = None  # which captions are ranked by too

    def save(self, folder: str | os.PathLike[str], *, bits: Bits = 32) -> None:
        """Write the folder, creating it if need be; ``bits`` a weight, 8 with one scale per row (see `packing`).

        Raises `SatError` for other bits, for weights that are not finite or too large for so many bits, and for a
        folder with files that are not a model's (`check_vacant`).
        """
        folder = named(folder)
        if bits not in get_args(Bits):
            raise SatError(f"{bits} bits a weight: choose 32, 16 or 8")
        check_vacant(folder)
        self.card(folder.name)  # an ensemble has none, and is not saved
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
        if self.ngrams is not None:
            packed = self.ngrams.packed
            replace(folder / NGRAMS, lambda file: save_file(packed, file))
        replace(folder / "model.safetensors", lambda file: save_file(weights, file, metadata={"format": "pt"}))
        self.vocabulary.save(folder / "vocabulary.json")
        self.describe(folder)
        if self.ngrams is None:  # of a model that was here before
            (folder / NGRAMS).unlink(missing_ok=True)

    def describe(self, folder: str | os.PathLike[str]) -> None:
        """Write what is not weights or words: the card and the configuration, with the scores."""
        folder = named(folder)
        config = {
            "format": FORMAT,
            "decoder": self.decoder.config.to_dict(),
            "encoder": {**asdict(self.encoder), "preprocessing": self.encoder.preprocessing.to_dict()},
            "decoding": asdict(self.decoding),
            "ngrams": None if self.ngrams is None else self.ngrams.digest,
            "training": self.training,
            "scores": self.scores,
        }
        replace(folder / "README.md", lambda file: file.write_text(self.card(folder.name), encoding="utf-8"))
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
            decoding, training, scores = Decoding(**config["decoding"]), config["training"], config["scores"]
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
        if decoding.agreement and ngrams is None:
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
            ngrams=ngrams,
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

    def card(self, name: str) -> str:
        """The model card, in Markdown."""
        config = self.decoder.config
        by = ", by the likeliest places" if config.attention == "hard" else ""
        known = {"validation_bleu_4": f"BLEU-4 on val with brevity penalty{by}"}
        entries = [(key, value) for key, value in self.training.items() if key != "settings"]
        lines = [
            f"# {name}",
            "",
            f"{config.title} Made with show-attend-tell.",
            "",
            f"- Encoder: {self.encoder.name}, frozen"
            + (" until fine-tuned" if self.tuned_encoder is not None else "")
            + f"; weights SHA-256 `{self.encoder.digest}`; photos are "
            + (
                "squashed to a square"
                if self.encoder.preprocessing.geometry == "squash"
                else "cropped to the centre square"
            )
            + f" of {self.encoder.preprocessing.size} pixels.",
            f"- Decoder: {config.sizes}, {config.vocabulary_size:,} words.",
            *([] if self.ngrams is None else [f"- Visual n-grams, which captions are ranked by too: {self.ngrams}."]),
            f"- Decoding defaults: {self.decoding.told()}; look by {self.decoding.look}.",
            "",
            "## Training",
            "",
            *(f"- {known.get(key, key.replace('_', ' '))}: {told(value)}" for key, value in entries),
            "",
            "## Scores",
            "",
            *(score_lines(self.scores) or ["Not evaluated yet."]),
            "",
            "## Use",
            "",
            "Captions may be wrong, and repeat the habits of the people who described the training photos, "
            "about people above all. "
            + ("" if config.attention == "none" else "Look at the attention before trusting a word. ")
            + "Do not use it to identify or judge people.",
        ]
        return "\n".join(lines) + "\n"


def told(value: Any) -> str:
    """A value as a card says it: the entries of a dictionary one after the other."""
    return ", ".join(f"{key}: {entry}" for key, entry in value.items()) if isinstance(value, dict) else str(value)


def score_lines(scores: dict[str, Any]) -> list[str]:
    """A Markdown table of scores by split, ×100."""
    names = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider"]
    rows = []
    for split, found in sorted(scores.items()):
        for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
            cells = [found.get(n + suffix if n.startswith("bleu") else n) for n in names]
            rows.append(f"| {split}, {kind} | " + " | ".join("–" if c is None else f"{c:.1f}" for c in cells) + " |")
    if not rows:
        return []
    numbers = ("beam", "length_normalisation", "agreement")
    made = {}
    for split, found in sorted(scores.items()):
        decoding = Decoding().but(**{name: found.get(name) for name in numbers})
        made[split] = f"{found['tokens']} tokens; {decoding.told()}; look by {found['look']}"
    alike = len(set(made.values())) == 1
    legend = next(iter(made.values())) if alike else ". ".join(f"{split}: {one}" for split, one in made.items())
    return [
        "| split | B-1 | B-2 | B-3 | B-4 | METEOR | ROUGE-L | CIDEr |",
        "| " + " | ".join(["---"] * 8) + " |",
        *rows,
        "",
        f"×100; {legend}.",
    ]


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
    for file in (folder / NGRAMS, *SHIPPED.glob(f"*/{NGRAMS}")):
        if file.exists():
            try:
                ngrams = VisualNgrams(read_weights(file))
            except SatError as error:
                raise SatError(f"{file} is damaged: {error}") from error
            if ngrams.digest == digest:
                return ngrams
    raise SatError(f"{folder / NGRAMS} is missing or not the model's own: copy the model again")


def named(folder: str | os.PathLike[str]) -> Path:
    """A folder's path that ends in its name, which a model is called by: that of "." does not."""
    return Path(os.path.abspath(folder))


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


def find_model(name: str) -> Path:
    """The folder of a model: a path, a shipped name, or (with ``huggingface_hub``) a hub id "owner/name".

    Raises `SatError` naming the shipped models when there is none.
    """
    if Path(name).is_dir():
        return named(name)
    if name in shipped_models():
        return SHIPPED / name
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        try:
            from huggingface_hub import snapshot_download
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
        except ImportError as error:
            raise SatError(
                f"{name!r} is no folder here; to fetch it from the hub: pip install 'show-attend-tell[hub]'"
            ) from error
        try:
            return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "README.md"]))
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
            raise SatError(
                f"{name!r} is no folder here and could not be fetched from the Hugging Face hub: {error}"
            ) from error
    raise SatError(f"there is no model {name!r}: give a folder, or one of {', '.join(shipped_models())}")


def shipped_models() -> list[str]:
    """The names of the models that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))
