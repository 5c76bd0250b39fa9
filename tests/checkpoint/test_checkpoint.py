"""A model on disk: round trips to the bit, whole files only, nothing pickled, and refusals that name the file."""

import errno
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import D, captioner_of, shape_photo, shape_scenes, small_checkpoint, small_encoder, small_load_encoder
from safetensors.torch import load_file, save_file
from torch import Tensor

import show_attend_tell.checkpoint.hub as find_module
import show_attend_tell.checkpoint.packing as packing_module
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint import checkpoint as checkpoint_module
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import find_model, shipped_models
from show_attend_tell.checkpoint.packing import pack, unpack
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.rerank.doubt import Doubt
from show_attend_tell.rerank.ngrams import STEPS
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.vision.encoder import Encoder

FORMATS = Path(__file__).parent / "formats"
FILES = {"config.json", "model.safetensors", "vocabulary.json", "README.md"}


@pytest.fixture
def encoder() -> Encoder:
    return small_encoder()


@pytest.fixture
def saved(encoder: Encoder, tmp_path: Path) -> Path:
    small_checkpoint(encoder).save(tmp_path / "model")
    return tmp_path / "model"


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def captions_of(checkpoint: Checkpoint, encoder: Encoder) -> list[tuple[str, float]]:
    photos = [shape_photo(*scene) for scene in shape_scenes(5)]
    return [(str(found), found.log_probability) for found in captioner_of(checkpoint, encoder)(photos)]


# Round trips


@pytest.mark.parametrize(
    "decoder",
    [{}, {"attention": "hard", "gate": False, "tied_embeddings": True, "annotation_norm": "layer"}],
    ids=["soft", "hard"],
)
def test_everything_comes_back_to_the_bit(decoder: dict[str, Any], encoder: Encoder, tmp_path: Path) -> None:
    before = small_checkpoint(encoder, **decoder)
    before.scores = {"val": {"bleu_4": 20.5, "tokens": "split", "beam_size": 3, "attention_mode": "mean"}}
    before.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == FILES
    after = Checkpoint.load(tmp_path)
    assert same(before.decoder.state_dict(), after.decoder.state_dict())
    assert after.decoder.config == before.decoder.config and not after.decoder.training
    for name in ("vocabulary", "encoder", "generation", "training", "scores", "tuned_encoder"):
        assert getattr(after, name) == getattr(before, name), name
    assert captions_of(after, encoder) == captions_of(before, encoder)


@pytest.mark.parametrize(("bits", "share"), [(16, 0.52), (8, 0.40)])
def test_rounded_weights_stay_as_they_are_at_the_second_save(
    bits: Any, share: float, encoder: Encoder, tmp_path: Path
) -> None:
    whole = small_checkpoint(encoder)
    whole.save(tmp_path / "whole")
    whole.save(tmp_path / "first", bits=bits)
    first = Checkpoint.load(tmp_path / "first")
    first.save(tmp_path / "second", bits=bits)
    second = Checkpoint.load(tmp_path / "second")
    assert same(first.decoder.state_dict(), second.decoder.state_dict())
    assert not same(first.decoder.state_dict(), whole.decoder.state_dict())
    assert (tmp_path / "first" / "model.safetensors").read_bytes() == (
        tmp_path / "second" / "model.safetensors"
    ).read_bytes()
    assert captions_of(first, encoder) == captions_of(second, encoder)
    for name, value in whole.decoder.state_dict().items():
        rounded = first.decoder.state_dict()[name]
        if value.dim() < 2:
            assert torch.equal(rounded, value), name  # biases are never rounded
        else:
            peak = value.abs().flatten(1).amax(1)
            assert bool(((rounded - value).abs().flatten(1).amax(1) <= peak / (254 if bits == 8 else 1024)).all())
    weight = [load_file(tmp_path / name / "model.safetensors") for name in ("first", "whole")]
    packed, plain = (sum(value.numel() * value.element_size() for value in tensors.values()) for tensors in weight)
    assert packed < share * plain


def test_saving_over_a_model_replaces_it(encoder: Encoder, saved: Path) -> None:
    other = small_checkpoint(encoder, seed=2)
    other.save(saved)
    assert same(Checkpoint.load(saved).decoder.state_dict(), other.decoder.state_dict())
    assert {file.name for file in saved.iterdir()} == FILES


