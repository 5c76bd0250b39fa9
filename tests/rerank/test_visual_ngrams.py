"""Visual n-grams: against counting by hand, plain NumPy and exhaustive search; and what a model does with them."""

import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import COLUMNS, ROWS, D, Held, shape_photo, shape_scenes, small_checkpoint, small_encoder
from decoders import small_annotations, small_decoder
from torch import Tensor

import show_attend_tell.checkpoint.hub as find_module
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import NGRAMS, Checkpoint, join
from show_attend_tell.checkpoint.packing import pack
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank import visual_ngrams
from show_attend_tell.rerank.visual_ngrams import LONGEST, VisualNgrams, counted, second_moments
from show_attend_tell.search import beam_search, ranked
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.vision.encoder import Encoder

END, UNKNOWN = Vocabulary.END, Vocabulary.UNKNOWN
CPU = torch.device("cpu")
PINNED = "36fb6f2502bab9db1626b29f2dcede9823973b46c6acb179fbc619aeda5031fb"  # digests stand in configurations


def expecting(shares: dict[tuple[int, ...], float], *, length: float, channels: int = 3) -> VisualNgrams:
    """Visual n-grams that expect these shares of every photo."""
    rows = [[*ngram, *[-1] * (1 + LONGEST - len(ngram))] for ngram in shares]
    return VisualNgrams(
        {
            "channels": torch.arange(channels),
            "directions": torch.zeros(1, channels * (channels + 1) // 2),
            "offset": torch.zeros(1),
            "shares": torch.zeros(len(rows), 1),
            "prior": torch.tensor(list(shares.values())),
            "ngrams": torch.tensor(rows, dtype=torch.int32),
            "length": torch.tensor(float(length)),
        }
    )


def fitted(photos: int = 40, *, seed: int = 0, words: int = 9) -> tuple[VisualNgrams, Held, dict[str, list[list[int]]]]:
    """Visual n-grams of photos whose captions name the channels that are bright in them."""
    generator = torch.Generator().manual_seed(seed)
    bright = torch.rand(photos, D, generator=generator) < 0.3
    annotations = torch.rand(photos, ROWS * COLUMNS, D, generator=generator) * (1 + 4 * bright[:, None])
    captions = {}
    for photo in range(photos):
        seen = [2 + channel for channel in range(words) if bright[photo, channel]]
        captions[f"photo{photo}"] = [[*seen, 2 + words, END], [*reversed(seen), UNKNOWN, END]]
    held = Held({f"photo{photo}": annotations[photo] for photo in range(photos)})
    found = VisualNgrams.fit(held, captions, device=CPU, show=False)
    assert found is not None
    return found, held, captions


# What is counted


def test_an_n_gram_that_comes_twice_is_two() -> None:
    assert Counter(counted([5, 6, 5, 6, END])) == Counter(
        [(0, 5), (0, 6), (1, 5), (1, 6), (0, 5, 6), (0, 6, 5), (1, 5, 6), (0, 5, 6, 5), (0, 6, 5, 6)]
    )
    assert counted([5, UNKNOWN, 6]) == [(0, 5), (0, 6)]  # what is unknown is no word, and parts the others
    assert counted([END]) == []


def test_the_agreement_with_one_expected_caption_is_the_share_in_common() -> None:
    """With a caption of as many words the shares of the n-grams of each, as F1, are counted by hand."""
    expected = [2, 3, 4, 3, 5]
    ngrams = expecting(dict.fromkeys(counted(expected), 1.0), length=5)
    shares = ngrams.expected(torch.zeros(1, 4, 3))[0]
    cases = [[2, 3, 4, 3, 5], [3, 5], [2, 3, 4, 3, 3, 3], [6, 7, 8], [9], []]
    for words, rerank_score in zip(cases, ngrams.rerank_scores(shares, cases), strict=True):
        by_hand = 0.0
        for n in (1, 2, 3):
            ours, theirs = (Counter(tuple(c[i : i + n]) for i in range(len(c) - n + 1)) for c in (words, expected))
            both = (ours & theirs).total()
            by_hand += both / max(1, (len(words) + len(expected)) / 2 - n + 1) / 3
        assert rerank_score == pytest.approx(by_hand), words
    assert ngrams.rerank_scores(shares, [expected]) == [pytest.approx(1)]


def test_rare_words_count_more() -> None:
    """By hand, with τ = 1: words of shares 0.5, 0.2 and 0.1, and the first of them twice in 0.1 of the captions."""
    shares = {(0, 2): 0.5, (0, 3): 0.2, (0, 4): 0.1, (1, 2): 0.1, (0, 2, 3): 0.3, (0, 2, 4): 0.3}
    ngrams = expecting(shares, length=2)
    assert ngrams.worth(0.0).tolist() == [1] * 6
    factor = (0.25 + 0.04 + 0.01 + 0.01) / (0.5 + 0.2 + 0.1 + 0.02)
    by_hand = [factor / 0.5, factor / 0.2, factor / 0.1, factor / 0.5, 1, 1]
    assert ngrams.worth(1.0).tolist() == pytest.approx(by_hand)
    expected = torch.tensor([0.4, 0.2, 0.2, 0.0, 0.3, 0.3])
    for rare_word_exponent, common, rare in ((0.0, 0.6, 0.6), (1.0, (0.8 + 1.0) * factor, (0.8 + 2.0) * factor)):
        rerank_scores = ngrams.rerank_scores(expected, [[2, 3], [2, 4]], rare_word_exponent)
        assert rerank_scores == pytest.approx([(common / 2 + 0.3) / 3, (rare / 2 + 0.3) / 3])


def test_a_share_below_zero_counts_as_none() -> None:
    ngrams = expecting({(0, 2): -0.5, (0, 3): 0.25}, length=1)
    assert ngrams.expected(torch.zeros(1, 4, 3)).tolist() == [[0.0, 0.25]]


# The regression


def moments_of(annotations: np.ndarray) -> np.ndarray:
    """Signed square roots of the second moments of one photo's (L, D) annotations, in NumPy."""
    normal = (annotations - annotations.mean(1, keepdims=True)) / np.sqrt(annotations.var(1, keepdims=True) + 1e-5)
    upper = np.array(
        [(normal[:, i] * normal[:, j]).sum() for i, j in itertools.combinations_with_replacement(range(D), 2)]
    )
    rooted = np.sign(upper) * np.sqrt(np.abs(upper))
    return rooted / np.linalg.norm(rooted)


def test_second_moments_are_numpy_s() -> None:
    annotations = torch.rand(3, 7, D, generator=torch.Generator().manual_seed(1))
    found = second_moments(annotations, torch.arange(D))
    expected = np.stack([moments_of(each.double().numpy()) for each in annotations])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_places_may_come_in_any_order() -> None:
    annotations = torch.rand(2, 7, D, generator=torch.Generator().manual_seed(2))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(3))
    found = [second_moments(each, torch.arange(D)) for each in (annotations, annotations[:, order])]
    torch.testing.assert_close(*found)


