"""A model on disk: round trips to the bit, whole files only, nothing pickled, and refusals that name the file."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import (
    D,
    captioner_of,
    same_weights,
    shape_photo,
    shape_scenes,
    small_checkpoint,
    small_encoder,
    small_load_encoder,
)
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from show_attend_tell.checkpoint.card import PICTURE
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED, card_of, find_model, model_name, shipped_models
from show_attend_tell.checkpoint.packing import as_tensors, pack, unpack
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError

FILES = {"config.json", "model.safetensors", "vocabulary.json", "README.md"}


@pytest.fixture
def encoder():
    return small_encoder()


@pytest.fixture
def saved(encoder, tmp_path):
    small_checkpoint(encoder).save(tmp_path / "model")
    return tmp_path / "model"


Arrays = dict[str, NDArray[Any]]


def tuned_weights(encoder, factor=1.0):
    return {name: (factor * value).numpy() for name, value in encoder.body.state_dict().items()}


def captions_of(checkpoint, encoder):
    photos = [shape_photo(*scene) for scene in shape_scenes(5)]
    return [(str(found), found.log_probability) for found in captioner_of(checkpoint, encoder)(photos)]


# Round trips


@pytest.mark.parametrize(
    "decoder",
    [{}, {"attention": "hard", "gate": False, "tied_embeddings": True, "annotation_norm": "layer"}],
    ids=["soft", "hard"],
)
def test_everything_comes_back_to_the_bit(decoder, encoder, tmp_path):
    before = small_checkpoint(encoder, **decoder)
    before.scores = {"caf\udce9, val": {"bleu_4": 20.5, "tokens": "split", "beam_size": 3, "attention_mode": "mean"}}
    before.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == FILES
    after = Checkpoint.load(tmp_path)
    assert same_weights(before.weights, after.weights)
    assert after.config == before.config
    for name in ("vocabulary", "encoder", "generation", "training", "scores", "tuned_encoder"):
        assert getattr(after, name) == getattr(before, name), name
    assert captions_of(after, encoder) == captions_of(before, encoder)


@pytest.mark.parametrize(("bits", "share"), [(16, 0.52), (8, 0.40)])
def test_rounded_weights_stay_as_they_are_at_the_second_save(bits, share, encoder, tmp_path):
    whole = small_checkpoint(encoder)
    whole.save(tmp_path / "whole")
    whole.save(tmp_path / "first", bits=bits)
    first = Checkpoint.load(tmp_path / "first")
    first.save(tmp_path / "second", bits=bits)
    second = Checkpoint.load(tmp_path / "second")
    assert same_weights(first.weights, second.weights)
    assert not same_weights(first.weights, whole.weights)
    assert (tmp_path / "first" / "model.safetensors").read_bytes() == (
        tmp_path / "second" / "model.safetensors"
    ).read_bytes()
    assert captions_of(first, encoder) == captions_of(second, encoder)
    for name, value in whole.weights.items():
        rounded = first.weights[name]
        if value.ndim < 2:
            assert np.array_equal(rounded, value), name  # biases are never rounded
        else:
            peak = np.abs(value).max(1)
            assert (np.abs(rounded - value).max(1) <= peak / (254 if bits == 8 else 1024)).all()
    weight = [load_file(tmp_path / name / "model.safetensors") for name in ("first", "whole")]
    packed, plain = (sum(value.nbytes for value in tensors.values()) for tensors in weight)
    assert packed < share * plain


def test_each_weight_of_an_encoder_is_stored_in_the_fewest_bits_that_keep_it(encoder, tmp_path):
    model = small_checkpoint(encoder)
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((3, 4, 5), dtype=np.float32)
    rounded = unpack(pack({"eight": weights}))
    bias = generator.random(7, dtype=np.float32)
    model.tuned_encoder = {**rounded, "complete": weights, "bias": bias}
    model.save(tmp_path / "model")
    stored = load_file(tmp_path / "model" / "encoder.safetensors")
    types = {"eight": np.int8, "complete": np.float32, "bias": np.float32}
    assert {name: value.dtype for name, value in stored.items() if name != "eight.scale"} == types
    found = Checkpoint.load(tmp_path / "model").tuned_encoder
    assert same_weights(found, model.tuned_encoder)


# All or nothing


def test_a_save_that_is_killed_leaves_the_old_model(encoder, tmp_path, monkeypatch):
    """As in a training of the encoder too, whose tuned weights change with each better epoch."""
    before = small_checkpoint(encoder)
    after = small_checkpoint(encoder)
    before.tuned_encoder, after.tuned_encoder = ({"block": np.full((2, 3), value, np.float32)} for value in (1.0, 2.0))
    before.confidence = {"weights": np.zeros(3, np.float32)}
    before.save(tmp_path)

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)  # of the words, the card and the configuration
    with pytest.raises(KeyboardInterrupt):
        after.save(tmp_path)
    monkeypatch.undo()
    found = Checkpoint.load(tmp_path)
    assert same_weights(found.tuned_encoder, before.tuned_encoder)
    assert found.confidence is not None


def test_nothing_is_pickled(encoder, tmp_path, monkeypatch):
    import pickle

    def refuse(*arguments, **options):
        raise AssertionError("pickled")

    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    model = small_checkpoint(encoder)
    model.tuned_encoder = tuned_weights(encoder)
    for bits in (32, 16, 8):
        model.save(tmp_path, bits=bits)  # type: ignore[arg-type]
        Checkpoint.load(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ".md"}
    for path in tmp_path.glob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))


# Refusals


def edit(folder, change):
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def refused(folder, message, file="config.json"):
    with pytest.raises(SatError, match=message) as refusal:
        Checkpoint.load(folder)
    assert str(folder) in str(refusal.value) and file in str(refusal.value)


def test_another_encoder_is_refused(saved, encoder):
    other = small_encoder(seed=1)
    with pytest.raises(SatError, match=r"SHA-256 .*--encoder-weights") as refusal:
        captioner_of(Checkpoint.load(saved), other, name="beach")
    message = str(refusal.value)
    assert "beach" in message and encoder.digest[:12] in message and other.digest[:12] in message


CONFIG_REFUSED = [  # where in config.json, the value there, and why; None leaves it out
    ("format", 5, "format 5, and this version reads format 4: update show-attend-tell"),
    ("format", 3, "format 3, and this version reads format 4: train it again"),
    ("format", None, "damaged.*format"),
    ("scores", {"test": {"bleu_1": "65"}}, "damaged"),
    ("scores", {"test": {"beam_size": 0}}, "beam_size is 0"),
    ("decoder", None, "damaged.*decoder"),
    ("decoder.heads", 8, "heads"),
    ("decoder.hidden_size", "wide", "damaged"),
    ("encoder.digest", 7, "damaged.*digest is 7: give a text or none"),
    ("encoder.grid", [8, 8, 1], r"damaged.*grid is \[8, 8, 1\]"),
    ("encoder.grid", [0, 0], "damaged.*grid is 0"),
    ("encoder.preprocessing.mean", None, "mean"),
    ("training", [1], "damaged"),
    ("generation.beam_size", 10**7, "beam_size is 10000000: give a whole number from 1 to 1000"),
    ("generation.width", 3, "damaged"),
]


@pytest.mark.parametrize(("place", "value", "message"), CONFIG_REFUSED)
def test_a_damaged_config_is_refused(place, value, message, saved):
    def change(config):
        *above, name = place.split(".")
        for each in above:
            config = config[each]
        config.pop(name, None) if value is None else config.update({name: value})

    edit(saved, change)
    refused(saved, message)
    for content in (b"", b"[]", b'"text"', b"\xff\xfe", b"null"):
        (saved / "config.json").write_bytes(content)
        refused(saved, "damaged")


def test_a_config_of_other_locations_is_refused(saved):
    """The captions would be made, and their maps would be of other locations."""
    edit(saved, lambda config: config["encoder"].update(grid=[2, 2]))
    with pytest.raises(SatError, match=r"config\.json is damaged, it has the grid .* of another encoder than"):
        Checkpoint.load(saved).encoder.load(small_load_encoder, "model")


def test_missing_files_are_named(saved, tmp_path):
    weights = saved / "model.safetensors"
    vocabulary = saved / "vocabulary.json"
    vocabulary.rename(tmp_path / "vocabulary.json")
    refused(saved, "cannot read .*vocabulary", file="vocabulary.json")
    Vocabulary(["one", "two"]).save(vocabulary)
    refused(saved, "4 words and the decoder 23", file="vocabulary.json")
    weights.unlink()
    refused(saved, "missing or damaged", file="model.safetensors")
    weights.mkdir()  # which even the superuser cannot read as a file
    refused(saved, r"missing or damaged \(.*Is a directory", file="model.safetensors")
    (saved / "config.json").unlink()
    refused(saved, "is not a model: it has no config.json")


def test_damaged_weights_are_named(saved):
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    tensors = load_file(file)
    for content in (b"", whole[:-1], b"junk" * 99):
        file.write_bytes(content)
        refused(saved, "missing or damaged", file="model.safetensors")
    del tensors["output_bias"]
    save_file(tensors, file)
    refused(saved, "output_bias", file="model.safetensors")
    file.write_bytes(whole)
    edit(saved, lambda config: config["decoder"].update(hidden_size=7))
    refused(saved, "does not fit its config.json", file="model.safetensors")
    refused(saved, "has shape", file="model.safetensors")


@pytest.mark.parametrize("name", ["hidden_size", "embedding_size", "attention_size", "annotation_size", "initial_size"])
def test_absurd_sizes_are_refused_before_they_take_memory(name, saved):
    """2⁴⁰ units would take more memory than there is, many times over."""
    edit(saved, lambda config: config["decoder"].update({name: 1 << 40}))
    with pytest.raises(SatError, match=r"does not fit its config\.json|cannot be made"):
        Checkpoint.load(saved)
    edit(saved, lambda config: config["decoder"].update(output_depth=1 << 40))
    refused(saved, "output_depth", file="config.json")


def test_tuned_weights_that_do_not_fit_are_named(saved):
    model = Checkpoint.load(saved)
    model.tuned_encoder = {"weight": np.zeros(D, np.float32)}
    model.save(saved)
    with pytest.raises(SatError, match="tuned weights do not fit the encoder small"):
        model.encoder.load(small_load_encoder, "model", tuned=as_tensors(model.tuned_encoder))
    (saved / "encoder.safetensors").write_bytes(b"junk")
    refused(saved, "missing or damaged", file="encoder.safetensors")
    save_file({"weight": np.ones(D, np.float32)}, saved / "encoder.safetensors")
    refused(saved, "missing or is another model's", file="encoder.safetensors")


# Finding a model


def test_a_model_is_found_by_its_name(saved, tmp_path, monkeypatch):
    assert find_model("everyday-soft") == SHIPPED / "everyday-soft" and "vgg19" not in shipped_models()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "everyday-soft").mkdir()  # which does not hide the shipped model
    assert find_model("everyday-soft") == SHIPPED / "everyday-soft"
    assert find_model("./everyday-soft") == find_model(str(tmp_path / "everyday-soft")) == tmp_path / "everyday-soft"
    assert find_model("model") == saved
    with pytest.raises(SatError, match="no model 'beech': give a folder, or one of everyday-hard, everyday-soft"):
        find_model("beech")


def test_a_hub_id_is_fetched_without_code_or_pickles(saved, monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(SatError, match=r"'someone/model'.*pip install .*\[hub\]"):
            find_model("someone/model")
    hub = pytest.importorskip("huggingface_hub")
    asked = {}

    def fetch(name, **options):
        asked.update(options, name=name)
        return str(saved)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    assert find_model("someone/model") == saved
    assert asked["name"] == "someone/model"
    assert set(asked["allow_patterns"]) == {"*.json", "*.safetensors", "README.md"}

    def fail(name, **options):
        raise OSError("the network is unreachable")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(SatError, match=r"'someone/model'.*could not be fetched.*unreachable"):
        find_model("someone/model")
    for name in ("./someone/model", "/someone/model", "a/b/c", "~/model"):  # paths, never asked of the hub
        with pytest.raises(SatError, match="there is no model"):
            find_model(name)


def test_a_model_from_the_hub_has_its_own_name(encoder, tmp_path, monkeypatch):
    """The hub's cache keeps it in a folder named after a commit."""
    hub = pytest.importorskip("huggingface_hub")
    snapshot = tmp_path / "models--someone--beach" / "snapshots" / "0f3c9a"
    small_checkpoint(encoder).save(snapshot)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **options: str(snapshot))
    assert model_name(find_model("someone/beach")) == "someone/beach"
    assert card_of("someone/beach").startswith("# someone/beach\n")


