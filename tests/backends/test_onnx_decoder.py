"""The session of ONNX Runtime finds what PyTorch's reference finds, and leaves out what is not needed."""

from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations
from searching import MODELS, beam_search, same, talkative
from torch import Tensor

from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.backends.onnx.session import WIDE, OnnxSession
from show_attend_tell.backends.torch import TorchSession, decoder_weights
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import attention_mode_by_name
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.search import beam
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import word_filters
from show_attend_tell.search.hypotheses import Hypothesis, force
from show_attend_tell.search.session import Numbers, SessionStep
from show_attend_tell.settings import ATTENTION_MODES

LOCATIONS, STEPS, SEEDS = 9, 8, [11, 5, 3, 2**32 - 1]
OPTIONS = {
    "greedy": {"beam_size": 1},
    "wide": {"beam_size": WIDE + 3},
    "without repetitions": {"beam_size": 6, "allow_repetitions": False, "length_penalty": 0.7},
    "one word": {"beam_size": 3, "max_length": 1},
}


def of(decoder: AttentionDecoder) -> OnnxDecoder:
    return OnnxDecoder(decoder.config, decoder_weights(decoder), LOCATIONS)


def settings(options: dict[str, Any]) -> GenerationConfig:
    return GenerationConfig(**{"allow_repetitions": True, "max_length": STEPS, **options})


def session_of(decoder: AttentionDecoder, annotations: Tensor, config: GenerationConfig) -> OnnxSession:
    return OnnxSession(of(decoder), annotations.numpy(), config, seeds=SEEDS[: len(annotations)])


def alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(found, expected, strict=True):
        same(one, other, 1e-4)


@pytest.mark.parametrize("mode", ATTENTION_MODES)
@pytest.mark.parametrize("name", MODELS)
def test_beams_find_what_the_reference_finds(name, mode):
    """Words, log p, α, β and locations, with photos that end early and late."""
    decoder, annotations = talkative(**MODELS[name]), small_annotations(batch=len(SEEDS), locations=LOCATIONS)
    for options in OPTIONS.values():
        config = settings({**options, "attention_mode": mode})
        usual = attention_mode_by_name(mode, seeds=SEEDS, paths=config.beam_size, steps=config.max_length)
        expected = beam_search(decoder, annotations, mode=usual, **{"max_length": STEPS, **options})
        alike(beam.beam_search(session_of(decoder, annotations, config), config, word_filters(config)), expected)
        assert Vocabulary.UNKNOWN not in {word for found in expected for h in found for word in h.words}


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_a_given_caption_is_read_as_by_the_reference(mode):
    decoder, annotations, words = talkative(), small_annotations(batch=1, locations=LOCATIONS), [5, 9, 5, 2, 0]
    usual = attention_mode_by_name(mode, seeds=SEEDS[:1], paths=1, steps=len(words))
    expected = force(TorchSession(decoder, annotations, paths=1, mode=usual), words)
    config = settings({"beam_size": 1, "max_length": len(words), "attention_mode": mode})
    same([force(session_of(decoder, annotations, config), words)], [expected])
    assert expected.words == words[:-1] and expected.ended


class Counted(OnnxSession):
    """A session that counts the rows of each step's attention: photos and histories."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rows_of_steps = []

    def step(self, words: Numbers) -> SessionStep:
        step = super().step(words)
        self.rows_of_steps.append(step.alpha.shape[:2])
        return step


def test_finished_paths_and_equal_histories_are_not_computed():
    """Fewer histories attend than there are paths and photos, and fewer the longer the search lasts."""
    decoder = talkative()
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += 1
    config = settings({"beam_size": 12, "max_length": 20})
    photos = small_annotations(batch=7, locations=LOCATIONS)
    session = Counted(of(decoder), photos.numpy(), config, seeds=[])
    found = beam.beam_search(session, config, word_filters(config))
    rows = session.rows_of_steps
    assert rows[0] == (7, 1) and rows[-1][0] < 7
    assert max(histories for _, histories in rows) < config.beam_size
    assert len(rows) == max(len(h.words) + h.ended for hypotheses in found for h in hypotheses)


def test_annotations_that_do_not_fit_are_refused():
    decoder = talkative()
    window = talkative(annotation_window=3)
    with pytest.raises(SatError, match="8 locations are not a square grid"):
        OnnxDecoder(window.config, decoder_weights(window), 8)
    with pytest.raises(SatError, match=r"annotations of shape \(2, 9, 4\) do not fit this decoder"):
        of(decoder).array(np.zeros((2, LOCATIONS, 4), np.float32))
    torch.nn.init.constant_(decoder.output_bias, float("nan"))
    config = settings({"beam_size": 2})
    with pytest.raises(SatError, match="probabilities are not finite numbers"):
        beam.beam_search(session_of(decoder, small_annotations(locations=LOCATIONS), config), config, [])
