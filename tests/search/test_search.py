"""Search: against every caption there is, and against the same photo alone."""

import itertools
import math

import numpy as np
import pytest
import torch
from decoders import L, Scripted, small_annotations, small_decoder
from searching import beam_search, same, talkative

from show_attend_tell.backends.onnx.session import uniforms
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.scores import repeats
from show_attend_tell.model.attention import ArgmaxAttention, MeanAttention, SampleAttention
from show_attend_tell.model.interface import word_log_probabilities
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import PATH, Hypothesis, Trace, diverse, rank

END, UNKNOWN = Vocabulary.END, Vocabulary.UNKNOWN
CPU = torch.device("cpu")


def log_probability(decoder, annotations, words, mode=None):
    """log p of words, the end token included where it is the last, by `teacher_forcing`."""
    captions = torch.tensor([words])
    with torch.no_grad():
        told = decoder.teacher_forcing(annotations[None], captions, mode=mode or MeanAttention())
    return word_log_probabilities(told.logits, captions).sum().item()


def every_caption(vocabulary, longest):
    """Every caption of known words that ends within the longest length, its end token last; and those cut off there."""
    known = range(2, vocabulary)
    ended = [[*words, END] for steps in range(longest) for words in itertools.product(known, repeat=steps)]
    return ended + [list(words) for words in itertools.product(known, repeat=longest)]


# ---------------------------------------------------------------- beam search


@pytest.mark.parametrize("mode", [MeanAttention(), ArgmaxAttention()], ids=["mean", "argmax"])
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_a_wide_beam_is_exhaustive_search(mode, gamma):
    decoder = small_decoder(vocabulary_size=5, spread=0.8)
    annotations = small_annotations()
    longest = 4
    captions = every_caption(5, longest)
    assert len(captions) == 1 + 3 + 9 + 27 + 81
    found = beam_search(
        decoder, annotations, beam_size=len(captions), max_length=longest, mode=mode, length_penalty=gamma
    )
    for b, hypotheses in enumerate(found):
        ranked = []
        for words in captions:
            score = log_probability(decoder, annotations[b], words, mode)
            ranked.append((words == [END], words[-1] != END, -score / len(words) ** gamma, words, score))
        ranked.sort()  # the empty caption last, what ended first, then by log p / length^γ, the end token counted
        assert len(hypotheses) == len(ranked)
        for hypothesis, (_, unended, _, words, score) in zip(hypotheses, ranked, strict=True):
            assert hypothesis.words == [word for word in words if word != END]
            assert hypothesis.ended == (not unended)
            assert hypothesis.log_probability == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_hypothesis_is_what_teacher_forcing_says_of_its_words(beam_size):
    """Log-probabilities, α, β and locations follow a path through every reordering of the beam."""
    decoder = small_decoder(spread=0.7)
    annotations = small_annotations(batch=7)
    reordered = 0
    for mode in (MeanAttention(), ArgmaxAttention()):
        for b, hypotheses in enumerate(beam_search(decoder, annotations, beam_size=beam_size, max_length=9, mode=mode)):
            assert len(hypotheses) == beam_size
            for hypothesis in hypotheses:
                said = hypothesis.words + [END] * hypothesis.ended
                captions = torch.tensor([said])
                T = len(hypothesis.words)
                with torch.no_grad():
                    told = decoder.teacher_forcing(annotations[b : b + 1], captions, mode=mode)
                log_p = word_log_probabilities(told.logits, captions).sum().item()
                assert hypothesis.log_probability == pytest.approx(log_p, abs=1e-5)
                by_word = word_log_probabilities(told.logits, captions)[0, 0, :T]
                assert hypothesis.word_log_probabilities == pytest.approx(by_word.tolist(), abs=1e-5)
                if T:
                    assert hypothesis.alpha.shape == (T, L) and hypothesis.beta.shape == (T,)
                    torch.testing.assert_close(hypothesis.alpha, told.alpha[0, 0, :T], rtol=0, atol=1e-5)
                    torch.testing.assert_close(hypothesis.beta, told.beta[0, 0, :T], rtol=0, atol=1e-5)
                    if isinstance(mode, ArgmaxAttention):
                        assert torch.equal(hypothesis.locations, told.locations[0, 0, :T])
                    else:
                        assert hypothesis.locations is None
            reordered += len({tuple(h.words[:2]) for h in hypotheses}) == len(hypotheses) > 1
    assert beam_size == 1 or reordered  # some photo's paths parted early, so the others were reordered


@pytest.mark.parametrize("mode", ["mean", "argmax", "sample"])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_batched_beam_equals_one_by_one(beam_size, mode):
    decoder = talkative()
    annotations = small_annotations(batch=7)
    seeds = [11, 5, 3, 2, 13, 7, 17]

    def search(which):
        modes = {
            "mean": MeanAttention(),
            "argmax": ArgmaxAttention(),
            "sample": SampleAttention.for_photos([seeds[b] for b in which], paths=beam_size, steps=9, device=CPU),
        }
        return beam_search(decoder, annotations[which], beam_size=beam_size, max_length=9, mode=modes[mode])

    together = search(list(range(7)))
    assert len({len(h.words) for hypotheses in together for h in hypotheses}) > 1  # photos that end early and late
    for b in range(7):
        same(search([b])[0], together[b])
    order = [3, 6, 0]
    for hypotheses, b in zip(search(order), order, strict=True):
        same(hypotheses, together[b])


