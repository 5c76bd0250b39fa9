"""What a model's configuration says: its decoder, how captions are made, and which encoder it was trained on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.errors import SatError
from show_attend_tell.model.config import Config
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import Count, settings


@settings
class EncoderRecord:
    """Which encoder a model was trained on. The annotations of another encoder mean nothing to the model.

    An encoder of either back end has a name, a digest, a grid and a preprocessing, and adopts tuned weights.
    """

    name: str
    digest: str | None = Field(
        description="SHA-256, see `Encoder.digest`; None for an imported model whose encoder was not named"
    )
    preprocessing: Preprocessing
    grid: Annotated[tuple[Count, Count], Field(strict=False)] = Field(description="rows and columns of locations")

    @classmethod
    def of(cls, encoder: Any) -> "EncoderRecord":
        """The record of an encoder."""
        return cls(name=encoder.name, digest=encoder.digest, preprocessing=encoder.preprocessing, grid=encoder.grid)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EncoderRecord":
        """The record in a model's config.json; raises `KeyError`, `TypeError` or `SatError` for a damaged one."""
        plain = {name: values[name] for name in ("name", "digest", "grid")}
        photos = {name: values["preprocessing"][name] for name in ("size", "resize", "mean", "std")}
        return cls(preprocessing=Preprocessing(**photos), **plain)

    def check(self, encoder: Any, model: str) -> None:
        """Raise `SatError` unless the encoder of the ``model`` is the recorded one, where the record has a SHA-256."""
        if self.digest not in (None, encoder.digest):
            raise SatError(f"{model} {self.difference(encoder)}")

    def difference(self, encoder: Any) -> str:
        """What to say of another encoder than the recorded one."""
        return (
            f"was trained on an encoder {self.name} whose weights have SHA-256 {str(self.digest)[:12]}…, and these "
            f"weights have {encoder.digest[:12]}…: give the right --encoder and --encoder-weights"
        )

    def load(
        self,
        load_encoder: Callable[..., Any],
        model: str,
        *,
        weights: str | Path | None = None,
        tuned: Mapping[str, Any] | None = None,
    ) -> Any:
        """The encoder recorded, by ``load_encoder``, with ``tuned`` weights; raises `SatError` for another encoder."""
        if self.digest is None and weights is None:
            raise SatError(
                f"{model} was imported without the encoder that it was trained on, and no other has its annotations: "
                "give the weights of the authors' VGG-19 as --encoder-weights FILE"
            )
        encoder = load_encoder(self.name, weights=weights, resize=self.preprocessing.resize)
        if tuned is not None:
            encoder.adopt(tuned)
        if (self.preprocessing.size, self.grid) != (encoder.preprocessing.size, encoder.grid):
            raise SatError(
                f"{model}: its config.json is damaged, it has the grid {self.grid} or the photo size "
                f"{self.preprocessing.size} of another encoder than {self.name}: copy the model again"
            )
        self.check(encoder, model)
        encoder.preprocessing = self.preprocessing
        return encoder


@dataclass(kw_only=True)
class Description:
    """What config.json says of a model, besides the SHA-256 of arrays that it may share with others."""

    config: Config  # of the decoder
    encoder: EncoderRecord
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    training: dict[str, Any] = field(default_factory=dict)  # data, settings, seed, epochs: for the card
    scores: dict[str, Any] = field(default_factory=dict)  # by split, or "test, without reranker": for the card
