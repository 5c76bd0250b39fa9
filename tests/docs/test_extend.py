"""What is added as the documentation says is there.

Decoder, encoder, reranker, metric, command, reader of data, filter with a setting, attention mode, output format.
"""

import dataclasses
import json
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from builders import captioner_of, forget, shape_folder, small_checkpoint, small_encoder
from commands import refused, sat, settings
from decoders import SIZES, B, C, small_annotations, small_captions
from documents import plugin
from PIL import Image
from safetensors.numpy import save_file
from searching import beam_search

from show_attend_tell import Captioner
from show_attend_tell.checkpoint.card import figures
from show_attend_tell.checkpoint.checkpoint import Checkpoint, StoredReranker
from show_attend_tell.cli import main
from show_attend_tell.cli.command import BaseCommand
from show_attend_tell.data.datasets import READERS, read_dataset
from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.table import METRICS
from show_attend_tell.model.attention import ArgmaxAttention, MeanAttention
from show_attend_tell.model.interface import Decoder, word_log_probabilities
from show_attend_tell.model.registry import build, import_plugin, read_config
from show_attend_tell.report import report
from show_attend_tell.search.registry import FILTERS
from show_attend_tell.settings import ATTENTION_MODES
from show_attend_tell.show.outputs import OUTPUTS
from show_attend_tell.show.pictures import FORMATS
from show_attend_tell.vision.registry import ENCODERS

K, D = SIZES["vocabulary_size"], SIZES["annotation_size"]
SHORT = ("--epochs", "1", "--init-from", "none", *settings(minimum_count=1, max_length=5))


def test_a_transformer_s_steps_are_those_of_all_at_once(tmp_path):
    """Whole captions in training, and words one after the other, by cached keys and values, in a search."""
    import_plugin(str(plugin(tmp_path / "once.py", "class TransformerDecoder(", transformer="at-once")))
    sizes = {"vocabulary_size": K, "annotation_size": D, "size": 24, "heads": 3, "blocks": 2}
    torch.manual_seed(3)
    decoder = build(read_config({"kind": "at-once", **sizes})).eval()
    annotations, captions, history = small_annotations(), small_captions(), small_captions(seed=9)
    with torch.no_grad():
        for given in ({}, {"history": history}):
            found = decoder.teacher_forcing(annotations, captions, **given)
            wanted = Decoder.teacher_forcing(decoder, annotations, captions, **given)
            assert found.logits.shape == (B, 1, C, K)
            torch.testing.assert_close(found.logits, wanted.logits)
            torch.testing.assert_close(found.alpha, wanted.alpha)
            torch.testing.assert_close(found.output, wanted.output)
        assert decoder.teacher_forcing(annotations, captions, paths=2).logits.shape == (B, 2, C, K)
        mean, argmax = (
            decoder.teacher_forcing(annotations, captions, mode=mode) for mode in (MeanAttention(), ArgmaxAttention())
        )
    assert (argmax.logits - mean.logits).abs().max() > 1e-3 and argmax.locations.shape == (B, 1, C)
    for photo, of_photo in enumerate(beam_search(decoder, annotations, beam_size=3, max_length=6)):
        words = torch.tensor([[*of_photo[0].words, *[0] * of_photo[0].ended]])
        with torch.no_grad():
            logits = decoder.teacher_forcing(annotations[[photo]], words).logits
        log_p = float(word_log_probabilities(logits, words).sum())
        assert of_photo[0].log_probability == pytest.approx(log_p, abs=1e-4)
    orders = torch.tensor([[3, 4, 5, 6, 7], [5, 3, 4, 6, 7]])  # which it tells apart
    with torch.no_grad():
        one, other = decoder.teacher_forcing(annotations[[0, 0]], orders).logits[:, 0, -1]
    assert (one - other).abs().max() > 1e-3


@pytest.mark.usefixtures("without_java")
def test_an_encoder_of_layers_as_data_is_built_by_both_back_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))
    file, random = plugin(tmp_path / "tiny.py", "register_encoder(Network("), np.random.default_rng(0)
    shapes = {"stem.weight": (16, 3, 4, 4), "stem.bias": (16,), "head.weight": (32, 16, 4, 4), "head.bias": (32,)}
    weights = {name: random.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "tiny.safetensors")
    data, model = shape_folder(tmp_path / "shapes", train=4, val=1, test=1), tmp_path / "model"
    line = refused("train", data, "--encoder", "tiny", "--output", model, *SHORT)
    assert "there is no encoder 'tiny'" in line
    sat("train", data, "--encoder", "tiny", "--plugin", file, "--output", model, *SHORT)
    made = sat("encode", data / "images", "--plugin", file, "--encoder", "tiny", "--output", tmp_path / "x.jsonl")
    assert "6 photos: 6 new" in made.stdout
    found = []
    for backend in ("torch", "onnx"):
        captioner = Captioner.from_pretrained(model, backend=backend, device="cpu")
        assert captioner.backend.encoder.grid == (4, 4)
        found.append(captioner(sorted((data / "images").iterdir())[:3], beam_size=3))
    assert [str(each) for each in found[0]] == [str(each) for each in found[1]]
    forget(ENCODERS, "tiny")


