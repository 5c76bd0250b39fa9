"""What is added to the log-probabilities of words: the search follows it, and a caption's log p does not have it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from builders import forget
from decoders import small_annotations, small_decoder
from searching import onto, same, talkative

from show_attend_tell.backends.torch import TorchBackend, TorchSession
from show_attend_tell.data.tokenizers import KARPATHY, UNICODE
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.generation import Decoding, explain
from show_attend_tell.model.attention import MeanAttention
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import SecondUse, apply, word_filters
from show_attend_tell.search.registry import FILTERS, Filter, MakeFilter
from show_attend_tell.search.session import Numbers

B, LOCATIONS = 3, 9


class ForPhotos:
    """The first use of some words is worth something, to each photo something else."""

    ids = np.array([3, 4, 3])  # one is named twice
    weights = np.array([[1.5, -0.7, 0.25], [-2.0, 3.0, 0.5], [0.0, 0.0, 0.0]])  # (B, N)

    def __call__(self, history: Numbers, photos: Numbers) -> tuple[Any, Any]:
        used = (history[..., None] == self.ids).any(2)  # (B′, P′, N)
        return self.ids, np.where(used, 0.0, self.weights[photos][:, None])

    def by_hand(self, photo: int, words: list[int]) -> float:
        return sum(float(self.weights[photo][self.ids == word].sum()) for word in set(words))


def searched(decoder: Any, annotations: Any, config: GenerationConfig, filters: list[Filter], how: str) -> Any:
    backend = TorchBackend(decoder)
    session = TorchSession(decoder, annotations, paths=config.beam_size, mode=MeanAttention())
    if how == "onnx":
        session = backend.session(annotations, config, seeds=[0] * len(annotations))  # type: ignore[assignment]
    return beam_search(session, config, filters)


@pytest.mark.parametrize("how", ["torch", "onnx"])
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_a_wide_beam_orders_every_caption_by_the_sum_and_keeps_log_p(how, gamma):
    decoder, annotations, value = small_decoder(vocabulary_size=5, spread=0.8), small_annotations(B), ForPhotos()
    config = GenerationConfig(beam_size=1 + 3 + 9 + 27, max_length=3, length_penalty=gamma, allow_repetitions=True)
    plain = searched(decoder, annotations, config, word_filters(config), how)
    found = searched(decoder, annotations, config, [*word_filters(config), value], how)
    for photo, (one, other) in enumerate(zip(found, plain, strict=True)):
        same(sorted(one, key=lambda h: h.words), sorted(other, key=lambda h: h.words))  # each with the same log p
        assert [h.filter_score for h in one] == pytest.approx([value.by_hand(photo, h.words) for h in one], abs=1e-5)
        by_hand = [(h.log_probability + value.by_hand(photo, h.words)) / (len(h.words) + h.ended) ** gamma for h in one]
        for ended in (True, False):
            scores = [score for score, h in zip(by_hand, one, strict=True) if h.ended == ended and h.words]
            assert scores == sorted(scores, reverse=True)
    assert [h.words for h in found[0]] != [h.words for h in plain[0]] and found[2] == plain[2]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_both_back_ends_follow_filters_and_log_p_is_that_of_teacher_forcing(beam_size):
    """With photos that end at different times, and words that are forbidden and liked at once."""
    decoder, annotations = talkative(), small_annotations(B, locations=LOCATIONS)
    config = GenerationConfig(beam_size=beam_size, max_length=9)
    filters = [*word_filters(config), ForPhotos(), lambda history, photos: ([1, 2], 4.0)]
    reference, found = (searched(decoder, annotations, config, filters, how) for how in ("torch", "onnx"))
    backend = TorchBackend(decoder)
    for photo, (one, other) in enumerate(zip(found, reference, strict=True)):
        same(one, other, 1e-4)
        assert [h.filter_score for h in one] == pytest.approx([h.filter_score for h in other])
        for h in one:
            assert 1 not in h.words
            forced = explain(backend, annotations[[photo]], [*h.words, *[0] * h.ended], config, 0)
            assert h.word_log_probabilities == pytest.approx(forced.word_log_probabilities, abs=1e-4)
            assert h.log_probability == pytest.approx(forced.log_probability, abs=1e-4)


def test_filters_add_up():
    history = np.array([[[2, 3], [3, 3]]])
    added = apply(
        [lambda history, photos: ([1], -1.0), lambda history, photos: None, ForPhotos()], history, np.array([1])
    )
    assert added.ids.tolist() == [[[1, 3, 4, 3]] * 2] and added.weights.tolist() == [[[-1, 0, 3, 0]] * 2]
    total = onto(np.zeros((1, 2, 5)), added)
    np.testing.assert_array_equal(total, [[[0, -1, 0, 0, 3]] * 2])
    assert added.to(np.array([[0, 1, 0]]), np.array([[1, 4, 2]])).tolist() == [[-1, 3, 0]]
    nothing = apply([], history, np.array([0]))
    assert nothing.ids.shape == nothing.weights.shape == (1, 2, 0)


def test_a_registered_filter_is_a_setting_everywhere():
    """Its name is a setting of `GenerationConfig`, of a model's file, and of what is said of a caption."""

    @FILTERS.register("no_color")
    def no_color(vocabulary: Vocabulary) -> MakeFilter:
        return lambda cost: lambda history, photos: ([vocabulary.words.index("red")], -cost)

    vocabulary = Vocabulary("a red dog".split())
    decoding = Decoding(vocabulary=vocabulary, config=GenerationConfig().merge(no_color=99.0, beam_size=3))
    config = decoding.config
    try:
        assert config.filters == (("no_color", 99.0),)
        assert GenerationConfig().merge(**config.to_dict()) == config and "no_color 99" in config.summary()
        assert config.merge(no_color=0.0).filters == () and config.merge(no_color="99") == config
        for wrong in ({"no_color": "x"}, {"filters": 3}, {"filters": [("no_color", "x")]}):
            with pytest.raises(SatError, match=r"^filters is .*: give the name of each registered filter"):
                config.merge(**wrong)
        assert added(decoding.filters_with_settings(), vocabulary, "a") == {"red": -99.0}
    finally:
        forget(FILTERS, "no_color")
    with pytest.raises(SatError, match="no_color"):
        Decoding(vocabulary=vocabulary, config=config).filters_with_settings()


