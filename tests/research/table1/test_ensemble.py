"""An ensemble averages probabilities, and is used like any decoder."""

import math

import pytest
import torch
from decoders import B, C, P, Scripted, small_annotations, small_baseline, small_captions, small_decoder
from table1.ensemble import Ensemble

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import Decoding
from show_attend_tell.model.attention import attention_mode_by_name
from show_attend_tell.search.config import GenerationConfig


def test_probabilities_alpha_and_beta_are_means():
    members = [small_decoder(seed=1), small_decoder(seed=2), small_decoder(seed=3, attention="hard")]
    annotations, captions = small_annotations(), small_captions()
    together = Ensemble(members).teacher_forcing(annotations, captions, paths=P)
    apart = [member.teacher_forcing(annotations, captions, paths=P) for member in members]
    wanted = torch.stack([output.logits.softmax(-1) for output in apart]).mean(0)
    assert torch.allclose(together.logits.exp(), wanted, atol=1e-6)  # they are log-probabilities already
    for name in ("alpha", "beta"):
        wanted = torch.stack([getattr(output, name) for output in apart]).mean(0)
        assert torch.allclose(getattr(together, name), wanted, atol=1e-6)


def test_what_a_member_lacks_is_none():
    annotations, captions = small_annotations(), small_captions()
    output = Ensemble([small_decoder(seed=1), small_decoder(seed=2, gate=False)]).teacher_forcing(annotations, captions)
    assert output.alpha is not None and output.beta is None
    output = Ensemble([small_decoder(seed=1), small_baseline("nic")]).teacher_forcing(annotations, captions)
    assert output.alpha is None and output.beta is None and output.logits.shape == (B, 1, C, 23)


def test_a_beam_finds_what_the_mean_is_sure_of():
    """Each member alone would say another first word than both together."""
    one, two = torch.full((5, 4), 0.01), torch.full((5, 4), 0.01)
    one[4], two[4] = torch.tensor([0.01, 0.01, 0.5, 0.48]), torch.tensor([0.5, 0.01, 0.01, 0.48])
    one[:4, 0] = two[:4, 0] = 1
    backend = TorchBackend(Ensemble([Scripted(one.log()), Scripted(two.log())]), device=torch.device("cpu"))
    greedy = Decoding(vocabulary=Vocabulary([]), config=GenerationConfig(beam_size=1))
    found = greedy.candidates(backend, torch.zeros(1, 1, 1), seeds=[0])
    assert found[0][0].words == [3]
    assert found[0][0].log_probability == pytest.approx(math.log(0.48) + math.log(1 / 1.03), abs=1e-3)


def test_locations_are_drawn_once_a_step():
    """By every member's own α: an ensemble of a decoder with itself is that decoder."""
    annotations, captions = small_annotations(), small_captions()

    alone, together = (
        decoder.teacher_forcing(
            annotations,
            captions,
            paths=P,
            mode=attention_mode_by_name("sample", seeds=[3, 4], paths=P, steps=C),
        )
        for decoder in (small_decoder(), Ensemble([small_decoder(), small_decoder()]))
    )
    assert torch.allclose(together.logits, alone.logits.log_softmax(-1), atol=1e-5)
    assert alone.locations is not None and together.locations is None
