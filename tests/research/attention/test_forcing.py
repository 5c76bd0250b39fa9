"""Teacher forcing of a caption, and of single words with everything before them unchanged."""

from pathlib import Path

import pytest
import torch
from attention.forcing import Forced, SeededMode, force, log_p_at_words, log_p_throughout
from decoders import small_annotations, small_decoder

from show_attend_tell.data.datasets import Example
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import State, teacher_forcing, word_log_probabilities
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName

EXAMPLE = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
IDS = torch.tensor([[3, 5, 7, 4, 9, 2]])


def forced_by(decoder: AttentionDecoder, mode: SeededMode) -> Forced:
    with torch.no_grad():
        return force(decoder, EXAMPLE, small_annotations(1), list("abcdef"), IDS, mode)


@pytest.mark.parametrize("name", ATTENTION_MODES)
def test_every_way_of_forcing_has_the_same_log_p(name: AttentionModeName) -> None:
    decoder, annotations, mode = small_decoder(), small_annotations(1), SeededMode(name, 13)
    forced = forced_by(decoder, mode)
    with torch.no_grad():
        output = teacher_forcing(decoder, annotations, IDS, mode=mode.along(IDS))
        throughout = log_p_throughout(decoder, annotations.expand(3, -1, -1), forced)
        source = decoder.start(annotations, paths=6).source
        at_words = log_p_at_words(decoder, source, forced, mode.at_once(IDS, 3), 3)
    expected = word_log_probabilities(output.logits, IDS)[0, 0]
    torch.testing.assert_close(forced.log_p, expected)
    assert output.alpha is not None and output.beta is not None and forced.beta is not None
    torch.testing.assert_close(forced.alpha, output.alpha[0, 0])
    torch.testing.assert_close(forced.beta, output.beta[0, 0])
    torch.testing.assert_close(throughout, expected.expand(3, -1))
    torch.testing.assert_close(at_words, expected.expand(3, -1))


def test_another_photo_at_one_word_leaves_what_was_seen_before() -> None:
    decoder, annotations, other = small_decoder(), small_annotations(1), small_annotations(1, seed=9)
    mode = SeededMode("mean", 0)
    forced = forced_by(decoder, mode)
    with torch.no_grad():
        source = decoder.start(other, paths=6).source
        found = log_p_at_words(decoder, source, forced, mode.at_once(IDS, 1), 1)[0]
        for time in range(6):  # the true photo up to the word, the other one at it
            state = decoder.start(annotations)
            for step in range(time + 1):
                if step == time:
                    state = State(decoder.start(other).source, state.memory)
                last = torch.tensor([[decoder.vocabulary_size if step == 0 else int(IDS[0, step - 1])]])
                taken = decoder.step(decoder.embed(last), state)
                state = taken.state
            expected = torch.log_softmax(decoder.read_out(taken.output)[0, 0], dim=-1)[IDS[0, time]]
            assert float(found[time]) == pytest.approx(float(expected), abs=1e-5)
        assert not torch.allclose(found, log_p_throughout(decoder, other, forced)[0], atol=1e-2)
