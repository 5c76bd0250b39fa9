"""Visual n-grams: against counting by hand, plain NumPy and exhaustive search; and what a model does with them."""

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from builders import (
    COLUMNS,
    ROWS,
    D,
    InMemoryAnnotations,
    captioner_of,
    shape_photo,
    shape_scenes,
    small_checkpoint,
    small_encoder,
)
from decoders import small_annotations, small_decoder
from numpy.typing import NDArray
from searching import beam_search

from show_attend_tell.backends.onnx import backend as onnx_backend
from show_attend_tell.backends.torch import TorchBackend, second_moments
from show_attend_tell.checkpoint.checkpoint import NGRAMS, Checkpoint, StoredReranker
from show_attend_tell.checkpoint.packing import arrays_digest
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.generation import rescored
from show_attend_tell.metrics.bootstrap import first_not_worse
from show_attend_tell.rerank import fit
from show_attend_tell.rerank.adapt import adapt_ngrams
from show_attend_tell.rerank.ngrams import VisualNgrams, as_rows, counted
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import rank
from show_attend_tell.vision.encoder import Encoder

END, UNKNOWN = Vocabulary.END, Vocabulary.UNKNOWN
CPU = torch.device("cpu")
BACKEND = TorchBackend(small_decoder())  # whose second moments these tests read
Arrays = dict[str, NDArray[Any]]


def expecting(shares: dict[tuple[int, ...], float], *, length: float) -> Arrays:
    """Visual n-grams that expect these shares of every photo."""
    return {
        "channels": np.arange(3),
        "directions": np.zeros((1, 6), np.float32),
        "offset": np.zeros(1, np.float32),
        "shares": np.zeros((len(shares), 1), np.float32),
        "prior": np.array(list(shares.values()), np.float32),
        "ngrams": as_rows(list(shares)),
        "length": np.array(length, np.float32),
    }


def example(photos: int = 40, *, seed: int = 0) -> tuple[InMemoryAnnotations, dict[str, list[list[int]]]]:
    """Photos, and captions that name the channels that are bright in them."""
    generator = torch.Generator().manual_seed(seed)
    bright = torch.rand(photos, D, generator=generator) < 0.3
    annotations = torch.rand(photos, ROWS * COLUMNS, D, generator=generator) * (1 + 4 * bright[:, None])
    names = [f"photo{photo}" for photo in range(photos)]
    captions = {}
    for name, channels in zip(names, bright, strict=True):
        seen = [2 + channel for channel in range(9) if channels[channel]]
        captions[name] = [[*seen, 11, END], [*reversed(seen), UNKNOWN, END]]
    return InMemoryAnnotations(dict(zip(names, annotations, strict=True))), captions


def fitted(photos: int = 40, *, seed: int = 0) -> Arrays:
    held, captions = example(photos, seed=seed)
    found = fit.fit_ngrams(held, captions, device=CPU)
    assert found is not None
    return found


# What is counted


def test_an_n_gram_that_comes_twice_is_two():
    assert Counter(counted([5, 6, 5, 6, END])) == Counter(
        [(0, 5), (0, 6), (1, 5), (1, 6), (0, 5, 6), (0, 6, 5), (1, 5, 6), (0, 5, 6, 5), (0, 6, 5, 6)]
    )
    assert counted([5, UNKNOWN, 6]) == [(0, 5), (0, 6)]  # what is unknown is no word, and separates the others
    assert counted([END]) == []


def test_the_score_with_one_expected_caption_is_the_share_in_common():
    """With a caption of as many words the shares of the n-grams of each, as F1, are counted by hand."""
    expected = [2, 3, 4, 3, 5]
    ngrams = VisualNgrams(expecting(dict.fromkeys(counted(expected), 1.0), length=5))
    shares = ngrams.expected(BACKEND, torch.zeros(1, 4, 3))[0]
    cases = [[2, 3, 4, 3, 5], [3, 5], [2, 3, 4, 3, 3, 3], [6, 7, 8], [9], []]
    for words, score in zip(cases, ngrams.agreements(shares, cases), strict=True):
        by_hand = 0.0
        for n in (1, 2, 3):
            ours, theirs = (Counter(tuple(c[i : i + n]) for i in range(len(c) - n + 1)) for c in (words, expected))
            both = (ours & theirs).total()
            by_hand += both / max(1, (len(words) + len(expected)) / 2 - n + 1) / 3
        assert score == pytest.approx(by_hand), words
    assert ngrams.agreements(shares, [expected]) == [pytest.approx(1)]


