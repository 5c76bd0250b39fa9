"""Decoders whose captions end, the reference searches, and what makes two lists of hypotheses equal."""

from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_decoder
from numpy.typing import NDArray
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend, TorchSession
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder
from show_attend_tell.search import beam
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import Added, word_filters
from show_attend_tell.search.hypotheses import Hypothesis

MODELS = {
    "soft": {},
    "soft without a gate": {"gate": False},
    "as shipped, soft": {"tied_embeddings": True, "annotation_norm": "layer"},
    "as shipped, hard": {
        "tied_embeddings": True,
        "annotation_norm": "layer",
        "annotation_window": 3,
        "attention": "hard",
        "gate": False,
    },
    "two layers of attention": {"attention_depth": 2, "initial_depth": 1},
    "three output layers": {"output_depth": 3, "initial_size": 7},
    "uniform": {"attention": "uniform"},
    "a sum as deep output": {"output_tanh": False, "output_word": False, "output_context": False},
}


def talkative(spread: float = 0.6, **options: object) -> AttentionDecoder:
    """A decoder whose captions end, some early and some late."""
    decoder = small_decoder(spread=spread, **options)
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += 7 * spread
    return decoder


def beam_search(
    decoder: Decoder, annotations: Tensor, *, mode: AttentionMode = MEAN_ATTENTION, beam_size: int = 1, **options: Any
) -> list[list[Hypothesis]]:
    """The reference: a beam search of PyTorch's session, which may repeat words unless the options say otherwise."""
    config = GenerationConfig(**{"beam_size": beam_size, "allow_repetitions": True, **options})
    return beam.beam_search(
        TorchSession(decoder, annotations, paths=beam_size, mode=mode), config, word_filters(config)
    )


class ReferenceBackend(TorchBackend):
    """A back end that searches by PyTorch's session alone."""

    def optimized(self, locations: int) -> None:
        return None


def onto(log_probabilities: NDArray[Any], added: Added) -> NDArray[Any]:
    """log p of every word (B, P, K) with what filters add."""
    total = log_probabilities.copy()
    photo, path, _ = np.ogrid[tuple(map(slice, added.ids.shape))]
    np.add.at(total, (photo, path, added.ids), added.weights)
    return total


def same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-5) -> None:
    assert [h.words for h in found] == [h.words for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.ended == other.ended
        assert one.log_probability == pytest.approx(other.log_probability, abs=tolerance)
        for a, b in ((one.alpha, other.alpha), (one.beta, other.beta), (one.locations, other.locations)):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=0, atol=tolerance)
