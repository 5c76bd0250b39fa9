"""Models of the authors' program, imported: the same function, whatever their options; and files that are refused."""

import ast
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arctic
import numpy as np
import pytest
import torch
from arctic import OPTIONS, Files, random_parameters, write_files
from arctic_captions import pickles
from arctic_captions.conversion import import_arctic, read_dictionary
from arctic_captions.pickles import read_dict
from builders import small_encoder
from numpy import ndarray

from show_attend_tell.backends.onnx.decoder import OnnxDecoder, OnnxSession
from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import ArgmaxAttention, GivenLocations
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import DecoderOutput, teacher_forcing, word_log_probabilities
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.filters import word_filters

L = 13
CAPTION = [9, 8, 2, 21, 5, 0]

# ---------------------------------------------------------------- the function

VARIANTS: dict[str, dict[str, Any]] = {
    "one layer each": {},
    "two attention layers": {"n_layers_att": 2},
    "two initial layers": {"n_layers_init": 2},
    "two initial layers, wider than the LSTM": {"n_layers_init": 2, "ctx_dim": 13, "dim": 11},
    "two output layers": {"n_layers_out": 2},
    "four output layers": {"n_layers_out": 4},
    "no selector": {"selector": False},
    "no prev2out": {"prev2out": False},
    "no ctx2out": {"ctx2out": False},
    "no dropout": {"use_dropout": False},
    "no dropout, deep": {"use_dropout": False, "n_layers_init": 2, "n_layers_out": 2, "n_layers_att": 2},
    "dropout of the gates": {"use_dropout_lstm": True},
    "stochastic": {"attn_type": "stochastic"},
    "stochastic with a temperature": {"attn_type": "stochastic", "temperature": 2.5, "selector": False},
    "a temperature that soft attention ignores": {"temperature": 2.5},
    "as for COCO": {"n_layers_att": 2, "n_layers_init": 2},
    "everything else": {
        "attn_type": "stochastic",
        "temperature": 1.5,
        "n_layers_att": 2,
        "n_layers_init": 2,
        "n_layers_out": 3,
        "selector": False,
        "prev2out": False,
        "ctx2out": False,
        "use_dropout_lstm": True,
    },
}


def imported(folder: Path, **changes: Any) -> tuple[dict[str, Any], dict[str, ndarray], Checkpoint]:
    """A random model of the authors' program, and the same imported, saved and loaded."""
    options = {**OPTIONS, **changes}
    parameters = random_parameters(options)
    import_arctic(*write_files(folder, options, parameters)).save(folder / "imported")
    return options, parameters, Checkpoint.load(folder / "imported")


def annotations_of(size: int, photos: int = 2) -> ndarray:
    return np.maximum(0, np.random.default_rng(1).normal(0, 2, (photos, L, size))).astype(np.float32)


@torch.no_grad()
def forced_by(checkpoint: Checkpoint, annotations: ndarray, **mode: Any) -> DecoderOutput:
    captions = torch.tensor([CAPTION] * len(annotations))
    return teacher_forcing(build_decoder(checkpoint), torch.from_numpy(annotations), captions, **mode)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_an_imported_model_computes_what_the_authors_program_computes(changes: dict[str, Any], tmp_path: Path) -> None:
    options, parameters, checkpoint = imported(tmp_path, **changes)
    annotations = annotations_of(options["ctx_dim"])
    locations = torch.tensor([3, 12, 0, 7, 7, 1]).expand(2, 1, -1)
    for mode, given in (({}, None), ({"mode": GivenLocations(locations)}, locations[0, 0].tolist())):
        found = forced_by(checkpoint, annotations, **mode)
        log_p = torch.log_softmax(found.logits, dim=-1)
        for photo in range(2):
            expected = arctic.teacher_forcing(options, parameters, annotations[photo], CAPTION, locations=given)
            assert expected.alpha.max() > 0.15  # the model looks somewhere
            np.testing.assert_allclose(log_p[photo, 0], expected.log_p, rtol=0, atol=1e-5)
            np.testing.assert_allclose(found.alpha[photo, 0], expected.alpha, rtol=0, atol=1e-6)
            if options["selector"]:
                np.testing.assert_allclose(found.beta[photo, 0], expected.beta, rtol=0, atol=1e-6)
            else:
                assert found.beta is None


