"""Attention, and what every decoder shares: parts that its methods hand to each other, and their precision."""

import pytest
import torch
from decoders import B, C, L, P, small_annotations, small_baseline, small_captions, small_decoder

from show_attend_tell.model.attention import (
    ArgmaxAttention,
    MeanAttention,
    SampleAttention,
    attend_at,
    attention_mode_by_name,
)
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import (
    Decoder,
    at_step,
    map_parts,
    previous_words,
    teacher_forcing,
    word_log_probabilities,
)
from show_attend_tell.settings import ATTENTION_MODES


def test_alpha_moves_from_step_to_step_and_with_the_words() -> None:
    decoder, annotations, captions = small_decoder(), small_annotations(), small_captions()
    other = captions.clone()
    other[:, 0] = 3 + (captions[:, 0] == 3)
    with torch.no_grad():
        alpha, after_other = (teacher_forcing(decoder, annotations, words).alpha for words in (captions, other))
    # y_1 is fed to h_2, and so first moves α_3
    for t in range(C - 1):
        assert (0.5 * (alpha[:, :, t] - alpha[:, :, t + 1]).abs().sum(-1) > 0.01).all()
    assert torch.equal(alpha[:, :, :2], after_other[:, :, :2])
    assert (0.5 * (alpha[:, :, 2:] - after_other[:, :, 2:]).abs().sum(-1) > 0.001).all()


def test_repeating_every_location_halves_alpha() -> None:
    """Fault: scores scaled by 1/√L. They depend on a location and h alone, so a repetition shares its odds."""
    decoder, annotations = small_decoder(), small_annotations()
    hidden = torch.randn(B, P, 13, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        once, twice = (
            decoder.attention(decoder.attention.keys(x), hidden) for x in (annotations, annotations.repeat(1, 2, 1))
        )
    torch.testing.assert_close(twice, torch.cat([once, once], dim=-1) / 2)


def test_repeating_every_location_leaves_the_context() -> None:
    """Fault: the context divided by L. It is an average already, whatever the number of locations."""
    decoder, annotations, captions = small_decoder(), small_annotations(), small_captions()
    with torch.no_grad():
        once, twice = (teacher_forcing(decoder, x, captions) for x in (annotations, annotations.repeat(1, 2, 1)))
    torch.testing.assert_close(once.logits, twice.logits, rtol=0, atol=1e-5)
    constant = torch.full((B, L, 11), 3.0)
    torch.testing.assert_close(MeanAttention()(once.alpha[:, :, 0], constant).context, torch.full((B, 1, 11), 3.0))


def test_attends_to_one_location() -> None:
    annotations = small_annotations()
    alpha = torch.softmax(torch.randn(B, P, L, generator=torch.Generator().manual_seed(1)), dim=-1)
    most = ArgmaxAttention()(alpha, annotations)
    uniforms = torch.rand(B, P, 1, generator=torch.Generator().manual_seed(2))
    for attended in (
        most,
        SampleAttention(uniforms)(alpha, annotations),
        attend_at(torch.randint(L, (B, P)), annotations),
    ):
        for b in range(B):
            for p in range(P):
                assert torch.equal(attended.context[b, p], annotations[b, attended.locations[b, p]])
    assert torch.equal(most.locations, alpha.argmax(-1))


def test_locations_are_drawn_by_alpha() -> None:
    """The frequencies of Multinoulli(α), by Pearson's χ²; and never a location that α excludes."""
    alpha = torch.tensor([0.0, 0.5, 0.1, 0.0, 0.38, 0.02, 0.0])
    draws = 20_011
    mode = SampleAttention.for_photos([17], paths=draws, steps=1, device=torch.device("cpu"))
    locations = mode(alpha.expand(1, draws, -1), torch.zeros(1, 7, 2)).locations
    seen = torch.bincount(locations.flatten(), minlength=7)
    assert (seen[alpha == 0] == 0).all()
    expected = alpha[alpha > 0] * draws
    chi_square = ((seen[alpha > 0] - expected).square() / expected).sum()
    assert chi_square < 16.3  # three degrees of freedom, one in a thousand


def test_edges_of_the_draw() -> None:
    alpha = torch.tensor([[[0.25, 0.25, 0.5]]])
    for uniform, location in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 2), (1 - 2**-24, 2)):
        assert SampleAttention(torch.tensor([[[uniform]]]))(alpha, torch.zeros(1, 3, 1)).locations.item() == location
    short = alpha * 0.9  # rounding may leave the sum below the draw: the last location, not one past it
    assert SampleAttention(torch.tensor([[[0.95]]]))(short, torch.zeros(1, 3, 1)).locations.item() == 2


