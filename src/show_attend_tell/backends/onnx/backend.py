"""The back end of ONNX Runtime: the paper's decoder and two encoders on a processor, without PyTorch.

B photos · L locations · D annotation size · C channels.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.backends.onnx.encoder import OnnxEncoder, load_encoder
from show_attend_tell.backends.onnx.session import OnnxSession, batch_size, blind_session, evidence_closed_form
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.values import Array


def second_moments(annotations: Array, channels: Array) -> Array:
    """As `backends.torch.second_moments`: (B, M)."""
    annotations = annotations.astype(np.float32, copy=False)
    centered = annotations - annotations.mean(-1, keepdims=True)
    normal = (centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + np.float32(1e-5)))[..., channels]
    rows, columns = np.triu_indices(len(channels))
    moments = (normal.swapaxes(1, 2) @ normal)[:, rows, columns]
    moments = np.copysign(np.sqrt(np.abs(moments)), moments)
    unit: Array = moments / np.maximum(np.linalg.norm(moments, axis=-1, keepdims=True), np.float32(1e-12))
    return unit


class OnnxBackend:
    """A decoder and its encoder as ONNX graphs; `backends.base.Backend` says what its methods do."""

    name = "onnx"
    device = "cpu"
    batch_size = staticmethod(batch_size)
    second_moments = staticmethod(second_moments)

    def __init__(self, decoder: OnnxDecoder, encoder: OnnxEncoder) -> None:
        self.decoder = decoder
        self.encoder: Any = encoder

    @classmethod
    def load(cls, checkpoint: Checkpoint, name: str, *, encoder_weights: str | Path | None = None) -> "OnnxBackend":
        """The back end of the model called ``name``. Raises `SatError` for an encoder that does not fit."""
        assert isinstance(checkpoint.config, DecoderConfig)  # which `backends.pick_backend` saw to
        rows, columns = checkpoint.encoder.grid
        encoder = checkpoint.encoder.load(load_encoder, name, weights=encoder_weights, tuned=checkpoint.tuned_encoder)
        return cls(OnnxDecoder(checkpoint.config, checkpoint.weights, rows * columns), encoder)

    def encode(self, pixels: Any) -> Array:
        annotations: Array = self.encoder.annotate(as_array(pixels))
        return annotations

    def features(self, annotations: Any) -> Array:
        return self.decoder.array(annotations)

    def session(self, features: Array, config: GenerationConfig, *, seeds: Sequence[int]) -> OnnxSession:
        return OnnxSession(self.decoder, features, config, seeds=seeds)

    def blind_session(self, features: Array, captions: int) -> OnnxSession:
        return blind_session(self.decoder, captions)

    def evidence(self, features: Array, captions: Sequence[Hypothesis], config: GenerationConfig) -> list[Array] | None:
        return evidence_closed_form(self.decoder, features, captions) if self.decoder.config.attends else None
