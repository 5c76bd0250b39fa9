"""The settings of a training."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from show_attend_tell.errors import SatError
from show_attend_tell.model.decoder import DecoderConfig
from show_attend_tell.model.interface import Config
from show_attend_tell.training.losses import HardObjective, SoftObjective


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything that a training depends on besides its data; defaults are the paper's (sec. 4.3), or its program's.

    Raises `SatError` for a number out of its range and for a choice that does not exist.
    """

    decoder: Config = field(default_factory=DecoderConfig)
    soft: SoftObjective = field(default_factory=SoftObjective)
    hard: HardObjective = field(default_factory=HardObjective)

    minimum_count: int = 1  # words seen less often in training captions become unknown
    vocabulary_size: int = 10_000
    flipped: bool = False  # also show every training photo mirrored, as often as unmirrored
    crops: int = 0  # also show so many random crops of it, each as often as the whole photo
    visual_ngrams: bool = False  # after training, fit what ranks a search's captions by their agreement with the photo

    epochs: int = 50  # at most: patience may end it earlier
    batch_size: int = 64
    optimiser: Literal["adam", "rmsprop"] = "rmsprop"
    learning_rate: float = 1e-4
    warmup: int = 0  # batches of linear warm-up
    schedule: Literal["constant", "cosine"] = "constant"  # cosine: to zero at the last epoch
    clip: float = 0.0  # largest norm of the gradient of all weights together; 0: no clipping
    averaging: float = 0.0  # decay, a batch, of the moving average of the weights, which ships; 0: none
    scheduled_sampling: float = 0.0  # share of the previous words that are the decoder's own
    scheduled_sampling_end: float | None = None  # it moves evenly from its first value to this one over the training
    entropy_weight_end: float | None = None  # λ_e moves evenly from its first value to this one over the training

    validation_beam: int = 1
    max_length: int = 40
    patience: int = 10  # epochs without a better validation BLEU-4 (with brevity penalty) before stopping
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("minimum_count", "epochs", "batch_size", "validation_beam", "max_length", "patience"):
            if getattr(self, name) < 1:
                raise SatError(f"{name} is {getattr(self, name)}: give at least 1")
        for name in ("crops", "warmup", "clip", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SatError(f"{name} is {getattr(self, name)}: give 0 or more")
        if not 0 < self.learning_rate < math.inf:
            raise SatError(f"learning_rate is {self.learning_rate}: give a number above 0")
        for name in ("scheduled_sampling", "scheduled_sampling_end"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise SatError(f"{name} is {share}: give a share from 0 to 1")
        if not 0 <= self.averaging < 1:
            raise SatError(f"averaging is {self.averaging}: give a decay from 0 up to but not including 1")
        end = self.entropy_weight_end
        if end is not None and not (isinstance(end, (float, int)) and math.isfinite(end)):
            raise SatError(f"entropy_weight_end is {self.entropy_weight_end!r}: give a number, or None")
        for name, known in (("optimiser", ("adam", "rmsprop")), ("schedule", ("constant", "cosine"))):
            if getattr(self, name) not in known:
                raise SatError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(known)}")

    @property
    def views(self) -> list[str]:
        """The views of the training photos (`Preprocessing`) besides the original."""
        return ["flipped"] * self.flipped + [f"crop-{number}" for number in range(1, self.crops + 1)]

    def objective(self) -> SoftObjective | HardObjective:
        """The hard model's objective or, for every other kind, the soft one's, whose terms of α want an α to act."""
        return dataclasses.replace(self.hard if self.decoder.attention == "hard" else self.soft)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, flat: "decoder.hidden_size" and the like."""
        return flat({**dataclasses.asdict(self), "decoder": self.decoder.to_dict()})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, their keys joined by dots."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        result |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return result
