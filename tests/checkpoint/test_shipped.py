"""The models in the box: they load, agree with their cards, and (proof) make their cards' figures again."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from show_attend_tell import Captioner
from show_attend_tell.checkpoint.arrays import NGRAMS, TUNED
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, SHIPPED, shipped_models
from show_attend_tell.checkpoint.packing import arrays_digest, as_tensors, weights_digest
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.evaluation import evaluate
from show_attend_tell.rerank.ngrams import VisualNgrams
from show_attend_tell.vision.encoder import load_encoder

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = [FOLDER / "dogs.jpg", FOLDER / "photographer.jpg"]
MODELS = ["flickr8k-soft", "flickr8k-hard"]  # of the paper's tables
EVERYDAY = ["everyday-soft", "everyday-hard"]


def test_the_models_are_in_the_box_and_it_is_light():
    assert shipped_models() == sorted([*MODELS, *EVERYDAY])
    total = sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file())
    assert total <= 95_000_000, f"{total / 1e6:.1f} MB"


@pytest.mark.parametrize("name", [*MODELS, *EVERYDAY])
def test_a_model_belongs_to_the_shipped_encoder(name):
    checkpoint = Checkpoint.load(SHIPPED / name)
    assert checkpoint.encoder.name.startswith("efficientnet-lite2" if name in EVERYDAY else "vgg19")
    encoder = load_encoder(checkpoint.encoder.name)
    encoder.adopt(as_tensors(checkpoint.tuned_encoder or {}))
    assert checkpoint.encoder.digest == encoder.digest
    assert checkpoint.config.attention == name.rpartition("-")[2]
    tested = [f"{data}, test" for data in ("coco", "flickr8k")] if name in EVERYDAY else ["test"]
    for split in tested:
        assert {"bleu_4", "bleu_4_no_brevity", "meteor", "cider"} <= set(checkpoint.scores[split])


@pytest.mark.acceptance
@pytest.mark.parametrize("name", ["flickr8k-hard", "everyday-soft"])  # of each encoder and each attention
def test_captions_of_the_examples_alone_and_together(name):
    captioner = Captioner.from_pretrained(name)
    caption = captioner(EXAMPLES)[0]
    alone = captioner(EXAMPLES[0])
    assert alone.words == caption.words and len(alone.words) > 3
    assert alone.log_probability == pytest.approx(caption.log_probability, abs=1e-3)
    assert np.allclose(caption.attention, alone.attention, atol=1e-3)
    assert np.allclose(caption.attention.sum((1, 2)), 1, atol=1e-4)
    assert captioner.score(EXAMPLES[0], str(caption)) == pytest.approx(caption.log_probability, abs=1e-3)


@pytest.mark.proof
@pytest.mark.parametrize("name", MODELS)
def test_no_option_at_all_makes_the_card_s_figures(name, tmp_path):
    """Set FLICKR8K to the data's folder: `FLICKR8K=flickr8k/ make proof` (a quarter of an hour)."""
    folder = os.environ.get("FLICKR8K")
    if not folder:
        pytest.skip("FLICKR8K does not name the data set's folder")
    evaluation = evaluate(Captioner.from_pretrained(name), read_dataset(folder), "test", cache=tmp_path, show=False)
    found = evaluation.scores.corpus
    card = json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))["scores"]["test"]
    for key in ("bleu_1", "bleu_4", "bleu_1_no_brevity", "bleu_4_no_brevity", "cider"):
        assert found[key] == pytest.approx(card[key], abs=0.05), key
    if found["meteor"] is not None:
        assert found["meteor"] == pytest.approx(card["meteor"], abs=0.05)


def test_the_everyday_models_share_their_encoder_and_their_visual_n_grams():
    soft, hard = (Checkpoint.load(SHIPPED / name) for name in EVERYDAY)
    cards = [(SHIPPED / f"everyday-{each}" / "README.md").read_text(encoding="utf-8") for each in ("ngrams", "encoder")]
    for model in (soft, hard):
        assert arrays_digest(model.reranker.arrays) in cards[0]
        assert weights_digest(model.tuned_encoder or {}) in cards[1]
    assert not any((SHIPPED / name / file).exists() for name in EVERYDAY for file in (NGRAMS, TUNED))
    captioner = Captioner.from_pretrained("everyday-soft")
    pixels = captioner.backend.encoder.preprocessing.pixels(open_photo(FOLDER / "failures" / "otter.jpg"))
    ngrams = VisualNgrams(soft.reranker.arrays)
    expected = ngrams.expected(captioner.backend, captioner.backend.encode(pixels[None]))[0]
    share = {
        word: float(expected[ngrams.numbers[0, *soft.vocabulary.encode([word])[:-1]]])
        for word in ("dog", "snow", "basketball")  # the otter is a dog to it
    }
    assert share["dog"] > 2 * max(share["snow"], share["basketball"])


def test_the_models_of_flickr8k_share_their_words():
    soft, hard = (Checkpoint.load(SHIPPED / name) for name in MODELS)
    assert soft.vocabulary == hard.vocabulary and soft.reranker is hard.reranker is None


def test_the_default_model_trusts_the_dogs_and_not_every_noun():
    captioner = Captioner.from_pretrained(DEFAULT_MODEL)
    caption = captioner(EXAMPLES[0])
    trusted = dict(zip(caption.words, caption.word_confidence, strict=True))
    assert max(trusted.get(word, 0) for word in ("dog", "dogs")) > 0.5
    assert caption.to_check and all(trusted[word] < 0.5 for word in caption.to_check)
