"""Files made at commit 01bcaf0 are read as they were then: models, a plugin, a training halfway, answers over HTTP.

Models are on the small encoder of `builders`; their expected captions are of `shape_scenes(4)`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from builders import shape_folder, shape_photo, shape_scenes
from commands import refused, sat
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from serving import WEB, encoded, serving

from show_attend_tell import Captioner
from show_attend_tell.data.photos import PREPROCESSING_VERSION
from show_attend_tell.model.registry import import_plugin

OLD = Path(__file__).parent / "01bcaf0"
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
PHOTOS = [shape_photo(*scene) for scene in shape_scenes(4)]

pytestmark = pytest.mark.usefixtures("small")


def held(found, expected, where=""):
    """All that was there then is there now, with the same values; there may be more."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, f"{where}.{name}"
            held(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, value in enumerate(expected):
            held(found[number], value, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_a_model_with_confidence_and_tuned_blocks_says_the_same(kind):
    captioner = Captioner.from_pretrained(OLD / kind, device="cpu")
    assert captioner.checkpoint.tuned_encoder and captioner.checkpoint.confidence
    found = [caption.to_dict() for caption in captioner(PHOTOS, beam_size=4)]
    held(found, EXPECTED[kind], kind)


def test_a_decoder_that_has_step_alone_works_as_before(tmp_path):
    import_plugin(str(OLD / "step_alone.py"))
    captioner = Captioner.from_pretrained(OLD / "gru", device="cpu")
    allowed = [number for number, caption in enumerate(EXPECTED["gru"]) if caption["caption"].split()[-1] != "a"]
    captions = captioner([PHOTOS[number] for number in allowed], beam_size=2)  # none ends in an article any more
    held([caption.to_dict() for caption in captions], [EXPECTED["gru"][number] for number in allowed], "gru")
    data, own = shape_folder(tmp_path / "shapes"), ("--decoder", "gru-of-01bcaf0", "--set", "decoder.size=5")
    short = ("--epochs", 1, "--set", "minimum_count=1", "--set", "visual_ngrams=false")
    said = sat("train", data, *own, "--output", tmp_path / "new", *short).stdout
    assert "Done." in said


def test_a_training_interrupted_halfway_goes_on_to_the_same_weights(tmp_path):
    """In its second epoch; it is refused where photos have other pixels since then, and so its annotations would."""
    model, file = tmp_path / "model", tmp_path / "model" / "training" / "state.safetensors"
    shutil.copytree(OLD / "halfway", model)
    sizes = {"embedding_size": 5, "hidden_size": 7, "attention_size": 3, "annotation_window": 1}
    settings = {**{f"decoder.{name}": size for name, size in sizes.items()}, "visual_ngrams": "false"}
    settings |= {"batch_size": 4, "minimum_count": 1, "max_length": 9}
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    given += ["--attention", "soft", "--epochs", 2, "--seed", 3, "--resize", "squash", "--bits", 32]
    command = ("train", shape_folder(tmp_path / "shapes"), *given, "--output", model, "--resume")
    assert "had other settings or data (encoder.preprocessing_version was 2, is 3)" in refused(*command)
    with safe_open(file, framework="np") as stored:
        header = {**stored.metadata(), "identity": json.loads(stored.metadata()["identity"])}
    header["identity"]["encoder.preprocessing_version"] = PREPROCESSING_VERSION
    save_file(load_file(file), file, metadata={**header, "identity": json.dumps(header["identity"])})
    assert "resumed after 1 epoch and 1 batch" in sat(*command).stdout
    weights = {name: float(np.abs(value).sum()) for name, value in load_file(model / "model.safetensors").items()}
    assert weights == pytest.approx(EXPECTED["weights"], rel=1e-5)


def test_answers_over_http_have_all_that_they_had():
    photo = [("photos", ("a.png", encoded(PHOTOS[0])))]
    with serving([Captioner.from_pretrained(OLD / "soft", device="cpu")]) as running:
        asked = {"beam_size": "2", "evidence": "true"}
        held(WEB.post(f"{running.url}/v1/captions", files=photo, data=asked).json(), EXPECTED["answer"])
        asked = {"captions": "word3 word4"}
        held(WEB.post(f"{running.url}/v1/log-probabilities", files=photo, data=asked).json(), EXPECTED["scores"])
