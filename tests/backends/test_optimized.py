"""The fast beam search finds what the plain one finds, and leaves out what is not needed."""

from typing import Any

import pytest
import torch
from decoders import Scripted, small_annotations, small_baseline, small_decoder
from searching import same, talkative
from torch import Tensor

from show_attend_tell.backends import optimized as fast
from show_attend_tell.backends.optimized import WIDE
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.scores import repeats
from show_attend_tell.model.attention import ArgmaxAttention, AttentionMode, MeanAttention, SampleAttention
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.ensemble import Ensemble
from show_attend_tell.model.interface import Decoder
from show_attend_tell.search import Hypothesis, OptimizedBeamSearch, beam_search

MODELS: dict[str, dict[str, Any]] = {
    "soft": {},
    "soft without a gate": {"gate": False},
    "as shipped": {"tied_embeddings": True, "annotation_norm": "layer"},
    "two layers of attention": {"attention_depth": 2, "initial_depth": 1},
    "three output layers": {"output_depth": 3, "initial_size": 7},
    "uniform": {"attention": "uniform"},
    "a sum as deep output": {"output_tanh": False, "output_word": False, "output_context": False},
}
END = 1.0  # added to the end token's bias
ATTENTION_MODES = {"mean": MeanAttention(), "argmax": ArgmaxAttention()}


def soon_over() -> AttentionDecoder:
    """A decoder whose captions are short for some photos."""
    decoder = talkative()
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += END
    return decoder


def both(decoder: Decoder, annotations: Tensor, search: OptimizedBeamSearch | None = None, **options: Any) -> Any:
    """What the fast search and the plain one find."""
    return (search or OptimizedBeamSearch())(decoder, annotations, **options), beam_search(
        decoder, annotations, **options
    )


def alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], tolerance: float = 1e-5) -> None:
    for one, other in zip(found, expected, strict=True):
        same(one, other, tolerance)