def test_the_fit_is_numpy_s_ridge_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more directions than there are n-grams, none of them rounded to 4 bits, nothing is cut off."""
    monkeypatch.setattr(visual_ngrams, "pack_4bit", lambda weights: (weights, torch.ones(len(weights))))
    monkeypatch.setattr(visual_ngrams, "unpack_4bit", lambda packed, scale: packed)
    ngrams, held, captions = fitted()
    names = list(captions)
    X = np.stack([moments_of(held.annotations[name].double().numpy()) for name in names])
    known = [tuple(part for part in row if part >= 0) for row in ngrams.ngrams.tolist()]
    Y = np.array([[sum(ngram in counted(words) for words in captions[name]) / 2 for ngram in known] for name in names])
    times = Counter(ngram for each in captions.values() for words in each for ngram in counted(words))
    assert set(known) == {ngram for ngram, count in times.items() if count >= visual_ngrams.LEAST}
    assert len(known) <= visual_ngrams.DIRECTIONS
    centred = X - X.mean(0)
    ridge = visual_ngrams.RIDGE * (centred**2).sum(1).mean()
    weights = np.linalg.solve(centred.T @ centred + ridge * np.eye(X.shape[1]), centred.T @ (Y - Y.mean(0)))
    new = torch.rand(5, ROWS * COLUMNS, D, generator=torch.Generator().manual_seed(4)) * 2
    expected = Y.mean(0) + (np.stack([moments_of(each.double().numpy()) for each in new]) - X.mean(0)) @ weights
    assert np.abs(expected - Y.mean(0)).max() > 0.05  # the photos do tell something
    np.testing.assert_allclose(ngrams.expected(new).numpy(), expected.clip(0), atol=0.01)
    words = [len([word for word in words if word != END]) for each in captions.values() for words in each]
    assert float(ngrams.length) == pytest.approx(np.mean(words))


def test_the_directions_kept_are_the_best_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut to R directions, no other R describe what the whole regression says of the training photos better."""
    generator = torch.Generator().manual_seed(6)
    inputs, targets = torch.randn(30, 50, generator=generator), torch.randn(30, 12, generator=generator)
    inputs, targets = inputs - inputs.mean(0), targets - targets.mean(0)
    monkeypatch.setattr(visual_ngrams, "native_bf16", lambda device: False)
    directions, axes = visual_ngrams.reduced_ridge(inputs, targets)
    whole = inputs.numpy() @ directions.T.numpy() @ axes.T.numpy()
    monkeypatch.setattr(visual_ngrams, "DIRECTIONS", 4)
    directions, axes = visual_ngrams.reduced_ridge(inputs, targets)
    assert directions.shape == (4, 50) and axes.shape == (12, 4)
    cut = inputs.numpy() @ directions.T.numpy() @ axes.T.numpy()
    lost = np.linalg.norm(whole - cut)
    least = np.sqrt((np.linalg.svd(whole, compute_uv=False)[4:] ** 2).sum())
    assert lost == pytest.approx(least, rel=1e-3)


