"""Each control against a caption told step by step with the context that it stands for."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from decoders import L, LookAt, small_annotations, small_decoder
from torch import Tensor

from show_attend_tell.analysis.ablation.controls import (
    CONTROLS,
    DRAWS,
    Given,
    RandomLocation,
    Uniform,
    costs_at_words,
    losses_throughout,
    maps_of,
    mode_for_search,
    shift_of,
)
from show_attend_tell.analysis.ablation.teacher_forcing import Looking, Watched, watch
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.attention import ArgmaxAttention, Attended, AttentionMode, MeanAttention, SampleAttention
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities
from show_attend_tell.settings import AttentionModeName

EXAMPLE = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
IDS, OTHER_IDS = torch.tensor([[3, 5, 7, 4]]), torch.tensor([[8, 6, 11]])
ANNOTATIONS, OTHER = small_annotations(1), small_annotations(1, seed=9)


class ByStep:
    """Looks as one look says at one step, and as another says at every other."""

    def __init__(self, usual: AttentionMode, step: int, special: Callable[[Tensor, Tensor], Attended]) -> None:
        self.usual, self.step, self.special, self.time = usual, step, special, 0

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        self.time += 1
        mode = self.special if self.time - 1 == self.step else self.usual
        return Attended(mode(alpha, annotations).context, None)


def pair(mode: AttentionModeName) -> tuple[Watched, Watched]:
    decoder = small_decoder()
    with torch.no_grad():
        return (
            watch(decoder, EXAMPLE, ANNOTATIONS, list("abcd"), IDS, Looking(mode, 13)),
            watch(decoder, EXAMPLE, OTHER, list("abc"), OTHER_IDS, Looking(mode, 14)),
        )


@pytest.mark.parametrize("mode", ["mean", "argmax"])
def test_a_control_at_a_word_s_own_step(mode: AttentionModeName) -> None:
    """Told again from the first word on for each word, with the replaced context at that word's step alone."""
    decoder, (watched, other) = small_decoder(), pair(mode)
    usual = MeanAttention() if mode == "mean" else ArgmaxAttention()

    def told(step: int, special: Callable[[Tensor, Tensor], Attended]) -> float:
        logits = teacher_forcing(decoder, ANNOTATIONS, IDS, mode=ByStep(usual, step, special)).logits
        return float(word_log_probabilities(logits, IDS)[0, 0, step])

    def by(alpha: Tensor) -> Callable[[Tensor, Tensor], Attended]:
        return lambda own, annotations: usual(alpha[None, None], annotations)

    def everywhere(own: Tensor, annotations: Tensor) -> Attended:
        return Attended(annotations.mean(1, keepdim=True), None)

    with torch.no_grad():
        found = costs_at_words(decoder, ANNOTATIONS, watched, OTHER, other)
        scaled = OTHER * decoder.annotation_scale
        for step in range(4):
            others = [told(step, by(watched.alpha[word])) for word in range(4) if word != step]
            there = other.alpha[step % 3]
            expected = {
                "uniform": told(step, everywhere),
                "static": told(step, by(watched.alpha.mean(0))),
                "other_word": float(np.mean(others)),
                "other_photo": told(step, by(there)),
                "other_view": told(step, lambda own, annotations, there=there: usual(there[None, None], scaled)),
            }
            for name, value in expected.items():
                assert found[name][step] == pytest.approx(float(watched.visible[step]) - value, abs=1e-5), name
            locations = [told(step, LookAt(torch.full((1, 1, 1), location))) for location in range(L)]
            assert float(watched.visible[step]) - max(locations) <= found["random"][step] + 1e-5
            assert found["random"][step] <= float(watched.visible[step]) - min(locations) + 1e-5
    assert set(found) == set(CONTROLS)


def test_random_places_are_all_alike_and_sampled_ones_are_not() -> None:
    alpha = torch.tensor([0.96, 0.01, 0.01, 0.01, 0.01]).expand(1, 1000, -1)
    uniforms = torch.rand(1, 1000, 1, generator=torch.Generator().manual_seed(1))
    locations = RandomLocation(uniforms)(alpha, ANNOTATIONS).locations
    sampled = SampleAttention(uniforms)(alpha, ANNOTATIONS).locations
    assert locations is not None and sampled is not None
    assert locations.flatten().bincount(minlength=5).min() > 150 and (sampled == 0).float().mean() > 0.9


