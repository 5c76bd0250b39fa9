"""The paper's decoder without PyTorch finds what it finds with PyTorch, with the same draws."""

from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations
from searching import same, talkative

from show_attend_tell.backends.onnx.decoder import OnnxDecoder, OnnxWalker
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import look_by_name
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.search import Hypothesis, PlainWalker, beam_search, sample
from show_attend_tell.search.beam import search
from show_attend_tell.search.hypotheses import told
from show_attend_tell.search.sampling import draw
from show_attend_tell.settings import LOOKS, LookName

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


def looks(name: LookName, paths: int) -> tuple[Any, dict[str, Any]]:
    """A look for PyTorch, and what says the same to ONNX Runtime."""
    look = look_by_name(name, seeds=SEEDS, paths=paths, steps=STEPS)
    return look, {"look": name, "paths": paths, "steps": STEPS, "seeds": SEEDS if name == "sampled" else []}


def alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(found, expected, strict=True):
        same(one, other, 1e-4)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", MODELS)
def test_beams_find_what_they_find_with_pytorch(name: str, look: LookName) -> None:
    """Words, log p, α, β and places, with photos that end early and late, greedy and wide, and without repetitions."""
    decoder, annotations = talkative(**MODELS[name]), small_annotations(batch=len(SEEDS), places=PLACES)
    light = of(decoder)
    for options in ({"beam": 1}, {"beam": 7}, {"beam": 6, "allow_repetitions": False, "length_normalisation": 0.7}):
        usual, own = looks(look, options["beam"])
        expected = beam_search(decoder, annotations, max_length=STEPS, look=usual, **options)
        alike(search(OnnxWalker(light, annotations.numpy(), **own), max_length=STEPS, **options), expected)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.6, "top_k": 9, "top_p": 0.8, "allow_repetitions": False}])
def test_samples_are_those_of_pytorch(look: LookName, options: dict[str, Any]) -> None:
    decoder, annotations = talkative(), small_annotations(batch=len(SEEDS), places=PLACES)
    usual, own = looks(look, 5)
    expected = sample(decoder, annotations, seeds=SEEDS, captions=5, max_length=STEPS, look=usual, **options)
    walker = OnnxWalker(of(decoder), annotations.numpy(), **own, whole=True)
    alike(draw(walker, seeds=SEEDS, max_length=STEPS, **options), expected)
    assert len({tuple(h.words) for hypotheses in expected for h in hypotheses}) > len(SEEDS)


@pytest.mark.parametrize("look", LOOKS)
def test_a_caption_is_told_as_with_pytorch(look: LookName) -> None:
    decoder, annotations, words = talkative(), small_annotations(batch=1, places=PLACES), [5, 9, 5, 2, 0]
    usual = look_by_name(look, seeds=[4], paths=1, steps=len(words))
    expected = told(PlainWalker(decoder, annotations, paths=1, look=usual), words)
    seeds = [4] if look == "sampled" else []
    walker = OnnxWalker(of(decoder), annotations.numpy(), look=look, seeds=seeds, steps=len(words))
    same([told(walker, words)], [expected])
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
    with pytest.raises(SatError, match="8 places are not a square grid"):
        OnnxDecoder(window.config, {name: value.numpy() for name, value in window.state_dict().items()}, 8)
    with pytest.raises(SatError, match=r"annotations of shape \(2, 9, 4\) do not fit this decoder"):
        OnnxWalker(of(decoder), np.zeros((2, PLACES, 4), np.float32), look="expectation")


def test_weights_that_are_not_finite_are_refused() -> None:
    decoder = talkative()
    torch.nn.init.constant_(decoder.output_bias, float("nan"))
    with pytest.raises(SatError, match="probabilities are not finite numbers"):
        search(OnnxWalker(of(decoder), small_annotations(places=PLACES).numpy(), look="expectation"), beam=2)