def test_it_tells_what_new_photos_show() -> None:
    """Of photos that were not fitted, the words of the bright channels are expected more."""
    ngrams, _, _ = fitted(200)
    _, held, captions = fitted(40, seed=1)
    expected = ngrams.expected(held[list(captions)])
    told = []
    for row, each in zip(expected.tolist(), captions.values(), strict=True):
        for word in range(2, 11):
            told.append((row[ngrams.numbers[0, word]], word in each[0]))
    shown = np.mean([share for share, there in told if there])
    others = np.mean([share for share, there in told if not there])
    assert shown > others + 0.2


def test_few_captions_expect_nothing() -> None:
    held = Held({"a": torch.rand(4, D)})
    assert VisualNgrams.fit(held, {"a": [[2, 3, END]]}, device=CPU, show=False) is None


def test_of_many_photos_and_channels_some_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual_ngrams, "CHANNELS", 4)
    monkeypatch.setattr(visual_ngrams, "PHOTOS", 15)
    generator = torch.Generator().manual_seed(0)
    asked: list[str] = []

    class Asked(Held):
        def __getitem__(self, names: Any) -> Tensor:
            asked.extend(names)
            return super().__getitem__(names)

    wide = torch.tensor([9.0 if channel in (1, 3, 6, 10) else 1.0 for channel in range(D)])
    held = Asked({f"photo{n}": torch.randn(6, D, generator=generator) * wide for n in range(40)})
    ngrams = VisualNgrams.fit(held, {name: [[2, END]] for name in held.annotations}, device=CPU, show=False)
    assert ngrams is not None and ngrams.channels.tolist() == [1, 3, 6, 10]
    assert asked == 2 * [f"photo{number * 40 // 15}" for number in range(15)]  # which channels vary, and the fit


def test_the_most_frequent_n_grams_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual_ngrams, "MOST", 3)
    captions = {f"photo{n}": [[2, 3, END] if n % 2 else [2, 3, 4, END]] for n in range(40)}
    held = Held({name: torch.rand(4, D) for name in captions})
    ngrams = VisualNgrams.fit(held, captions, device=CPU, show=False)
    assert ngrams is not None and set(ngrams.numbers) == {(0, 2), (0, 3), (0, 2, 3)}


