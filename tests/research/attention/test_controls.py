"""Each control against teacher forcing, step by step, with the context that it stands for."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from attention.controls import (
    CONTROLS,
    GivenMaps,
    costs_at_words,
    maps_of,
    mode_for_search,
    shift_of,
)
from attention.forcing import Forced, SeededMode, force
from decoders import L, small_annotations, small_decoder
from torch import Tensor

from show_attend_tell.data.datasets import Example
from show_attend_tell.model.attention import (
    ArgmaxAttention,
    Attended,
    AttentionMode,
    GivenLocations,
    MeanAttention,
    SampleAttention,
)
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities
from show_attend_tell.settings import AttentionModeName

EXAMPLE = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
IDS, OTHER_IDS = torch.tensor([[3, 5, 7, 4]]), torch.tensor([[8, 6, 11]])
ANNOTATIONS, OTHER = small_annotations(1), small_annotations(1, seed=9)


class ByStep:
    """Reads by one attention mode at one step, and by another at every other."""

    def __init__(self, usual: AttentionMode, step: int, special: Callable[[Tensor, Tensor], Attended]) -> None:
        self.usual, self.step, self.special, self.time = usual, step, special, 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        self.time += 1
        mode = self.special if self.time - 1 == self.step else self.usual
        return Attended(mode(alpha, annotations).context, None)


def pair(mode: AttentionModeName) -> tuple[Forced, Forced]:
    decoder = small_decoder()
    with torch.no_grad():
        return (
            force(decoder, EXAMPLE, ANNOTATIONS, list("abcd"), IDS, SeededMode(mode, 13)),
            force(decoder, EXAMPLE, OTHER, list("abc"), OTHER_IDS, SeededMode(mode, 14)),
        )


@pytest.mark.parametrize("mode", ["mean", "argmax"])
def test_a_control_at_a_word_s_own_step(mode: AttentionModeName) -> None:
    """Teacher forcing for each word, with the replaced context at that word's step alone."""
    decoder, (forced, other) = small_decoder(), pair(mode)
    usual = MeanAttention() if mode == "mean" else ArgmaxAttention()

    def log_p(step: int, special: Callable[[Tensor, Tensor], Attended]) -> float:
        logits = teacher_forcing(decoder, ANNOTATIONS, IDS, mode=ByStep(usual, step, special)).logits
        return float(word_log_probabilities(logits, IDS)[0, 0, step])

    def by(alpha: Tensor) -> Callable[[Tensor, Tensor], Attended]:
        return lambda own, annotations: usual(alpha[None, None], annotations)

    def everywhere(own: Tensor, annotations: Tensor) -> Attended:
        return Attended(annotations.mean(1, keepdim=True), None)

    with torch.no_grad():
        found = costs_at_words(decoder, ANNOTATIONS, forced, OTHER, other)
        scaled = OTHER * decoder.annotation_scale
        for step in range(4):
            others = [log_p(step, by(forced.alpha[word])) for word in range(4) if word != step]
            there = other.alpha[step % 3]
            expected = {
                "uniform": log_p(step, everywhere),
                "static": log_p(step, by(forced.alpha.mean(0))),
                "other_word": float(np.mean(others)),
                "other_photo": log_p(step, by(there)),
                "other_view": log_p(step, lambda own, annotations, there=there: usual(there[None, None], scaled)),
            }
            for name, value in expected.items():
                assert found[name][step] == pytest.approx(float(forced.log_p[step]) - value, abs=1e-5), name
            locations = [log_p(step, GivenLocations(torch.full((1, 1, 1), location))) for location in range(L)]
            assert float(forced.log_p[step]) - max(locations) <= found["random"][step] + 1e-5
            assert found["random"][step] <= float(forced.log_p[step]) - min(locations) + 1e-5
    assert set(found) == set(CONTROLS)


def test_the_maps_of_a_control() -> None:
    alpha, other = torch.eye(3), torch.arange(6.0).view(2, 3)
    assert maps_of("static", alpha, other, 2, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert maps_of("other_word", alpha, other, 4, 2).argmax(1).tolist() == [2, 0, 1, 2]
    assert maps_of("uniform", alpha, other, 2, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert maps_of("other_photo", alpha, other, 3, 1).tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert [shift_of(seed, 4) for seed in range(4)] == [1, 2, 3, 1]
    assert shift_of(5, 1) == 1


def test_a_search_reads_by_each_photo_s_own_maps() -> None:
    annotations, alpha = small_annotations(2), torch.full((2, 3, L), 1 / L)
    alphas, others = [torch.eye(L)[:3], torch.eye(L)[1:3]], [torch.eye(L)[3:], torch.eye(L)[4:]]
    modes = [SeededMode("argmax", 6), SeededMode("argmax", 7)]

    def locations(control: str) -> list[list[int]]:
        mode = mode_for_search(control, alphas, others, modes, paths=3, steps=4)
        found = []
        for _ in range(4):
            found_at = mode(alpha, annotations).locations
            assert found_at is not None and (found_at == found_at[:, :1]).all()
            found.append(found_at[:, 0].tolist())
        return found

    assert locations("other_photo") == [[3, 4], [4, 4], [3, 4], [4, 4]]
    assert locations("other_word") == [[1, 2], [2, 1], [0, 2], [1, 1]]
    assert locations("static") == [[0, 1]] * 4
    random = mode_for_search("random", alphas, others, modes, paths=3, steps=4)
    drawn = [random(alpha, annotations).locations for _ in range(4)]
    assert torch.stack([each for each in drawn if each is not None]).unique().numel() > 2
    uniform = mode_for_search("uniform", alphas, others, modes, paths=3, steps=4)
    torch.testing.assert_close(uniform(alpha, annotations).context[:, 0], annotations.mean(1))


def test_every_member_of_an_ensemble_reads_by_the_same_map_at_the_same_step() -> None:
    decoder = small_decoder()
    maps = torch.rand(1, 1, 4, L, generator=torch.Generator().manual_seed(3)).softmax(-1)
    with torch.no_grad():
        alone = word_log_probabilities(
            teacher_forcing(decoder, ANNOTATIONS, IDS, mode=GivenMaps(maps, MeanAttention())).logits, IDS
        )
        pair_of_them = Ensemble([decoder, small_decoder()])
        both = word_log_probabilities(
            teacher_forcing(pair_of_them, ANNOTATIONS, IDS, mode=GivenMaps(maps, MeanAttention())).logits, IDS
        )
    torch.testing.assert_close(alone, both)
    one = GivenMaps(maps, SampleAttention(torch.rand(1, 1, 4)))
    one(maps[:, :, 0], ANNOTATIONS)
    other = copy.copy(one)
    assert other.time == 1 and other.mode is not one.mode