def test_a_stochastic_model_is_hard_and_reads_the_mean_as_the_program_does(tmp_path: Path) -> None:
    options, parameters, checkpoint = imported(tmp_path, attn_type="stochastic")
    assert checkpoint.config.attention == "hard"
    generation = checkpoint.generation
    assert generation.attention_mode == "mean" and generation.beam_size == 5 and generation.allow_repetitions
    annotations = annotations_of(options["ctx_dim"], photos=1)
    found = forced_by(checkpoint, annotations, mode=ArgmaxAttention())
    expected = arctic.teacher_forcing(options, parameters, annotations[0], CAPTION, locations="argmax")
    np.testing.assert_allclose(torch.log_softmax(found.logits[0, 0], dim=-1), expected.log_p, rtol=0, atol=1e-5)


def test_dropout_is_folded_into_the_weights_and_trains_on(tmp_path: Path) -> None:
    _, parameters, checkpoint = imported(tmp_path, n_layers_out=2)
    decoder = build_decoder(checkpoint)
    assert isinstance(decoder, AttentionDecoder) and decoder.config.dropout == 0.5 and not decoder.training
    assert torch.equal(decoder.word_weights, torch.from_numpy(parameters["ff_logit_W"].T / 2))
    assert torch.equal(decoder.output_layers[0].weight, torch.from_numpy(parameters["ff_logit_h1_W"].T / 2))


def test_the_session_of_onnx_runtime_has_the_output_layers(tmp_path: Path) -> None:
    options, parameters, checkpoint = imported(tmp_path, n_layers_out=3, n_layers_init=2)
    annotations, config = annotations_of(options["ctx_dim"]), GenerationConfig(beam_size=4, max_length=6)
    decoder = OnnxDecoder(checkpoint.config, checkpoint.weights, L)  # type: ignore[arg-type]
    found = beam_search(OnnxSession(decoder, annotations, config, seeds=[]), config, word_filters(config))
    for photo in range(2):
        best = found[photo][0]
        words = [*best.words, 0] if best.ended else best.words
        expected = arctic.teacher_forcing(options, parameters, annotations[photo], words).log_p
        assert best.log_probability == pytest.approx(expected[range(len(words)), words].sum(), abs=1e-4)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["golden_soft", "golden_soft_deep"])
def test_golden_outputs_of_the_authors_program(name: str, tmp_path: Path) -> None:
    """Set ARCTIC to the folder of golden_soft.npz and golden_soft_deep.npz: `ARCTIC=arctic/ make proof`.

    Each has the parameters of a model, its options as text, captions, annotations, and what the program gave for them.
    """
    folder = os.environ.get("ARCTIC")
    if not folder:
        pytest.skip("ARCTIC does not name the folder of the golden outputs")
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as golden:
        held = {key: golden[key] for key in golden}
    options = ast.literal_eval(str(held["options"]))
    parameters = {key.removeprefix("param_"): value for key, value in held.items() if key.startswith("param_")}
    words = {f"word{number}": number for number in range(2, options["n_words"])}
    import_arctic(*write_files(tmp_path, options, parameters, words)).save(tmp_path / "imported")
    decoder = build_decoder(Checkpoint.load(tmp_path / "imported"))
    captions = torch.from_numpy(held["x"].T.copy())
    with torch.no_grad():
        found = teacher_forcing(decoder, torch.from_numpy(held["ctx"]), captions)
    cost = -word_log_probabilities(found.logits, captions).sum((1, 2)).numpy()
    assert found.alpha is not None and found.beta is not None
    differences = {
        "cost": np.abs(cost - held["cost"]).max(),
        "alpha": np.abs(found.alpha[:, 0].numpy() - held["alphas"].transpose(1, 0, 2)).max(),
        "beta": np.abs(found.beta[:, 0].numpy() - held["beta"].T).max(),
    }
    print(f"{name}: largest differences {differences}")
    assert differences["cost"] < 1e-4 and differences["alpha"] < 1e-6 and differences["beta"] < 1e-6