def test_a_frozen_encoder_s_model_leaves_no_older_encoder_behind(encoder: Encoder, saved: Path) -> None:
    tuned = small_checkpoint(encoder)
    tuned.tuned_encoder = encoder.body.state_dict()
    tuned.save(saved)
    assert (saved / "encoder.safetensors").exists()
    small_checkpoint(encoder).save(saved)
    assert Checkpoint.load(saved).tuned_encoder is None


def test_models_may_share_the_tuned_weights_of_their_encoder(encoder: Encoder, tmp_path: Path) -> None:
    for name in ("soft", "hard"):
        tuned = small_checkpoint(encoder)
        tuned.tuned_encoder = {name: 2 * value for name, value in encoder.body.state_dict().items()}
        tuned.save(tmp_path / name)
    (tmp_path / "both-encoder").mkdir()
    (tmp_path / "soft" / "encoder.safetensors").rename(tmp_path / "both-encoder" / "encoder.safetensors")
    (tmp_path / "hard" / "encoder.safetensors").unlink()
    for name in ("soft", "hard"):
        found = Checkpoint.load(tmp_path / name).tuned_encoder
        assert found is not None and tuned.tuned_encoder is not None and same(found, tuned.tuned_encoder)


def test_each_weight_of_an_encoder_is_stored_in_the_fewest_bits_that_keep_it(encoder: Encoder, tmp_path: Path) -> None:
    model = small_checkpoint(encoder)
    weights = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
    rounded = unpack(pack({"eight": weights}))
    model.tuned_encoder = {**rounded, "sixteen": weights.half().float(), "whole": weights, "bias": torch.rand(7)}
    model.save(tmp_path / "model")
    stored = load_file(tmp_path / "model" / "encoder.safetensors")
    types = {"eight": torch.int8, "sixteen": torch.float16, "whole": torch.float32, "bias": torch.float32}
    assert {name: value.dtype for name, value in stored.items() if name != "eight.scale"} == types
    found = Checkpoint.load(tmp_path / "model").tuned_encoder
    assert found is not None and same(found, model.tuned_encoder)


