"""Maps of words, what is measured of them, by hand where it can be, and the commands end to end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scenes_encoder
import torch
from attention.forcing import Forced, SeededMode, force
from attention.maps import MAPS, Cover, Target, attentive, figures_of, maps_of, positive
from builders import captioner_of, small_checkpoint, small_encoder
from decoders import small_annotations, small_decoder
from scenes import COLORS, SHAPES, SOFT_DECODER, write_scenes
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend, decoder_weights, evidence_by_autograd
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import explain
from show_attend_tell.model.attention import repeatable_mode
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import Decoder
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName
from show_attend_tell.vision.encoder import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "scenes"
    write_scenes(folder, 20, seed=5, show=False)
    return folder


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    """An untrained model on the small encoder."""
    vocabulary = Vocabulary([*COLORS, *SHAPES, *"a and from left to right then there is of".split()])
    encoder = load_encoder(scenes_encoder.NAME, resize="squash")
    config = replace(SOFT_DECODER, annotation_size=64, vocabulary_size=len(vocabulary))
    torch.manual_seed(1)
    weights = decoder_weights(AttentionDecoder(config))
    record = EncoderRecord.of(encoder)
    return captioner_of(Checkpoint(config=config, weights=weights, vocabulary=vocabulary, encoder=record), encoder)


def test_a_box_covers_the_locations_that_it_overlaps():
    cover = Cover((10, 0, 60, 30), (3, 5))  # locations of 10 × 10 pixels, from 10 on
    share = cover.share((15, 12, 40, 20)).reshape(3, 5)
    np.testing.assert_allclose(share, [[0, 0, 0, 0, 0], [0.4, 0.8, 0.8, 0, 0], [0, 0, 0, 0, 0]])
    assert cover.share((0, 0, 70, 40)).tolist() == [1.0] * 15 and not cover.share((0, 0, 10, 30)).any()
    centred = cover.centred((15, 6, 35, 25)).reshape(3, 5)  # the edge at 15 counts, those at 35 and 25 do not
    assert centred.tolist() == [[False] * 5, [True, True, False, False, False], [False] * 5]


def forced_by(decoder: Decoder, annotations: Tensor, words: list[int], mode: AttentionModeName = "mean") -> Forced:
    example = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
    with torch.no_grad():
        return force(decoder, example, annotations, ["a"] * len(words), torch.tensor([words]), SeededMode(mode, 13))


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_evidence_is_that_of_the_back_end_and_the_other_maps_follow_from_it(mode):
    decoder, annotations, words = small_decoder(), small_annotations(1), [3, 5, 7, 4]
    forced = forced_by(decoder, annotations, words, mode)
    maps = maps_of(decoder, annotations, forced)
    config = GenerationConfig(attention_mode=mode)
    (hypothesis,) = [explain(TorchBackend(decoder), annotations, [*words, Vocabulary.END], config, 13)]
    (expected,) = evidence_by_autograd(decoder, annotations, [hypothesis], repeatable_mode(mode)) or []
    np.testing.assert_allclose(maps["evidence"], expected, atol=1e-5)
    assert set(maps) == set(MAPS) - ({"location"} if mode == "mean" else set())
    # log p of one location's context minus that of the mean, to first order: g · (a_i − z)
    gain = (maps["evidence"] / maps["alpha"]).exp() * maps["alpha"]
    torch.testing.assert_close(maps["posterior"], gain / gain.sum(-1, keepdim=True))
    torch.testing.assert_close(maps["gain"], maps["posterior"] - maps["alpha"])
    along = maps["evidence"] / maps["alpha"]
    torch.testing.assert_close(maps["gradient"], along - along.mean(-1, keepdim=True))


def test_a_model_with_uniform_attention_is_read_as_it_is_and_has_the_gradient_times_the_input():
    encoder = small_encoder()
    uniform = captioner_of(small_checkpoint(encoder, attention="uniform"), encoder)
    decoder, annotations, ids = attentive(uniform), torch.randn(1, 15, 11), torch.tensor([[3, 5, 7]])
    with torch.no_grad():
        expected = uniform.torch_backend().decoder.teacher_forcing(annotations, ids).logits
        torch.testing.assert_close(decoder.teacher_forcing(annotations, ids).logits, expected)
    maps = maps_of(decoder, annotations, forced_by(decoder, annotations, [3, 5, 7]))
    torch.testing.assert_close(maps["alpha"], torch.full((3, 15), 1 / 15, dtype=torch.float64))
    for name in ("gradient", "uniform"):
        torch.testing.assert_close(15 * maps["evidence"], maps[name])


def test_the_figures_of_a_word_by_hand():
    place = {"inside": np.array([1, 0.5, 0, 0]), "centred": np.array([True, False, False, False])}
    target = Target(1, **place, kinds=("all",), others=[2])
    maps = {
        "alpha": np.array([[0.25, 0.25, 0.25, 0.25], [0, 0.4, 0.6, 0], [0, 0, 0, 1]]),
        "evidence": positive(torch.tensor([[0.0, 0, 0, 0], [8, 2, -9, -1], [1, -1, 1, -1]])),
    }
    found = figures_of(maps, target)
    alpha = {"share": 0.2, "peak": 0, "minus_alpha": 0, "minus_words": 0.2 - (0.375 + 0) / 2, "minus_nouns": 0.2}
    assert found["alpha"] == pytest.approx(alpha)
    # a map without a positive part is even
    own = {"share": 0.9, "peak": 1, "minus_alpha": 0.7, "minus_words": 0.9 - (0.375 + 0.5) / 2, "minus_nouns": 0.4}
    assert found["evidence"] == pytest.approx(own)
    assert np.isnan(figures_of(maps, target._replace(others=[]))["alpha"]["minus_nouns"])
