"""A model's config.json: what it holds, and how the files of older versions are read.

| format | what it says otherwise |
| --- | --- |
| 1 | has no reranker |
| 2 | calls the reranker's weight "agreement" |
| 3 | is the one that this version writes |

The captions of a model whose decoding does not mention `repetitions` may repeat words. A model whose configuration does
not mention `tuned` has the tuned weights that are in its folder.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from show_attend_tell.checkpoint.arrays import TUNED
from show_attend_tell.checkpoint.card import score_lines, training_lines
from show_attend_tell.checkpoint.packing import check_readable, read_arrays, unpacked, weights_digest
from show_attend_tell.checkpoint.records import EncoderRecord, GenerationConfig
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.model.config import Config, read_config

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
            "generation": asdict(self.generation),
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
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"format is {number!r}")
            if number > FORMAT:
                raise SatError(
                    f"the model has format {number}, and this version reads formats 1 to {FORMAT}: "
                    "update show-attend-tell"
                )
            decoder = read_config(entries["decoder"])
            training = dict(entries["training"])
            scores = {split: renamed(found) for split, found in entries["scores"].items()}
            training_lines(training, decoder.attention)  # what no card can be made of is damaged
            score_lines(scores)
            return cls(
                decoder=decoder,
                encoder=EncoderRecord.from_dict(entries["encoder"]),
                generation=GenerationConfig(**{"repetitions": True, **renamed(entries["generation"])}),
                ngrams=entries.get("ngrams"),
                tuned=entries["tuned"] if "tuned" in entries else tuned_before(file.parent),
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


def tuned_before(folder: Path) -> str | None:
    """The SHA-256 of tuned weights in a folder whose configuration does not name any: a model of an earlier version."""
    file = folder / TUNED
    return weights_digest(unpacked(read_arrays(file))) if file.exists() else None


def renamed(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a decoding or of scores under the names of this format."""
    return {"rerank_weight" if name == "rerank_score" else name: value for name, value in entries.items()}
