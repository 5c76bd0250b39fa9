"""The evidence of a word is the gradient of its log-probability by the energies of the attention."""

from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations, small_decoder
from numpy.testing import assert_allclose
from searching import MODELS, talkative
from torch import Tensor

from show_attend_tell import generation
from show_attend_tell.backends.torch import TorchBackend, evidence_by_autograd
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import (
    Attended,
    AttentionMode,
    GivenLocations,
    MeanAttention,
    repeatable_mode,
)
from show_attend_tell.model.interface import Decoder, word_log_probabilities
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName

LOCATIONS, SEEDS = 9, [11, 5, 3]
ATTENDING = [name for name in MODELS if name != "uniform"]


def settings(options: dict[str, Any]) -> GenerationConfig:
    return GenerationConfig(**{"allow_repetitions": True, "max_length": 3, **options})


def found(decoder: Decoder, annotations: Tensor, mode: AttentionModeName) -> list[Hypothesis]:
    config = settings({"beam_size": 3, "attention_mode": mode})
    seeds = SEEDS[: len(annotations)]
    decoding = generation.Decoding(vocabulary=Vocabulary([]), config=config)
    return [of_photo[0] for of_photo in decoding.captions(TorchBackend(decoder), annotations, seeds=seeds)]


class Raised:
    """Another attention mode, but at one step the mean context with one location's energy raised by ``amount``."""

    def __init__(self, mode: AttentionMode, time: int, location: int, amount: float) -> None:
        self.mode, self.time, self.location, self.amount = mode, time, location, amount
        self.now = 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        usual = self.mode(alpha, annotations)
        self.now += 1
        if self.now - 1 != self.time:
            return usual
        odds = alpha.clone()
        odds[..., self.location] *= float(np.exp(self.amount))
        return Attended(odds / odds.sum(-1, keepdim=True) @ annotations, usual.locations)


def differences(decoder: Decoder, annotations: Tensor, caption: Hypothesis) -> Any:
    """The evidence of one photo's caption (T, L) by central differences."""
    words, step = torch.tensor([caption.words]), 1e-5
    result = np.empty((words.shape[1], annotations.shape[1]))
    for time, location in np.ndindex(result.shape):
        values = []
        for amount in (step, -step):
            read = caption.locations
            usual = MeanAttention() if read is None else GivenLocations(torch.as_tensor(read)[None, None])
            mode = Raised(usual, time, location, amount)
            with torch.no_grad():
                logits = decoder.teacher_forcing(annotations, words, mode=mode).logits
            values.append(float(word_log_probabilities(logits, words)[0, 0, time]))
        result[time, location] = (values[0] - values[1]) / (2 * step)
    return result


@pytest.mark.parametrize("mode", ATTENTION_MODES)
@pytest.mark.parametrize("name", ATTENDING)
def test_both_back_ends_have_the_gradient(name, mode):
    decoder, annotations = talkative(**MODELS[name]), small_annotations(2, LOCATIONS)
    captions = found(decoder, annotations, mode)
    light = TorchBackend(decoder).evidence(annotations, captions, settings({"attention_mode": mode}))  # in closed form
    made = evidence_by_autograd(decoder, annotations, captions, repeatable_mode(mode))
    assert made is not None and light is not None
    double = decoder.double()
    for row, caption in enumerate(captions):
        expected = differences(double, annotations[row : row + 1].double(), caption)
        tolerance = 1e-3 * abs(expected).max()
        assert tolerance > 0
        for one in (light[row], made[row]):
            assert_allclose(one, expected, atol=tolerance, rtol=0)
            assert_allclose(one.sum(-1), 0, atol=tolerance)


def test_without_a_choice_of_locations_there_is_no_evidence():
    decoder, annotations = small_decoder(attention="uniform"), small_annotations(1, LOCATIONS)
    config = settings({})
    (caption,) = found(decoder, annotations, "mean")
    (made,) = generation.with_evidence(TorchBackend(decoder), annotations, [caption], config)
    assert made.evidence is None
