"""An attention mode of a user's own is what every path computes: none takes it for the mean."""

import numpy as np
import pytest
import torch
from builders import forget
from decoders import P, small_annotations, small_captions, small_decoder
from searching import beam_search, same, talkative

from show_attend_tell import generation
from show_attend_tell.backends.onnx.decoder import OnnxDecoder
from show_attend_tell.backends.onnx.session import OnnxSession
from show_attend_tell.backends.torch import TorchBackend, decoder_weights, evidence_by_autograd
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import InvalidValue, SatError, UnknownName
from show_attend_tell.model import kernels
from show_attend_tell.model.attention import (
    Attended,
    MeanAttention,
    attention_mode_by_name,
    register_attention_mode,
)
from show_attend_tell.model.interface import Decoder
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import ATTENTION_MODES

LOCATIONS = 9


class Fading:
    """α to a power that grows from step to step: a mode that counts its steps."""

    def __init__(self):
        self.time = 0

    def __call__(self, alpha, annotations):
        self.time += 1
        weights = alpha ** (1 + self.time)
        return Attended((weights / weights.sum(-1, keepdim=True)).to(annotations.dtype) @ annotations, None)


class FadingForPhotos(Fading):
    """The same, made for each search."""

    @classmethod
    def for_photos(cls, seeds, *, paths, steps, device):
        return cls()


def by_square(alpha, annotations):
    weights = alpha.square() / alpha.square().sum(-1, keepdim=True)
    return Attended(weights.to(annotations.dtype) @ annotations, None)


@pytest.fixture(autouse=True)
def named():
    register_attention_mode("by-square", by_square)
    register_attention_mode("fading", FadingForPhotos)
    yield
    forget(ATTENTION_MODES, "by-square")
    forget(ATTENTION_MODES, "fading")


def logits_by_step(decoder, paths):
    """The logits of small captions by `Decoder.step`, with `Fading` and with the mean."""
    modes = (Fading(), MeanAttention())
    fading, mean = (
        Decoder.teacher_forcing(decoder, small_annotations(), small_captions(), paths=paths, mode=mode).logits
        for mode in modes
    )
    return fading, mean


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("paths", [1, P])
def test_a_training_on_all_steps_at_once_takes_no_mode_for_the_mean(paths):
    decoder = small_decoder()
    decoder.kernels = kernels.REFERENCE
    with torch.no_grad():
        logits = decoder.teacher_forcing(small_annotations(), small_captions(), paths=paths, mode=Fading()).logits
        expected, mean = logits_by_step(decoder, paths)
    torch.testing.assert_close(logits, expected)
    assert (logits - mean).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["by-square", "fading"])
def test_a_named_mode_is_searched_and_explained_by_pytorch_and_refused_by_onnx_runtime(name):
    decoder = talkative()
    annotations = small_annotations(2, LOCATIONS)
    backend = TorchBackend(decoder)
    seeds = [3, 4]
    config = GenerationConfig(beam_size=3, attention_mode=name, max_length=5, allow_repetitions=True)
    decoding = generation.Decoding(vocabulary=Vocabulary([]), config=config)
    found = decoding.captions(backend, annotations, seeds=seeds)
    mode = by_square if name == "by-square" else Fading()
    expected = beam_search(decoder, annotations, mode=mode, beam_size=3, max_length=5)
    mean = beam_search(decoder, annotations, beam_size=3, max_length=5)
    for one, other, unlike in zip(found, expected, mean, strict=True):
        same(one, other, 1e-4)
        assert one[0].log_probability != pytest.approx(unlike[0].log_probability, abs=1e-3)
    forced = generation.explain(backend, annotations[:1], [*found[0][0].words, 0], config, 3)
    assert forced.log_probability == pytest.approx(found[0][0].log_probability, abs=1e-4)

    light = OnnxDecoder(decoder.config, decoder_weights(decoder), LOCATIONS)
    session = OnnxSession(light, annotations.numpy(), config, seeds=seeds)
    with pytest.raises(InvalidValue, match=f"{name}.*ONNX Runtime has mean, argmax, sample: .*backend torch"):
        session.step(np.full((2, 1), decoder.vocabulary_size))


def evidence_of_step(decoder, state, before, word):
    """The gradient of log p of one word by the energies, at the mean context of a step's state."""
    _, keys = state.source
    energies = decoder.attention(keys, state.memory[0]).log().detach().requires_grad_()

    def mean_of_energies(alpha, annotations):
        return Attended(torch.softmax(energies, dim=-1) @ annotations, None)

    step = decoder.step(decoder.embed(torch.tensor([[before]])), state, mean_of_energies)
    log_p = torch.log_softmax(decoder.read_out(step.output), dim=-1)[0, 0, word]
    return torch.autograd.grad(log_p, energies)[0][0, 0]


def test_the_evidence_of_a_word_is_that_of_the_state_to_which_the_mode_led():
    decoder = talkative()
    annotations = small_annotations(1, LOCATIONS)
    backend = TorchBackend(decoder)
    config = GenerationConfig(attention_mode="by-square", max_length=4)
    words = [3, 5, 4]
    caption = generation.explain(backend, annotations, [*words, 0], config, 0)
    (maps,) = backend.evidence(annotations, [caption], config) or []
    (as_given,) = evidence_by_autograd(decoder, annotations, [caption], by_square) or []
    np.testing.assert_array_equal(maps, as_given)
    state = decoder.start(annotations)
    before = decoder.vocabulary_size
    for row, word in zip(maps, words, strict=True):
        np.testing.assert_allclose(row, evidence_of_step(decoder, state, before, word), atol=1e-5)
        with torch.no_grad():
            state = decoder.step(decoder.embed(torch.tensor([[before]])), state, by_square).state
        before = word
    (by_mean,) = backend.evidence(annotations, [caption], GenerationConfig()) or []
    assert abs(by_mean[-1] - maps[-1]).max() > 1e-4
    once = GenerationConfig(attention_mode="fading", max_length=4)  # its steps may be drawn: it cannot be repeated
    assert backend.evidence(annotations, [generation.explain(backend, annotations, [*words, 0], once, 0)], once) is None


def test_names_of_modes_are_checked_when_they_are_given():
    with pytest.raises(InvalidValue, match="attention_mode is 'median': choose one of mean, argmax, sample, by-square"):
        GenerationConfig(attention_mode="median")
    with pytest.raises(UnknownName, match="'median' is registered"):
        attention_mode_by_name("median")
    with pytest.raises(SatError, match="there is an attention mode 'mean' already"):
        register_attention_mode("mean", by_square)