def test_draws_are_a_photos_own() -> None:
    cpu = torch.device("cpu")
    together = SampleAttention.for_photos([3, 5, 7], paths=P, steps=C, device=cpu).uniforms
    assert together.shape == (3, P, C)
    for b, seed in enumerate((3, 5, 7)):
        assert torch.equal(SampleAttention.for_photos([seed], paths=P, steps=C, device=cpu).uniforms[0], together[b])
    longer = SampleAttention.for_photos([3, 5, 7], paths=P, steps=C + 4, device=cpu).uniforms
    assert torch.equal(longer[..., :C], together)
    assert len(together.unique()) == together.numel()


def test_modes_by_name() -> None:
    for name in ATTENTION_MODES:
        mode = attention_mode_by_name(name, seeds=[1, 2], paths=P, steps=1)
        alpha = torch.softmax(torch.randn(B, P, L), dim=-1)
        assert mode(alpha, small_annotations()).context.shape == (B, P, 11)


def decoders() -> list[Decoder]:
    return [small_decoder(), small_baseline("m_rnn"), Ensemble([small_decoder(), small_baseline("lrcn")])]


@pytest.mark.parametrize("decoder", decoders(), ids=lambda decoder: type(decoder).__name__)
def test_one_step_at_a_time_gives_what_all_steps_at_once_give(decoder: Decoder) -> None:
    """What a search does and what training does: words embedded, and outputs read out, apart or together."""
    annotations, captions = small_annotations(), small_captions()
    before, state = previous_words(decoder, captions), decoder.start(annotations, paths=P)
    assert before[:, 0].tolist() == [decoder.vocabulary_size] * B and torch.equal(before[:, 1:], captions[:, :-1])
    together = decoder.embed(before)
    with torch.no_grad():
        output = teacher_forcing(decoder, annotations, captions, paths=P)
        for time in range(C):
            embedded = decoder.embed(before[:, time : time + 1].expand(-1, P))
            map_parts(torch.testing.assert_close, at_step(together, time, P), embedded)
            step = decoder.step(embedded, state)
            torch.testing.assert_close(decoder.read_out(step.output), output.logits[:, :, time], rtol=0, atol=1e-5)
            state = step.state


@pytest.mark.parametrize("decoder", decoders(), ids=lambda decoder: type(decoder).__name__)
def test_a_decoder_in_float64_computes_in_float64(decoder: Decoder, float64: None) -> None:
    output = teacher_forcing(decoder.double(), small_annotations(), small_captions())
    assert output.logits.dtype == torch.float64 and (output.alpha is None or output.alpha.dtype == torch.float64)


def test_padding_behind_the_end_changes_nothing_before_it() -> None:
    decoder, annotations, captions = small_decoder(), small_annotations(), small_captions()
    padded = torch.cat([captions, torch.ones(B, 3, dtype=torch.long)], dim=-1)
    output, alone = (teacher_forcing(decoder, annotations, each, paths=P) for each in (padded, captions))
    torch.testing.assert_close(output.logits[:, :, :C], alone.logits)
    log_p = word_log_probabilities(output.logits, padded)
    torch.testing.assert_close(log_p[:, :, :C], word_log_probabilities(alone.logits, captions))
