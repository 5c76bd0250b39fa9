"""Hard attention, examined: every estimate against the exact value of a decoder small enough to enumerate."""

import itertools
import math
from typing import NamedTuple

import pytest
import torch
from decoders import small_annotations, small_captions, small_decoder
from hard_attention import (
    WARM_UP,
    Estimator,
    gradient_noise,
    log_mean_exp,
    nwgm_gap,
    particle_filter,
    sampled_log_probabilities,
)
from torch import Tensor

from show_attend_tell.model.attention import Attended, GivenLocations, MeanAttention
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities

LOCATIONS, STEPS = 3, 4


class Tiny(NamedTuple):
    """One caption of one photo, and its log p in every way, from all 81 sequences of locations."""

    decoder: AttentionDecoder
    annotations: Tensor
    caption: Tensor
    bound: float  # L_s
    log_p: float  # log p(y|a)


@pytest.fixture
def tiny(float64: None) -> Tiny:
    decoder = small_decoder(spread=0.9, seed=3)
    annotations, caption = 3 * small_annotations(1, LOCATIONS), small_captions(1, STEPS)
    sequences = torch.tensor(list(itertools.product(range(LOCATIONS), repeat=STEPS)))[None]
    with torch.no_grad():
        output = teacher_forcing(
            decoder, annotations, caption, paths=sequences.shape[1], mode=GivenLocations(sequences)
        )
    assert output.alpha is not None and output.locations is not None
    log_words = word_log_probabilities(output.logits, caption).sum(-1)
    log_locations = output.alpha.gather(-1, output.locations[..., None]).squeeze(-1).log().sum(-1)
    bound, log_p = float((log_locations.exp() * log_words).sum()), float((log_locations + log_words).logsumexp(1))
    assert log_p - bound > 0.3  # or there would be nothing to tell apart
    return Tiny(decoder, annotations, caption, bound, log_p)


def uniforms(*shape: int, seed: int = 1) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def mean(values: Tensor) -> tuple[float, float]:
    """The mean and what is five times its standard error."""
    return float(values.mean()), 5 * float(values.std()) / len(values) ** 0.5


# ---------------------------------------------------------------- log p


def test_sampled_sequences_give_the_bound_and_in_the_limit_the_marginal(tiny: Tiny) -> None:
    log_weights, uncertainty = sampled_log_probabilities(
        tiny.decoder, tiny.annotations, tiny.caption, uniforms(1, 4001, STEPS)
    )
    assert log_weights.shape == uncertainty.shape == (1, 4001)
    assert uncertainty.min() > 0 and uncertainty.max() < STEPS * math.log(LOCATIONS)
    by_size = {size: mean(log_mean_exp(log_weights, size)[0]) for size in (1, 5, 50)}
    assert by_size[1][0] == pytest.approx(tiny.bound, abs=by_size[1][1])
    assert by_size[1][0] + 0.1 < by_size[5][0] < by_size[50][0] < tiny.log_p + by_size[50][1]
    assert mean(log_weights[0].exp())[0] == pytest.approx(math.exp(tiny.log_p), abs=mean(log_weights[0].exp())[1])
    assert float(log_mean_exp(log_weights, 4001)) == pytest.approx(tiny.log_p, abs=0.1)


def test_particles_estimate_the_marginal_without_bias_and_closer(tiny: Tiny) -> None:
    copies = 2000
    annotations, captions = tiny.annotations.expand(copies, -1, -1), tiny.caption.expand(copies, -1)
    found = particle_filter(
        tiny.decoder, annotations, captions, uniforms(copies, 5, STEPS), uniforms(copies, STEPS, seed=2)
    )
    average, error = mean(found.exp())
    assert average == pytest.approx(math.exp(tiny.log_p), abs=error) and error < 0.2 * average
    separate, _ = sampled_log_probabilities(tiny.decoder, annotations, captions, uniforms(copies, 5, STEPS, seed=3))
    assert log_mean_exp(separate, 5).mean() < found.mean() < tiny.log_p


