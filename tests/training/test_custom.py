"""How a training fits a custom data: its start, its updates, its words, and what val chooses by."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import fitted as sized
from builders import random_data, small_checkpoint, small_config, small_encoder
from documents import needs_models
from trainers import learn, trainer_of

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.data.datasets.dataset import DataReport, Dataset, Example, Part
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.interface import word_log_probabilities
from show_attend_tell.rerank.class_words import COMMON, class_words_of
from show_attend_tell.training.cautious import Figures, choose_share, interpolate, judge_by_val
from show_attend_tell.training.presets import preset
from show_attend_tell.training.presets.custom import english_words, fitted, retokenize, why_afresh
from show_attend_tell.training.selection import CIDER_PER_NAT, nats_a_word
from show_attend_tell.training.stages.data import learnt_vocabulary
from show_attend_tell.training.stages.weights import give_start_back

ENGLISH, GERMAN = "two dogs run through the grass", "zwei braune Hunde rennen durchs hohe Gras"


def custom(train, *, val=3, captions=5, text=ENGLISH):
    """So many photos whose captions have six words or seven."""
    examples = []
    for number in range(train + val):
        raw = [text + " now" * (each % 2) for each in range(captions)]
        words = tuple(tuple(each.lower().split()) for each in raw)
        examples.append(
            Example(f"{number}.jpg", Path(f"{number}.jpg"), "train" if number < train else "val", words, tuple(raw))
        )
    return Dataset("mine", Path(), tuple(examples), DataReport(photos={"train": train, "val": val}, captions={}))


def test_small_english_data_start_from_the_shipped_model():
    assert why_afresh(custom(1999)) == ""
    assert "2,000 training photos are enough" in why_afresh(custom(2000))
    assert "not English: 0 % of their words" in why_afresh(custom(20, text=GERMAN))
    assert len(english_words()) > 2000


def test_a_model_of_karpathy_s_words_learns_the_numbers_of_custom_data():
    start = small_checkpoint(small_encoder())
    config = replace(preset("flickr8k", "soft"), minimum_count=1)
    data, why = retokenize(custom(3, text="a plug of 3.5 mm"), config, start)
    assert why == "tokenizer english: as in the model to start from, but numbers keep their points"
    assert data.split("train")[0].captions[0] == ("a", "plug", "of", "3.5", "mm")
    vocabulary = learnt_vocabulary(start, data, config)
    assert "3.5" in vocabulary and vocabulary.tokenizer.name == "english"
    assert vocabulary.words[: len(start.vocabulary)] == start.vocabulary.words


@pytest.mark.parametrize(
    ("photos", "started", "epochs", "least"),
    [
        (20, False, 40, 1),
        (20, True, 20, 1),
        (300, False, 40, 1),
        (300, True, 16, 1),
        (1999, True, 3, 1),
        (9000, False, 6, 5),
    ],
)
def test_updates_and_words_fit_the_set(photos, started, epochs, least):
    config = preset("flickr8k", "soft")
    found, lines = fitted(custom(photos, val=200), config, started=started)
    assert (found.epochs, found.minimum_count, found.selected_by) == (epochs, least, "bleu_4")
    assert (found.learning_rate == 5e-4) == (found.scheduled_sampling == 0.3) == started
    assert any("learning_rate 0.0005 and scheduled_sampling 0.3" in line for line in lines) == started
    assert any(line.startswith(f"{epochs} epochs of ") for line in lines) == (epochs not in (3, 6))
    assert any("seen 1 time or more are learnt" in line for line in lines) == (least == 1)


def test_updates_are_of_the_captions_that_an_epoch_shows():
    data = custom(300)
    double = replace(data, parts=[Part(each.name, data, 2.0) for each in data.examples])
    assert [fitted(each, preset("flickr8k", "soft"), started=True)[0].epochs for each in (data, double)] == [16, 9]


def test_what_the_user_has_set_stays():
    config = preset("flickr8k", "soft")
    given = ("epochs", "minimum_count", "selected_by", "learning_rate", "scheduled_sampling", "cautious")
    assert fitted(custom(20), config, given=given, started=True) == (config, [])
    assert fitted(custom(20), config, given=("learning_rate",), started=True)[1][0].startswith(
        "scheduled_sampling 0.3,"
    )
    found, lines = fitted(custom(20), config, given=("epochs",))
    assert found.epochs == 6 and found.cautious and found.selected_by == "cider_and_nats" and "too few" in lines[2]


def test_nats_a_word():
    """The mean over all words of val that the model knows, whichever caption they are of."""
    data = random_data()
    data.validation[1][1][0][1] = "never heard"
    trainer = trainer_of(data, selected_by="nats")
    decoder = trainer.average
    values = []
    for name, references in data.validation:
        for words in references:
            ids = torch.tensor([data.vocabulary.encode(words)])
            log_p = word_log_probabilities(decoder.teacher_forcing(data.views[0][[name]], ids).logits, ids)[0, 0]
            values += log_p[ids[0] != Vocabulary.UNKNOWN].tolist()
    expected = -sum(values) / len(values)
    assert nats_a_word(decoder, data) == pytest.approx(expected, rel=1e-5)
    scores = trainer.validate()
    assert scores["nats"] == pytest.approx(expected, rel=1e-5)
    assert trainer.selection(scores) == -scores["nats"]
    trainer.config = small_config()
    assert "nats" not in trainer.validate()


def figures(ciders, nats):
    return Figures(np.array([nats, [4.0] * len(nats)]), np.array(ciders))


def test_the_start_is_left_by_proof_in_nats_and_for_better_captions():
    start = figures([10, 20, 30, 40], [8, 8, 8, 8])
    fewer = [7.0, 6.9, 7.1, 7.0]
    as_many = [8.0, 7.9, 8.1, 8.0]
    cases = [
        ([[20, 30, 40, 50]], [fewer], 1),
        ([[20, 30, 40, 50]], [as_many], 0),  # better by chance: nats say that there is nothing to learn
        ([[0, 10, 20, 30]], [fewer], 0),  # worse captions
        ([[20, 30, 40, 50], [18, 31, 42, 50]], [fewer, fewer], 1),  # as good as what is further away
        ([[20, 30, 40, 50], [40, 50, 60, 70]], [fewer, fewer], 2),
    ]
    for ciders, nats, expected in cases:
        assert choose_share([start, *map(figures, ciders, nats)]) == expected
    found = figures([50, 70], [12, 6]).beside(figures([40, 70], [14, 7]))
    assert found == (
        "CIDEr 60.0, start 55.0 (+5.0, 95 % interval +0.0 to +10.0); 2.25 nats a word, start 2.62; of 2 photos"
    )
    assert figures([50, 70], [12, 6]).worth.mean() == pytest.approx(60 - CIDER_PER_NAT * 18 / 8)


def test_weights_go_as_far_from_the_start_as_val_supports():
    data = random_data()
    config = sized(small_config(epochs=4, cautious=True), data)
    start, _ = learn(replace(config, epochs=1, learning_rate=1e-9), data)
    trained, _ = learn(replace(config, epochs=20), data)
    before = start.average
    after = trained.average
    assert judge_by_val(config, data, after, before).share > 0  # the photos of val are those trained on
    assert judge_by_val(config, data, before, before).share == 0
    half = interpolate(before.state_dict(), after.state_dict(), 0.5)["embedding.weight"]
    torch.testing.assert_close(half, (before.embedding.weight + after.embedding.weight) / 2)


@needs_models
def test_a_start_given_back_keeps_its_class_words():
    start = Checkpoint.load(SHIPPED / "everyday-soft")
    for words in ((), ("otter",)):
        best = replace(start, vocabulary=Vocabulary([*start.vocabulary.words[2:], *words]))
        give_start_back(best, start, "start", 1e-3)
        assert best.confidence is start.confidence and best.generation == start.generation
        rates = best.class_words["rates"]
        before = start.class_words["rates"]
        assert len(class_words_of(best).ids) == len(rates) == len(before) + len(words)  # type: ignore[union-attr]
        assert np.array_equal(rates[: len(before)], before) and (rates[len(before) :] == np.float32(COMMON)).all()