def test_losses_throughout_count_the_end_token_and_use_the_control_at_every_step() -> None:
    decoder, (watched, other) = small_decoder(), pair("mean")
    ended = torch.cat([IDS, torch.tensor([[Vocabulary.END]])], dim=1)

    def loss(mode: AttentionMode, paths: int = 1) -> list[float]:
        logits = teacher_forcing(decoder, ANNOTATIONS, ended, mode=mode, paths=paths).logits
        found: list[float] = (-word_log_probabilities(logits, ended)[0].mean(0)).tolist()
        return found

    with torch.no_grad():
        found = losses_throughout(decoder, ANNOTATIONS, watched, other)
        mean = watched.alpha.mean(0).expand(1, 1, 5, -1)
        shift = shift_of(watched.looking, 4)
        assert 1 <= shift <= 3
        shifted = watched.alpha[[(time + shift) % 4 for time in range(5)]]
        for name, mode in (
            ("mean", MeanAttention()),
            ("argmax", ArgmaxAttention()),
            ("uniform", Uniform()),
            ("static", Given(mean, MeanAttention())),
            ("other_word", Given(shifted[None, None], MeanAttention())),
            ("other_photo", Given(other.alpha[[0, 1, 2, 0, 1]][None, None], MeanAttention())),
        ):
            assert found[name].tolist() == pytest.approx(loss(mode), abs=1e-5), name
        draws = torch.rand(DRAWS, 5, generator=torch.Generator().manual_seed(13))[None]
        assert found["sample"].tolist() == pytest.approx(loss(SampleAttention(draws), DRAWS), abs=1e-5)
        assert found["random"].tolist() == pytest.approx(loss(RandomLocation(draws), DRAWS), abs=1e-5)
    assert "other_view" not in found


def test_the_maps_of_a_control() -> None:
    alpha, other = torch.eye(3), torch.arange(6.0).view(2, 3)
    assert maps_of("static", alpha, other, 2, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    assert maps_of("other_word", alpha, other, 4, 2).argmax(1).tolist() == [2, 0, 1, 2]
    assert maps_of("other_photo", alpha, other, 3, 1).tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert [shift_of(Looking("mean", seed), 4) for seed in range(4)] == [1, 2, 3, 1]
    assert shift_of(Looking("mean", 5), 1) == 1


def test_a_search_looks_by_each_photo_s_own_maps() -> None:
    annotations, alpha = small_annotations(2), torch.full((2, 3, L), 1 / L)
    alphas, others = [torch.eye(L)[:3], torch.eye(L)[1:3]], [torch.eye(L)[3:], torch.eye(L)[4:]]
    lookings = [Looking("argmax", 6), Looking("argmax", 7)]

    def locations(control: str) -> list[list[int]]:
        mode = mode_for_search(control, alphas, others, lookings, paths=3, steps=4)
        found = []
        for _ in range(4):
            looked = mode(alpha, annotations).locations
            assert looked is not None and (looked == looked[:, :1]).all()
            found.append(looked[:, 0].tolist())
        return found

    assert locations("other_photo") == [[3, 4], [4, 4], [3, 4], [4, 4]]
    assert locations("other_word") == [[1, 2], [2, 1], [0, 2], [1, 1]]
    assert locations("static") == [[0, 1]] * 4
    random = mode_for_search("random", alphas, others, lookings, paths=3, steps=4)
    drawn = [random(alpha, annotations).locations for _ in range(4)]
    assert torch.stack([each for each in drawn if each is not None]).unique().numel() > 2
    assert isinstance(mode_for_search("uniform", alphas, others, lookings, paths=3, steps=4), Uniform)


def test_every_member_of_an_ensemble_looks_by_the_same_map_at_the_same_step() -> None:
    decoder = small_decoder()
    maps = torch.rand(1, 1, 4, L, generator=torch.Generator().manual_seed(3)).softmax(-1)
    with torch.no_grad():
        alone = word_log_probabilities(
            teacher_forcing(decoder, ANNOTATIONS, IDS, mode=Given(maps, MeanAttention())).logits, IDS
        )
        pair_of_them = Ensemble([decoder, small_decoder()])
        both = word_log_probabilities(
            teacher_forcing(pair_of_them, ANNOTATIONS, IDS, mode=Given(maps, MeanAttention())).logits, IDS
        )
    torch.testing.assert_close(alone, both)
    one = Given(maps, SampleAttention(torch.rand(1, 1, 4)))
    one(maps[:, :, 0], ANNOTATIONS)
    other = copy.copy(one)
    assert other.time == 1 and other.mode is not one.mode
