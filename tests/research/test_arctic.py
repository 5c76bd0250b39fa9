"""Models of the authors' program "arctic-captions", imported: the same function, and files that are refused.

What the program computes is computed by `reference`, with its parameters under the paper's names · L locations.
"""

import ast
import dataclasses
import os
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import reference
import torch
from arctic_captions import conversion, pickles
from arctic_captions.conversion import import_arctic, read_dictionary
from arctic_captions.pickles import read_dict
from builders import shape_photo, small_encoder
from numpy import ndarray

from show_attend_tell import Captioner
from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import ArgmaxAttention, GivenLocations
from show_attend_tell.model.interface import DecoderOutput, word_log_probabilities

# No two axes have one size.
OPTIONS = {
    "n_words": 23,
    "dim_word": 7,
    "ctx_dim": 5,
    "dim": 11,
    "attn_type": "deterministic",
    "n_layers_att": 1,
    "n_layers_out": 1,
    "n_layers_lstm": 1,
    "n_layers_init": 1,
    "lstm_encoder": False,
    "prev2out": True,
    "ctx2out": True,
    "selector": True,
    "use_dropout": True,
    "use_dropout_lstm": False,
    "temperature": 1.0,
    "semi_sampling_p": 0.5,
    "alpha_c": 1.0,
    "optimizer": "adam",
    "saveto": "model.npz",
    "dictionary": None,
}
WORDS = {f"word{number}": number for number in range(2, OPTIONS["n_words"])}


def random_parameters(options: Mapping[str, Any], seed: int = 0) -> dict[str, ndarray]:
    """Parameters of a model with these options, drawn wide enough to matter, in float32."""
    K, m, D, n = (options[name] for name in ("n_words", "dim_word", "ctx_dim", "dim"))
    shapes = {"Wemb": (K, m)}

    def layer(name: str, inputs: int, outputs: int) -> None:
        shapes.update({f"{name}_W": (inputs, outputs), f"{name}_b": (outputs,)})

    for number in range(1, options["n_layers_init"]):
        layer(f"ff_init_{number}", D, D)
    layer("ff_state", D, n)
    layer("ff_memory", D, n)
    shapes |= {"decoder_W": (m, 4 * n), "decoder_U": (n, 4 * n), "decoder_b": (4 * n,), "decoder_Wc": (D, 4 * n)}
    shapes |= {"decoder_Wc_att": (D, D), "decoder_Wd_att": (n, D), "decoder_b_att": (D,)}
    for number in range(1, options["n_layers_att"]):
        shapes |= {f"decoder_W_att_{number}": (D, D), f"decoder_b_att_{number}": (D,)}
    shapes |= {"decoder_U_att": (D, 1), "decoder_c_tt": (1,)}
    if options["selector"]:
        shapes |= {"decoder_W_sel": (n, 1), "decoder_b_sel": ()}
    layer("ff_logit_lstm", n, m)
    if options["ctx2out"]:
        layer("ff_logit_ctx", D, m)
    for number in range(1, options["n_layers_out"]):
        layer(f"ff_logit_h{number}", m, m)
    layer("ff_logit", m, K)
    random = np.random.default_rng(seed)
    return {name: np.asarray(random.normal(0, 0.9, shape), np.float32) for name, shape in shapes.items()}