def test_rare_words_count_more():
    """By hand, with τ = 1: words of shares 0.5, 0.2 and 0.1, and the first of them twice in 0.1 of the captions."""
    shares = {(0, 2): 0.5, (0, 3): 0.2, (0, 4): 0.1, (1, 2): 0.1, (0, 2, 3): 0.3, (0, 2, 4): 0.3}
    ngrams = VisualNgrams(expecting(shares, length=2))
    assert ngrams.worth(0.0).tolist() == [1] * 6
    factor = (0.25 + 0.04 + 0.01 + 0.01) / (0.5 + 0.2 + 0.1 + 0.02)
    by_hand = [factor / 0.5, factor / 0.2, factor / 0.1, factor / 0.5, 1, 1]
    assert ngrams.worth(1.0).tolist() == pytest.approx(by_hand)
    expected = np.array([0.4, 0.2, 0.2, 0.0, 0.3, 0.3])
    for exponent, common, rare in ((0.0, 0.6, 0.6), (1.0, (0.8 + 1.0) * factor, (0.8 + 2.0) * factor)):
        scores = ngrams.agreements(expected, [[2, 3], [2, 4]], exponent)
        assert scores == pytest.approx([(common / 2 + 0.3) / 3, (rare / 2 + 0.3) / 3])


# The regression


def moments_of(annotations: NDArray[Any]) -> NDArray[Any]:
    """Signed square roots of the second moments of one photo's (L, D) annotations, in NumPy."""
    normal = (annotations - annotations.mean(1, keepdims=True)) / np.sqrt(annotations.var(1, keepdims=True) + 1e-5)
    upper = (normal.T @ normal)[np.triu_indices(D)]
    rooted = np.sign(upper) * np.sqrt(np.abs(upper))
    return np.asarray(rooted / np.linalg.norm(rooted))


def test_second_moments_are_numpy_s_in_both_back_ends_and_in_any_order_of_locations():
    annotations = torch.rand(3, 7, D, generator=torch.Generator().manual_seed(1))
    expected = np.stack([moments_of(each.double().numpy()) for each in annotations])
    for each in (annotations, annotations[:, torch.randperm(7)]):
        np.testing.assert_allclose(second_moments(each, torch.arange(D)).numpy(), expected, atol=1e-5)
        np.testing.assert_allclose(onnx_backend.second_moments(each.numpy(), np.arange(D)), expected, atol=1e-5)


def test_the_fit_is_numpy_s_ridge_regression():
    """There are more directions than n-grams, so nothing is cut off, and 4 bits round them by little."""
    held, captions = example()
    packed = fitted()
    ngrams, names = VisualNgrams(packed), list(captions)
    X = np.stack([moments_of(held.annotations[name].double().numpy()) for name in names])
    known = list(ngrams.numbers)
    Y = np.array([[sum(ngram in counted(words) for words in captions[name]) / 2 for ngram in known] for name in names])
    times = Counter(ngram for each in captions.values() for words in each for ngram in counted(words))
    assert set(known) == {ngram for ngram, count in times.items() if count >= fit.CAPTIONS_OF_NGRAM}
    assert len(known) <= fit.DIRECTIONS
    centered = X - X.mean(0)
    ridge = fit.RIDGE * (centered**2).sum(1).mean()
    weights = np.linalg.solve(centered.T @ centered + ridge * np.eye(X.shape[1]), centered.T @ (Y - Y.mean(0)))
    new = torch.rand(5, ROWS * COLUMNS, D, generator=torch.Generator().manual_seed(4)) * 2
    expected = Y.mean(0) + (np.stack([moments_of(each.double().numpy()) for each in new]) - X.mean(0)) @ weights
    assert np.abs(expected - Y.mean(0)).max() > 0.2  # the photos do tell something
    np.testing.assert_allclose(ngrams.expected(BACKEND, new), expected.clip(0), atol=0.06)
    lengths = [len(words) - 1 for of_photo in captions.values() for words in of_photo]
    assert float(ngrams.length) == pytest.approx(np.mean(lengths))


