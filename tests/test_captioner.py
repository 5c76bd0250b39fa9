"""What a user holds: any photo, one or several, gives the same caption, with honest evidence for it."""

import copy
import dataclasses
import gc
import io
import json
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders import captioner_of, shape_photo, shape_scenes, small_checkpoint, small_encoder
from PIL import Image

from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import ATTENTION_MODES
from show_attend_tell.vision.encoder import load_encoder

Photos = list[Image.Image]


@pytest.fixture
def captioner() -> Captioner:
    encoder = small_encoder()
    return captioner_of(small_checkpoint(encoder), encoder, name="small")


@pytest.fixture(scope="module")
def photos() -> Photos:
    return [shape_photo(*scene) for scene in shape_scenes(11)]


def same(found: Caption, expected: Caption, tolerance: float) -> None:
    assert found.words == expected.words and found.complete == expected.complete
    assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-6, abs=tolerance)
    assert [text for text, _ in found.alternatives] == [text for text, _ in expected.alternatives]
    for name in ("attention", "gate", "locations"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, atol=tolerance)


# One photo or several, in any form


def test_one_photo_gives_a_caption_and_several_a_list(captioner, photos, tmp_path):
    photos[0].save(tmp_path / "photo.png")
    path = tmp_path / "photo.png"
    caption = captioner(photos[0])
    assert isinstance(caption, Caption) and str(caption) == " ".join(caption.words) and caption.source is None
    assert str(caption) == caption.text
    for photo in (path, str(path), np.asarray(photos[0])):
        other = captioner(photo)
        assert isinstance(other, Caption)
        same(other, caption, 0)
        assert other.source == (None if isinstance(photo, np.ndarray) else str(path))
    for several in ([photos[0]], (photos[0],), iter([photos[0]])):
        (found,) = captioner(several)
        same(found, caption, 0)
    assert captioner([]) == []
    (each,) = captioner.stream([tmp_path])
    assert isinstance(each, PhotoError) and each.reason == "a folder, not a photo"
    assert len({str(found) for found in captioner(photos)}) > 5  # the fixture's photos are told apart


def test_a_photo_behind_an_address(captioner, photos, tmp_path):
    photos[0].save(tmp_path / "photo.png")
    address = f"file://{tmp_path}/photo.png"
    found = captioner(address)
    same(found, captioner(photos[0]), 0)
    assert found.source == address and found.photo.size == photos[0].size
    with_reason = {
        "memory://absent.png": "absent.png: no such file",
        "nowhere://x.png": "cannot be read",
    }
    for made, (wrong, why) in zip(captioner.stream(with_reason), with_reason.items(), strict=True):
        assert isinstance(made, PhotoError) and made.subject == wrong and why in str(made)