def told(
    options: Mapping[str, Any],
    parameters: Mapping[str, ndarray],
    annotations: ndarray,
    words: Sequence[int],
    mode: str | Sequence[int] = "mean",
) -> reference.DecoderOutput:
    """A caption told with the noise off, as the program evaluates it: what it drops in training, it halves then."""
    p = {name: np.asarray(value, np.float64).T for name, value in parameters.items()}
    half = 0.5 if options["use_dropout"] else 1.0
    gates = np.repeat([0.5, 0.5, 0.5, 1.0] if options["use_dropout_lstm"] else [1.0] * 4, options["dim"])
    w = {
        "E": p["Wemb"].T,
        "scale": np.float64(1),
        "W_a": p["decoder_Wc_att"],
        "b_a": p["decoder_b_att"],
        "W_h": p["decoder_Wd_att"],
        "w": p["decoder_U_att"][0] * (options["temperature"] if options["attn_type"] == "stochastic" else 1.0),
        "T": gates[:, None] * np.hstack([p["decoder_W"], p["decoder_U"], p["decoder_Wc"]]),
        "b": gates * p["decoder_b"],
        "L_h": half * p["ff_logit_lstm_W"],
        "b_h": p["ff_logit_lstm_b"],
        "L_o": half * p["ff_logit_W"],
        "b_o": p["ff_logit_b"],
    }
    deep = half if options["n_layers_init"] == 2 else 1.0
    for name, layer in (("h", "ff_state"), ("c", "ff_memory")):
        w |= {f"W_{name}0": deep * p[f"{layer}_W"], f"b_{name}0": p[f"{layer}_b"]}
    if options["n_layers_init"] == 2:
        w |= {"W_s": p["ff_init_1_W"], "b_s": p["ff_init_1_b"]}
    if options["n_layers_att"] == 2:  # the layer on annotations is two maps, and there is none from it to the energies
        inner, outer = w.pop("W_a"), p["decoder_W_att_1"]
        w |= {"W_d": outer @ inner, "b_d": outer @ w["b_a"] + p["decoder_b_att_1"]}
        w |= {"W_a": np.eye(len(inner)), "b_a": np.zeros(len(inner))}
    if options["selector"]:
        w |= {"W_b": p["decoder_W_sel"][0], "b_b": p["decoder_b_sel"]}
    if options["ctx2out"]:
        w |= {"L_z": p["ff_logit_ctx_W"], "b_h": w["b_h"] + p["ff_logit_ctx_b"]}
    for number in range(1, options["n_layers_out"]):
        w |= {f"L_{number}": half * p[f"ff_logit_h{number}_W"], f"b_{number}": p[f"ff_logit_h{number}_b"]}
    annotations = np.asarray(annotations, np.float64)
    return reference.teacher_forcing(w, annotations, words, mode=mode, word_output=options["prev2out"])


class Files(NamedTuple):
    """What the command gets."""

    model: Path
    options: Path
    dictionary: Path


def write_files(
    folder: Path, options: Mapping[str, Any], parameters: Mapping[str, ndarray], words: Mapping[str, int] = WORDS
) -> Files:
    """The files of a model, with what else the program saves: its history, and all parameters again as a pickle."""
    files = Files(folder / "model.npz", folder / "model.npz.pkl", folder / "dictionary.pkl")
    again = np.array(dict(parameters), dtype=object)
    history = {"history_errs": [[3.5, 3.6]], "zipped_params": again, "valid_err": 3.5}
    np.savez(files.model, **history, **parameters)
    files.options.write_bytes(pickle.dumps(options))
    files.dictionary.write_bytes(pickle.dumps(words))
    return files


L = 13
CAPTION = [9, 8, 2, 21, 5, 0]

DEEP = {"n_layers_att": 2, "n_layers_init": 2}
VARIANTS = {
    "one layer each": {},
    "as for COCO": DEEP,
    "an initial layer wider than the LSTM": {"n_layers_init": 2, "ctx_dim": 13, "dim": 11},
    "four output layers": {"n_layers_out": 4},
    "no selector": {"selector": False},
    "no prev2out, no ctx2out": {"prev2out": False, "ctx2out": False},
    "no dropout, deep": {**DEEP, "use_dropout": False, "n_layers_out": 2},
    "dropout of the gates": {"use_dropout_lstm": True},
    "stochastic with a temperature": {"attn_type": "stochastic", "temperature": 2.5, "selector": False},
    "a temperature that soft attention ignores": {"temperature": 2.5},
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
    return build_decoder(checkpoint).teacher_forcing(torch.from_numpy(annotations), captions, **mode)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_an_imported_model_computes_what_the_authors_program_computes(changes, tmp_path):
    options, parameters, checkpoint = imported(tmp_path, **changes)
    annotations = annotations_of(options["ctx_dim"])
    locations = torch.tensor([3, 12, 0, 7, 7, 1]).expand(2, 1, -1)
    for mode, given in (({}, "mean"), ({"mode": GivenLocations(locations)}, locations[0, 0].tolist())):
        found = forced_by(checkpoint, annotations, **mode)
        log_p = torch.log_softmax(found.logits, dim=-1)
        for photo in range(2):
            expected = told(options, parameters, annotations[photo], CAPTION, given)
            assert expected.alpha.max() > 0.15  # the model looks somewhere
            np.testing.assert_allclose(log_p[photo, 0], expected.log_p, rtol=0, atol=1e-5)
            np.testing.assert_allclose(found.alpha[photo, 0], expected.alpha, rtol=0, atol=1e-6)
            if options["selector"]:
                np.testing.assert_allclose(found.beta[photo, 0], expected.beta, rtol=0, atol=1e-6)
            else:
                assert found.beta is None


def test_a_stochastic_model_is_hard_and_reads_the_mean_as_the_program_does(tmp_path):
    options, parameters, checkpoint = imported(tmp_path, attn_type="stochastic")
    assert checkpoint.config.attention == "hard"
    generation = checkpoint.generation
    assert generation.attention_mode == "mean" and generation.beam_size == 5 and generation.allow_repetitions
    annotations = annotations_of(options["ctx_dim"], photos=1)
    found = forced_by(checkpoint, annotations, mode=ArgmaxAttention())
    expected = told(options, parameters, annotations[0], CAPTION, "argmax")
    np.testing.assert_allclose(torch.log_softmax(found.logits[0, 0], dim=-1), expected.log_p, rtol=0, atol=1e-5)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["golden_soft", "golden_soft_deep"])