def test_few_photos_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual_ngrams, "TOGETHER", 4)

    class Few(Held):
        def __getitem__(self, names: Any) -> Tensor:
            assert len(names) <= 4
            return super().__getitem__(names)

    held = Few({f"photo{n}": torch.rand(4, D) for n in range(30)})
    assert VisualNgrams.fit(held, {name: [[2, END]] for name in held.annotations}, device=CPU, show=False)


def test_annotations_that_are_no_numbers_are_refused() -> None:
    held = Held({f"photo{n}": torch.full((4, D), float("nan")) for n in range(20)})
    with pytest.raises(SatError, match="annotations hold values that are not finite: train it at a lower rate"):
        VisualNgrams.fit(held, {name: [[2, END]] for name in held.annotations}, device=CPU, show=False)


@pytest.mark.parametrize("annotations", ["one photo", "all alike"])
def test_photos_that_tell_nothing_leave_the_mean(annotations: str) -> None:
    photos = 1 if annotations == "one photo" else 20
    alike = torch.rand(4, D)
    captions = {f"photo{n}": [[2, END], *[[2 + n % 2, END]] * 11] for n in range(photos)}
    ngrams = VisualNgrams.fit(Held(dict.fromkeys(captions, alike)), captions, device=CPU, show=False)
    assert ngrams is not None
    torch.testing.assert_close(ngrams.expected(torch.rand(3, 4, D)), ngrams.prior.expand(3, -1), rtol=0, atol=1e-3)


def test_the_random_numbers_of_others_stay_as_they_were() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, _, _ = fitted()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    second, _, _ = fitted()
    assert first.digest == second.digest


# Ranking


@pytest.mark.parametrize("weight", [0.0, 3.0, 30.0])
def test_captions_are_ranked_by_their_agreement_too(weight: float) -> None:
    """A beam wide enough to hold every caption has them in the order of log p / C^γ + ω A, the empty one last."""
    decoder, annotations = small_decoder(vocabulary_size=5, spread=0.8), small_annotations()
    ngrams = expecting({(0, 2): 0.9, (0, 3): 0.2, (0, 4): 0.4, (0, 2, 4): 0.8}, length=2.5)
    plain = beam_search(decoder, annotations, beam_size=121, max_length=4, length_penalty=0.6)
    found = [ranked(each, 0.6, weight) for each in ngrams.add_rerank_scores(annotations, plain)]
    for hypotheses, others in zip(found, plain, strict=True):
        keys = []
        for hypothesis in hypotheses:
            by_hand = ngrams.rerank_scores(ngrams.prior, [hypothesis.words])[0]
            assert hypothesis.rerank_score == pytest.approx(by_hand)
            length = len(hypothesis.words) + hypothesis.ended
            score = hypothesis.log_probability / max(1, length) ** 0.6 + weight * by_hand
            keys.append((hypothesis.words != [], hypothesis.ended, score))
        assert keys == sorted(keys, reverse=True)
        assert sorted(h.words for h in hypotheses) == sorted(h.words for h in others)
        assert ([h.words for h in hypotheses] == [h.words for h in others]) == (weight == 0)
        assert all(h.rerank_score is None for h in others)


# In a model


@pytest.fixture
def encoder() -> Encoder:
    return small_encoder()


def ranked_checkpoint(encoder: Encoder, weight: float = 40.0) -> Checkpoint:
    """A small model with visual n-grams of its own words, which expect some of them more than others of any photo."""
    model = small_checkpoint(encoder)
    model.reranker = expecting({(0, word): word * 7 % 11 / 10 for word in range(2, 23)}, length=4.0)
    model.generation = GenerationConfig(beam_size=3, max_length=11, length_penalty=0.5, rerank_weight=weight)
    return model