def test_the_hub_reads_the_head_of_a_card(encoder, tmp_path):
    """As YAML, of which JSON is a part; a picture of the folder stays when the card is written again."""
    model = small_checkpoint(encoder)
    model.training["hub"] = {"license": "mit", "datasets": ["a: b"]}
    model.save(tmp_path)
    (tmp_path / PICTURE).touch()
    model.describe(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    _, head, rest = text.split("---\n", 2)
    entries = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in head.splitlines())}
    assert entries["pipeline_tag"] == "image-to-text" and "attention" in entries["tags"]
    assert entries["license"] == "mit" and entries["datasets"] == ["a: b"]
    assert f"]({PICTURE})" in rest and rest.endswith(card_of(tmp_path)) and "license" not in card_of(tmp_path)


def test_files_that_are_no_model_s_are_not_overwritten(encoder, tmp_path):
    model = small_checkpoint(encoder)
    for name in sorted(FILES - {"config.json"} | {"encoder.safetensors"}):
        folder = tmp_path / name.split(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine", encoding="utf-8")
        with pytest.raises(SatError, match=rf"{folder.name} is not a model, and its {name} would be overwritten"):
            model.save(folder)
        assert [file.name for file in folder.iterdir()] == [name] and (folder / name).read_text() == "mine"


def test_weights_that_are_no_numbers_are_neither_written_nor_read(encoder, saved):
    model = small_checkpoint(encoder)
    before = (saved / "model.safetensors").read_bytes()
    model.weights["initial_hidden.weight"][0, 0] = 1e6  # beyond half precision, not beyond single
    with pytest.raises(SatError, match=r"was not written: initial_hidden\.weight .*too large for 16 bits: .*give more"):
        model.save(saved, bits=16)
    assert (saved / "model.safetensors").read_bytes() == before
    model.save(saved, bits=32)
    weights = load_file(saved / "model.safetensors")
    weights["initial_hidden.weight"][0, 0] = float("nan")
    save_file(weights, saved / "model.safetensors")
    with pytest.raises(SatError, match=r"model\.safetensors is damaged: initial_hidden\.weight"):
        Checkpoint.load(saved)


def test_the_card_says_what_the_model_is(encoder, tmp_path):
    model = small_checkpoint(encoder)
    model.save(tmp_path / "beach")
    card = card_of(tmp_path / "beach")
    assert card.startswith("# beach\n") and "soft-attention" in card and encoder.digest in card
    assert "squashed" in card and "beam size 3" in card and "- Data: shapes\n" in card and "- Seed: 5\n" in card
    assert "frozen;" in card and "Not evaluated yet" in card
    scores = {f"bleu_{n}": 60.0 - n for n in range(1, 5)} | {"meteor": None, "rouge_l": 44.4}
    scores |= {f"bleu_{n}_no_brevity": 70.0 - n for n in range(1, 5)} | {"cider": 55.5, "tokens": "split"}
    model.scores = {"val": {**scores, "beam_size": 3, "attention_mode": "mean"}}
    model.scores["test"] = {"bleu_4": 20.0, "beam_size": 7, "length_penalty": 0.5, "attention_mode": "argmax"}
    model.tuned_encoder = tuned_weights(encoder)
    model.save(tmp_path / "beach")
    card = (tmp_path / "beach" / "README.md").read_text(encoding="utf-8")
    assert "| val, with brevity penalty | 59.0 | 58.0 | 57.0 | 56.0 | 44.4 | 55.5 |" in card
    assert "| val, without brevity penalty | 69.0 | 68.0 | 67.0 | 66.0 | 44.4 |" in card
    how = " - test: beam size 7, length penalty 0.5; the decoder reads the location of the largest α"
    assert how in " ".join(card.split())
    assert "val: beam size 3, length penalty 0; the decoder reads α's weighted" in card
    assert "Scores are ×100." in card and "vgg19" not in card and "small, fine-tuned;" in card
