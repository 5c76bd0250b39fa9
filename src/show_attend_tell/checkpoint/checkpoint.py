"""A model on disk: one folder with its configuration, weights, vocabulary and card. Plain data, without PyTorch.

| file | what it holds |
| --- | --- |
| config.json | decoder (kind and sizes), encoder (name, SHA-256, preprocessing), generation, training, scores |
| model.safetensors | the decoder's weights, in 32, 16, 8 or 4 bits each |
| vocabulary.json | the words in the order of their ids |
| README.md | the card, below what the hub reads of it: what the model is, what it was trained on, what it scores |
| encoder.safetensors | weights of the encoder that were fine-tuned: blocks of it in 8 bits, or all of it |
| ngrams.safetensors | the reranker's visual n-grams, in 4 and 8 bits a weight; another reranker has another name |
| confidence.safetensors | how far each noun can be trusted; only with photos enough, and English captions |
| class_words.safetensors | how far the words of classes are raised; only where the encoder has a classifier |

Models may share their visual n-grams and their encoder's tuned weights: config.json names these by their SHA-256, and
they may lie in a folder of their own beside the models, NAME-ngrams or NAME-encoder.

Nothing here is ever unpickled. `save` writes all files under temporary names before it renames the first, and renames
config.json last. So a reader never finds half a file, and a save that is killed while it writes leaves the old model.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from safetensors.numpy import save_file

from show_attend_tell.checkpoint import card
from show_attend_tell.checkpoint.arrays import (
    CLASS_WORDS,
    CONFIDENCE,
    NGRAMS,
    TUNED,
    not_finite,
    read_arrays,
    reranker_file,
    shared_arrays,
)
from show_attend_tell.checkpoint.hub import absolute, model_name
from show_attend_tell.checkpoint.packing import SCALE, Arrays, arrays_digest, pack, unpack, weights_digest
from show_attend_tell.checkpoint.records import Description, EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError, UnknownName
from show_attend_tell.files import atomic_write_all, make_folder
from show_attend_tell.messages import shorten
from show_attend_tell.model.config import misfit
from show_attend_tell.model.registry import read_config
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.values import Array

FORMAT = 4
Bits = Literal[32, 16, 8, 4]
FORM = {"format": "pt"}  # which other readers of safetensors look for


class StoredReranker(NamedTuple):
    """A reranker as plain data, which `rerank.registry` makes run."""

    kind: str  # "ngrams" for visual n-grams
    arrays: dict[str, Array]  # of visual n-grams, packed, see `rerank.ngrams.VisualNgrams`


@dataclass(kw_only=True)
class Checkpoint(Description):
    """A trained decoder with everything that is needed to use it, as plain data."""

    weights: dict[str, Array]  # the decoder's, by name; float32
    vocabulary: Vocabulary
    tuned_encoder: dict[str, Array] | None = None  # weights of the encoder that were tuned with the decoder
    reranker: StoredReranker | None = None
    confidence: dict[str, Array] | None = None  # how far nouns can be trusted, see `rerank.confidence.fit`
    class_words: dict[str, Array] | None = None  # of the encoder's classes, see `rerank.class_words.fit`

    def save(self, folder: str | os.PathLike[str], *, bits: Bits = 32) -> None:
        """Write the folder; make it if it is not there. 8 and 4 ``bits`` a weight have scales, see `packing`.

        Raises `SatError` for weights that are not finite or too large for so many bits, and for a folder that cannot be
        made or has other files (`check_vacant`).
        """
        folder = absolute(folder)
        if bits not in get_args(Bits):
            raise SatError(f"{bits} bits a weight: choose 32, 16, 8 or 4")
        check_vacant(folder)
        weights = self.weights
        if bits == 8 or bits == 4:
            weights = pack(weights, bits)
        elif bits == 16:
            with np.errstate(over="ignore"):  # what is too large becomes infinite
                weights = {
                    name: value.astype("float16") if value.ndim > 1 else value for name, value in weights.items()
                }
        infinite = not_finite(weights)
        if infinite:
            raise SatError(
                f"{folder} was not written: {infinite} holds values that are not numbers, or too large for {bits} "
                "bits: train at a lower learning rate, or give more bits"
            )
        make_folder(folder, "name another folder")
        arrays: dict[str, dict[str, Array] | None] = {
            TUNED: None if self.tuned_encoder is None else smallest(self.tuned_encoder),
            NGRAMS: None,
            CONFIDENCE: self.confidence,
            CLASS_WORDS: self.class_words,
            "model.safetensors": weights,
        }
        if self.reranker is not None:
            arrays[reranker_file(self.reranker.kind)] = self.reranker.arrays
        files: dict[Path, Callable[[Path], object]] = {}
        for name, values in arrays.items():
            if values is not None:
                contiguous = {key: np.require(value, requirements="C") for key, value in values.items()}
                files[folder / name] = partial(save_file, contiguous, metadata=FORM)
        atomic_write_all({**files, folder / "vocabulary.json": self.vocabulary.save, **self._described(folder)})
        for name, values in arrays.items():
            if values is None:  # of a model that was here before
                (folder / name).unlink(missing_ok=True)

    def describe(self, folder: str | os.PathLike[str]) -> None:
        """Write the card and the configuration, with the scores, and leave weights and words as they are."""
        atomic_write_all(self._described(absolute(folder)))

    def _described(self, folder: Path) -> dict[Path, Callable[[Path], object]]:
        """What writes the card and the configuration; last the configuration, which names the other files' digests."""
        kind, arrays = self.reranker or ("ngrams", None)
        digest = None if arrays is None else arrays_digest(arrays)
        digests = {"ngrams": digest} if kind == "ngrams" else {"ngrams": None, "reranker": {kind: digest}}
        configuration = {
            "format": FORMAT,
            "decoder": self.config.to_dict(),
            "encoder": asdict(self.encoder),
            "generation": self.generation.to_dict(),
            **digests,
            "tuned": None if self.tuned_encoder is None else weights_digest(self.tuned_encoder),
            "training": self.training,
            "scores": self.scores,
        }
        text = json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"
        texts = {"README.md": card.head(self, folder) + self.card(model_name(folder)), "config.json": text}
        contents = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}  # any folder's name
        return {folder / name: partial(Path.write_bytes, data=content) for name, content in contents.items()}

    def card(self, name: str) -> str:
        """The model's card, in Markdown, under a name."""
        return card.card(self, name)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Checkpoint":
        """Read a model's folder; raises `SatError`, naming the file, for one missing, damaged or of another version."""
        folder = Path(folder)
        described, rerankers, tuned_digest = read_configuration(folder / "config.json")
        file = folder / "model.safetensors"
        shapes = described.config.weight_shapes()
        weights = read_arrays(file, unpacked=True)
        difference = None if shapes is None else misfit(weights, shapes)
        if difference:
            raise SatError(f"{file} does not fit its config.json: {difference}")
        if described.generation.class_weight and not (folder / CLASS_WORDS).exists():
            raise SatError(
                f"{folder / CLASS_WORDS} is missing, and config.json gives it a weight: copy the model again"
            )
        file = folder / "vocabulary.json"
        size = described.config.vocabulary_size
        vocabulary = Vocabulary.load(file)
        if len(vocabulary) != size:
            raise SatError(f"{file} has {len(vocabulary)} words and the decoder {size}: they are of different models")
        reranker = None
        for kind, digest in rerankers.items():  # one at most
            reranker = StoredReranker(kind, shared_arrays(folder, reranker_file(kind), digest))
        return cls(
            **vars(described),
            weights=weights,
            vocabulary=vocabulary,
            tuned_encoder=shared_arrays(folder, TUNED, tuned_digest, unpacked=True) if tuned_digest else None,
            reranker=reranker,
            confidence=read_arrays(folder / CONFIDENCE) if (folder / CONFIDENCE).exists() else None,
            class_words=read_arrays(folder / CLASS_WORDS) if (folder / CLASS_WORDS).exists() else None,
        )