def test_a_captioner_ranks_by_them_and_says_so(encoder: Encoder) -> None:
    captioner = Captioner(ranked_checkpoint(encoder), encoder)
    photos = [shape_photo(*scene) for scene in shape_scenes(12)]
    captions = captioner(photos)
    plain = captioner(photos, rerank_weight=0)
    assert [str(caption) for caption in captions] != [str(caption) for caption in plain]
    for photo, caption, other in zip(photos, captions, plain, strict=True):
        assert caption.settings["rerank_weight"] == 40 and other.settings["rerank_weight"] == 0
        assert caption.to_dict()["rerank_score"] == caption.rerank_score is not None
        alone = captioner(photo)
        assert str(alone) == str(caption) and alone.rerank_score == pytest.approx(caption.rerank_score, abs=1e-4)
        found = {str(caption), *(text for text, _ in caption.alternatives)}
        assert found == {str(other), *(text for text, _ in other.alternatives)}  # the same captions, in another order
    rare = ranked_checkpoint(encoder)
    rare.generation = dataclasses.replace(rare.generation, rare_word_exponent=2.0)
    others = Captioner(rare, encoder)(photos)
    assert [str(caption) for caption in others] != [str(caption) for caption in captions]
    assert {caption.settings["rare_word_exponent"] for caption in others} == {2.0}
    without = Captioner(small_checkpoint(encoder), encoder)
    assert without(photos[0]).rerank_score is None and "rerank_weight" not in without(photos[0]).settings
    with pytest.raises(SatError, match="rerank_weight is 5, and model has no reranker: give 0"):
        without(photos[0], rerank_weight=5)


def test_an_ensemble_has_those_of_the_first_member_that_has_any(encoder: Encoder) -> None:
    ranked, plain = ranked_checkpoint(encoder), small_checkpoint(encoder, seed=6)
    assert join(["a", "b"], [plain, ranked]).reranker is ranked.reranker
    assert join(["a", "b"], [plain, plain]).reranker is None


def test_they_come_back_with_the_model_to_the_bit(encoder: Encoder, tmp_path: Path) -> None:
    before = ranked_checkpoint(encoder)
    before.save(tmp_path / "model")
    assert (tmp_path / "model" / NGRAMS).exists()
    after = Checkpoint.load(tmp_path / "model")
    assert after.reranker is not None and before.reranker is not None
    for name, tensor in before.reranker.state_dict().items():
        assert torch.equal(tensor, after.reranker.state_dict()[name]), name
    assert after.reranker.digest == before.reranker.digest and after.generation == before.generation
    assert "- Reranker: visual n-grams (" in before.card("m") and "reranker weight 40" in before.card("m")
    after.reranker, after.generation = None, GenerationConfig()
    after.save(tmp_path / "model")
    assert not (tmp_path / "model" / NGRAMS).exists() and Checkpoint.load(tmp_path / "model").reranker is None