# ---------------------------------------------------------------- options


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_files(tmp_path, OPTIONS, random_parameters(OPTIONS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers_lstm": 2}, "n_layers_lstm is 2: only models with one LSTM layer can be imported"),
        ({"lstm_encoder": True}, "lstm_encoder is on: models with an LSTM over the annotations cannot be imported"),
        ({"n_layers_att": 3}, "n_layers_att is 3: choose one of 1, 2"),
        ({"n_layers_init": 3}, "n_layers_init is 3: choose one of 1, 2"),
        ({"n_layers_out": 10**9}, "n_layers_out is 1000000000: give a whole number from 1 to 20"),
        ({"attn_type": "uniform"}, "attn_type is 'uniform': choose one of deterministic, stochastic"),
        ({"dim": 0}, "dim is 0: give a whole number from 1"),
        ({"dim": 11.0}, r"dim is 11\.0: give a whole number from 1"),
        ({"temperature": 0.0}, r"temperature is 0\.0: give a number above 0"),
        ({"selector": "yes"}, "selector is 'yes': give true or false"),
        ({"dim": 10**6, "dim_word": 10**6}, "options are of a model with more than 2 GB"),
        ({"glimpses": 3}, "options that the authors' program lacks: 'glimpses'. They may change what"),
    ],
)
def test_options_that_are_refused(changes: dict[str, Any], message: str, files: Files) -> None:
    files.options.write_bytes(arctic.python2_pickle({**OPTIONS, **changes}))
    with pytest.raises(SatError, match=rf"model\.npz.*{message}"):
        import_arctic(*files)


@pytest.mark.parametrize("name", ["dim", "selector", "use_dropout_lstm"])
def test_a_missing_option_is_named(name: str, files: Files) -> None:
    files.options.write_bytes(arctic.python2_pickle({key: value for key, value in OPTIONS.items() if key != name}))
    with pytest.raises(SatError, match=f"lacks the options {name}: give the pickle that"):
        import_arctic(*files)


def test_options_that_are_no_dict_or_hold_lists(files: Files) -> None:
    for content in ([1, 2], {**OPTIONS, "dim": [11]}):
        files.options.write_bytes(pickle.dumps(content))
        with pytest.raises(SatError, match=r"model\.npz\.pkl is not a pickle of a dict of plain values"):
            import_arctic(*files)
    with pytest.raises(SatError, match=r"dictionary\.pkl lacks the options n_words, .* keep the order MODEL OPTIONS"):
        import_arctic(files.model, files.dictionary, files.options)


def test_a_temperature_is_one_when_an_old_model_has_none_and_0_and_1_are_truth_values(files: Files) -> None:
    given = {name: value for name, value in OPTIONS.items() if name != "temperature"}
    files.options.write_bytes(arctic.python2_pickle({**given, "selector": 1, "prev2out": 0}))
    config = import_arctic(*files).config.to_dict()
    assert config["gate"] is True and config["output_word"] is False


def test_an_encoder_of_another_size_is_refused(files: Files) -> None:
    with pytest.raises(SatError, match=r"takes annotations of 5 numbers \(ctx_dim\), and the encoder gives 11"):
        import_arctic(*files, encoder=small_encoder())


# ---------------------------------------------------------------- the dictionary


def dictionary(folder: Path, words: object) -> Path:
    (folder / "dictionary.pkl").write_bytes(pickle.dumps(words, protocol=2))
    return folder / "dictionary.pkl"