def read_configuration(file: Path) -> tuple[Description, dict[str, str], str | None]:
    """The configuration in a file, and the SHA-256 of the model's reranker, by its kind, and of its tuned encoder."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        number = entries["format"]
        if number != FORMAT:
            remedy = "update show-attend-tell" if isinstance(number, int) and number > FORMAT else "train it again"
            raise SatError(f"the model has format {number!r}, and this version reads format {FORMAT}: {remedy}")
        described = Description(
            config=read_config(entries["decoder"]),
            encoder=EncoderRecord.from_dict(entries["encoder"]),
            generation=GenerationConfig().merge(**entries["generation"]),
            training=dict(entries["training"]),
            scores=dict(entries["scores"]),
        )
        card.score_lines(described.scores)  # what no card can be made of is damaged
        ngrams = entries["ngrams"]
        other = entries.get("reranker") or {}
        return described, dict(other) if ngrams is None else {"ngrams": ngrams}, entries["tuned"]
    except FileNotFoundError as error:
        raise SatError(f"{file.parent} is not a model: it has no {file.name}") from error
    except UnknownName as error:
        raise SatError(f"{file}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        why = shorten(error, 300)
        raise SatError(f"{file} is damaged or from another program ({why}): copy the model again") from error
    except SatError as error:
        raise SatError(f"{file}: {error}") from error


def smallest(weights: Arrays) -> dict[str, Array]:
    """Weights as they are stored: each in 8 bits if it was rounded to them, which loses nothing, else in 32."""
    infinite = not_finite(weights)
    if infinite:
        raise SatError(f"the encoder's {infinite} holds values that are not numbers: train at a lower learning rate")
    packed = pack(weights)
    again = unpack(packed)
    stored: dict[str, Array] = {}
    for name, value in weights.items():
        if np.array_equal(again[name], value):
            stored |= {part: packed[part] for part in (name, name + SCALE) if part in packed}
        else:
            stored[name] = value
    return stored


def check_vacant(folder: Path) -> None:
    """Raise `SatError` when saving would overwrite a file of a folder that holds neither a model nor a training."""
    if (folder / "config.json").exists() or (folder / "training" / "state.safetensors").exists():
        return
    for name in ("README.md", "vocabulary.json", "model.safetensors", TUNED, NGRAMS, CONFIDENCE, CLASS_WORDS):
        if (folder / name).exists():
            raise SatError(f"{folder} is not a model, and its {name} would be overwritten: name another folder")