# ---------------------------------------------------------------- NWGM


class AtOnce:
    """The mean until a step, then path i at location i."""

    def __init__(self, time: int) -> None:
        self.left = time

    def __call__(self, alpha: Tensor, annotations: Tensor) -> Attended:
        self.left -= 1
        if self.left >= 0:
            return MeanAttention()(alpha, annotations)
        return Attended(annotations, torch.arange(annotations.shape[1])[None])


def test_nwgms_gap_is_that_of_all_locations_at_the_expected_state(tiny: Tiny) -> None:
    annotations, captions = 3 * small_annotations(2, LOCATIONS), small_captions(2, STEPS)
    found = nwgm_gap(tiny.decoder, annotations, captions)
    with torch.no_grad():
        expected = teacher_forcing(tiny.decoder, annotations, captions)
        assert expected.alpha is not None
        for b, time in itertools.product(range(2), range(STEPS)):
            at_each = teacher_forcing(
                tiny.decoder, annotations[b : b + 1], captions[b : b + 1], paths=LOCATIONS, mode=AtOnce(time)
            ).logits[0, :, time]  # (L, K)
            alpha = expected.alpha[b, 0, time]
            exact = alpha @ torch.softmax(at_each, -1)
            entropies = [-(p * p.log()).sum() for p in (exact, *torch.softmax(at_each, -1))]
            information = entropies[0] - alpha @ torch.stack(entropies[1:])
            assert float(found["information"][b, time]) == pytest.approx(float(information))
            word = captions[b, time]
            for name, logits in (("one_pass", expected.logits[b, 0, time]), ("nwgm", alpha @ at_each)):
                ours = torch.softmax(logits, -1)
                divergence = (exact * (exact / ours).log()).sum()
                assert float(found[f"{name}_kl"][b, time]) == pytest.approx(float(divergence)) != 0
                off = float((ours[word] / exact[word]).log())
                assert float(found[f"{name}_word"][b, time]) == pytest.approx(off)
                assert float(found[f"{name}_word_absolute"][b, time]) == pytest.approx(abs(off))


# ---------------------------------------------------------------- the gradient


def test_noise_is_the_trace_of_the_covariance_over_the_squared_mean(tiny: Tiny) -> None:
    batches = [(small_annotations(2, LOCATIONS, seed=seed), small_captions(2, STEPS, seed=seed)) for seed in (1, 2)]
    found = gradient_noise(tiny.decoder, batches, Estimator(samples=2, baseline="none"), draws=7, seed=4)

    generator = torch.Generator().manual_seed(4)
    gradients: list[list[Tensor]] = [[], []]
    for _ in range(WARM_UP + 7):
        for k, (annotations, captions) in enumerate(batches):
            objective = Estimator(samples=2)
            objective.load_state_dict({"baseline": torch.zeros(1)})
            drawn = objective.draw(2, STEPS, generator)
            tiny.decoder.zero_grad()
            output = teacher_forcing(tiny.decoder, annotations, captions, paths=2, mode=drawn.mode)
            objective(output, captions, drawn).total.backward()
            parts = [p.grad for name, p in tiny.decoder.named_parameters() if name.startswith("attention.")]
            gradients[k].append(torch.cat([part.flatten() for part in parts if part is not None]))
    variance = squared = 0.0
    for one in gradients:
        drawn = torch.stack(one[-7:])
        trace = drawn.var(0).sum()
        variance += float(trace) / 2
        squared += float(drawn.mean(0).square().sum() - trace / 7) / 2
    assert found["variance"] == pytest.approx(variance) and found["squared_mean"] == pytest.approx(squared)
    assert found["noise"] == (pytest.approx(variance / squared) if squared > 0 else None)
    assert found["paths"] == 2


# ---------------------------------------------------------------- a model