def test_golden_outputs_of_the_authors_program(name, tmp_path):
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
        found = decoder.teacher_forcing(torch.from_numpy(held["ctx"]), captions)
    cost = -word_log_probabilities(found.logits, captions).sum((1, 2)).numpy()
    assert found.alpha is not None and found.beta is not None
    differences = {
        "cost": np.abs(cost - held["cost"]).max(),
        "alpha": np.abs(found.alpha[:, 0].numpy() - held["alphas"].transpose(1, 0, 2)).max(),
        "beta": np.abs(found.beta[:, 0].numpy() - held["beta"].T).max(),
    }
    print(f"{name}: largest differences {differences}")
    assert differences["cost"] < 1e-4 and differences["alpha"] < 1e-6 and differences["beta"] < 1e-6


@pytest.mark.usefixtures("small")
def test_an_imported_model_captions_and_explains_photos_with_its_own_encoder(tmp_path, monkeypatch):
    options = {**OPTIONS, **DEEP, "ctx_dim": 11, "dim": 13}  # as the small encoder's D
    files, photo = write_files(tmp_path, options, random_parameters(options)), shape_photo("red", "circle", True)
    import_arctic(*files, encoder=small_encoder(seed=1)).save(tmp_path / "imported")
    captioner = Captioner.from_pretrained(tmp_path / "imported", encoder_weights="authors-1")
    explained = captioner.explain(photo, "word9 word5 unheard")
    annotations = captioner.backend.encode(captioner.backend.encoder.preprocessing(photo)[None])[0].numpy()
    expected = told(options, random_parameters(options), annotations, [9, 5, 1, 0])
    assert explained.log_probability == pytest.approx(expected.log_p[range(4), [9, 5, 1, 0]].sum(), abs=1e-4)
    assert explained.attention is not None and captioner(photo).words
    np.testing.assert_allclose(explained.attention.reshape(3, -1), expected.alpha[:3], atol=1e-6)
    with pytest.raises(SatError, match="imported was trained on an encoder small whose weights have SHA-256"):
        Captioner.from_pretrained(tmp_path / "imported", encoder_weights="other-2")

    unnamed = dataclasses.replace(EncoderRecord.of(small_encoder()), digest=None)  # VGG-19 has another grid
    monkeypatch.setattr(conversion, "AUTHORS", unnamed)
    import_arctic(*files).save(tmp_path / "without")
    missing = "without was imported without the encoder that it was trained on, .* as --encoder-weights FILE"
    with pytest.raises(SatError, match=missing):
        Captioner.from_pretrained(tmp_path / "without")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_files(tmp_path, OPTIONS, random_parameters(OPTIONS))


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in OPTIONS.items() if key != name}


def test_options_words_and_parameters_that_do_not_fit_are_refused(files, tmp_path):
    for options, message in (
        ({**OPTIONS, "n_layers_lstm": 2}, "n_layers_lstm is 2: only models with one LSTM layer can be imported"),
        ({**OPTIONS, "dim": 11.0}, r"dim is 11\.0: give a whole number from 1"),
        ({**OPTIONS, "dim": 10**6, "dim_word": 10**6}, "options are of a model with more than 2 GB"),
        ({**OPTIONS, "glimpses": 3}, "options that the authors' program lacks: 'glimpses'. They may change what"),
        (without("use_dropout_lstm"), "lacks the options use_dropout_lstm: give the pickle that"),
    ):
        files.options.write_bytes(pickle.dumps(options))
        with pytest.raises(SatError, match=rf"model\.npz.*{message}"):
            import_arctic(*files)
    for words, message in (
        ({"a": 2, "dog": 2}, "'a' and 'dog' have the same id 2"),
        ({"a": 2, "dog": True}, "'dog' has the id True, and a dictionary gives each word a whole number"),
        ({}, "has no word with an id from 2 to 5: give the dictionary of this model"),
    ):
        with pytest.raises(SatError, match=rf"dictionary\.pkl.*{message}"):
            read_dictionary(dictionary(tmp_path, words), 6)