@pytest.mark.parametrize("mode", ATTENTION_MODES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam_size", [1, 2, 7, WIDE + 3])
def test_it_finds_what_the_plain_search_finds(name: str, mode: str, beam_size: int) -> None:
    """Photos that end early and late, paths that end and paths that do not, words, log p, α, β and places."""
    decoder = talkative(**MODELS[name])
    found, expected = both(
        decoder, small_annotations(batch=7), beam_size=beam_size, max_length=8, mode=ATTENTION_MODES[mode]
    )
    alike(found, expected)


def test_it_finds_the_same_when_photos_end_early_and_late() -> None:
    decoder = soon_over()
    found, expected = both(decoder, small_annotations(batch=7), beam_size=7, max_length=8)
    alike(found, expected)
    longest = [max(len(h.words) for h in hypotheses) for hypotheses in expected]
    assert min(longest) < 8 and len(set(longest)) > 1  # photos that leave the search before others
    ended = [h.ended for hypotheses in expected for h in hypotheses]
    assert any(ended) and not all(ended)


@pytest.mark.parametrize(
    "options",
    [{"length_penalty": 0.7}, {"max_length": 1}, {"allow_repetitions": False}],
    ids=str,
)
def test_its_options_are_those_of_the_plain_search(options: dict[str, Any]) -> None:
    found, expected = both(talkative(), small_annotations(batch=3), **{"beam_size": 9, "max_length": 6, **options})
    alike(found, expected)
    said = {word for hypotheses in found for h in hypotheses for word in h.words}
    assert Vocabulary.UNKNOWN not in said


@pytest.mark.parametrize("beam_size", [1, 2, 7, WIDE + 3])
def test_it_finds_the_same_without_repetitions(beam_size: int) -> None:
    decoder, photos = small_decoder(spread=0.5), small_annotations(batch=7)
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += 3
    found, expected = both(decoder, photos, beam_size=beam_size, max_length=15, allow_repetitions=False)
    alike(found, expected)
    rough = OptimizedBeamSearch(bf16=True)(decoder, photos, beam_size=beam_size, max_length=15, allow_repetitions=False)
    usual = beam_search(decoder, photos, beam_size=beam_size, max_length=15)
    assert [repetitive(captions) for captions in (found, rough)] == [0, 0] and repetitive(usual) > 0


def repetitive(found: list[list[Hypothesis]]) -> int:
    """How many captions repeat themselves, by the rule of `sat evaluate`."""
    return sum(repeats([str(word) for word in h.words]) for hypotheses in found for h in hypotheses)


def test_few_words_and_a_window() -> None:
    """More paths than captions, and annotations that are means of windows."""
    few = small_decoder(vocabulary_size=3)
    alike(*both(few, small_annotations(), beam_size=7, max_length=4))
    only_end = small_decoder(vocabulary_size=2)
    alike(*both(only_end, small_annotations(), beam_size=5, max_length=4))
    window = talkative(annotation_window=3, attention="hard", gate=False)
    alike(*both(window, small_annotations(batch=3, locations=9), beam_size=5, max_length=6, mode=ArgmaxAttention()))


@pytest.mark.parametrize("beam_size", [1, 5, WIDE])
def test_bfloat16_changes_log_p_by_little(beam_size: int) -> None:
    """The best captions are the same, and log p of captions that both find is nearly the same."""
    decoder, annotations = talkative(0.3), small_annotations(batch=5)
    found, expected = both(decoder, annotations, OptimizedBeamSearch(bf16=True), beam_size=beam_size, max_length=8)
    close = 0
    for one, other in zip(found, expected, strict=True):
        assert one[0].words == other[0].words
        known = {tuple(h.words): h for h in other}
        for h in one:
            if tuple(h.words) in known and h.ended == known[tuple(h.words)].ended:
                assert h.log_probability == pytest.approx(known[tuple(h.words)].log_probability, abs=2e-3)
                close += 1
    assert close > 0.8 * sum(map(len, expected))


def test_finished_paths_and_equal_histories_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer queries are made than there are paths and photos, and fewer the longer the search lasts."""
    rows: list[tuple[int, int]] = []
    energies = fast.energies

    def counted(keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        rows.append((query.shape[0], query.shape[1]))
        return energies(keys, query, weight)

    monkeypatch.setattr(fast, "energies", counted)
    beam_size = 12
    found = OptimizedBeamSearch()(soon_over(), small_annotations(batch=7), beam_size=beam_size, max_length=20)
    assert rows[0] == (7, 1)
    assert max(histories for _, histories in rows) < beam_size
    assert rows[-1][0] < 7
    assert len(rows) == max(len(h.words) + h.ended for hypotheses in found for h in hypotheses)


def test_other_looks_and_decoders_are_searched_by_the_plain_search() -> None:
    decoder, annotations = talkative(), small_annotations()
    seeds = [3, 5]

    def sampled() -> AttentionMode:
        return SampleAttention.for_photos(seeds, paths=4, steps=9, device=torch.device("cpu"))

    search = OptimizedBeamSearch()
    found = search(decoder, annotations, beam_size=4, max_length=9, mode=sampled())
    alike(found, beam_search(decoder, annotations, beam_size=4, max_length=9, mode=sampled()))
    ensemble = Ensemble([decoder, talkative(gate=False)])
    alike(*both(ensemble, annotations, search, beam_size=4, max_length=9))
    alike(*both(small_baseline("nic"), annotations, search, beam_size=4, max_length=9))
    alike(*both(Scripted(torch.randn(6, 5)), annotations, search, beam_size=4, max_length=9))


def test_it_notices_another_decoder_and_changed_weights() -> None:
    search, annotations = OptimizedBeamSearch(), small_annotations()
    decoder: AttentionDecoder = talkative()
    for _ in range(2):
        alike(*both(decoder, annotations, search, beam_size=3, max_length=6))
        with torch.no_grad():
            decoder.gates_from_word.weight.mul_(0.5)
            decoder.output_hidden.bias.add_(1)
    alike(*both(talkative(gate=False), annotations, search, beam_size=3, max_length=6))


def test_a_decoder_made_in_inference_mode_is_searched() -> None:
    with torch.inference_mode():
        decoder = talkative()
        found, expected = both(decoder, small_annotations(batch=2), beam_size=4, max_length=6)
    alike(found, expected)


def test_it_refuses_what_the_plain_search_refuses() -> None:
    decoder = small_decoder()
    with pytest.raises(SatError, match="beam is 0 and the longest caption 5"):
        OptimizedBeamSearch()(decoder, small_annotations(), beam_size=0, max_length=5)
    torch.nn.init.constant_(decoder.output_bias, float("nan"))
    with pytest.raises(SatError, match="probabilities are not finite numbers"):
        OptimizedBeamSearch()(decoder, small_annotations(), beam_size=2)


def test_the_end_token_is_never_the_first_word_of_a_greedy_search() -> None:
    decoder = small_decoder()
    with torch.no_grad():
        decoder.output_bias[Vocabulary.END] += 50
    found, expected = both(decoder, small_annotations(), beam_size=1, max_length=6)
    alike(found, expected)
    assert all(len(hypotheses[0].words) == 1 for hypotheses in found)
