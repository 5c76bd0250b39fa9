"""What every decoder shares: the parts that its methods hand to each other, and how precise they are."""

from typing import NamedTuple

import pytest
import torch
from decoders import B, C, P, small_annotations, small_baseline, small_captions, small_decoder
from torch import Tensor

from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import (
    Decoder,
    at_step,
    map_parts,
    previous_words,
    teacher_forcing,
    word_log_probabilities,
)
from show_attend_tell.model.precision import promote


class Pair(NamedTuple):
    one: Tensor
    other: Tensor


def test_a_function_reaches_every_tensor_and_a_named_tuple_keeps_its_names() -> None:
    one, other = torch.arange(6.0).view(2, 3), torch.arange(10.0).view(2, 5)
    doubled = map_parts(lambda part: 2 * part, (Pair(one, other), (one,), ()))
    assert type(doubled) is tuple and type(doubled[0]) is Pair and doubled[2] == ()
    assert torch.equal(doubled[0].one, 2 * one) and torch.equal(doubled[0].other, 2 * other)
    assert torch.equal(doubled[1][0], 2 * one)
    added = map_parts(torch.add, Pair(one, other), Pair(2 * one, 3 * other))
    assert torch.equal(added.one, 3 * one) and torch.equal(added.other, 4 * other)
    assert torch.equal(map_parts(torch.add, one, one), 2 * one)


def test_parts_that_are_not_alike_are_refused() -> None:
    one = torch.zeros(2)
    with pytest.raises(ValueError, match="zip"):
        map_parts(torch.add, (one,), (one, one))


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


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_only_half_precision_is_promoted(given: torch.dtype, kept: torch.dtype) -> None:
    values = torch.tensor([0.1, 2.0], dtype=given)
    assert promote(values).dtype == kept and torch.equal(promote(values), values.to(kept))


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
