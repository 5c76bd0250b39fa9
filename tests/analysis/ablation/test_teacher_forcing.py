"""Telling a caption as it was told, and at single words with everything before them unchanged."""

from pathlib import Path

import pytest
import torch
from decoders import Scripted, small_annotations, small_decoder

from show_attend_tell.analysis.ablation.teacher_forcing import Looking, Watched, force_at_words, force_throughout, watch
from show_attend_tell.data.datasets import Example
from show_attend_tell.errors import SatError
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import State, teacher_forcing, word_log_probabilities
from show_attend_tell.settings import ATTENTION_MODES, AttentionModeName

EXAMPLE = Example("photo.png", Path("photo.png"), "val", (("a",),), ("a",))
IDS = torch.tensor([[3, 5, 7, 4, 9, 2]])


def watched_by(decoder: AttentionDecoder, looking: Looking) -> Watched:
    with torch.no_grad():
        return watch(decoder, EXAMPLE, small_annotations(1), list("abcdef"), IDS, looking)


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_a_caption_is_watched_as_it_is_told(mode: AttentionModeName) -> None:
    decoder, annotations, looking = small_decoder(), small_annotations(1), Looking(mode, 13)
    watched = watched_by(decoder, looking)
    with torch.no_grad():
        told = teacher_forcing(decoder, annotations, IDS, mode=looking.along(IDS))
        same = annotations.expand(3, -1, -1)
        throughout = force_throughout(decoder, same, IDS, looking.along(IDS, 3))
        source = decoder.start(annotations, paths=6).source
        at_words = force_at_words(decoder, source, watched, looking.at_once(IDS, 3), 3)
    expected = word_log_probabilities(told.logits, IDS)[0, 0]
    torch.testing.assert_close(watched.visible, expected)
    assert told.alpha is not None and told.beta is not None and watched.beta is not None
    torch.testing.assert_close(watched.alpha, told.alpha[0, 0])
    torch.testing.assert_close(watched.beta, told.beta[0, 0])
    torch.testing.assert_close(throughout[:, 0], expected.expand(3, -1))
    torch.testing.assert_close(at_words, expected.expand(3, -1))


def test_another_photo_at_one_word_leaves_what_was_seen_before() -> None:
    decoder, annotations, other = small_decoder(), small_annotations(1), small_annotations(1, seed=9)
    looking = Looking("mean", 0)
    watched = watched_by(decoder, looking)
    with torch.no_grad():
        source = decoder.start(other, paths=6).source
        found = force_at_words(decoder, source, watched, looking.at_once(IDS, 1), 1)[0]
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
        throughout = force_throughout(decoder, other, IDS, looking.along(IDS))
        assert not torch.allclose(found, throughout[0, 0], atol=1e-2)


def test_a_decoder_without_attention_cannot_be_watched() -> None:
    with pytest.raises(SatError, match="without attention has no gaze"):
        watch(Scripted(torch.zeros(24, 23)), EXAMPLE, small_annotations(1), ["a"], IDS[:, :1], Looking("mean", 0))