def added(filters: Sequence[Filter], vocabulary: Vocabulary, words: str) -> dict[str, float]:
    """What filters add to words after a path, without zeros."""
    history = np.array([[vocabulary.encode(words.split())[:-1]]])
    total = onto(np.zeros((1, 1, len(vocabulary))), apply(filters, history, np.array([0])))[0, 0]
    return {word: weight for word, weight in zip(vocabulary.words, total.tolist(), strict=True) if weight}


@pytest.mark.parametrize(
    ("words", "costs"),
    [
        ("a dog runs", {"dog": -2.0, "dogs": -2.0}),
        ("a red", {"red": -2.0}),
        ("dog dogs", {"dog": -4.0, "dogs": -4.0}),
    ],
)
def test_a_second_use_of_a_noun_or_color_costs(words, costs):
    vocabulary = Vocabulary(["a", "dog", "dogs", "red", "runs"])
    second_use = SecondUse(vocabulary)(2.0)
    assert added([second_use], vocabulary, words) == costs
    assert second_use(np.empty((1, 1, 0), dtype=np.int64), np.array([0])) is None


@pytest.mark.parametrize(
    ("captions", "ends"),
    [
        ("a dog in the|a dog in front of|a dog and|a dog that|a red|a red and white|the white", False),
        ("a red dog and a black and white|a dog in its light blue", False),
        ("a dog|a dog is red|a dog is red and white|a dog in red|a dog that is light blue|red", True),
        ("a dog with it|a red dog looks up", True),
    ],
)
def test_no_english_caption_ends_in_the_air(captions, ends):
    config = GenerationConfig(max_length=20)
    words = "a the dog in front of and that red white black its light blue is with it looks up".split()
    for caption in captions.split("|"):
        for tokenizer, free in ((KARPATHY, ends), (UNICODE, True)):
            vocabulary = Vocabulary(words, tokenizer)
            assert ("<end>" not in added(word_filters(config, vocabulary), vocabulary, caption)) == free, caption


@pytest.mark.parametrize(("length", "allowed"), [(2, {"<end>"}), (3, {"<end>", "a", "the", "in", "red"})])
def test_the_last_word_that_there_is_room_for_does_not_end_in_the_air_either(length, allowed):
    vocabulary = Vocabulary("a the dog in red".split())
    changed = added(word_filters(GenerationConfig(max_length=length), vocabulary), vocabulary, "dog")
    assert set(vocabulary.words) - set(changed) == allowed


@pytest.mark.parametrize("beam_size", [1, 3])
def test_where_every_other_word_is_forbidden_a_caption_still_ends(beam_size):
    vocabulary = Vocabulary(["a", "the"])
    config = GenerationConfig(beam_size=beam_size, max_length=4)
    decoder = small_decoder(vocabulary_size=len(vocabulary))
    found = searched(decoder, small_annotations(B), config, word_filters(config, vocabulary), "torch")
    assert all(found)