def test_a_reranker_chooses_the_caption_of_a_model_that_names_it(tmp_path):
    encoder = small_encoder()
    before = small_checkpoint(encoder)
    dataclasses.replace(before, reranker=StoredReranker("long", {})).save(tmp_path / "model")
    for kind in ("../long", ""):
        with pytest.raises(SatError, match="give it a name of letters and digits"):
            dataclasses.replace(before, reranker=StoredReranker(kind, {})).save(tmp_path / "other")
    model = Checkpoint.load(tmp_path / "model")
    assert model.reranker == ("long", {}) and "- Reranker: long." in model.card("m")
    with pytest.raises(SatError, match=r"no reranker of the kind 'long' is registered .* with --plugin"):
        captioner_of(model, encoder)
    import_plugin(str(plugin(tmp_path / "long.py", "@register_reranker(")))
    photos = list((shape_folder(tmp_path / "shapes") / "images").iterdir())
    plain, same = (captioner_of(each, encoder)(photos, beam_size=5) for each in (before, model))
    longest = captioner_of(model, encoder)(photos, beam_size=5, rerank_weight=100)
    assert [each.words for each in plain] == [each.words for each in same]
    assert all(each.rerank_score == len(each.words) for each in longest)
    assert all(len(one.words) <= len(other.words) for one, other in zip(plain, longest, strict=True))
    assert any(len(one.words) < len(other.words) for one, other in zip(plain, longest, strict=True))


@pytest.mark.usefixtures("without_java")
def test_a_metric_is_on_the_terminal_in_files_in_comparisons_on_cards_and_pages(tmp_path):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    import_plugin(str(plugin(tmp_path / "short_captions.py", "METRICS.register(")))
    texts = {"good": ["a dog runs fast", "a cat sits there"], "long": ["a dog runs very fast", "a cat"]}
    (tmp_path / "references.txt").write_text("a dog runs\na cat sits\n")
    for name, lines in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
        given = (tmp_path / f"{name}.txt", tmp_path / "references.txt")
        assert "Short 25.0" in sat("score", *given).stdout or name == "long"
        sat("score", *given, "--json", tmp_path / f"{name}.json")
    files = [tmp_path / f"{name}.json" for name in texts]
    content = json.loads(files[1].read_text())
    assert content["short"] == pytest.approx(35) and [each["short"] for each in content["results"]] == [20, 50]
    assert "| Short " in sat("compare", *files, "--resamples", 100).stdout
    assert '["Short","25.0","35.0"]' in report(files, show=False).page
    model = small_checkpoint(small_encoder())
    model.scores = {"test": figures(content)}
    assert "| Short |" in model.card("m")
    forget(METRICS, "short")


def test_a_command_is_a_function():
    @click.command(cls=BaseCommand)
    @click.argument("text")
    def shout(text: str) -> None:
        """Say a text aloud."""
        if text == "?":
            raise SatError("there is nothing to say: give a text")
        click.echo(text.upper())

    main.add_command(shout)
    assert sat("shout", "a dog").stdout == "A DOG\n" and "Say a text aloud." in sat("--help").stdout
    assert refused("shout", "?") == "sat: there is nothing to say: give a text"
    del main.commands["shout"]