@pytest.mark.parametrize(("kept", "becomes"), [(99, "kept"), (7, "adapted"), (UNKNOWN, "replaced")])
def test_few_photos_adapt_n_grams_only_where_they_prove_them_wrong(kept, becomes):
    """Words after ``kept`` have other ids, as those of another domain, which the n-grams of the start do not expect."""
    start = fitted(200)
    held, captions = example(60, seed=1)
    renamed = {
        name: [[word + 20 * (word > kept) for word in words] for words in each] for name, each in captions.items()
    }
    few = {name: renamed[name] for name in list(captions)[:40]}
    adapted = adapt_ngrams(start, held, few, device=CPU)
    assert becomes == ("replaced" if adapted is None else "kept" if adapted is start else "adapted")
    if adapted is None:
        return
    before, after = VisualNgrams(start), VisualNgrams(adapted)
    others = list(captions)[40:]
    known = list(after.numbers)
    shares = fit.shares_of(others, renamed, known).numpy()
    errors = []
    for ngrams in (before, after):
        expected = ngrams.expected(BACKEND, held[others])
        missing = shares.shape[1] - expected.shape[1]
        errors.append(np.square(np.pad(expected, ((0, 0), (0, missing))) - shares).sum(1).mean())
    assert errors[1] < 0.8 * errors[0] if becomes == "adapted" else errors[1] == errors[0]
    if becomes == "adapted":
        assert known[: len(before.numbers)] == list(before.numbers) and (0, 8 + 20) in after.numbers
    assert fit.fit_ngrams(held, {"photo0": few["photo0"][:1]}, device=CPU) is None  # too few captions
    damaged = InMemoryAnnotations({name: torch.full((4, D), float("nan")) for name in few})
    with pytest.raises(SatError, match="annotations hold values that are not finite"):
        adapt_ngrams(start, damaged, few, device=CPU)


def test_the_choice_nearest_to_the_first_is_kept_unless_it_is_proved_worse():
    """By hand: the differences to the best are 1 ± 1 and 1 ± 3 over four photos, their standard errors 0.58 and 1.7."""
    best = np.array([5.0, 6.0, 7.0, 8.0])
    proved = best + np.array([0, 2, 0, 2])
    unproved = best + np.array([-2, 4, -2, 4])
    for errors, choice in (([proved, best], 1), ([unproved, best], 0), ([proved, unproved, best], 1)):
        assert first_not_worse(np.stack(errors)) == choice
    assert first_not_worse(np.array([[2.0], [1.0]])) == 0  # one photo proves nothing


@pytest.mark.parametrize("weight", [0.0, 3.0, 30.0])
def test_captions_are_ranked_by_their_rerank_score_too(weight):
    """A beam wide enough to hold every caption has them in the order of log p / C^γ + ω r, the empty one last."""
    decoder, annotations = small_decoder(vocabulary_size=5, spread=0.8), small_annotations()
    ngrams = VisualNgrams(expecting({(0, 2): 0.9, (0, 3): 0.2, (0, 4): 0.4, (0, 2, 4): 0.8}, length=2.5))
    plain = beam_search(decoder, annotations, beam_size=121, max_length=4, length_penalty=0.6)
    scored = rescored(TorchBackend(decoder), annotations, plain, GenerationConfig(), ngrams)
    for hypotheses, others in zip([rank(of_photo, 0.6, weight) for of_photo in scored], plain, strict=True):
        keys = []
        for hypothesis in hypotheses:
            by_hand = ngrams.agreements(ngrams.prior, [hypothesis.words])[0]
            assert hypothesis.rerank_score == pytest.approx(by_hand)
            length = max(1, len(hypothesis.words) + hypothesis.ended)
            score = hypothesis.log_probability / length**0.6 + weight * by_hand
            keys.append((hypothesis.words != [], hypothesis.ended, score))
        assert keys == sorted(keys, reverse=True)
        order, usual = ([hypothesis.words for hypothesis in captions] for captions in (hypotheses, others))
        assert sorted(order) == sorted(usual) and (order == usual) == (weight == 0)


# In a model


@pytest.fixture
def encoder() -> Encoder:
    return small_encoder()