def test_a_model_of_an_earlier_version_has_the_tuned_weights_of_its_folder(encoder: Encoder, saved: Path) -> None:
    tuned = small_checkpoint(encoder)
    tuned.tuned_encoder = encoder.body.state_dict()
    tuned.save(saved)
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert config.pop("tuned")
    (saved / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = Checkpoint.load(saved).tuned_encoder
    assert found is not None and same(found, encoder.body.state_dict())


# Whole or not at all


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "README.md", "vocabulary.json"])
def test_a_failure_while_writing_leaves_the_old_file(
    file: str, encoder: Encoder, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def failing(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            names = [str(argument) for argument in arguments if isinstance(argument, (str, Path))]
            if any(file in name for name in names):
                next(Path(name) for name in names if file in name).write_bytes(b"half of it")
                raise OSError("no space left on device")
            return write(*arguments, **options)

        return run

    if file == "model.safetensors":
        monkeypatch.setattr(checkpoint_module, "save_file", failing(save_file))
    else:
        monkeypatch.setattr(Path, "write_text", failing(Path.write_text))
    other = small_checkpoint(encoder, seed=2)
    other.training["seed"] = 99
    with pytest.raises(SatError, match="no space left"):
        other.save(saved)
    monkeypatch.undo()
    assert {path.name for path in saved.iterdir()} == before.keys()  # no scratch file stays
    assert (saved / file).read_bytes() == before[file]


def test_a_save_that_is_killed_leaves_the_old_model(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a training of the encoder too, whose tuned weights change with each better epoch."""
    before, after = small_checkpoint(encoder), small_checkpoint(encoder)
    before.tuned_encoder, after.tuned_encoder = ({"block": torch.full((2, 3), value)} for value in (1.0, 2.0))
    parts = {"mean": torch.zeros(D), "whitening": torch.eye(D), "typical": torch.ones(4)}
    before.doubt = Doubt({**parts, "quantiles": torch.linspace(0, 1, STEPS + 1)})
    before.save(tmp_path)

    def killed(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)  # of the words, the card and the configuration
    with pytest.raises(KeyboardInterrupt):
        after.save(tmp_path)
    monkeypatch.undo()
    found = Checkpoint.load(tmp_path)
    assert found.tuned_encoder is not None and same(found.tuned_encoder, before.tuned_encoder)
    assert found.doubt is not None


def test_nothing_is_pickled(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("pickled")

    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    model = small_checkpoint(encoder)
    model.tuned_encoder = encoder.body.state_dict()
    for bits in (32, 16, 8):
        model.save(tmp_path, bits=bits)  # type: ignore[arg-type]
        Checkpoint.load(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ".md"}
    for path in tmp_path.glob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))


def test_a_folder_that_cannot_be_made_is_named(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SatError, match=r"file/model: the folder cannot be made .*: name another folder"):
        small_checkpoint(encoder).save(tmp_path / "file" / "model")


# Older formats


@pytest.mark.parametrize(("number", "kind"), [(1, "soft"), (2, "hard")])
def test_folders_of_older_formats_say_what_they_said(number: int, kind: str, encoder: Encoder, tmp_path: Path) -> None:
    """The folders, and the captions.json in them, were written by the versions that had these formats."""
    folder = FORMATS / str(number)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == number and config["decoder"]["attention"] == kind
    assert ("rerank_score" in config["generation"]) == (number == 2)
    expected = json.loads((folder / "captions.json").read_text(encoding="utf-8"))
    model = Checkpoint.load(folder)
    assert model.generation.rerank_weight == config["generation"].get("rerank_score", 0.0)
    assert model.generation.attention_mode == config["generation"]["attention_mode"]
    assert model.generation.allow_repetitions  # as these versions did
    for checkpoint in (model, saved_again(model, tmp_path / "again")):
        for (said, log_probability), (words, expected_log_probability) in zip(
            captions_of(checkpoint, encoder), expected, strict=True
        ):
            assert said == words
            # a processor without bfloat16 encodes photos in float32
            assert log_probability == pytest.approx(expected_log_probability, abs=0.05)
    again = json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))
    assert again["format"] == 3 and "rerank_score" not in str(again)
    assert again["scores"]["val"].get("rerank_weight") == config["scores"]["val"].get("rerank_score")


def saved_again(model: Checkpoint, folder: Path) -> Checkpoint:
    model.save(folder)
    return Checkpoint.load(folder)


# Refusals


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def refused(folder: Path, message: str, file: str = "config.json") -> None:
    with pytest.raises(SatError, match=message) as refusal:
        Checkpoint.load(folder)
    assert str(folder) in str(refusal.value) and file in str(refusal.value)


def test_another_encoder_is_refused(
    saved: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = small_encoder(seed=1)
    with pytest.raises(SatError, match=r"SHA-256 .*--encoder-weights") as refusal:
        Captioner(Checkpoint.load(saved), other, name="beach")
    message = str(refusal.value)
    assert "beach" in message and encoder.digest[:12] in message and other.digest[:12] in message
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    assert str(Captioner.from_pretrained(saved, device="cpu")(shape_photo("red", "circle", True)))
    with pytest.raises(SatError, match="SHA-256"):
        Captioner.from_pretrained(saved, device="cpu", encoder_weights="weights1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda config: config.update(format=4),
            "format 4, and this version reads formats 1 to 3: update show-attend-tell",
        ),
        (lambda config: config.update(format=0), "damaged.*format is 0"),
        (lambda config: config.update(format="three"), "damaged.*format is 'three'"),
        (lambda config: config.update(scores=[1]), "damaged"),
        (lambda config: config.pop("format"), "damaged.*format"),
        (lambda config: config.pop("decoder"), "damaged.*decoder"),
        (lambda config: config["encoder"].pop("digest"), "damaged.*digest"),
        (lambda config: config["encoder"].update(digest=7), "damaged.*SHA-256 7"),
        (lambda config: config["encoder"].update(name=5), "damaged.*name is 5"),
        *(
            (lambda config, grid=grid: config["encoder"].update(grid=grid), f"damaged.*{re.escape(why)}")
            for grid, why in (
                ([14], "not enough values"),
                ([8, 8, 1], "too many values"),
                ("ab", "grid is 'ab'"),
                ([8, "x"], "grid is [8, 'x']"),
                ([0, 0], "grid is [0, 0]"),
            )
        ),
        (lambda config: config.update(training=[1]), "damaged"),
        (lambda config: config["training"].update(validation_bleu_4=None), "damaged"),
        (lambda config: config["training"].update(without_reranker={"beam_size": 3}), "damaged"),
        (lambda config: config.update(scores={"test": {"bleu_1": "65"}}), "damaged"),
        (lambda config: config.update(scores={"test": {"bleu_1": float("nan")}}), "damaged.*NaN is no number"),
        (lambda config: config.update(scores={"test": {"beam_size": 0}}), "beam is 0"),
        (
            lambda config: config["generation"].update(beam_size=10**7),
            "beam is 10000000: give a whole number from 1 to 1000",
        ),
        (lambda config: config["generation"].update(max_length=10**12), "max_length is 1000000000000"),
        (lambda config: config["decoder"].update(heads=8), "heads"),
        (lambda config: config["decoder"].update(hidden_size=0), "hidden_size"),
        (lambda config: config["decoder"].update(hidden_size="wide"), "damaged"),
        (lambda config: config["decoder"].update(attention="squishy"), "squishy"),
        (lambda config: config["generation"].update(beam_size=0), "beam_size"),
        (lambda config: config["generation"].update(width=3), "damaged"),
        (lambda config: config["encoder"]["preprocessing"].pop("mean"), "mean"),
    ],
)
def test_a_damaged_config_is_refused(change: Callable[[dict[str, Any]], None], message: str, saved: Path) -> None:
    edit(saved, change)
    refused(saved, message)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["encoder"].update(grid=[2, 2]),
        lambda config: config["encoder"]["preprocessing"].update(size=20),
    ],
    ids=["grid", "size"],
)
def test_a_config_of_other_places_is_refused(
    change: Callable[[dict[str, Any]], None], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The captions would be made, and their maps would be of other places, or of other pixels."""
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    edit(saved, change)
    with pytest.raises(SatError, match=r"config\.json is damaged\. It says that the encoder \S+ gives .* places"):
        Captioner.from_pretrained(saved, device="cpu")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"null"])
def test_a_config_that_is_none_is_refused(content: bytes, saved: Path) -> None:
    (saved / "config.json").write_bytes(content)
    refused(saved, "damaged")


def test_a_model_of_0_1_0_is_still_read(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    before = Checkpoint.load(saved).decoder.state_dict()
    config["decoder"] |= {"embedding_dropout": 0.3, "place_dropout": 0.5, "word_dropout": 0.2}
    (saved / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert same(Checkpoint.load(saved).decoder.state_dict(), before)


def test_missing_files_are_named(saved: Path, tmp_path: Path) -> None:
    (saved / "model.safetensors").rename(tmp_path / "model.safetensors")
    refused(saved, "missing or damaged", file="model.safetensors")
    (saved / "vocabulary.json").unlink()
    refused(saved, "cannot read the vocabulary", file="vocabulary.json")
    (saved / "config.json").unlink()
    refused(saved, "is not a model: it has no config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_files_that_may_not_be_read_are_not_called_damaged(
    name: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(file: Path, mode: str) -> object:
        if Path(file).name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return open(file, mode)

    monkeypatch.setattr(packing_module, "open", opened, raising=False)
    refused(saved, r"cannot be read \(Permission denied\): give yourself the right", file=name)


def test_damaged_weights_are_named(saved: Path) -> None:
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    tensors = {name: value.clone() for name, value in load_file(file).items()}  # the file below them will change
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
def test_absurd_sizes_are_refused_before_they_take_memory(name: str, saved: Path) -> None:
    """2⁴⁰ units would take more memory than there is, many times over."""
    edit(saved, lambda config: config["decoder"].update({name: 1 << 40}))
    with pytest.raises(SatError, match=r"does not fit its config\.json|cannot be made"):
        Checkpoint.load(saved)
    edit(saved, lambda config: config["decoder"].update(output_depth=1 << 40))
    refused(saved, "output_depth", file="config.json")


def test_a_vocabulary_of_another_length_is_refused(saved: Path) -> None:
    Vocabulary(["one", "two"]).save(saved / "vocabulary.json")
    refused(saved, "4 words and the decoder 23", file="vocabulary.json")
    (saved / "vocabulary.json").write_text('["a", "b"]')
    refused(saved, "damaged", file="vocabulary.json")


def test_tuned_weights_that_do_not_fit_are_named(
    saved: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    model = Checkpoint.load(saved)
    model.tuned_encoder = {"weight": torch.zeros(D)}
    model.save(saved)
    with pytest.raises(SatError, match=r"model: its encoder\.safetensors does not fit small"):
        Captioner.from_pretrained(saved, device="cpu")
    (saved / "encoder.safetensors").write_bytes(b"junk")
    refused(saved, "missing or damaged", file="encoder.safetensors")
    save_file({"weight": torch.ones(D)}, saved / "encoder.safetensors")
    refused(saved, "missing or is another model's", file="encoder.safetensors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam is 0"),
        ({"max_length": 0}, "max_length is 0: give a whole number from 1"),
        ({"beam_size": 2.5}, r"beam is 2\.5: give a whole number from 1"),
        ({"length_penalty": -0.5}, r"length_penalty is -0\.5: give a number from 0"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"length_penalty": 400.0}, r"length_penalty is 400\.0: give a number from 0 to 10"),
        ({"rerank_weight": -1.0}, r"rerank_weight is -1\.0: give a number from 0"),
        ({"rare_word_exponent": -1.0}, r"rarity is -1\.0: give a number from 0"),
        ({"attention_mode": "away"}, "look is 'away': choose one of expectation, likeliest, sampled"),
    ],
)
def test_decoding_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SatError, match=message):
        GenerationConfig(**options)


# Finding a model


def test_a_shipped_model_is_found_by_its_name(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_module, "SHIPPED", tmp_path / "shipped")
    small_checkpoint(encoder).save(tmp_path / "shipped" / "beach")
    small_checkpoint(encoder).save(tmp_path / "shipped" / "alps")
    (tmp_path / "shipped" / "vgg19").mkdir()  # an encoder, not a model
    assert shipped_models() == ["alps", "beach"]
    assert find_model("beach") == tmp_path / "shipped" / "beach"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beach").mkdir()  # which does not hide the shipped model
    assert find_model("beach") == tmp_path / "shipped" / "beach"
    assert find_model("./beach") == find_model(str(tmp_path / "beach")) == tmp_path / "beach"
    with pytest.raises(SatError, match="no model 'beech': give a folder, or one of alps, beach"):
        find_model("beech")


def test_a_hub_id_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SatError, match=r"'someone/model'.*pip install .*\[hub\]"):
        find_model("someone/model")


