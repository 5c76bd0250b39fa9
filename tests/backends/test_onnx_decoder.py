"""The paper's decoder without PyTorch finds what it finds with PyTorch, with the same draws."""

from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations
from searching import same, talkative

from show_attend_tell.backends.onnx.decoder import OnnxDecoder, OnnxSession
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import attention_mode_by_name
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.search import Hypothesis, TorchSession, beam_search, sample
from show_attend_tell.search.beam import search
from show_attend_tell.search.hypotheses import told
from show_attend_tell.search.sampling import draw
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName

PLACES, STEPS, SEEDS = 9, 8, [11, 5, 3, 2**32 - 1]
MODELS: dict[str, dict[str, Any]] = {
    "soft": {},
    "soft without a gate": {"gate": False},
    "as shipped, soft": {"tied_embeddings": True, "annotation_norm": "layer"},
    "as shipped, hard": {
        **{"tied_embeddings": True, "annotation_norm": "layer", "annotation_window": 3},
        **{"attention": "hard", "gate": False},
    },
    "two layers of attention": {"attention_depth": 2, "initial_depth": 1},
    "three output layers": {"output_depth": 3, "initial_size": 7},
    "uniform": {"attention": "uniform"},
    "a sum as deep output": {"output_tanh": False, "output_word": False, "output_context": False},
}


def of(decoder: AttentionDecoder) -> OnnxDecoder:
    return OnnxDecoder(decoder.config, {name: value.numpy() for name, value in decoder.state_dict().items()}, PLACES)


def looks(name: AttentionModeName, paths: int) -> tuple[Any, dict[str, Any]]:
    """A look for PyTorch, and what says the same to ONNX Runtime."""
    attention_mode = attention_mode_by_name(name, seeds=SEEDS, paths=paths, steps=STEPS)
    return attention_mode, {
        "attention_mode": name,
        "paths": paths,
        "steps": STEPS,
        "seeds": SEEDS if name == "sample" else [],
    }


def alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(found, expected, strict=True):
        same(one, other, 1e-4)


@pytest.mark.parametrize("attention_mode", ATTENTION_MODES)
@pytest.mark.parametrize("name", MODELS)
def test_beams_find_what_they_find_with_pytorch(name: str, attention_mode: AttentionModeName) -> None:
    """Words, log p, α, β and places, with photos that end early and late, greedy and wide, and without repetitions."""
    decoder, annotations = talkative(**MODELS[name]), small_annotations(batch=len(SEEDS), locations=PLACES)
    light = of(decoder)
    for options in (
        {"beam_size": 1},
        {"beam_size": 7},
        {"beam_size": 6, "allow_repetitions": False, "length_penalty": 0.7},
    ):
        usual, own = looks(attention_mode, options["beam_size"])
        expected = beam_search(decoder, annotations, max_length=STEPS, attention_mode=usual, **options)
        alike(search(OnnxSession(light, annotations.numpy(), **own), max_length=STEPS, **options), expected)


@pytest.mark.parametrize("attention_mode", ATTENTION_MODES)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.6, "top_k": 9, "top_p": 0.8, "allow_repetitions": False}])
def test_samples_are_those_of_pytorch(attention_mode: AttentionModeName, options: dict[str, Any]) -> None:
    decoder, annotations = talkative(), small_annotations(batch=len(SEEDS), locations=PLACES)
    usual, own = looks(attention_mode, 5)
    expected = sample(decoder, annotations, seeds=SEEDS, captions=5, max_length=STEPS, attention_mode=usual, **options)
    session = OnnxSession(of(decoder), annotations.numpy(), **own, whole=True)
    alike(draw(session, seeds=SEEDS, max_length=STEPS, **options), expected)
    assert len({tuple(h.words) for hypotheses in expected for h in hypotheses}) > len(SEEDS)


@pytest.mark.parametrize("attention_mode", ATTENTION_MODES)
def test_a_caption_is_told_as_with_pytorch(attention_mode: AttentionModeName) -> None:
    decoder, annotations, words = talkative(), small_annotations(batch=1, locations=PLACES), [5, 9, 5, 2, 0]
    usual = attention_mode_by_name(attention_mode, seeds=[4], paths=1, steps=len(words))
    expected = told(TorchSession(decoder, annotations, paths=1, attention_mode=usual), words)
    seeds = [4] if attention_mode == "sample" else []
    session = OnnxSession(
        of(decoder), annotations.numpy(), attention_mode=attention_mode, seeds=seeds, steps=len(words)
    )
    same([told(session, words)], [expected])
    assert expected.words == words[:-1] and expected.ended


def test_weights_and_annotations_that_do_not_fit_are_refused() -> None:
    decoder = talkative()
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    without = {name: value for name, value in weights.items() if name != "gate.bias"}
    with pytest.raises(SatError, match=r"gate.bias has shape none, and the decoder needs \(1,\)"):
        OnnxDecoder(decoder.config, without, PLACES)
    with pytest.raises(SatError, match=r"more has shape \(2,\), and the decoder needs none"):
        OnnxDecoder(decoder.config, {**weights, "more": np.zeros(2)}, PLACES)
    window = talkative(annotation_window=3)
    with pytest.raises(SatError, match="8 locations are not a square grid"):
        OnnxDecoder(window.config, {name: value.numpy() for name, value in window.state_dict().items()}, 8)
    with pytest.raises(SatError, match=r"annotations of shape \(2, 9, 4\) do not fit this decoder"):
        OnnxSession(of(decoder), np.zeros((2, PLACES, 4), np.float32), attention_mode="mean")


def test_weights_that_are_not_finite_are_refused() -> None:
    decoder = talkative()
    torch.nn.init.constant_(decoder.output_bias, float("nan"))
    with pytest.raises(SatError, match="probabilities are not finite numbers"):
        search(
            OnnxSession(of(decoder), small_annotations(locations=PLACES).numpy(), attention_mode="mean"), beam_size=2
        )
