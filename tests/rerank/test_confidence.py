"""How far words can be trusted: against counting by hand, the reference session, and captions whose truth is known."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from decoders import small_annotations, small_decoder
from searching import MODELS, ReferenceBackend, talkative

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.generation import Decoding, explain
from show_attend_tell.rerank.confidence import (
    MANY,
    Confidence,
    blind_log_probabilities,
    fit,
    raise_confidence,
    regression,
)
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
def test_a_blind_word_is_as_probable_as_with_annotations_of_zeros(options):
    decoder = small_decoder(**options)
    captions = [[3, 4, 5], [3, 4, 7, 9], [8], [3, 4, 5]]
    zeros = torch.zeros(1, 9, 11)
    reference = ReferenceBackend(decoder)
    for backend in (reference, TorchBackend(decoder)):
        features = small_annotations(3, 9)
        found = blind_log_probabilities(backend.blind_session(features, len(captions)), captions)
        for words, row in zip(captions, found, strict=True):
            forced = explain(reference, zeros, [*words, Vocabulary.END], GenerationConfig(), 0)
            np.testing.assert_allclose(row, forced.word_log_probabilities, atol=1e-4)
        assert blind_log_probabilities(backend.blind_session(zeros, 2), [[], []])[0].shape == (0,)


def test_the_confidence_of_a_word_by_hand():
    backend, features, found = found_for(8)
    judged = 0
    for beam, (best, *others) in zip(found, Confidence(ARRAYS).add(backend, features, found, 0.0), strict=True):
        assert [best.words, *(each.words for each in others)] == [each.words for each in beam]
        assert all(each.word_confidence is None for each in others)
        (blind,) = blind_log_probabilities(backend.blind_session(features, 1), [best.words])
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


def test_the_least_confidence_chooses_among_the_captions_of_the_beam():
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


def test_a_regression_is_at_the_least_of_its_loss():
    chance = np.random.default_rng(0)
    features, groups = chance.normal(2, 3, (400, 3)), chance.integers(0, 7, 400)
    right = chance.random(400) < 1 / (1 + np.exp(-(features @ [0.5, -0.3, 0] + groups / 3 - 1)))
    counts = chance.random(400)
    weights, common, own = regression(features, groups, right, counts)

    def loss(w: Any, c: float, o: Any) -> float:
        total = features @ w + c + o[groups]
        ridges = MANY[0] * np.square(w * features.std(0)).sum() + MANY[2] * np.square(o).sum()
        return float((counts * np.logaddexp(0, np.where(right, -total, total))).sum() + ridges / 2)

    least = loss(weights, common, own)
    for _ in range(50):
        moved = (each + 1e-3 * chance.normal(size=np.shape(each)) for each in (weights, common, own))
        assert loss(*moved) > least


def fitted(model: tuple[TorchBackend, Any, Any], said: list[list[str]], start: Confidence | None = None) -> Any:
    backend, features, found = model
    parts = (slice(19), slice(19, None))
    batches = [(backend, None, None, features[part], found[part], [said] * PHOTOS, [1.0] * PHOTOS) for part in parts]
    return fit(VOCABULARY, batches, start)


def test_it_is_fitted_to_what_people_say():
    """People name each noun of the first half of the nouns, and none of the others."""
    model = found_for(PHOTOS)
    packed = fitted(model, [["the", "dogs", "and", "a", "cat"], ["a", "man", "is", "with", "a", "woman"]])
    assert packed["words"].tolist() == sorted(NOUNS)
    best = [each[0] for each in Confidence(packed).add(*model, 0.0)]
    judged = [pair for each in best for pair in zip(each.words, each.word_confidence, strict=True) if pair[0] in NOUNS]
    right = [value for word, value in judged if word in NOUNS[:4]]
    wrong = [value for word, value in judged if word in NOUNS[4:]]
    assert np.mean(right) > 0.75 > 0.25 > np.mean(wrong)
    assert sum(right) + sum(wrong) == pytest.approx(len(right), rel=0.02)  # about as many as are right
    assert not any(each.unlike for each in best)
    assert fitted(model, [["ein", "hund", "und", "eine", "katze"]]) is None


@pytest.mark.parametrize("right", [True, False])
def test_few_photos_move_the_confidence_of_the_start_and_make_no_noun_certain(right):
    """All nouns are right, or none is, against what the start expects."""
    model = found_for(70)
    start = Confidence({**ARRAYS, "offsets": np.full(len(NOUNS), -3 if right else 3)})
    scale = Confidence(fitted(model, [["the", "is", "a", *(WORDS if right else ["of"])]], start))
    best = [each[0] for each in scale.add(*model, 0.0)]
    values = np.concatenate([each.word_confidence for each in best])
    values = values[~np.isnan(values)]
    assert abs(values.mean() - right) < 0.25 and 5e-4 < values.min() < values.max() < 0.9995
    features = model[1]
    assert np.mean(scale.unlike(features)) < 0.1 and all(scale.unlike(features + 1))
    with pytest.raises(SatError, match="another size"):
        scale.unlike(features[..., :-1])


def test_val_raises_the_confidence_of_the_halves_but_never_lowers_it():
    model = found_for(20)
    backend, features, found = model
    arrays = {**ARRAYS, "words": np.array(sorted(NOUNS)), "scales": np.full(len(NOUNS), 0.8)}

    def mean_confidence(people: list[list[str]]) -> float:
        of_val = [(backend, None, None, features, found, [people] * 20, [1.0] * 20)]
        best = [each[0] for each in Confidence(raise_confidence(arrays, VOCABULARY, of_val)).add(*model, 0.0)]
        return float(np.nanmean(np.concatenate([each.word_confidence for each in best])))

    before = mean_confidence([["ein", "hund"]])  # val cannot say anything
    assert before == mean_confidence([["the", "of", "a"]])  # all nouns are wrong
    assert before < 0.3 and 0.85 < mean_confidence([["the", "of", "a", *WORDS]]) < 0.99
