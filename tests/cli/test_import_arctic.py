"""`research/import_arctic.py`: a model of the authors' program is imported, makes captions, and is evaluated."""

import contextlib
import dataclasses
import io
import json
from pathlib import Path

import arctic
import import_arctic
import numpy as np
import pytest
from arctic import OPTIONS, Files, random_parameters, write_files
from arctic_captions import conversion
from builders import small_encoder
from commands import refused, sat

from show_attend_tell import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.errors import SatError

DEEP = {"ctx_dim": 11, "dim": 13, "n_layers_att": 2, "n_layers_init": 2, "n_layers_out": 2}  # as the small encoder's D
WEIGHTS = ("--encoder-weights", "authors-1")  # another small encoder than the default


def imported(*arguments: object) -> str:
    """What the program prints, or the line with which it ends."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            import_arctic.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return f"{ended} {out.getvalue()}"
    return out.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    options = {**OPTIONS, **DEEP}
    return write_files(tmp_path, options, random_parameters(options))


def test_an_imported_model_is_a_model(files: Files, photos: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "imported"
    assert imported(*files, "--output", output, *WEIGHTS).splitlines() == [
        f"{output}: soft attention; LSTM of 13, embeddings of 7, attention of 11; 23 words",
        "For photos, it needs the authors' encoder: add --encoder-weights authors-1",
    ]
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "model.npz, a model of the authors' program (arctic-captions)" in card
    assert small_encoder(seed=1).digest in card

    for search in (
        (),
        ("--beam-size", "1"),
        ("--generation", "attention_mode=argmax"),
        ("--generation", "attention_mode=sample"),
        ("--generation", "do_sample=true"),
    ):
        sat("caption", photos, "--model", output, *WEIGHTS, *search, "--output", tmp_path / "made.json")
        made = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
        assert len(made) == 3 and all(0 < b < 1 for caption in made for b in caption["gate"])

    captioner = Captioner.from_pretrained(output, encoder_weights="authors-1")
    photo = photos / "photo0.png"
    explained = captioner.explain(photo, "word9 word5 unheard")
    assert explained.attention is not None
    pixels = captioner.backend.encoder.preprocessing(captioner(photo).photo)
    annotations = captioner.backend.encode(pixels[None])[0].numpy()
    options = {**OPTIONS, **DEEP}
    expected = arctic.teacher_forcing(options, random_parameters(options), annotations, [9, 5, 1, 0])
    assert explained.log_probability == pytest.approx(expected.log_p[range(4), [9, 5, 1, 0]].sum(), abs=1e-4)
    np.testing.assert_allclose(explained.attention.reshape(3, -1), expected.alpha[:3], atol=1e-6)
    assert len(captioner(photo, do_sample=True, num_captions=2, seed=3).alternatives) == 1

    pytest.importorskip("pycocoevalcap")
    scores = ("evaluate", "--data", data, "--model", output, *WEIGHTS, "--json", tmp_path / "scores.json")
    sat(*scores)
    assert len(json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["results"]) == 4


def test_without_its_encoder_it_says_what_photos_need(
    files: Files, photos: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unnamed = dataclasses.replace(EncoderRecord.of(small_encoder()), digest=None)  # VGG-19 has another grid
    monkeypatch.setattr(conversion, "AUTHORS", unnamed)
    output = tmp_path / "imported"
    printed = imported(*files, "--output", output)
    assert "It takes annotations of 11 numbers. VGG-19 gives 512, so it takes no photos" in printed
    assert "the weights must be given for photos" in (output / "README.md").read_text(encoding="utf-8")
    missing = (
        "imported was imported without the encoder that it was trained on, and no other has its annotations: give the "
        "weights of the authors' VGG-19 as --encoder-weights FILE"
    )
    assert missing in refused("caption", photos, "--model", output)
    assert missing in refused("evaluate", "--data", data, "--model", output)
    with pytest.raises(SatError, match="was imported without the encoder"):
        Captioner.from_pretrained(output)
    sat("caption", photos, "--model", output, *WEIGHTS)
    start = ("train", data, "--attention", "soft", "--init-from", output, "--output", tmp_path / "more")
    assert "import it again with --encoder-weights FILE" in refused(*start)


def test_a_model_of_vgg_19_says_which_option_photos_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**OPTIONS, "ctx_dim": 512}
    printed = imported(*write_files(tmp_path, options, random_parameters(options)), "--output", tmp_path / "m")
    assert printed.endswith("For photos, it needs the authors' encoder: add --encoder-weights FILE\n")
    assert Checkpoint.load(tmp_path / "m").encoder.grid == (14, 14)


def test_another_encoder_is_refused_once_it_is_known(files: Files, photos: Path, tmp_path: Path) -> None:
    imported(*files, "--output", tmp_path / "imported", *WEIGHTS)
    for other in ((), ("--encoder-weights", "other-2")):
        line = refused("caption", photos, "--model", tmp_path / "imported", *other)
        assert "imported was trained on an encoder small whose weights have SHA-256" in line


def test_words_without_ids_and_ids_without_words_are_counted(tmp_path: Path) -> None:
    words = {"a": 2, "dog": 5, "rare": 23, "rarer": 24}
    files = write_files(tmp_path, OPTIONS, random_parameters(OPTIONS), words)
    printed = imported(*files, "--output", tmp_path / "imported")
    assert f"2 words of {files.dictionary} have ids that the model lacks: they are unknown to it" in printed
    assert f"19 ids of the model have no word in {files.dictionary}: they are called <unused-ID>" in printed
    assert Checkpoint.load(tmp_path / "imported").vocabulary.words[2:6] == ("a", "<unused-3>", "<unused-4>", "dog")


def test_mistakes_cost_one_line_and_leave_nothing(files: Files, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "imported"
    files.options.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert "instruction GLOBAL" in imported(*files, "--output", output)
    files.options.write_bytes(arctic.python2_pickle({**OPTIONS, **DEEP, "n_layers_lstm": 2}))
    assert "only models with one LSTM layer can be imported" in imported(*files, "--output", output)
    files.options.write_bytes(arctic.python2_pickle(OPTIONS))
    assert "takes annotations of 5 numbers" in imported(*files, "--output", output, *WEIGHTS)
    assert "give the options that were saved with this model" in imported(*files, "--output", output)
    assert not output.exists()
    before = (model / "config.json").read_bytes()
    assert "holds a model already: give another --output" in imported(*files, "--output", model)
    assert (model / "config.json").read_bytes() == before
    assert "required: --output" in imported(*files)
    assert "research/import_arctic.py" in refused("import-arctic", *files)