def test_fitted_ones_have_two_directions_weights_a_byte(encoder: Encoder, tmp_path: Path) -> None:
    """An odd number of second moments too; the mean photo is still expected to have the mean shares."""
    ngrams, held, captions = fitted(words=3)
    C = len(ngrams.channels)
    assert C * (C + 1) // 2 % 2 == 0
    odd = Held({name: each[:, : C - 2] for name, each in held.annotations.items()})
    for photos in (held, odd):
        found = VisualNgrams.fit(photos, captions, device=CPU, show=False)
        assert found is not None
        R, M = found.directions.shape
        assert found.packed["directions"].dtype == torch.uint8
        assert found.packed["directions"].shape == (R, (M + 1) // 2)
        moments = second_moments(photos[list(captions)], found.channels)
        told = (moments @ found.directions.T - found.offset) @ found.shares.T
        assert told.abs().max() > 0.1
        assert told.mean(0).abs().max() < 0.002
        model = small_checkpoint(encoder)
        model.reranker = found
        model.save(tmp_path / "model")
        again = Checkpoint.load(tmp_path / "model").reranker
        assert again is not None and torch.equal(again.directions, found.directions)


def test_files_with_a_byte_for_every_weight_are_read_too() -> None:
    """As they were before directions had 4 bits."""
    ngrams, held, captions = fitted()
    state = {name: tensor.contiguous() for name, tensor in ngrams.state_dict().items()}
    older = VisualNgrams(pack(state))
    assert older.packed["directions"].dtype == torch.int8
    assert visual_ngrams.digest({"b": np.array([[1, -2]], np.int8), "a": np.array(0.5, np.float32)}) == PINNED
    photos = held[list(captions)]
    torch.testing.assert_close(older.expected(photos), ngrams.expected(photos), atol=0.01, rtol=0)


def test_models_may_share_those_shipped(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked_checkpoint(encoder).save(tmp_path / "model")
    shipped = tmp_path / "shipped" / "both-ngrams"
    shipped.mkdir(parents=True)
    (tmp_path / "model" / NGRAMS).rename(shipped / NGRAMS)
    with pytest.raises(SatError, match=r"ngrams\.safetensors is missing or is another model's: copy the model again"):
        Checkpoint.load(tmp_path / "model")
    monkeypatch.setattr(find_module, "SHIPPED", tmp_path / "shipped")
    assert Checkpoint.load(tmp_path / "model").reranker is not None
    monkeypatch.undo()
    shipped.rename(tmp_path / "ours-ngrams")  # beside the model
    assert Checkpoint.load(tmp_path / "model").reranker is not None


def test_those_of_another_model_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    ranked_checkpoint(encoder).save(tmp_path / "model")
    other = small_checkpoint(encoder)
    other.reranker = fitted(seed=3)[0]
    other.save(tmp_path / "other")
    (tmp_path / "other" / NGRAMS).replace(tmp_path / "model" / NGRAMS)
    with pytest.raises(SatError, match="missing or is another model's"):
        Checkpoint.load(tmp_path / "model")


def test_damaged_ones_are_named(encoder: Encoder, tmp_path: Path) -> None:
    ranked_checkpoint(encoder).save(tmp_path / "model")
    (tmp_path / "model" / NGRAMS).write_bytes(b"{}")
    with pytest.raises(SatError, match=r"ngrams\.safetensors is missing or damaged"):
        Checkpoint.load(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["ngrams"] = None
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(SatError, match="gives the reranker a weight, and the model has no reranker"):
        Checkpoint.load(tmp_path / "model")


@pytest.mark.parametrize("name", list(VisualNgrams.__annotations__))
def test_tensors_that_do_not_fit_each_other_are_refused(name: str) -> None:
    tensors = dict(fitted()[0].state_dict())
    with pytest.raises(SatError, match="not visual n-grams"):
        VisualNgrams({other: tensor for other, tensor in tensors.items() if other != name})
    with pytest.raises(SatError, match="visual n-grams"):
        VisualNgrams({**tensors, name: torch.ones(2, 3, 4)})
    with pytest.raises(SatError, match="visual n-grams"):
        wrong = tensors[name].long() if tensors[name].is_floating_point() else tensors[name].bool()
        VisualNgrams({**tensors, name: wrong})
    if tensors[name].is_floating_point():
        with pytest.raises(SatError, match=f"{name} are damaged"):
            VisualNgrams({**tensors, name: tensors[name] * float("nan")})


def test_damaged_directions_in_4_bits_are_refused() -> None:
    packed = fitted()[0].packed
    scale = packed["directions.scale"]
    with pytest.raises(SatError, match="directions are damaged"):
        VisualNgrams({name: tensor for name, tensor in packed.items() if name != "directions.scale"})
    with pytest.raises(SatError, match="4-bit weights of "):
        VisualNgrams({**packed, "directions.scale": scale[1:]})
    for damaged in (packed["directions"][:, 1:], packed["directions"].repeat(1, 2)):
        with pytest.raises(SatError, match="directions are damaged"):
            VisualNgrams({**packed, "directions": damaged.contiguous()})
    with pytest.raises(SatError, match="directions are damaged"):
        VisualNgrams({**packed, "directions.scale": scale * float("nan")})
    halved = {**packed, "prior": packed["prior"].bfloat16(), "other": torch.ones(2, dtype=torch.bfloat16)}
    assert VisualNgrams(halved).prior.dtype == torch.float32


def test_annotations_of_another_size_are_refused() -> None:
    with pytest.raises(SatError, match="annotations of another size than 5"):
        fitted()[0].expected(torch.zeros(1, 4, 5))