def test_words_have_the_ids_of_the_program(tmp_path: Path) -> None:
    given = {"<eos>": 0, "UNK": 1, "a": 2, "café": 3, "dog": 5, "rare": 6, "rarer": 7}
    found = read_dictionary(dictionary(tmp_path, given), 6)
    assert found.vocabulary.words == ("<end>", "<unk>", "a", "café", "<unused-4>", "dog")
    assert found.left_out == 2 and found.unused == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"a": 2, "dog": 2}, "'a' and 'dog' have the same id 2"),
        ({"a": 2, "dog": -3}, "'dog' has the id -3"),
        ({"a": 2, "": 3}, "'' has the id 3: words are not empty"),
        ({"a": 2, "dog": True}, "'dog' has the id True, and a dictionary gives each word a whole number"),
        ({2: "a"}, "2 has the id 'a'"),
        ({"a": 9}, "has no word with an id from 2 to 5: give the dictionary of this model"),
        ({}, "has no word with an id from 2 to 5: give the dictionary of this model"),
        ([], "is not a pickle of a dict"),
        ({"<unused-3>": 2}, "twice"),
    ],
)
def test_dictionaries_that_are_refused(words: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(SatError, match=rf"dictionary\.pkl.*{message}"):
        read_dictionary(dictionary(tmp_path, words), 6)


# ---------------------------------------------------------------- the archive


def rewritten(files: Files, **changes: ndarray | None) -> None:
    """The archive with other arrays; None leaves one out."""
    parameters: dict[str, Any] = {**random_parameters(OPTIONS), **changes}
    np.savez(files.model, **{name: value for name, value in parameters.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_W_sel": None}, "lacks decoder_W_sel, which a model of these options has: give the options that"),
        ({"decoder_W_att_1": np.zeros((5, 5))}, "has decoder_W_att_1 besides, which a model of these options lacks"),
        ({"decoder_Wc": np.zeros((44, 5))}, r"decoder_Wc has shape \(44, 5\), and by the options it has \(5, 44\)"),
        ({"Wemb": np.zeros((23, 7), np.int64)}, "Wemb has type int64: parameters are float32 or float64"),
        ({"Wemb": np.full((23, 7), "a")}, "Wemb has type <U1"),
        ({"Wemb": np.full((23, 7), None)}, "Wemb is damaged, or not of floats .Object arrays cannot be loaded"),
        ({"decoder_b": np.full(44, np.nan)}, "decoder_b holds values that are not numbers: this model is damaged"),
    ],
)
def test_parameters_that_are_refused(changes: Mapping[str, Any], message: str, files: Files) -> None:
    rewritten(files, **changes)
    with pytest.raises(SatError, match=rf"model\.npz.*{message}"):
        import_arctic(*files)


def npy(shape: str, content: bytes, *, version: int = 1) -> bytes:
    """An .npy file with a header of our making."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    size = struct.pack("<H", len(header)) if version == 1 else struct.pack("<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + content


def with_member(files: Files, name: str, content: bytes) -> None:
    """The archive with one array's file replaced."""
    with zipfile.ZipFile(files.model) as old:
        members = {entry: old.read(entry) for entry in old.namelist()}
    with zipfile.ZipFile(files.model, "w", zipfile.ZIP_DEFLATED) as new:
        for entry, held in {**members, f"{name}.npy": content}.items():
            new.writestr(entry, held)


def test_headers_of_python_2_are_read(files: Files) -> None:
    values = np.arange(5, dtype=np.float32)
    with_member(files, "decoder_b_att", npy("(5L,)", values.tobytes()))
    assert np.array_equal(import_arctic(*files).weights["attention.key.bias"], values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(5,)", b"\0" * 19), "decoder_b_att is damaged"),
        (npy("(6,)", b"\0" * 24), r"has shape \(6,\), and by the options it has \(5,\)"),
        (npy("(5,)", b"\0" * 10**7), r"is larger than an array of shape \(5,\)"),
        (npy("(1000000000000,)", b"\0" * 20), "decoder_b_att is damaged"),
        (npy("(5,)", b"\0" * 20, version=9), "decoder_b_att is damaged"),
        (npy("__import__('os')", b""), "decoder_b_att (is damaged|has shape|is larger)"),
        (npy("(" * 3000, b""), "is not an .npz archive, or is damaged|larger"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 10_000, "decoder_b_att (is damaged|has shape|is larger)"),
        (b"something else", "decoder_b_att (is damaged|has shape|is larger)"),
        (b"", "decoder_b_att (is damaged|has shape|is larger)"),
    ],
    ids=["short", "other", "long", "huge", "version", "code", "nested", "header", "text", "empty"],
)
def test_damaged_arrays_are_refused_before_they_take_memory(content: bytes, message: str, files: Files) -> None:
    with_member(files, "decoder_b_att", content)
    with pytest.raises(SatError, match=rf"model\.npz.*{message}"):
        import_arctic(*files)


