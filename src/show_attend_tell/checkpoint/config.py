"""Reading a model's config.json. Its format is 4, the only one that this version reads and writes."""

import json
from pathlib import Path
from typing import NoReturn

from show_attend_tell.checkpoint.card import score_lines, training_lines
from show_attend_tell.checkpoint.records import FORMAT, Description, EncoderRecord
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.model.registry import read_config
from show_attend_tell.search.config import GenerationConfig


def read_configuration(file: Path) -> tuple[Description, dict[str, str], str | None]:
    """The configuration in a file, and the SHA-256 of the model's reranker, by its kind, and tuned encoder."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"), parse_constant=refused)
        number = entries["format"]
        if number != FORMAT:
            remedy = "update show-attend-tell" if isinstance(number, int) and number > FORMAT else "train it again"
            raise SatError(f"the model has format {number!r}, and this version reads format {FORMAT}: {remedy}")
        described = Description(
            config=read_config(entries["decoder"]),
            encoder=EncoderRecord.from_dict(entries["encoder"]),
            generation=GenerationConfig(**entries["generation"]),
            training=dict(entries["training"]),
            scores=dict(entries["scores"]),
        )
        training_lines(described.training, described.config.attention)  # what no card can be made of is damaged
        score_lines(described.scores)
        ngrams, other = entries["ngrams"], entries.get("reranker") or {}
        return described, dict(other) if ngrams is None else {"ngrams": ngrams}, entries["tuned"]
    except FileNotFoundError as error:
        raise SatError(f"{file.parent} is not a model: it has no {file.name}") from error
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        why = shorten(error, 300)
        raise SatError(f"{file} is damaged or from another program ({why}): copy the model again") from error
    except SatError as error:
        raise SatError(f"{file}: {error}") from error
    except OSError as error:
        raise SatError(f"{file} cannot be read ({error.strerror}): give yourself the right to read it") from None


def refused(constant: str) -> NoReturn:
    """Raise `ValueError` for NaN or an infinity, which are not JSON."""
    raise ValueError(f"{constant} is no number")
