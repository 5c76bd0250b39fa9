"""MS Research: word detectors by noisy-OR, a language model of the detected words, and the ranking by them."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from decoders import B, C, P, small_annotations, small_baseline, small_captions
from numpy.typing import NDArray
from reference import sigmoid
from table1 import detectors
from table1.detectors import Detectors
from table1.msr import Coverage, Msr
from table1.msr_training import Told, nats_a_word
from table1.ngram_model import SMOOTHING, NgramModel

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import Decoding
from show_attend_tell.search.config import GenerationConfig

Array = NDArray[np.float64]
K, DETECTED, NOTHING = 23, 14, 23
CAPTIONS = [[4, 9, 5, 0], [4, 9, 9, 7, 0], [6, 4, 9, 5, 0], [4, 12, 0]]


def small_msr(**options: Any) -> Any:
    """Detectors of which some find their word and some do not, and the n-grams of `CAPTIONS`."""
    decoder = small_baseline("msr", **options)
    decoder.count(CAPTIONS, torch.rand(DETECTED, generator=torch.Generator().manual_seed(3)))
    with torch.no_grad():
        decoder.detectors.word.bias.fill_(-4.0)
        decoder.ngram.add_(torch.randn(decoder.ngram.shape, generator=torch.Generator().manual_seed(4)))
    return decoder


def probabilities(w: dict[str, Array], annotations: Array) -> Array:
    """p_w of the detected words, one location after the other."""
    absent = np.ones(DETECTED)
    for location in annotations:
        normal = (location - location.mean()) / np.sqrt(location.var() + 1e-5)
        hidden = np.maximum(0, w["detectors.hidden.0.weight"] @ normal + w["detectors.hidden.0.bias"])
        absent = absent * (1 - sigmoid(w["detectors.word.weight"] @ hidden + w["detectors.word.bias"]))
    return np.asarray(1 - absent)


def test_the_logits_are_the_equations(float64):
    decoder, annotations, captions = small_msr(), small_annotations(), small_captions()
    captions[0, :4] = torch.tensor(CAPTIONS[0])  # with known n-grams of every length
    output = decoder.teacher_forcing(annotations, captions, paths=P)
    w = {name: value.numpy() for name, value in decoder.state_dict().items()}
    known = {(context, word): number for number, (context, word) in enumerate(entries(decoder))}
    used, mentioned = set(), 0
    for photo in range(B):
        p = probabilities(w, annotations[photo].numpy())
        left = {2 + word for word in range(DETECTED) if p[word] >= 0.5}
        assert 0 < len(left) < DETECTED
        words = []
        for time in range(C):
            before = [NOTHING, NOTHING, NOTHING, *words][::-1][:3]
            for word in range(K):
                inside = int(word in left)
                wanted = w["word"][inside, word]
                for order in (1, 2, 3):
                    if (number := known.get((tuple(before[:order]), word))) is not None:
                        wanted = wanted + w["ngram"][inside, number]
                        used.add((order, inside))
                if inside:
                    wanted = wanted + w["score"] * np.log(p[word - 2])
                if word == Vocabulary.END:
                    wanted = wanted + w["end"][len(left)]
                found = output.logits[photo, :, time, word].detach().numpy()
                np.testing.assert_allclose(found, wanted, atol=1e-9)
            words.append(int(captions[photo, time]))
            mentioned += words[-1] in left
            left -= {words[-1]}
    assert mentioned > 0 and {order for order, _ in used} == {1, 2, 3} and {inside for _, inside in used} == {0, 1}


def entries(decoder: Msr) -> list[tuple[tuple[int, ...], int]]:
    """The context and the word of each n-gram, in their order."""
    found = []
    spans = itertools.pairwise(decoder.starts.tolist())
    for context, (start, end) in zip(decoder.contexts.tolist(), spans, strict=True):
        words = []
        while start < end and context:
            words.append(context % (K + 2) - 1)
            context //= K + 2
        found += [(tuple(words), word) for word in decoder.following[start:end].tolist()]
    return found


def test_before_its_training_it_is_a_smoothed_4_gram_model(float64):
    decoder = small_baseline("msr")
    with torch.no_grad():
        decoder.end.zero_()
    decoder.count(CAPTIONS, torch.ones(DETECTED))
    told = Told(decoder.config).eval()
    told.load_state_dict(decoder.state_dict())
    model = NgramModel(CAPTIONS, K, orders=3)
    caption = [4, 9, 9, 5, 12, 0]
    before = [[NOTHING, NOTHING, NOTHING, *caption[:time]][::-1][:3] for time in range(len(caption))]
    shares = [model.share(word, tuple(context)) for word, context in zip(caption, before, strict=True)]
    assert sum(model.share(word, (9, 4)) for word in range(K)) == pytest.approx(1)
    # the context (4) has 3 words of 2 kinds after it in training, and all are 17 words of 7 kinds
    of_9 = (4 + SMOOTHING * 7 / K) / (17 + SMOOTHING * 7)
    assert model.share(9, (4,)) == pytest.approx((3 + SMOOTHING * 2 * of_9) / (4 + SMOOTHING * 2))
    nothing = torch.full((1, 1, DETECTED), -99.0)
    found = nats_a_word(told, {"photo": [caption]}, nothing)
    assert found == pytest.approx(-np.log(shares).mean(), abs=1e-6)


def test_detectors_find_a_word_at_one_location_and_the_probe_does_not():
    torch.manual_seed(0)
    annotations, truth = torch.randn(120, 6, 5), torch.zeros(120, 2)
    truth[:60, 0], truth[::3, 1] = 1, 1
    annotations[:60, 2] += torch.tensor([9.0, -9.0, 0.0, 0.0, 0.0])  # at one of six locations
    annotations[60:, 2] -= torch.tensor([9.0, -9.0, 0.0, 0.0, 0.0])
    parts = (annotations[::2], annotations[1::2]), (truth[::2], truth[1::2])
    decided = Detectors(5, 32, 2, dropout=0.0)
    found = detectors.fit(decided, *parts, epochs=60, show=False)
    shares = detectors.detected(decided, annotations[1::2]).sigmoid()
    assert found == pytest.approx(detectors.mean_average_precision(shares, truth[1::2]), abs=1e-6)
    assert detectors.mean_average_precision(shares[:, :1], truth[1::2, :1]) > 0.9


def test_mean_average_precision_is_that_of_its_definition():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.8, 0.2, 0.1], [0.7, 0.9, 0.3], [0.1, 0.3, 0.4]])
    truth = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]])
    each = [(1 / 1 + 2 / 3) / 2, (1 / 2 + 2 / 3) / 2]  # no photo has the third word
    assert detectors.mean_average_precision(scores, truth) == pytest.approx(sum(each) / 2)


def test_captions_are_ranked_by_how_much_of_what_is_detected_they_mention():
    decoder, annotations = small_msr(), small_annotations()
    backend, config = TorchBackend(decoder), GenerationConfig(beam_size=P, max_length=C)
    decoding = Decoding(vocabulary=Vocabulary([]), config=config, reranker=Coverage({}))
    found = decoding.candidates(backend, annotations, seeds=[0] * B)
    start = decoder.start(annotations)
    shares = start.source[:, 0].exp() * start.memory.left[:, 0]
    mentioned = set()
    for of_photo, hypotheses in zip(shares, found, strict=True):
        for hypothesis in hypotheses:
            share = sum(float(of_photo[word]) for word in {*hypothesis.words}) / float(of_photo.sum())
            assert hypothesis.rerank_score == pytest.approx(share)
            mentioned.add(share)
    assert len(mentioned) > 1