def reranked(encoder: Encoder, **settings: Any) -> Checkpoint:
    """A small model with visual n-grams of its own words, which expect some of them more than others of any photo."""
    model = small_checkpoint(encoder)
    shares = {(0, word): word * 7 % 11 / 10 for word in range(2, 23)}
    model.reranker = StoredReranker("ngrams", expecting(shares, length=4.0))
    how = {"beam_size": 3, "max_length": 11, "length_penalty": 0.5, "rerank_weight": 40.0, **settings}
    model.generation = GenerationConfig(**how)
    return model


def test_a_captioner_ranks_by_them_and_says_so(encoder):
    captioner = captioner_of(reranked(encoder), encoder)
    photos = [shape_photo(*scene) for scene in shape_scenes(12)]
    captions = captioner(photos)
    plain = captioner(photos, rerank_weight=0.0)
    assert list(map(str, captions)) != list(map(str, plain))
    for caption, other in zip(captions, plain, strict=True):
        assert caption.settings["rerank_weight"] == 40 and "rerank_weight" not in other.settings
        assert caption.to_dict()["rerank_score"] == caption.rerank_score is not None
        beams = [{str(best), *(text for text, _ in best.alternatives)} for best in (caption, other)]
        assert beams[0] == beams[1]  # in another order
    alone = captioner(photos[0])
    assert str(alone) == str(captions[0]) and alone.rerank_score == pytest.approx(captions[0].rerank_score, abs=1e-4)
    others = captioner_of(reranked(encoder, rare_word_exponent=2.0), encoder)(photos)
    assert list(map(str, others)) != list(map(str, captions)) and others[0].settings["rare_word_exponent"] == 2
    with pytest.raises(SatError, match="rare_word_exponent is 11"):
        GenerationConfig(rare_word_exponent=11)
    without = captioner_of(small_checkpoint(encoder), encoder)
    assert without(photos[0]).rerank_score is None and "rerank_weight" not in without(photos[0]).settings
    with pytest.raises(SatError, match="rerank_weight is 5, and model has no reranker: give 0"):
        without(photos[0], rerank_weight=5.0)


def test_they_come_back_with_the_model_to_the_bit(encoder, tmp_path):
    before = reranked(encoder)
    before.save(tmp_path / "model")
    after = Checkpoint.load(tmp_path / "model")
    assert after.reranker is not None and before.reranker is not None
    assert arrays_digest(after.reranker.arrays) == arrays_digest(before.reranker.arrays)
    assert after.generation == before.generation
    assert "- Reranker: visual n-grams (" in before.card("m") and "rerank weight 40" in before.card("m")
    dataclasses.replace(after, reranker=None, generation=GenerationConfig()).save(tmp_path / "model")
    assert not (tmp_path / "model" / NGRAMS).exists() and Checkpoint.load(tmp_path / "model").reranker is None


def test_those_of_another_model_and_damaged_ones_are_refused(encoder, tmp_path):
    reranked(encoder).save(tmp_path / "model")
    other = StoredReranker("ngrams", fitted(seed=3))
    dataclasses.replace(small_checkpoint(encoder), reranker=other).save(tmp_path / "other")
    (tmp_path / "other" / NGRAMS).replace(tmp_path / "model" / NGRAMS)
    with pytest.raises(SatError, match="missing or is another model's"):
        Checkpoint.load(tmp_path / "model")
    (tmp_path / "model" / NGRAMS).write_bytes(b"{}")
    with pytest.raises(SatError, match=r"ngrams\.safetensors is missing or damaged"):
        Checkpoint.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["channels", "directions", "offset", "shares", "prior", "ngrams", "length"])
def test_arrays_that_do_not_fit_each_other_are_refused(name):
    arrays = expecting({(0, 2): 0.5, (0, 3): 0.5}, length=2)
    without = {other: array for other, array in arrays.items() if other != name}
    wrong = [without, arrays | {name: np.ones((2, 3, 4), np.float32)}]
    if arrays[name].dtype == np.float32:
        wrong.append(arrays | {name: arrays[name] * np.float32("nan")})
    for damaged in wrong:
        with pytest.raises(SatError, match="not visual n-grams"):
            VisualNgrams(damaged)
