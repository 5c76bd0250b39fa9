"""A model's config.json. Its format is 4, the only one that this version reads and writes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from show_attend_tell.checkpoint.card import score_lines, training_lines
from show_attend_tell.checkpoint.packing import check_readable
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.model.config import Config
from show_attend_tell.model.registry import read_config
from show_attend_tell.search.config import GenerationConfig

FORMAT = 4


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What config.json says of a model."""

    decoder: Config
    encoder: EncoderRecord
    generation: GenerationConfig
    ngrams: str | None  # SHA-256 of the visual n-grams of the reranker, see `VisualNgrams.digest`
    tuned: str | None  # SHA-256 of the encoder's tuned weights, see `weights_digest`
    training: dict[str, Any]
    scores: dict[str, Any]

    def to_json(self) -> str:
        """The text of the file."""
        entries = {
            "format": FORMAT,
            "decoder": self.decoder.to_dict(),
            "encoder": self.encoder.to_dict(),
            "generation": self.generation.to_dict(),
            "ngrams": self.ngrams,
            "tuned": self.tuned,
            "training": self.training,
            "scores": self.scores,
        }
        return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"

    def read_vocabulary(self, folder: Path) -> Vocabulary:
        """The vocabulary in the model's folder. Raises `SatError` for that of another model."""
        file, size = folder / "vocabulary.json", self.decoder.vocabulary_size
        vocabulary = Vocabulary.load(file)
        if len(vocabulary) != size:
            raise SatError(f"{file} has {len(vocabulary)} words and the decoder {size}: they are of different models")
        return vocabulary

    def check_reranker(self, folder: Path, *, there: bool) -> None:
        """Raise `SatError` unless the reranker is ``there`` when the decoding uses it."""
        if self.generation.rerank_weight and not there:
            raise SatError(
                f"{folder / 'config.json'} gives the reranker a weight, and the model has no reranker: copy it again"
            )

    @classmethod
    def read(cls, file: Path) -> "Configuration":
        """Read a file of this format or an older one.

        Raises `SatError` for a file that is missing or damaged, and for one that a newer version wrote.
        """
        check_readable(file)
        try:
            entries = json.loads(file.read_text(encoding="utf-8"), parse_constant=refused)
            number = entries["format"]
            if number != FORMAT:
                remedy = "update show-attend-tell" if isinstance(number, int) and number > FORMAT else "train it again"
                raise SatError(f"the model has format {number!r}, and this version reads format {FORMAT}: {remedy}")
            decoder = read_config(entries["decoder"])
            training = dict(entries["training"])
            scores = dict(entries["scores"])
            training_lines(training, decoder.attention)  # what no card can be made of is damaged
            score_lines(scores)
            return cls(
                decoder=decoder,
                encoder=EncoderRecord.from_dict(entries["encoder"]),
                generation=GenerationConfig(**entries["generation"]),
                ngrams=entries["ngrams"],
                tuned=entries["tuned"],
                training=training,
                scores=scores,
            )
        except FileNotFoundError as error:
            raise SatError(f"{file.parent} is not a model: it has no {file.name}") from error
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
            why = shorten(error, 300)
            raise SatError(f"{file} is damaged or from another program ({why}): copy the model again") from error
        except SatError as error:
            raise SatError(f"{file}: {error}") from error


def refused(constant: str) -> NoReturn:
    """Raise `ValueError` for NaN or an infinity, which are not JSON."""
    raise ValueError(f"{constant} is no number")