def test_a_temperature_is_one_when_an_old_model_has_none_and_0_and_1_are_truth_values(files):
    files.options.write_bytes(pickle.dumps({**without("temperature"), "selector": 1, "prev2out": 0}))
    config = import_arctic(*files).config.to_dict()
    assert config["gate"] is True and config["output_word"] is False


def dictionary(folder: Path, words: object) -> Path:
    (folder / "dictionary.pkl").write_bytes(pickle.dumps(words, protocol=2))
    return folder / "dictionary.pkl"


def test_words_have_the_ids_of_the_program(tmp_path):
    given = {"<eos>": 0, "UNK": 1, "a": 2, "café": 3, "dog": 5, "rare": 6, "rarer": 7}
    found = read_dictionary(dictionary(tmp_path, given), 6)
    assert found.vocabulary.words == ("<end>", "<unk>", "a", "café", "<unused-4>", "dog")
    assert found.left_out == 2 and found.unused == 1


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(5,)", b"\0" * 19), "decoder_b_att is damaged"),
        (npy("(6,)", b"\0" * 24), r"has shape \(6,\), and by the options it has \(5,\)"),
        (npy("(5,)", b"\0" * 10**7), r"is larger than an array of shape \(5,\)"),
        (npy("(1000000000000,)", b"\0" * 20), "decoder_b_att is damaged"),
        (npy("__import__('os')", b""), "decoder_b_att (is damaged|has shape|is larger)"),
        (npy("(" * 3000, b""), "is not an .npz archive, or is damaged|larger"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 10_000, "decoder_b_att (is damaged|has shape|is larger)"),
        (b"", "decoder_b_att (is damaged|has shape|is larger)"),
    ],
    ids=["short", "other", "long", "huge", "code", "nested", "header", "empty"],
)
def test_damaged_arrays_are_refused_before_they_take_memory(content, message, files):
    with_member(files, "decoder_b_att", content)
    with pytest.raises(SatError, match=rf"model\.npz.*{message}"):
        import_arctic(*files)


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
def test_plain_values_are_what_pickle_reads(protocol, tmp_path):
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
def test_what_python_2_writes(data, tmp_path):
    expected = {"café": 2, "it's": 12345678901234567890, "on": True, "naïve": None}
    assert plain(tmp_path, data) == expected


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("executed",))


def evil(protocol: int) -> bytes:
    return pickle.dumps({"dim": Evil()}, protocol)


HOSTILE = {
    "a call, protocol 0": (evil(0), "the instruction GLOBAL, and only one dict of .* Make the file again"),
    "a call, protocol 4": (evil(4), "the instruction STACK_GLOBAL"),
    "an old object": (b"(ios\nmkdir\n.", "the instruction INST"),
    "an object by reference": (b"Psomething\n.", "the instruction PERSID"),
    "a byte that means nothing": (b"\xff.", "the instruction 0xff"),
    "a dict in itself": (b"}q\x00Nh\x00s.", "a dict in itself"),
    "a dict in another": (pickle.dumps({"a": {}}), "the instruction EMPTY_DICT"),
    "a text of 4 GB": (b"X\xff\xff\xff\xffabc.", "only 4 remain"),
    "a number of many bytes": (b"\x8b\x00\x02\x00\x00" + b"\x01" * 512 + b".", "a whole number has 51. bytes"),
    "no text": (b"Sdim\n.", "is not a text in quotes"),
    "half a character": (b"V\\ud800\n.", "surrogates"),
    "half an entry": (b"}(Nu.", "half an entry"),
    "nothing remembered": (b"h\x07.", "recalls value 7, which is not there"),
    "nothing to add": (b"s.", "an instruction lacks its value"),
    "two values": (b"}N.", "more than one value, or with none"),
    "8 MB": (pickle.dumps("x" * pickles.LARGEST), "has more than 8 MB"),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(data, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SatError, match=rf"values\.pkl (is not a pickle of a dict of plain values: |).*{message}"):
        plain(tmp_path, data)
    assert not Path("executed").exists()


def test_a_pickle_that_breaks_off_is_refused_and_one_with_a_changed_byte_does_no_harm(tmp_path):
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