def test_a_format_of_captions_is_a_reader(tmp_path):
    def read_pairs(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
        file = folder / "pairs.txt"
        if not file.is_file():
            return None
        pairs = [line.split(": ") for line in file.read_text().splitlines()]
        photos = [PhotoEntry(photo, None, "", [(tuple(text.split()), text)]) for photo, text in pairs]
        return CaptionFile(folder.name, [file], photos)

    photos = list((shape_folder(tmp_path / "shapes") / "images").iterdir())
    (tmp_path / "shapes" / "captions.csv").unlink()
    lines = [f"{photo.name}: a shape on the left" for photo in photos]
    (tmp_path / "shapes" / "pairs.txt").write_text("\n".join(lines))
    READERS.register("pairs", read_pairs)
    assert len(read_dataset(tmp_path / "shapes").examples) == len(photos) == 17
    forget(READERS, "pairs")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with random weights that says one word again and again, where it may."""
    checkpoint = small_checkpoint(small_encoder())
    checkpoint.weights["output_bias"][5] += 40
    checkpoint.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.usefixtures("small")
def test_a_filter_with_a_setting_is_an_option_an_argument_and_part_of_a_model(tmp_path, model):
    photo = next((shape_folder(tmp_path / "shapes") / "images").iterdir())
    caption = ("caption", photo, "--model", model, "--generation", "allow_repetitions=true")
    costs = ("--generation", "again_cost=99")
    assert "again_cost" in refused(*caption, *costs)
    file = plugin(tmp_path / "again.py", "def again_cost(")
    plain, once = (sat(*caption, "--plugin", file, *more).stdout.split() for more in ((), costs))
    assert len(plain) > len(set(plain)) and len(once) == len(set(once))

    captioner = Captioner.from_pretrained(model, device="cpu")
    saved = dataclasses.replace(captioner.checkpoint, generation=captioner.resolve_config(again_cost=99.0))
    saved.save(tmp_path / "saved")
    own = sys.modules["again"].again
    for words in (
        captioner(photo, again_cost=99.0, allow_repetitions=True).words,
        Captioner.from_pretrained(tmp_path / "saved", device="cpu")(photo, allow_repetitions=True).words,
        captioner(photo, filters=[lambda *given: (own(*given)[0], -99.0)], allow_repetitions=True).words,
    ):
        assert len(words) == len(set(words))
    forget(FILTERS, "again_cost")


@pytest.mark.usefixtures("small")
def test_a_named_attention_mode_is_an_option_and_part_of_a_model_that_pytorch_runs(tmp_path, model):
    photo = next((shape_folder(tmp_path / "shapes") / "images").iterdir())
    caption = ("caption", photo, "--model", model, "--generation", "attention_mode=square", "--output", "-.json")
    assert "attention_mode is 'square': choose one of mean, argmax, sample" in refused(*caption)
    file = plugin(tmp_path / "square.py", "def by_square(")
    (entry,) = json.loads(sat(*caption, "--plugin", file, "--backend", "torch").stdout)
    captioner = Captioner.from_pretrained(model, device="cpu")
    assert entry["settings"]["attention_mode"] == "square"
    assert entry["log_probability"] != pytest.approx(captioner(photo).log_probability, abs=1e-4)
    square = captioner.resolve_config(attention_mode="square")
    dataclasses.replace(captioner.checkpoint, generation=square).save(tmp_path / "saved")
    saved = Captioner.from_pretrained(tmp_path / "saved", device="cpu")
    found = saved(photo, evidence=True)
    assert found.log_probability == pytest.approx(entry["log_probability"], abs=1e-5) and found.evidence is not None
    assert "the attention mode square" in " ".join(saved.checkpoint.card("m").split())
    assert saved.score(photo, str(found)) == pytest.approx(found.log_probability, abs=1e-4)
    forget(ATTENTION_MODES, "square")
    with pytest.raises(SatError, match="attention_mode is 'square'"):
        Captioner.from_pretrained(tmp_path / "saved", device="cpu")


@pytest.mark.usefixtures("small")
def test_an_output_format_is_that_of_a_caption_and_of_the_command(tmp_path, model):
    photos = shape_folder(tmp_path / "shapes") / "images"
    caption = Captioner.from_pretrained(model, device="cpu")(next(photos.iterdir()))
    for name in ("x.md", "x.tiff", "x.csv"):
        with pytest.raises(SatError, match=r"name a file that ends in \.png, .*webp"):
            caption.save(tmp_path / name)
    file = plugin(tmp_path / "markdown.py", "@register_output(")
    import_plugin(str(file))
    caption.save(tmp_path / "one.md")
    assert (tmp_path / "one.md").read_text() == f"- {caption}\n"
    caption.save(tmp_path / "one.tiff")
    with Image.open(tmp_path / "one.tiff") as picture:
        assert picture.format == "TIFF" and picture.size == caption.picture().size
    sat("caption", photos, "--model", model, "--plugin", file, "--output", tmp_path / "all.md")
    lines = (tmp_path / "all.md").read_text().splitlines()
    assert len(lines) == 17 and f"- {caption}" in lines
    with pytest.raises(SatError, match="an output format 'csv' already"):
        OUTPUTS.register("csv", lambda entries: "")
    forget(OUTPUTS, "md")
    forget(FORMATS, "tiff")
