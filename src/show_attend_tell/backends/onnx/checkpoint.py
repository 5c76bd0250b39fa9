"""A model on disk, read for ONNX Runtime: what `checkpoint.Checkpoint` reads for PyTorch, from the same files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.backends.onnx.encoder import OnnxEncoder, load_encoder
from show_attend_tell.checkpoint import card
from show_attend_tell.checkpoint.arrays import not_finite, read_doubt, read_ngrams, read_tuned
from show_attend_tell.checkpoint.config import Configuration
from show_attend_tell.checkpoint.packing import read_arrays, unpacked
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.devices import needs_torch
from show_attend_tell.errors import SatError
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.rerank.ngrams import ArrayDoubt, ArrayNgrams
from show_attend_tell.search.config import GenerationConfig


@dataclass(kw_only=True)
class OnnxCheckpoint:
    """A trained decoder with everything that is needed to caption; its names are those of `Checkpoint`."""

    decoder: OnnxDecoder
    vocabulary: Vocabulary
    configuration: Configuration
    tuned_encoder: dict[str, NDArray[Any]] | None
    reranker: ArrayNgrams | None
    doubt: ArrayDoubt | None

    @property
    def encoder(self) -> EncoderRecord:
        """The encoder that the model was trained on."""
        return self.configuration.encoder

    @property
    def generation(self) -> GenerationConfig:
        """The model's defaults for making captions."""
        return self.configuration.generation

    @property
    def training(self) -> dict[str, Any]:
        """What it was trained on, and how."""
        return self.configuration.training

    @property
    def scores(self) -> dict[str, Any]:
        """Its scores, by split."""
        return self.configuration.scores

    def card(self, name: str) -> str:
        """The model's card, in Markdown, under a name."""
        reranker = None if self.reranker is None else str(self.reranker)
        return card.card(self.configuration, name, tuned=self.tuned_encoder is not None, reranker=reranker)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "OnnxCheckpoint":
        """Read a model's folder.

        Raises `SatError` that names the file when one is missing or damaged, and for a kind of decoder that needs
        PyTorch.
        """
        folder = Path(folder)
        config = Configuration.read(folder / "config.json")
        if not isinstance(config.decoder, DecoderConfig):
            raise needs_torch(f"a decoder of kind {config.decoder.kind!r}")
        vocabulary = config.read_vocabulary(folder)
        file = folder / "model.safetensors"
        weights = unpacked(read_arrays(file))
        rows, columns = config.encoder.grid
        try:
            decoder = OnnxDecoder(config.decoder, weights, rows * columns)
        except SatError as error:
            raise SatError(f"{file} does not fit its config.json: {error}") from error
        if name := not_finite(weights):
            raise SatError(f"{file} is damaged: {name} holds values that are not numbers")
        ngrams = read_ngrams(folder, config.ngrams, lambda file: ArrayNgrams(read_arrays(file)))
        config.check_reranker(folder, there=ngrams is not None)
        return cls(
            decoder=decoder,
            vocabulary=vocabulary,
            configuration=config,
            tuned_encoder=read_tuned(folder, config.tuned),
            reranker=ngrams,
            doubt=read_doubt(folder, config.decoder.annotation_size, lambda file: ArrayDoubt(read_arrays(file))),
        )

    def load_encoder(self, model: str, weights: str | Path | None = None) -> OnnxEncoder:
        """The encoder that this model was trained on, as `EncoderRecord.load` documents it."""
        return self.encoder.load(load_encoder, model, weights=weights, tuned=self.tuned_encoder)