@pytest.fixture
def files(photos: Photos, tmp_path: Path) -> list[Path]:
    """The fixture's photos in files, the fourth of which is damaged."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, photo in enumerate(photos):
        photo.save(folder / f"{number}.png")
    (folder / "3.png").write_text("no photo")
    return [folder / f"{number}.png" for number in range(len(photos))]


def test_a_call_stops_at_a_bad_photo_and_a_stream_goes_on(captioner, files):
    with pytest.raises(PhotoError, match=r"3\.png: not a photo"):
        captioner(files)
    found = list(captioner.stream(files))
    for number, made in enumerate(found):
        if number == 3:
            assert isinstance(made, PhotoError) and made.subject == str(files[3]) and made.reason
        else:
            assert isinstance(made, Caption)
            same(made, captioner(files[number]), 1e-5)


def test_photos_are_not_held_in_memory(captioner, files, photos):
    held = []

    def each() -> Iterator[Image.Image]:
        for photo in photos:
            copy = photo.copy()
            held.append(weakref.ref(copy))
            yield copy
            del copy

    captions = captioner((file for number, file in enumerate(files) if number != 3), batch_size=2)
    photo = captions[5].photo
    assert photo.tobytes() == open_photo(files[6]).tobytes()
    most = 0
    gc.freeze()  # what is there already need not be looked through again and again
    for made in captioner.stream(each(), batch_size=2):
        assert isinstance(made, Caption)
        del made
        gc.collect()
        most = max(most, sum(one() is not None for one in held))
    gc.unfreeze()
    assert len(held) == len(photos) and most <= 3


def test_a_caption_reads_its_photo_again_wherever_it_is_asked_from(captioner, files, tmp_path, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    caption = captioner("0.png")
    monkeypatch.chdir(tmp_path)
    assert caption.source == "0.png" and caption.size == (50, 30)
    caption.save("looked.html")
    assert caption._repr_html_() is not None
    files[0].unlink()
    for ask in (lambda: caption.photo, caption.picture, caption.html, lambda: caption.save("looked.png")):
        with pytest.raises(SatError, match=r"0\.png: no such file"):
            ask()
    assert caption._repr_html_() is None and str(caption)  # Jupyter then shows the text
    assert not Path("looked.png").exists()


def test_a_wrong_type_is_a_mistake_that_is_told(captioner, photos):
    photo = photos[0]
    caption = captioner(photo)
    wrong = [
        ("3 is not a photo: give a path", lambda: captioner(3)),
        ("array of shape", lambda: captioner(np.zeros((2, 3, 5)))),
        ("beam_size is '3': give", lambda: captioner(photo, beam_size="3")),
        ("num_captions is True: give", lambda: captioner(photo, num_captions=True)),
        ("attention_mode is 3: choose", lambda: captioner(photo, attention_mode=3)),
        ("batch_size is 0: give", lambda: captioner(photo, batch_size=0)),
        ("filters", lambda: captioner(photo, filters=len)),
        ("3", lambda: captioner.score(3, "word3")),
        ("caption 3 has no word", lambda: captioner.score(photo, 3)),
        ("is one photo: give several of them", lambda: next(captioner.stream(photo))),
        (r"config is .*: give Gene", lambda: next(captioner.stream([photo], {"beam_size": 3}))),
        ("there is no setting beam", lambda: next(captioner.stream([photo], beam=3))),
        ("device", lambda: Captioner.from_pretrained("flickr8k-soft", device=3)),
        ("3 is not a path", lambda: caption.save(3)),
        ("compare", lambda: caption.picture(compare=caption)),
    ]
    for message, call in wrong:
        with pytest.raises(SatError, match=message):
            call()


OPTIONS = [
    {"beam_size": 5, "length_penalty": 0.7},
    {"attention_mode": "argmax"},
    {"attention_mode": "sample", "beam_size": 1, "seed": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_batched_equals_one_by_one(options, attention, photos):
    encoder = small_encoder()
    captioner = captioner_of(small_checkpoint(encoder, attention=attention, gate=attention == "soft"), encoder)
    alone = [captioner(photo, **options) for photo in photos]
    for order, batch_size in ((range(11), 11), (range(10, -1, -1), 3), ((4, 9, 0), np.int64(8))):
        together = captioner([photos[number] for number in order], batch_size=batch_size, **options)
        for caption, number in zip(together, order, strict=True):
            same(caption, alone[number], 1e-5)


# Log-probabilities


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_a_caption_is_scored_and_explained_as_it_was_searched(mode, captioner, photos):
    """By sampled locations only for a beam of one, whose draws are those of a single sequence."""
    how = {"attention_mode": mode, "seed": 2}
    beam_size = 1 if mode == "sample" else 5
    complete = 0
    for photo in photos:
        caption = captioner(photo, beam_size=beam_size, **how)
        for text, log_probability in caption.alternatives:
            if len(text.split()) < 10:  # shorter than the longest, so ended
                assert log_probability == pytest.approx(captioner.score(photo, text, **how), abs=1e-5)
        if not caption.complete:
            continue
        complete += 1
        assert caption.log_probability == pytest.approx(captioner.score(photo, str(caption), **how), abs=1e-5)
        explained = captioner.explain(photo, str(caption), **how)
        assert explained.words == caption.words and "beam_size" not in explained.settings
        assert explained.settings["attention_mode"] == mode
        np.testing.assert_allclose(explained.attention, caption.attention, atol=1e-6)
        np.testing.assert_array_equal(explained.locations, caption.locations)
        assert (explained.gate is None) == (caption.gate is None)
        assert explained.photo.size == photo.size
    assert complete >= 3


def test_log_probability_takes_a_caption_as_written(captioner, photos):
    plain = captioner.score(photos[0], "word3 word4")
    assert plain < 0 and captioner.score(photos[0], " Word3, WORD4. ") == plain
    assert captioner.score(photos[0], ["word3", "word3 word4"])[1] == plain
    assert captioner.score(photos[0], "word3 zebra") == captioner.score(photos[0], "word3 lion")
    assert captioner.score(photos[0], "word3 word4", beam_size=3, num_captions=3) == plain
    other = captioner.score(photos[1], "word3 word4")
    assert captioner.score(photos[:2], "word3 word4") == [plain, other]
    assert captioner.score(iter(photos[:2]), iter(["word3", "word3 word4"]))[1][1] == other


# Evidence


def test_locations_are_rows_and_columns_of_the_photo():
    """One location of the photo differs from all others, and the same location of the attention."""
    encoder = small_encoder()
    model = small_checkpoint(encoder, annotation_norm="layer")
    captioner = captioner_of(model, encoder)
    photo = Image.new("RGB", (30, 30), "white")
    photo.paste("red", (24, 20, 30, 30))  # the encoder's last location
    caption = captioner(photo)
    odd = np.abs(caption.attention - caption.attention[:, :1, :1]) > 1e-6
    assert odd[:, -1, -1].all() and odd.sum() == len(caption.words)


@pytest.mark.parametrize("options", [{}, {"attention_mode": "sample"}], ids=str)
def test_to_dict_is_complete_and_plain(options, captioner, photos, tmp_path):
    photos[0].save(tmp_path / "photo.png")
    caption = captioner(tmp_path / "photo.png", seed=4, **options)
    values = json.loads(json.dumps(caption.to_dict(), allow_nan=False))
    left_out = {"kept", "others", "hidden", "passed_over", "unlike"}
    fields = {field.name for field in dataclasses.fields(Caption)} - left_out
    assert values.keys() == fields | {"caption", "confidence", "reaches_min_confidence", "warning"}
    assert values["caption"] == str(caption) and values["words"] == caption.words
    source = str(tmp_path / "photo.png")
    assert values["source"] == source and values["visible_box"] == [0, 0, 50, 30]
    assert values["log_probability"] == caption.log_probability and values["complete"] is caption.complete
    for name in ("attention", "gate", "word_log_probabilities"):
        np.testing.assert_allclose(values[name], getattr(caption, name), atol=1e-6)
    by_words = float(caption.word_log_probabilities.sum())
    assert len(caption.word_log_probabilities) == len(caption.words) and by_words >= caption.log_probability
    log_p = caption.log_probability
    assert repr(caption) == f"Caption({str(caption)!r}, log_probability={log_p:.2f}, source={source!r})"
    settings = values["settings"]
    assert settings["model"] == "small" and settings["attention_mode"] == options.get("attention_mode", "mean")
    assert settings["beam_size"] == 3 and settings["seed"] == 4
    assert len(values["alternatives"]) == 2
    scores = [caption.log_probability, *(score for _, score in caption.alternatives)]
    assert scores == sorted(scores, reverse=True)


def test_a_caption_says_how_far_its_words_can_be_trusted(captioner, photos, tmp_path):
    plain = captioner(photos[0])
    assert plain.word_confidence is plain.confidence is plain.reaches_min_confidence is None and not plain.to_check
    with pytest.raises(SatError, match=r"min_confidence is 0\.5, and small cannot tell"):
        captioner(photos[0], min_confidence=0.5)
    judged = np.arange(2, 14, dtype=np.int32)  # about half of the words
    offsets = np.linspace(-3, 3, len(judged)).astype(np.float32)
    captioner.checkpoint.confidence = {"words": judged, "offsets": offsets, "weights": np.zeros(3, np.float32)}
    captioner.checkpoint.save(tmp_path / "model")
    again = captioner_of(Checkpoint.load(tmp_path / "model"), small_encoder(), name="small")
    values = dict(zip(judged.tolist(), 1 / (1 + np.exp(-offsets.astype(float))), strict=True))
    checked = 0
    for caption in again(photos, beam_size=8):
        ids = again.checkpoint.vocabulary.encode(caption.words)[:-1]
        expected = np.array([values.get(word, np.nan) for word in ids])
        np.testing.assert_allclose(caption.word_confidence, expected, atol=1e-6)
        assert caption.to_check == [word for word, each in zip(caption.words, expected, strict=True) if each < 0.5]
        told = caption.to_dict()
        assert [None if each != each else pytest.approx(each, abs=1e-5) for each in expected] == told["word_confidence"]
        known = expected[~np.isnan(expected)]
        assert told["confidence"] == (pytest.approx(known.mean(), abs=1e-5) if len(known) else None)
        checked += len(known)
    assert checked
    for caption in again(photos, beam_size=8, min_confidence=0.6):
        reached = np.nanmin(caption.word_confidence) >= 0.6
        assert caption.reaches_min_confidence == caption.to_dict()["reaches_min_confidence"] == reached
        assert caption.settings["min_confidence"] == 0.6
    for size in ((1, 1), (3, 200), (200, 23), (24, 24)):  # of too few pixels, no word is to be trusted
        small = again(Image.new("RGB", size))
        assert (small.warning is None) == (size == (24, 24)) and bool(small.to_check) == (size != (24, 24))
        if size != (24, 24):
            assert np.nanmax(small.word_confidence) <= 0.5 and f"{size[0]} × {size[1]}" in str(small.warning)
    again.checkpoint.confidence |= {"center": np.zeros(11), "far": np.zeros(())}
    far = captioner_of(again.checkpoint, small_encoder())(photos[0])
    assert np.nanmax(far.word_confidence) <= 0.5
    assert far.to_row()["to_check"] == ", ".join([*far.to_check, "unlike the photos that it learnt from"])
    assert far.to_dict()["warning"] == far.warning is not None and far.warning in far.html()
    damaged = {"confidence": {"words": judged, "offsets": offsets, "weights": np.zeros(5)}}
    with pytest.raises(SatError, match="model is damaged: these arrays do not tell how far words can be trusted"):
        captioner_of(dataclasses.replace(captioner.checkpoint, **damaged), small_encoder())
    dataclasses.replace(captioner.checkpoint, confidence=None).save(tmp_path / "model")
    assert Checkpoint.load(tmp_path / "model").confidence is None


def test_a_doubted_noun_offers_the_nouns_that_are_probable_in_its_place(captioner, photos):
    nouns = "dog dogs cat cats man men bird birds horse horses boat boats car cars tree trees house houses ball balls"
    doubted = {"words": np.arange(2, 23, dtype=np.int32), "offsets": np.full(21, -3.0), "weights": np.zeros(3)}
    vocabulary = Vocabulary([*nouns.split(), "a"])
    model = dataclasses.replace(captioner.checkpoint, vocabulary=vocabulary, confidence=doubted)
    again = captioner_of(model, small_encoder())
    assert captioner.instead(captioner(photos[0])) == {}
    for photo in photos[:3]:
        caption = again(photo)
        offers = again.instead(caption)
        said = {singular(word) for word in caption.words}
        assert caption.to_check and set(offers) == set(caption.to_check)
        first = offers[caption.words[0]]
        assert first and len({singular(word) for word in first} - said) == len(first) <= 3
        log_p = [again.explain(photo, word).word_log_probabilities[0] for word in first]
        assert log_p == sorted(log_p, reverse=True)


def test_a_caption_is_saved_in_the_format_that_the_name_ends_in(captioner, photos, tmp_path):
    caption, hard = (captioner(photos[0], max_length=2, attention_mode=mode) for mode in ("mean", "argmax"))
    alone = {}
    starts = {"png": b"\x89PNG", "SVG": b"<svg ", "gif": b"GIF89a", "webp": b"RIFF", "html": b"<!"}
    for ending, start in starts.items():
        file = tmp_path / f"looked.{ending}"
        caption.save(file)
        alone[ending] = file.read_bytes()
        assert alone[ending].lower().startswith(start.lower()), ending
        caption.save(str(file), compare=[hard])
        assert file.read_bytes() != alone[ending], ending
    assert caption.picture(compare=iter([hard])).tobytes() == caption.picture(compare=[hard]).tobytes()
    caption.save(tmp_path / "other.png", dark=True)
    assert (tmp_path / "other.png").read_bytes() != alone["png"]
    with Image.open(io.BytesIO(alone["png"])) as picture:
        assert picture.tobytes() == caption.picture().tobytes()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SatError, match=r"looked\.bmp: name a file that ends in \.png, \.jpg, \.svg"):
        caption.save(tmp_path / "looked.bmp")
    with pytest.raises(SatError, match="no photo or no attention"):
        dataclasses.replace(caption, attention=None).save(tmp_path / "new.svg")
    assert sorted(tmp_path.iterdir()) == before


# Loading and options


def test_the_checkpoint_s_defaults_and_geometry_are_used(photos):
    encoder = small_encoder(resize="crop")
    model = small_checkpoint(encoder)
    model.generation = GenerationConfig(beam_size=2, attention_mode="argmax", length_penalty=0.5, max_length=9)
    caption = captioner_of(model, encoder)(photos[0])
    own = {"beam_size": 2, "attention_mode": "argmax", "length_penalty": 0.5, "max_length": 9}
    assert caption.settings == {"model": "model", **own}
    assert caption.visible_box != (0, 0, 50, 30)
    told = captioner_of(model, encoder)(photos[0], beam_size=1, attention_mode="mean", length_penalty=0.0)
    other = {"beam_size": 1, "attention_mode": "mean", "length_penalty": 0.0}
    assert told.settings == {"model": "model", **own, **other}


def test_a_saved_captioner_is_the_same_captioner(photos, tmp_path):
    """By both back ends: PyTorch and ONNX Runtime search by the same session, and encode alike."""
    encoder = load_encoder("efficientnet-lite2-1280", resize="squash")
    captioner = captioner_of(small_checkpoint(encoder, annotation_size=1280), encoder)
    expected = captioner(photos[:3])
    captioner.checkpoint.save(tmp_path / "saved")
    for backend in ("torch", "onnx", "auto"):
        again = Captioner.from_pretrained(tmp_path / "saved", device="cpu", backend=backend)
        assert again.name == "saved" and again.backend.device == "cpu"
        for ours, other in zip(again(photos[:3]), expected, strict=True):
            same(ours, other, 1e-3)
    with pytest.raises(SatError, match="device 'gpu'"):
        Captioner.from_pretrained(tmp_path / "saved", device="gpu", backend="torch")
    with pytest.raises(SatError, match="load it with backend='torch'"):
        Captioner.from_pretrained(tmp_path / "saved", backend="onnx").torch_backend()
    for name in (tmp_path / "absent", ""):
        with pytest.raises(SatError, match="there is no model"):
            Captioner.from_pretrained(name)


@pytest.mark.usefixtures("small")
def test_a_captioner_is_copied_and_pickled_also_after_its_use(photos, tmp_path):
    checkpoint = small_checkpoint(small_encoder())
    checkpoint.save(tmp_path / "beach")
    loaded = Captioner.from_pretrained(tmp_path / "beach")
    for each in (loaded, Captioner(checkpoint, loaded.backend, name="own")):
        expected = each(photos[0])
        for again in (copy.copy(each), copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            assert again.name == each.name
            same(again(photos[0]), expected, 1e-5)


def test_several_captions_of_a_photo_are_whole_captions(captioner, photos):
    first = captioner(photos[0], beam_size=4, num_captions=3)
    assert [(other.text, other.log_probability) for other in first.others] == first.alternatives
    for other in first.others:
        assert other.photo is not None and other.size == first.size and not other.others
        assert len(other.attention) == len(other.words)
    assert captioner(photos[0], beam_size=4).others == []
