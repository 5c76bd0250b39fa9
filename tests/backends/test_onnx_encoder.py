"""The encoder without PyTorch, in int8."""

import json
from pathlib import Path

import numpy as np
import pytest
from builders import small_checkpoint
from commands import refused, sat
from numpy.typing import NDArray

import show_attend_tell.backends.onnx.encoder as onnx_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.backends.onnx.encoder import OnnxEncoder, load_encoder
from show_attend_tell.backends.onnx.graph import Graph, Session, int8_is_exact
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.hub import SHIPPED, shipped_models
from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.vision import vgg

PHOTO = Path(__file__).parents[2] / "examples" / "dogs.jpg"


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return load_encoder("vgg19", resize="squash")


@pytest.fixture(scope="module")
def pixels(encoder: OnnxEncoder) -> NDArray[np.float32]:
    return encoder.preprocessing.pixels(open_photo(PHOTO))[None]


@pytest.fixture(scope="module")
def short() -> OnnxEncoder:
    """The encoder in int8."""
    if not int8_is_exact():
        pytest.skip("this processor adds products of 8-bit numbers in 16 bits")
    encoder = load_encoder("vgg19", resize="squash")
    encoder.use_int8()
    return encoder


def test_annotations_in_int8_are_close_to_those_in_float32(
    encoder: OnnxEncoder, short: OnnxEncoder, pixels: NDArray[np.float32]
) -> None:
    exact, rounded = encoder.annotate(pixels), short.annotate(pixels)
    assert rounded.dtype == np.float32 and rounded.shape == exact.shape == (1, 196, 512)
    assert 0 < np.linalg.norm(rounded - exact) / np.linalg.norm(exact) < 0.08
    values = rounded / np.float32(vgg.LARGEST[-1] / 255)  # of 256 that the last layer has
    assert np.abs(values - values.round()).max() < 1e-3 and values.min() == 0 and values.max() <= 255.001
    # The shipped weights go into the graph as they are stored.
    convolutions = [array for array in short.graph().weights.values() if array.ndim == 4]
    assert [array.dtype.name for array in convolutions] == ["float32"] + ["int8"] * 15


def test_two_photos_at_once_are_encoded_as_one_by_one(short: OnnxEncoder, pixels: NDArray[np.float32]) -> None:
    both = np.concatenate([pixels, pixels[..., ::-1]])
    np.testing.assert_array_equal(short.annotate(both)[1:], short.annotate(both[1:]))


def test_int8_is_for_the_shipped_weights(encoder: OnnxEncoder) -> None:
    assert encoder.digest == vgg.DIGEST
    tuned = load_encoder("vgg19", resize="squash")
    tuned.adopt({"features.34.bias": encoder.weights["features.34.bias"] + 1})
    with pytest.raises(SatError, match="'int8' is for the shipped weights"):
        tuned.use_int8()
    assert tuned.precision == "float32"


def test_a_processor_that_would_compute_wrongly_is_refused(
    encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_module, "int8_is_exact", lambda: False)
    with pytest.raises(SatError, match="'int8' needs a processor with VNNI"):
        encoder.use_int8()


def test_sums_that_stop_at_16_bits_are_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "__call__", lambda self, **inputs: [np.full((1, 64), 64 // 2 * 32767)])
    assert not int8_is_exact()


def test_constants_keep_their_small_types() -> None:
    graph = Graph()
    given = [np.int8(-3), np.uint8(200), np.int32(70000), 5, 0.5]
    for number, value in enumerate(given):
        graph.output(graph.constant(value), f"out{number}", 0, "int8 uint8 int32 int64 float32".split()[number])
    found = Session(graph)()
    assert [(array.dtype.name, array.item()) for array in found] == [
        *(("int8", -3), ("uint8", 200), ("int32", 70000), ("int64", 5), ("float32", 0.5)),
    ]


def test_the_command_and_python_caption_in_int8(
    short: OnnxEncoder, pixels: NDArray[np.float32], tmp_path: Path
) -> None:
    model = str(tmp_path / "model")
    small_checkpoint(encoder_module.load_encoder("vgg19", resize="squash"), annotation_size=512).save(model)
    captioner = Captioner.from_pretrained(model, backend="onnx", precision="int8")
    np.testing.assert_array_equal(captioner.backend.encode(pixels), short.annotate(pixels))  # type: ignore[arg-type]
    caption = captioner(PHOTO, beam_size=3)
    printed = sat("caption", PHOTO, "--model", model, "--backend", "onnx", "--precision", "int8", "--beam-size", 3)
    assert str(caption) in printed.stdout


def test_the_help_names_the_shipped_models_that_int8_is_for() -> None:
    told = sat("caption", "--help").stdout.partition("--precision")[2].partition("--device")[0]
    for name in shipped_models():
        encoder = json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))["encoder"]["name"]
        assert (name in told) == (encoder == "vgg19"), name


def test_precisions_that_a_back_end_lacks_are_refused() -> None:
    with pytest.raises(SatError, match="precision 'int4': choose auto or int8"):
        Captioner.from_pretrained("flickr8k-soft", backend="onnx", precision="int4")
    how = ("--backend", "torch", "--precision", "int8")
    assert "choose backend onnx too" in refused("caption", PHOTO, *how)
