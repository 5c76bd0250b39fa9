"""What a model's configuration records beside its decoder: how it decodes, and which encoder it was trained on."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import LOOKS, LookName
from show_attend_tell.vision.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How captions are made unless told otherwise: what the scores of a model's card were made with.

    Raises `SatError` for a beam or length below one, a look that does not exist and a γ or ω that is no number from 0.
    """

    beam: int = 5
    look: LookName = "expectation"
    length_normalisation: float = 0.0  # γ of log p / length^γ; 0 is none
    reranker_weight: float = 0.0  # ω, the weight of the reranker's agreement; 0 is none
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
        if not 0 <= self.reranker_weight < math.inf:
            raise SatError(f"reranker weight {self.reranker_weight}: give a number from 0, 0 for none")

    def but(self, **given: Any) -> "Decoding":
        """This decoding with what is given instead; None is nothing given."""
        return dataclasses.replace(self, **{name: value for name, value in given.items() if value is not None})

    def summary(self) -> str:
        """The numbers in words."""
        weight = f", reranker weight {self.reranker_weight:g}" if self.reranker_weight else ""
        return f"beam {self.beam}, length normalisation {self.length_normalisation:g}{weight}"


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