@pytest.mark.parametrize("damage", [lambda data: data[:-30], lambda data: data[:200], lambda data: b"", bytes.lower])
def test_a_damaged_archive_is_refused(damage: Callable[[bytes], bytes], files: Files) -> None:
    files.model.write_bytes(damage(files.model.read_bytes()))
    with pytest.raises(SatError, match=r"model\.npz"):
        import_arctic(*files)


def test_missing_files_are_named(files: Files) -> None:
    for file in files:
        file.rename(file.with_name("moved"))
        with pytest.raises(SatError, match=rf"{file.name} cannot be read \(No such file or directory\)"):
            import_arctic(*files)
        file.with_name("moved").rename(file)


# ---------------------------------------------------------------- pickles


def plain(folder: Path, data: bytes) -> dict[Any, Any]:
    (folder / "values.pkl").write_bytes(data)
    return read_dict(folder / "values.pkl")


PLAIN = {
    "text": "caf\u00e9 \u65e5\u672c \U0001f415 'quotes' \"both\"",
    "long text": "x" * 70_000,
    **{f"whole {number}": number for number in (0, 1, 255, 256, 65_536, -1, 2**31, -(2**63), 2**70)},
    **{f"number {number}": number for number in (0.5, -1e300, 1e-300)},
    **{f"truth {value}": value for value in (True, False, None)},
    3: "a number as a key",
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_what_pickle_reads(protocol: int, tmp_path: Path) -> None:
    values = {**PLAIN, "again": "text"}
    found = plain(tmp_path, pickle.dumps(values, protocol))
    assert found == pickle.loads(pickle.dumps(values, protocol)) and repr(found) == repr(values)


PYTHON_2 = [  # what Python 2.7 writes, by protocol 0, 1 and 2 (cPickle)
    b"(dp1\nS'caf\\xc3\\xa9'\np2\nI2\nsS\"it's\"\np3\nL12345678901234567890L\nsS'on'\nI01\nsVna\\u00efve\np4\nNs.",
    b"}q\x01(U\x05caf\xc3\xa9q\x02K\x02U\x04it'sq\x03L12345678901234567890L\nU\x02onI01\nX\x06\x00\x00\x00na\xc3\xafveq\x04Nu.",
    b"\x80\x02}q\x01(U\x05caf\xc3\xa9q\x02K\x02U\x04it'sq\x03\x8a\x09\xd2\x0a\x1f\xeb\x8c\xa9T\xab\x00U\x02on\x88X\x06\x00\x00"
    b"\x00na\xc3\xafveq\x04Nu.",
]


@pytest.mark.parametrize("data", PYTHON_2, ids=["0", "1", "2"])
def test_what_python_2_writes(data: bytes, tmp_path: Path) -> None:
    expected = {"café": 2, "it's": 12345678901234567890, "on": True, "naïve": None}
    assert plain(tmp_path, data) == expected


def test_texts_that_are_not_utf_8_are_latin_1(tmp_path: Path) -> None:
    for text in (b"S'caf\\xe9'\n", b"U\x04caf\xe9"):
        assert plain(tmp_path, b"}" + text + b"I2\ns.") == {"café": 2}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("executed",))


