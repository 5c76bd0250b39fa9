"""A decoder that is not in the package is registered, trained, saved, loaded and used like the package's own."""

import json
import pickle
import re
from pathlib import Path

import pytest
from builders import shape_folder, shape_photo, small_checkpoint, small_encoder
from commands import refused, sat
from documents import plugin

from show_attend_tell import Captioner, SatError, register_decoder
from show_attend_tell.batch.work import CaptionBatch
from show_attend_tell.model.config import Config, DecoderConfig
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import config_class, import_plugin
from show_attend_tell.settings import settings

DECODER = "class TransformerDecoder("


@pytest.mark.usefixtures("small")
def test_a_decoder_of_a_file_is_trained_saved_loaded_and_evaluated(tmp_path):
    """By the commands. Training reads annotations in half precision, and the decoder gets them in its weights' type."""
    data = shape_folder(tmp_path / "shapes")
    model = tmp_path / "model"
    file = plugin(tmp_path / "code" / "in_a_file.py", DECODER, transformer="in-a-file")
    small = ("--set", "minimum_count=1", "--set", "batch_size=4", "--epochs", "2")
    train = ("train", data, "--decoder", "in-a-file", "--output", model, *small)
    line = refused(*train)
    assert "no decoder of the kind 'in-a-file' is registered" in line and "--plugin MODULE" in line
    assert "Done." in sat(*train, "--plugin", file).stdout
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    assert config["decoder"]["kind"] == "in-a-file" and config["training"]["settings"]["decoder.kind"] == "in-a-file"

    said = sat("evaluate", "--plugin", file, "--model", model, "--data", data, "--split", "val").stdout
    assert said.startswith("model on shapes val: 3 captions")
    caption = Captioner.from_pretrained(model, device="cpu")(shape_photo("red", "circle", True))
    assert caption.attention.shape == (len(caption.words), 3, 5)
    shared = ("--plugin", file, data / "images", "--model", model)
    assert len(sat("caption", *shared).stdout.splitlines()) == 17
    batch = pickle.loads(pickle.dumps(CaptionBatch(str(model))))
    assert str(file) in batch.plugins  # which a worker process imports before it loads the model


def test_a_model_of_an_unregistered_kind_is_refused(tmp_path):
    small_checkpoint(small_encoder()).save(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"kind": "attention"', '"kind": "unheard-of"'))
    with pytest.raises(SatError, match=r"config\.json.*'unheard-of' is registered .*attention.*--plugin MODULE"):
        Captioner.from_pretrained(tmp_path, device="cpu")


@settings
class Taken(Config):
    """A configuration that has the kind of another."""

    kind = "attention"


def test_a_kind_is_had_once():
    with pytest.raises(SatError, match="there is a decoder of the kind 'attention' already"):
        register_decoder(Taken, Decoder)
    assert config_class("attention") is DecoderConfig


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("{}/missing.py", None, "missing.py' cannot be imported (ModuleNotFoundError"),
        ("{}/json.py", "", "has the name of another module"),
        ("{}/wrong_syntax.py", "def", "cannot be imported (SyntaxError"),
        (
            "{}/kindless.py",
            "raise RuntimeError('no luck')",
            "cannot be imported (RuntimeError: no luck): mend or install it",
        ),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_refused(tmp_path, name, text, message):
    name = name.format(tmp_path)
    if text is not None:
        Path(name).write_text(text, encoding="utf-8")
    with pytest.raises(SatError, match=re.escape(message)):
        import_plugin(name)
    assert message in refused("caption", "photo.jpg", "--plugin", name)
