"""`Captioner.hide`: the photo is captioned again with a place hidden, and with controls."""

import dataclasses
import json
import math

import numpy as np
import pytest
from builders import captioner_of, shape_photo, small_checkpoint, small_encoder

from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import InvalidValue, PhotoError
from show_attend_tell.hide.masks import PLACES
from show_attend_tell.hide.trial import USUALLY
from show_attend_tell.settings import ATTENTION_MODES

PHOTO = shape_photo("red", "circle", left=True)  # 50 × 30


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    encoder = small_encoder()
    return captioner_of(small_checkpoint(encoder, attention="hard"), encoder, name="small")


@pytest.fixture(scope="module")
def caption(captioner: Captioner) -> Caption:
    return captioner(PHOTO, evidence=True)


def test_a_word_is_hidden_with_its_controls(captioner, caption):
    hidden = captioner.hide(caption, caption.words[0])
    assert hidden.word == caption.words[0] and hidden.step == 0 and hidden.before is caption
    assert hidden.mask.shape == (30, 50) and hidden.mask.mean() == pytest.approx(0.2, abs=0.03)
    assert len(hidden.controls) == PLACES
    assert hidden.log_p == pytest.approx(caption.word_log_probabilities[0], abs=1e-5)
    for variant in (hidden.here, *hidden.controls):
        assert variant.log_p != hidden.log_p and variant.verdict is not None
        assert (variant.verdict.kind == "stays") == (hidden.word in variant.caption.words)
    assert hidden.stayed == sum(hidden.word in variant.caption.words for variant in hidden.controls)
    assert f"it stayed in {hidden.stayed}" in hidden.lines[0]
    values = json.loads(json.dumps(hidden.to_dict()))
    assert values["here"]["caption"] == str(hidden.caption) and len(values["elsewhere"]) == PLACES
    assert sum(values["here"]["mask"]) == math.prod(values["grid"])


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_the_caption_is_that_of_the_photo_without_the_place(captioner, mode):
    """In the encoder's own size, where nothing is resized."""
    square = PHOTO.resize((30, 30))
    caption = captioner(square, evidence=True, attention_mode=mode, beam_size=2)
    hidden = captioner.hide(caption, 0, place=[(7, 4, 30, 17)])
    pixels = np.array(square)
    pixels[4:17, 7:] = np.array(hidden.cover)[4:17, 7:]
    assert hidden.caption.settings.items() <= caption.settings.items()
    if mode != "sample":  # whose seed is the photo's
        again = captioner(pixels, attention_mode=mode, beam_size=2)
        assert again.words == hidden.caption.words
        assert hidden.caption.log_probability == pytest.approx(again.log_probability, abs=0.1)
        read = captioner.explain(pixels, " ".join(caption.words), attention_mode=mode)
        assert hidden.here.log_p == pytest.approx(read.word_log_probabilities[0], abs=0.05)
    assert captioner.hide(caption, 0, place=hidden.mask).here.log_p == hidden.here.log_p
    assert USUALLY in captioner.hide(caption, 0).lines and USUALLY not in hidden.lines  # measured for what a word lit
    without = captioner.hide(caption, place=hidden.mask)
    assert [without.word, without.log_p, *without.here[2:]] == [None] * 4
    assert str(hidden.caption) == str(without.caption) and str(without.caption) in without.lines[0]


def test_a_crop_hides_what_the_encoder_saw():
    encoder = small_encoder(resize="crop")
    captioner = captioner_of(small_checkpoint(encoder), encoder, name="small")
    caption = captioner(PHOTO, evidence=True)
    left, _, right, _ = caption.visible_box
    hidden = captioner.hide(caption, 0)
    for mask in (hidden.mask, *(variant.mask for variant in hidden.controls)):
        assert mask.any() and not mask[:, : round(left)].any() and not mask[:, round(right) :].any()
    with pytest.raises(InvalidValue, match="nothing of what the encoder saw"):
        captioner.hide(caption, 0, place=[(0, 0, left - 1, 30)])


def test_what_cannot_be_hidden(captioner, caption):
    plain, other = captioner(PHOTO), {"model": "other"}
    unsaid = next(word for word in captioner.checkpoint.vocabulary.words[2:] if word not in caption.words)
    of_nothing = dataclasses.replace(caption, evidence=np.zeros_like(caption.evidence))
    cases = [
        ("a dog", {"word": "dog"}, "not a caption"),
        (caption, {"word": "zebra"}, "no word"),
        (caption, {"word": len(caption.words)}, "no word"),
        (caption, {}, "there is nothing to hide"),
        (caption, {"place": [(0, 0, 50, 30)]}, "all of what"),
        (caption, {"word": 0, "place": np.ones((50, 30))}, "height and width"),
        (plain, {"word": 0}, "evidence=True"),
        (of_nothing, {"word": 0}, "no evidence for"),
        (dataclasses.replace(caption, kept=None), {"word": 0}, "no photo"),
        (dataclasses.replace(caption, settings=caption.settings | other), {"word": 0}, "other"),
        (captioner.explain(PHOTO, unsaid, evidence=True), {"word": 0}, f"without '{unsaid}'"),
    ]
    for given, arguments, reason in cases:
        with pytest.raises(InvalidValue, match=reason):
            captioner.hide(given, **arguments)


def test_a_large_photo_without_a_file_and_one_whose_file_is_gone(captioner, tmp_path):
    large = captioner.hide(captioner(PHOTO.resize((1500, 900)), evidence=True), 0)
    assert large.mask.shape == (900, 1500)
    PHOTO.save(tmp_path / "photo.png")
    caption = captioner(tmp_path / "photo.png", evidence=True)
    (tmp_path / "photo.png").unlink()
    with pytest.raises(PhotoError, match=r"photo\.png"):
        captioner.hide(caption, 0)
