"""How far words can be trusted: against counting by hand, the reference session, and captions whose truth is known."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations, small_decoder
from searching import MODELS, talkative

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import Decoding, explain
from show_attend_tell.rerank import confidence
from show_attend_tell.rerank.confidence import Confidence, fit, regression
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis

WORDS = "dog cat man woman tree ball car street a in on with of red blue two runs sits near the is".split()
VOCABULARY = Vocabulary(WORDS)
NOUNS = VOCABULARY.encode(WORDS[:8])[:-1]
BEAM = GenerationConfig(beam_size=6, max_length=8)
PHOTOS = 240


ARRAYS = {  # that count log p, the gain and the share of captions
    "words": np.array(NOUNS, np.int32),
    "offsets": np.linspace(-1, 1, len(NOUNS)).astype(np.float32),
    "weights": np.array([0.5, 0.2, 2.0], np.float32),
}


def found_for(photos: int, *, backend: TorchBackend | None = None) -> tuple[TorchBackend, Any, list[list[Hypothesis]]]:
    backend = backend or TorchBackend(talkative(spread=1.0))
    features = small_annotations(photos, 4)
    return (
        backend,
        features,
        Decoding(vocabulary=Vocabulary([]), config=BEAM).captions(backend, features, seeds=[0] * photos),
    )


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_a_blind_word_is_as_probable_as_with_annotations_of_zeros(options: dict[str, Any]) -> None:
    decoder = small_decoder(**options)
    captions = [[3, 4, 5], [3, 4, 7, 9], [8], [3, 4, 5]]
    zeros = torch.zeros(1, 9, 11)
    reference = TorchBackend(decoder, reference=True)
    for backend in (reference, TorchBackend(decoder)):
        found = backend.blind_log_probabilities(small_annotations(3, 9), captions)
        for words, row in zip(captions, found, strict=True):
            forced = explain(reference, zeros, [*words, Vocabulary.END], GenerationConfig(), 0)
            np.testing.assert_allclose(row, forced.word_log_probabilities, atol=1e-4)
        assert backend.blind_log_probabilities(zeros, [[], []])[0].shape == (0,)


def test_the_confidence_of_a_word_by_hand() -> None:
    backend, features, found = found_for(8)
    judged = 0
    for beam, (best, *others) in zip(found, Confidence(ARRAYS).add(backend, features, found, 0.0), strict=True):
        assert [best.words, *(each.words for each in others)] == [each.words for each in beam]
        assert all(each.word_confidence is None for each in others)
        (blind,) = backend.blind_log_probabilities(features, [best.words])
        numbers = zip(best.words, best.word_log_probabilities, blind, best.word_confidence, strict=True)
        for word, log_p, without, value in numbers:
            if word not in NOUNS:
                assert math.isnan(value)
                continue
            judged += 1
            share = np.mean([word in each.words for each in beam])
            gain = np.clip(log_p - without, -5, 10)
            total = 0.5 * max(log_p, -6) + 0.2 * gain + 2 * share + ARRAYS["offsets"][NOUNS.index(word)]
            assert value == pytest.approx(1 / (1 + math.exp(-total)), abs=1e-6)
    assert judged


def reads_well(words: list[int]) -> bool:
    """Whether a caption ends in a noun and has no noun twice."""
    nouns = [word for word in words if word in NOUNS]
    return words[-1:] == nouns[-1:] and len(nouns) == len(set(nouns)) > 0


def test_the_least_confidence_chooses_among_the_captions_of_the_beam() -> None:
    backend, features, found = found_for(20)
    scale = Confidence(ARRAYS)
    judged = scale.judge(backend, features, found, found)
    for least in (0.3, 0.6, 0.9999):
        for (best, *others), beam, values in zip(
            scale.add(backend, features, found, least), found, judged, strict=True
        ):
            worst = [
                min((each for each in row if each == each), default=-1)
                if caption.ended and (caption is beam[0] or reads_well(caption.words))
                else -2
                for caption, row in zip(beam, values, strict=True)
            ]
            reaching = [number for number, each in enumerate(worst) if each >= least]
            expected = reaching[0] if reaching else worst.index(max(worst))
            assert best.words == beam[expected].words
            np.testing.assert_array_equal(best.word_confidence, values[expected])
            assert [each.words for each in others] == [each.words for each in beam if each is not beam[expected]]


def test_a_regression_is_at_the_least_of_its_loss() -> None:
    chance = np.random.default_rng(0)
    features, groups = chance.normal(2, 3, (400, 3)), chance.integers(0, 7, 400)
    right = chance.random(400) < 1 / (1 + np.exp(-(features @ [0.5, -0.3, 0] + groups / 3 - 1)))
    counts = chance.random(400)
    weights, common, own = regression(features, groups, right, counts)

    def loss(w: Any, c: float, o: Any) -> float:
        total = features @ w + c + o[groups]
        ridges = confidence.RIDGE * np.square(w * features.std(0)).sum() + confidence.OFFSET_RIDGE * np.square(o).sum()
        return float((counts * np.logaddexp(0, np.where(right, -total, total))).sum() + ridges / 2)

    least = loss(weights, common, own)
    for _ in range(50):
        moved = (each + 1e-3 * chance.normal(size=np.shape(each)) for each in (weights, common, own))
        assert loss(*moved) > least


def test_it_is_fitted_to_what_people_say() -> None:
    """People name each noun of the first half of the nouns, and none of the others."""
    backend, features, found = found_for(PHOTOS)
    said = [[["the", "dogs", "and", "a", "cat"], ["a", "man", "is", "with", "a", "woman"]]] * PHOTOS
    batches = [(features[part], found[part], said[part], [1.0] * 141) for part in (slice(99), slice(99, None))]
    packed = fit(backend, VOCABULARY, None, batches)
    assert packed is not None and packed["words"].tolist() == sorted(NOUNS)
    best = [each[0] for each in Confidence(packed).add(backend, features, found, 0.0)]
    judged = [pair for each in best for pair in zip(each.words, each.word_confidence, strict=True) if pair[0] in NOUNS]
    right = [value for word, value in judged if word in NOUNS[:4]]
    wrong = [value for word, value in judged if word in NOUNS[4:]]
    assert np.mean(right) > 0.75 > 0.25 > np.mean(wrong)
    assert sum(right) + sum(wrong) == pytest.approx(len(right), rel=0.02)  # about as many as are right
    few = (features[:50], found[:50], said[:50], [1.0] * 50)
    assert fit(backend, VOCABULARY, None, [few]) is None  # too few photos
    german = [[["ein", "hund", "und", "eine", "katze"]]] * PHOTOS
    assert fit(backend, VOCABULARY, None, [(features, found, german, [1.0] * PHOTOS)]) is None
