"""Decoders whose captions end, and what makes two lists of hypotheses equal."""

import pytest
import torch
from decoders import small_decoder

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.search.hypotheses import Hypothesis


def talkative(spread: float = 0.6, **options: object) -> AttentionDecoder:
    """A decoder whose captions end, some early and some late."""
    decoder = small_decoder(spread=spread, **options)
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += 7 * spread
    return decoder


def same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-5) -> None:
    assert [h.words for h in found] == [h.words for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.ended == other.ended
        assert one.log_probability == pytest.approx(other.log_probability, abs=tolerance)
        for a, b in ((one.alpha, other.alpha), (one.beta, other.beta), (one.locations, other.locations)):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=0, atol=tolerance)