def chain(vocabulary, probabilities):
    """A decoder of one-word memory from p(next | previous); the key −1 is for the first word, the rest is unknown's."""
    table = torch.full((vocabulary + 1, vocabulary), 1e-9)
    for previous, following in probabilities.items():
        table[previous, UNKNOWN] = max(1 - sum(following.values()), 1e-9)
        for word, p in following.items():
            table[previous, word] = p
    return Scripted(table.log())


def test_unknown_is_never_said():
    decoder = chain(4, {-1: {UNKNOWN: 0.7, 2: 0.3}, UNKNOWN: {END: 1.0}, 2: {UNKNOWN: 0.8, END: 0.2}})
    annotations = torch.zeros(1, 1, 1)
    (first, *others) = beam_search(decoder, annotations, beam_size=3, max_length=5)[0]
    assert first.words == [2] and all(UNKNOWN not in h.words for h in others)
    assert first.log_probability == pytest.approx(math.log(0.3 * 0.2), abs=1e-5)  # of all words, not of those allowed


@pytest.mark.parametrize("end", [1e-9, 0.0], ids=["hardly", "never"])
def test_nothing_ends(end):
    """Fault: a beam that crashes when nothing ends. The best unfinished caption is returned, and says so."""
    steps = {previous: {END: end, 2: 0.6, 3: 0.4} for previous in (-1, 2, 3)}
    for beam_size in (1, 3):
        best = beam_search(chain(4, steps), torch.zeros(2, 1, 1), beam_size=beam_size, max_length=5)
        for hypotheses in best:
            assert hypotheses[0].words == [2, 2, 2, 2, 2] and not hypotheses[0].ended
            assert hypotheses[0].log_probability == pytest.approx(5 * math.log(0.6), abs=1e-5)


def test_an_empty_caption_is_given_only_last():
    """Where the end token is the likeliest first word, the best caption is the best of those with words."""
    decoder = chain(4, {-1: {END: 0.9, 2: 0.06, 3: 0.04}, 2: {END: 1.0}, 3: {END: 1.0}})
    photo = torch.zeros(1, 1, 1)
    for beam_size in (2, 3, 9):
        found = beam_search(decoder, photo, beam_size=beam_size, max_length=4)[0]
        assert found[0].words == [2] and found[-1].words == [] and found[-1].ended, beam_size
    (greedy,) = beam_search(decoder, photo, beam_size=1, max_length=4)[0]
    assert greedy.words == [2] and greedy.log_probability == pytest.approx(math.log(0.06), abs=1e-5)


def test_probabilities_that_are_no_numbers_are_refused():
    decoder = small_decoder()
    torch.nn.init.constant_(decoder.output_bias, float("nan"))
    with pytest.raises(SatError, match="probabilities are not finite numbers"):
        beam_search(decoder, small_annotations(), beam_size=2)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**32 + 7])
def test_numbers_are_those_of_pytorchs_generator(seed):
    """So a seed draws the same locations with PyTorch and without it."""
    generator = torch.Generator().manual_seed(seed)
    assert torch.equal(torch.from_numpy(uniforms(seed, 17, 43)), torch.rand(17, 43, generator=generator))


def test_diverse_captions_differ_by_words_and_pairs():
    """By hand: the second best shares all but one word with the best, and the others share less and less."""
    log_p = {(2, 3, 4): -1.0, (2, 3, 5): -1.1, (2, 6, 7): -1.5, (8, 9): -2.0, (3,): -9.0}
    seen = Trace([], 0, np.zeros(0, PATH))
    found = [Hypothesis(list(words), score, True, seen) for words, score in log_p.items()]
    found += [Hypothesis([8, 8, 8], -0.5, False, seen), Hypothesis([], -0.1, True, seen)]

    def words(number, gamma=0.0, weight=0.0):
        ordered = rank(found, gamma, weight)
        return [hypothesis.words for hypothesis in diverse(ordered, number, gamma, weight)]

    assert words(1) == [[2, 3, 4]]
    assert words(2) == [[2, 3, 4], [8, 9]]  # nothing in common, and not the worst
    assert words(3) == [[2, 3, 4], [8, 9], [2, 6, 7]]  # 1 of 5 words and pairs in common, not 3 of 5
    assert words(9) == [*words(3), [2, 3, 5], [3]]
    assert [h.words for h in diverse(found[5:6], 3, 0.0, 0.0)] == [[8, 8, 8]]  # nothing ended


def test_without_repetitions_a_wide_beam_finds_every_other_caption():
    """The rule is that of `sat evaluate`, and the log p of what is left stays the same."""
    decoder = small_decoder(vocabulary_size=5, spread=0.6)
    annotations = small_annotations()
    longest = 5
    every = len(every_caption(5, longest))
    for found, expected in zip(
        beam_search(decoder, annotations, beam_size=every, max_length=longest, allow_repetitions=False),
        beam_search(decoder, annotations, beam_size=every, max_length=longest),
        strict=True,
    ):
        assert len(expected) == every
        kept = [hypothesis for hypothesis in expected if not repeats([str(word) for word in hypothesis.words])]
        assert {word for hypothesis in kept for word in hypothesis.words} == {2, 3, 4} and len(kept) < every / 3
        same(found, kept)


def test_settings_of_drawn_words_are_taken_with_their_defaults_alone():
    """Files of older models have them."""
    stored = {"beam_size": 7, "do_sample": False, "temperature": 0.3, "top_k": 0, "top_p": 1.0}
    assert GenerationConfig().merge(**stored) == GenerationConfig(beam_size=7)
    for name, value in {"do_sample": True, "temperature": 1.0, "top_k": 3, "top_p": 0.9}.items():
        with pytest.raises(SatError, match=f"{name}: words are not drawn at random any more"):
            GenerationConfig().merge(**stored | {name: value})
