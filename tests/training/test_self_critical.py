"""Self-critical training: the gradient is that of the expected CIDEr-D, and captions are drawn and paid as they end."""

import itertools
from typing import Any

import pytest
import torch
from builders import fitted, random_data, small_config
from decoders import P, small_annotations, small_decoder
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model import kernels
from show_attend_tell.model.attention import GivenLocations, MeanAttention
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import teacher_forcing
from show_attend_tell.training.loop import Trainer
from show_attend_tell.training.self_critical import CaptionRewards, Drawn, SelfCritical, draw, log_probabilities

END, UNKNOWN = Vocabulary.END, Vocabulary.UNKNOWN


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rewards_of(captions: list[tuple[str, list[int]]], **settings: Any) -> CaptionRewards:
    return CaptionRewards(SelfCritical(**settings), captions)


# The gradient

# Two photos; the words are 2 and 3, and a caption has at most two of them, or one and its end: six captions in all.
CAPTIONS = [("one", [2, 3, END]), ("other", [3, END]), ("other", [3, 3])]
SIZES = {"vocabulary_size": 4, "hidden_size": 5, "embedding_size": 3, "attention_size": 2, "annotation_size": 7}


def gradient(total: Tensor, decoder: AttentionDecoder) -> dict[str, Tensor]:
    weights = dict(decoder.named_parameters())
    found = torch.autograd.grad(total, list(weights.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(weights, found, strict=True))


def exact_gradient(decoder: AttentionDecoder, annotations: Tensor, rewards: CaptionRewards) -> dict[str, Tensor]:
    """∂ Σ_y Σ_s p(y, s) r(y) of the two photos, over all captions y and, of a hard decoder, all locations s of both."""
    hard = decoder.config.attention == "hard"
    words = [(first, second) for first in (2, 3) for second in (END, 2, 3)]
    locations = list(itertools.product(range(2), repeat=2)) if hard else [(0, 0)]
    every = [(y, s) for y in words for s in locations]
    y = torch.tensor([caption for caption, _ in every]).expand(2, -1, -1)
    s = torch.tensor([looked for _, looked in every]).expand(2, -1, -1)
    output = teacher_forcing(
        decoder, annotations, y, paths=len(every), mode=GivenLocations(s) if hard else MeanAttention()
    )
    logits = output.logits.clone()
    logits[..., UNKNOWN] = float("-inf")
    logits[:, :, 0, END] = float("-inf")
    log_p = logits.log_softmax(-1).gather(-1, y[..., None])[..., 0]
    if hard:
        assert output.alpha is not None
        log_p = log_p + output.alpha.gather(-1, s[..., None])[..., 0].log()
    p = log_p.sum(-1).exp()
    torch.testing.assert_close(p.sum(1), torch.ones(2))
    paid = rewards.rewards(Drawn(y, torch.full(y.shape[:2], 2), None), [0, 1]).to(p.dtype)
    return gradient((p * paid).sum(1).mean(), decoder)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_the_gradient_is_that_of_the_expected_reward(attention: str) -> None:
    decoder = small_decoder(**SIZES, attention=attention, gate=attention == "soft")
    annotations = small_annotations(locations=2, size=SIZES["annotation_size"])
    rewards = rewards_of(CAPTIONS, samples=3, longest=2)
    exact = exact_gradient(decoder, annotations, rewards)
    copies, times, source = 100, 25, generator()
    many, photos = annotations.repeat(copies, 1, 1), [0, 1] * copies
    found = []
    for _ in range(times):
        loss = rewards.loss(decoder, teacher_forcing, many, photos, generator=source, word_scores=kernels.word_scores)
        found.append(gradient(-loss.total, decoder))
    for name, wanted in exact.items():
        estimates = torch.stack([each[name] for each in found])
        error, deviation = estimates.mean(0) - wanted, estimates.std(0) / times**0.5
        alive = (deviation > 1e-12) | (error.abs() > 1e-12)
        if alive.any():
            assert float((error[alive] / deviation[alive]).square().mean()) < 8, name
    assert sum(float(value.abs().sum()) for value in exact.values()) > 0.1


# What is drawn


def test_captions_are_drawn_from_the_decoder_s_probabilities() -> None:
    decoder = small_decoder(**SIZES)
    annotations = small_annotations(batch=1, locations=2, size=SIZES["annotation_size"]).expand(2, -1, -1)
    drawn = draw(decoder, annotations, samples=3000, longest=1, generator=generator())
    logits = teacher_forcing(decoder, annotations[:1], torch.zeros(1, 1, dtype=torch.long)).logits[0, 0, 0]
    expected = torch.softmax(logits[2:], dim=-1)[1]
    assert drawn.words.shape == (2, 3000, 1) and set(drawn.words.unique().tolist()) == {2, 3}
    assert (drawn.words == 3).float().mean().item() == pytest.approx(expected.item(), abs=0.025)
    assert drawn.locations is None


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_drawn_captions_end_where_they_say(attention: str) -> None:
    decoder = small_decoder(attention=attention, gate=attention == "soft", dropout=0.5, annotation_dropout=0.5)
    with torch.no_grad():
        decoder.output_bias[END] += 2
    annotations = small_annotations(batch=41)  # more than run together
    drawn = draw(decoder, annotations, samples=P, longest=9, generator=generator())
    steps = torch.arange(drawn.words.shape[-1])
    ends = drawn.words == END
    assert not ends[..., 0].any() and not (drawn.words == UNKNOWN).any()
    first = torch.where(ends.any(-1), ends.int().argmax(-1) + 1, len(steps))
    assert torch.equal(drawn.lengths, first) and len(set(first.flatten().tolist())) > 3
    assert ends[steps >= drawn.lengths[..., None]].all()
    again = draw(decoder.train(), annotations, samples=P, longest=9, generator=generator())
    assert torch.equal(again.words, drawn.words) and decoder.training  # dropout has no part in it
    assert (drawn.locations is not None) == (attention == "hard")
    if drawn.locations is not None and again.locations is not None:
        assert torch.equal(drawn.locations, again.locations) and drawn.locations.shape == drawn.words.shape


def test_a_drawn_caption_is_paid_for_its_end() -> None:
    rewards = rewards_of([("one", [2, 3, 4, 5, END]), ("other", [6, 7, 8, END])])
    words = torch.tensor([[[2, 3, 4, 5, END, END, END]] * 3])
    whole, broken, short = rewards.rewards(Drawn(words, torch.tensor([[5, 4, 2]]), None), [0])[0].tolist()
    assert whole == pytest.approx(10) and short < broken < 9


def test_what_is_never_drawn_has_no_probability() -> None:
    logits = torch.randn(1, 2, 3, 5, generator=generator())
    words = torch.tensor([[[2, 3, 4], [4, 0, 0]]])
    found = log_probabilities(logits, words, kernels.word_scores)
    expected = logits[..., [0, 2, 3, 4]].log_softmax(-1).gather(-1, (words - (words > 1).long())[..., None])[..., 0]
    torch.testing.assert_close(found[..., 1:], expected[..., 1:])
    first = logits[:, :, 0, 2:].log_softmax(-1).gather(-1, words[:, :, :1] - 2)[..., 0]
    torch.testing.assert_close(found[..., 0], first)


# Batches


def test_every_photo_comes_once_an_epoch() -> None:
    rewards = rewards_of(random_data(photos=23).captions)
    found = rewards.batches(5, seed=3)
    assert sorted(photo for batch in found for photo in batch) == list(range(23)) and max(map(len, found)) == 5
    assert found == rewards.batches(5, seed=3) != rewards.batches(5, seed=4)


def test_true_captions_are_different_and_of_one_length() -> None:
    data = random_data(photos=23)
    rewards, source = rewards_of(data.captions), generator()
    lengths = set()
    for _ in range(20):
        chosen = rewards.true_captions(7, source)
        assert len(set(chosen)) == 7
        (length,) = {len(data.captions[number][1]) for number in chosen}
        lengths.add(length)
    assert lengths == {4, 5, 6}
    assert len(rewards.true_captions(99, source)) < 46


# The stage


@pytest.mark.parametrize("attention", ["soft", "hard"])
@pytest.mark.parametrize("likelihood_weight", [0.0, 0.5])
def test_training_raises_the_reward(attention: str, likelihood_weight: float) -> None:
    data = random_data()
    kinds = [[2, 3, 4, END], [5, 6, 7, END]]
    data.captions = [(f"photo{number}", kinds[number % 2]) for number in range(10)]
    for number, (name, _) in enumerate(data.captions):  # the first channel says which kind of photo it is
        data.views[0].annotations[name][:, 0] = 9.0 * (number % 2)  # type: ignore[attr-defined]
    data.vocabulary = Vocabulary([f"word{number}" for number in range(6)])
    config = small_config(
        epochs=15,
        batch_size=5,
        learning_rate=0.02,
        maximize="cider",
        self_critical=SelfCritical(likelihood_weight=likelihood_weight, longest=8),
        decoder={"attention": attention, "gate": False},
    )
    trainer = Trainer(fitted(config, data), data, device=torch.device("cpu"))
    watched = []
    for _ in range(config.epochs):
        watched.append(trainer.one_epoch(False))
        trainer.epoch, trainer.batch = trainer.epoch + 1, 0
    assert trainer.taken == 2 * 15
    assert watched[-1]["drawn_cider"] > 2 * watched[0]["drawn_cider"]
    assert ("nats_per_word" in watched[0]) == bool(likelihood_weight)
    assert {"loss", "drawn_words", "drawn_ended", "drawn_entropy"} <= watched[0].keys()


def test_settings_are_checked() -> None:
    with pytest.raises(SatError, match="samples is 1"):
        SelfCritical(samples=1)  # there would be no other to compare with
