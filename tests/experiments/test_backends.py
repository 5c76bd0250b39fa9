"""The comparison of two ways goes on where it stopped, and says how captions differ."""

import json
from dataclasses import replace
from pathlib import Path

import backends
import numpy as np
import pytest
from backends import Pair
from builders import small_checkpoint

from show_attend_tell.backends.onnx.graph import int8_is_exact
from show_attend_tell.errors import SatError
from show_attend_tell.vision.encoder import load_encoder

PHOTOS = sorted((Path(__file__).parents[2] / "examples").glob("*.jpg"))[:2]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Two small models with one encoder, on both back ends."""
    folder = tmp_path_factory.mktemp("models")
    encoder = load_encoder("vgg19", resize="squash")
    for seed in (1, 2):
        small_checkpoint(encoder, seed=seed, annotation_size=512).save(folder / str(seed))
    return [Pair.of_backends(str(folder / str(seed))) for seed in (1, 2)]


def test_an_interrupted_comparison_goes_on(pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lines.jsonl"
    lines = backends.compare(pairs, PHOTOS, file)
    assert [line["photo"] for line in lines] == [photo.name for photo in PHOTOS for _ in pairs]
    assert all(line["captions"][0] == line["captions"][1] and line["alpha"] < 1e-4 for line in lines)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])  # the last line is cut
    encoded: list[Path] = []
    encode = Pair.encoded
    monkeypatch.setattr(Pair, "encoded", lambda self, photo: encoded.append(photo) or encode(self, photo))
    again = backends.compare(pairs, PHOTOS, file)
    assert encoded == [PHOTOS[1]] and again[:3] == lines[:3] and again[3]["captions"] == lines[3]["captions"]
    assert [json.loads(line) for line in file.read_text().splitlines()] == again
    wider = backends.compare([replace(pair, beam_size=2) for pair in pairs], PHOTOS[:1], file)  # another comparison
    assert encoded == [PHOTOS[1], PHOTOS[0]] and [line["beam_size"] for line in wider] == [2, 2]
    text = backends.summary(again[::2], ("PyTorch", "ONNX Runtime"), {photo.name: ["word1 word2"] for photo in PHOTOS})
    assert text.startswith(f"{pairs[0].name}: 2 of 2 captions are equal\n") and "bleu_4" in text


def test_captions_that_differ_have_both_scores_by_both_ways(pairs: list[Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pairs[0]
    encoded = pair.encoded(PHOTOS[0])
    other = np.random.default_rng(0).random(encoded[1][0].shape, np.float32)  # as if ONNX Runtime saw something else
    line = pair.compared(PHOTOS[0], [encoded[0], (other, 0.0)])
    assert line["captions"][0] != line["captions"][1]
    (first, first_by_second), (second_by_first, second) = line["scores"]
    assert first is not None and second is not None
    assert second_by_first is None or first >= second_by_first
    assert first_by_second is None or second >= first_by_second
    text = backends.summary([line], ("PyTorch", "ONNX Runtime"), {PHOTOS[0].name: ["word1 word2"]})
    assert "0 of 1 captions are equal" in text and f"{line['captions'][1]}: {line['scores'][1]}" in text


def test_models_with_different_encoders_are_refused(pairs: list[Pair], tmp_path: Path) -> None:
    encoder = load_encoder("vgg19", resize="crop")
    small_checkpoint(encoder, annotation_size=512).save(tmp_path / "cropping")
    with pytest.raises(SatError, match="have different encoders"):
        backends.compare([pairs[0], Pair.of_backends(str(tmp_path / "cropping"))], PHOTOS, tmp_path / "lines.jsonl")


@pytest.mark.skipif(not int8_is_exact(), reason="this processor adds products of 8-bit numbers in 16 bits")
def test_precisions_are_compared_too(tmp_path: Path) -> None:
    pair = Pair.of_precisions("flickr8k-soft")
    (exact, _), (rounded, _) = pair.encoded(PHOTOS[0])
    assert 0 < np.linalg.norm(rounded - exact) / np.linalg.norm(exact) < 0.08


def test_the_paths_of_the_search_are_compared_too(pairs: list[Pair]) -> None:
    pair = replace(Pair.of_paths(pairs[0].name), beam_size=4)
    line = pair.compared(PHOTOS[0], pair.encoded(PHOTOS[0]))
    assert pair.generation.beam_size == 4 != pairs[0].generation.beam_size
    assert line["captions"][0] == line["captions"][1] and line["alpha"] < 1e-4
    assert line["scores"][0] == pytest.approx(line["scores"][1], abs=1e-4)