def test_a_hub_id_is_fetched_without_code_or_pickles(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: dict[str, Any] = {}

    def fetch(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(saved)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    assert find_model("someone/model") == saved
    assert asked["name"] == "someone/model"
    assert set(asked["allow_patterns"]) == {"*.json", "*.safetensors", "README.md"}

    def fail(name: str, **options: Any) -> str:
        raise OSError("the network is unreachable")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(SatError, match=r"'someone/model'.*could not be fetched.*unreachable"):
        find_model("someone/model")
    for name in ("./someone/model", "/someone/model", "a/b/c", "~/model"):  # paths, never asked of the hub
        with pytest.raises(SatError, match="there is no model"):
            find_model(name)


def test_a_model_from_the_hub_has_its_own_name(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's cache keeps it in a folder named after a commit."""
    hub = pytest.importorskip("huggingface_hub")
    snapshot = tmp_path / "models--someone--beach" / "snapshots" / "0f3c9a"
    small_checkpoint(encoder).save(snapshot)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **options: str(snapshot))
    monkeypatch.setattr(checkpoint_module, "load_encoder", small_load_encoder)
    assert Captioner.from_pretrained("someone/beach", device="cpu").name == "someone/beach"
    assert (snapshot / "README.md").read_text(encoding="utf-8").startswith("# someone/beach\n")


# The card


def test_files_that_are_no_model_s_are_not_overwritten(encoder: Encoder, tmp_path: Path) -> None:
    model = small_checkpoint(encoder)
    for name in sorted(FILES - {"config.json"} | {"encoder.safetensors"}):
        folder = tmp_path / name.split(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine", encoding="utf-8")
        with pytest.raises(SatError, match=rf"{folder.name} is not a model, and its {name} would be overwritten"):
            model.save(folder)
        assert [file.name for file in folder.iterdir()] == [name] and (folder / name).read_text() == "mine"


def test_weights_that_are_no_numbers_are_neither_written_nor_read(encoder: Encoder, saved: Path) -> None:
    model = small_checkpoint(encoder)
    before = (saved / "model.safetensors").read_bytes()
    weight = model.decoder.get_parameter("initial_hidden.weight")
    weight.data[0, 0] = 1e6  # beyond half precision, not beyond single
    with pytest.raises(
        SatError, match=r"was not written: initial_hidden\.weight .*too large for 16 bits .*learning rate"
    ):
        model.save(saved, bits=16)
    assert (saved / "model.safetensors").read_bytes() == before
    model.save(saved, bits=32)
    weights = load_file(saved / "model.safetensors")
    weights["initial_hidden.weight"][0, 0] = float("nan")
    save_file(weights, saved / "model.safetensors")
    with pytest.raises(SatError, match=r"model\.safetensors is damaged: initial_hidden\.weight"):
        Checkpoint.load(saved)


def test_other_bits_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(SatError, match="5 bits a weight: choose 32, 16, 8 or 4"):
        small_checkpoint(encoder).save(tmp_path / "model", bits=5)  # type: ignore[arg-type]
    assert not (tmp_path / "model").exists()


def test_a_model_in_the_folder_one_is_in_has_that_folder_s_name(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    assert find_model(".").name == "model"
    Checkpoint.load(".").describe(".")
    assert (saved / "README.md").read_text(encoding="utf-8").startswith("# model\n")


def test_a_card_says_how_each_split_was_captioned(encoder: Encoder) -> None:
    model = small_checkpoint(encoder, attention="hard", gate=False)
    model.training["validation_bleu_4"] = {"beam 3, γ 0": 17.5}
    first = {"bleu_4": 20.0, "tokens": "split", "beam_size": 3, "attention_mode": "mean"}
    model.scores = {"test": first, "val": {**first, "beam_size": 7, "length_penalty": 0.5, "attention_mode": "argmax"}}
    card = " ".join(model.card("beach").split())
    one = "beam 3, length normalization 0; attention is read by expectation (weighted mean); split tokens."
    assert f" - test: {one} - val: beam 7, length normalization 0.5; attention is read by its likeliest place;" in card
    model.scores["val"] = first
    assert f" - test; val: {one} " in " ".join(model.card("beach").split())
    model.scores["val"] = {"bleu_4": 20.0, "beam_size": 3}  # of another program, which says less
    assert f" - test; val: {one} " in " ".join(model.card("beach").split())
    assert (
        "- Best BLEU-4 on val of each beam (with brevity penalty, by the likeliest places): beam 3, γ 0: 17.5" in card
    )


def test_the_card_says_what_the_model_is(encoder: Encoder, tmp_path: Path) -> None:
    model = small_checkpoint(encoder)
    model.save(tmp_path / "beach")
    card = (tmp_path / "beach" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# beach\n") and "soft-attention" in card and encoder.digest in card
    assert "squashed" in card and "beam 3" in card and "- Data: shapes\n" in card and "- Seed: 5\n" in card
    assert "frozen;" in card and "Not evaluated yet" in card
    model.scores = {
        "val": {
            **{f"bleu_{n}": 60.0 - n for n in range(1, 5)},
            **{f"bleu_{n}_no_brevity": 70.0 - n for n in range(1, 5)},
            **{
                "meteor": None,
                "rouge_l": 44.4,
                "cider": 55.5,
                "tokens": "split",
                "beam_size": 3,
                "attention_mode": "mean",
            },
        }
    }
    model.tuned_encoder = encoder.body.state_dict()
    model.save(tmp_path / "beach")
    card = (tmp_path / "beach" / "README.md").read_text(encoding="utf-8")
    assert "| val, with brevity penalty | 59.0 | 58.0 | 57.0 | 56.0 | – | 44.4 | 55.5 |" in card
    assert "| val, without it | 69.0 | 68.0 | 67.0 | 66.0 | – |" in card
    assert "Scores are ×100." in card and "vgg19" not in card and "small, fine-tuned;" in card