def evil(protocol: int) -> bytes:
    return pickle.dumps({"dim": Evil()}, protocol)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a call, protocol 0": (evil(0), "the instruction GLOBAL, and only one dict of .* Make the file again"),
    "a call, protocol 2": (evil(2), "the instruction GLOBAL"),
    "a call, protocol 4": (evil(4), "the instruction STACK_GLOBAL"),
    "an object": (pickle.dumps(np.float64(3), 2), "the instruction GLOBAL"),
    "an old object": (b"(ios\nmkdir\n.", "the instruction INST"),
    "REDUCE alone": (b"NNR.", "the instruction REDUCE"),
    "BUILD alone": (b"NNb.", "the instruction BUILD"),
    "an object by reference": (b"Psomething\n.", "the instruction PERSID"),
    "an extension": (b"\x82\x01.", "the instruction EXT1"),
    "a set": (pickle.dumps({1}, 4), "the instruction EMPTY_SET"),
    "a byte that means nothing": (b"\xff.", "the instruction 0xff"),
    "a list": (b"]q\x00h\x00a.", "the instruction EMPTY_LIST"),
    "a tuple": (b")q\x00h\x00\x86.", "the instruction EMPTY_TUPLE"),
    "a dict in itself": (b"}q\x00Nh\x00s.", "a dict in itself"),
    "a dict as a key": (b"}q\x00h\x00Ns.", "a dict in itself"),
    "a dict in another": (pickle.dumps({"a": {}}), "the instruction EMPTY_DICT"),
    "a mark as a value": (b"}(q\x00h\x00Nu.", ""),
    "a text of 4 GB": (b"X\xff\xff\xff\xffabc.", "only 4 remain"),
    "a text of 16 EB": (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.", ""),
    "a negative size": (b"T\xff\xff\xff\xffabc.", "count < 0"),
    "a number of many bytes": (b"\x8b\x00\x02\x00\x00" + b"\x01" * 512 + b".", "a whole number has 51. bytes"),
    "a number of many digits": (b"I" + b"9" * 5000 + b"\n.", ""),
    "no number": (b"Ififteen\n.", "fifteen"),
    "no floating-point number": (b"Fhalf\n.", "half"),
    "no text": (b"Sdim\n.", "is not a text in quotes"),
    "a text that goes on": (b"S'a' + 'b'\n.", "is not a text in quotes"),
    "half a character": (b"V\\ud800\n.", "surrogates"),
    "bytes that are no text": (b"X\x01\x00\x00\x00\xff.", "utf-8"),
    "half an entry": (b"}(Nu.", "half an entry"),
    "an entry of a text": (b"U\x01a(NNu.", "not a dict"),
    "nothing remembered": (b"h\x07.", "recalls value 7, which is not there"),
    "nothing to remember": (b"q\x07.", "an instruction lacks its value"),
    "nothing to add": (b"s.", "an instruction lacks its value"),
    "no mark": (b"Nd.", "an instruction lacks its value"),
    "values below a mark": (b"}N(s.", ""),
    "two values": (b"}N.", "more than one value, or with none"),
    "no dict": (b"N.", "more than one value, or with none"),
    "no value": (b".", "more than one value, or with none"),
    "nothing": (b"", "cut short"),
    "no end": (b"N", "cut short"),
    "half a line": (b"I12", ""),
    "a protocol alone": (b"\x80", ""),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(
    data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SatError, match=rf"values\.pkl is not a pickle of a dict of plain values: .*{message}"):
        plain(tmp_path, data)
    assert not Path("executed").exists()


def test_a_pickle_that_breaks_off_is_refused_and_one_with_a_changed_byte_does_no_harm(tmp_path: Path) -> None:
    for protocol in (0, 2, 4):
        data = pickle.dumps({"dim": 1800, "selector": True, "decay_c": 2.5, "dictionary": None}, protocol)
        for end in range(len(data)):
            with pytest.raises(SatError, match="not a pickle of a dict of plain values"):
                plain(tmp_path, data[:end])
        random = np.random.default_rng(0)
        for _ in range(200):
            changed = bytearray(data)
            changed[random.integers(len(data))] = random.integers(256)
            try:
                plain(tmp_path, bytes(changed))
            except SatError as error:
                assert "not a pickle of a dict of plain values" in str(error)


def test_large_pickles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SatError, match="has more than 8 MB"):
        plain(tmp_path, pickle.dumps("x" * pickles.LARGEST))
