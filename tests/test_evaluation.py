"""Every photo of a split is captioned once and scored against its own references, and the result says how."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import shape_caption, shape_folder, shape_photo, shape_scenes, small_checkpoint, small_encoder

from show_attend_tell.backends.torch import TorchBackend, build_decoder
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import evaluate
from show_attend_tell.metrics.scores import Evaluation, score

pytest.importorskip("pycocoevalcap")

pytestmark = pytest.mark.usefixtures("without_java")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Test photos with five references each, some of words never seen in training."""
    folder = shape_folder(tmp_path_factory.mktemp("data") / "large", train=6, val=3, test=0)
    with open(folder / "captions.csv", "a", newline="") as file:
        for number in range(70):
            scene = shape_scenes(20)[number % 20]
            photo = shape_photo(*scene)
            photo.putpixel((0, 0), (3 * number, 0, 0))
            photo.save(folder / "images" / f"test{number}.png")
            for extra in ("", " zebra", " and a yak", " again", " ."):
                csv.writer(file).writerow([f"test{number}.png", shape_caption(*scene).capitalize() + extra, "test"])
    return read_dataset(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrained") / "model"
    small_checkpoint(small_encoder()).save(folder)
    return folder


def evaluated(model: Path, dataset: Dataset, split: str = "test", **options: Any) -> tuple[Captioner, Evaluation]:
    checkpoint = Checkpoint.load(model)
    captioner = Captioner(checkpoint, TorchBackend(build_decoder(checkpoint), small_encoder()), name="model")
    return captioner, evaluate(captioner, dataset, split, cache=model.parent / "cache", show=False, **options)


def test_every_photo_is_captioned_once_and_scored_against_its_own_references(model, dataset):
    captioner, result = evaluated(model, dataset)
    found = result.to_dict()
    examples = dataset.split("test")
    assert len(examples) == 70  # more than one batch
    assert Counter(each["photo"] for each in found["results"]) == Counter(example.name for example in examples)
    words = dataset.retokenize(captioner.checkpoint.vocabulary.tokenizer).split("test")
    references = {example.name: [" ".join(caption) for caption in example.captions] for example in words}
    assert all(each["references"] == references[each["photo"]] for each in found["results"])
    spoken = " ".join(text for texts in references.values() for text in texts)
    assert "zebra" in spoken and "<unk>" not in spoken and "zebra" not in captioner.checkpoint.vocabulary

    assert {f"bleu_{n}{suffix}" for n in range(1, 5) for suffix in ("", "_no_brevity")} <= found.keys()
    assert {"rouge_l", "cider", "brevity_penalty", "variety"} <= found.keys()
    assert (found["model"], found["data"], found["split"], found["seed"]) == ("model", "large", "test", 0)
    assert found["beam_size"] == captioner.checkpoint.generation.beam_size and found["attention_mode"] == "mean"
    assert found["captions"] == 70
    json.dumps(found, allow_nan=False)

    again = score({each["photo"]: each["caption"] for each in found["results"]}, references).corpus
    for name in ("bleu_1", "bleu_4", "bleu_4_no_brevity", "rouge_l", "cider", "brevity_penalty"):
        assert found[name] == again[name], name
    captions = captioner([example.photo for example in examples])
    for each, caption, example in zip(found["results"], captions, examples, strict=True):
        assert each["caption"] == str(caption) and Path(each["file"]).samefile(example.photo)
        assert each["log_probability"] == pytest.approx(caption.log_probability, abs=2e-2)  # cached in half precision
        assert each["words"] == caption.words and each["complete"] == caption.complete
        assert {"rouge_l", "cider"} <= each.keys() and "attention" not in each


def test_an_evaluation_can_hold_the_attention_of_every_word(model, dataset):
    captioner, result = evaluated(model, dataset, "val", attention=True)
    for found, example in zip(result.to_dict()["results"], dataset.split("val"), strict=True):
        caption = captioner(example.photo, evidence=True).to_dict()
        assert caption.keys() <= found.keys() and {"photo", "file", "references", "cider"} <= found.keys()
        assert [len(found["attention"]), len(found["gate"])] == [len(found["words"])] * 2
        np.testing.assert_allclose(found["attention"], caption["attention"], atol=1e-2)
        assert found["source"] == found["file"] and found["settings"] == caption["settings"]


def test_options_of_evaluation_are_used_and_told(model, dataset):
    _, result = evaluated(model, dataset, "val", beam_size=1, attention_mode="argmax", length_penalty=0.5)
    settings = result.to_dict()
    assert (settings["beam_size"], settings["attention_mode"], settings["length_penalty"]) == (1, "argmax", 0.5)
    drawn = [evaluated(model, dataset, attention_mode="sample", beam_size=1, seed=seed)[1] for seed in (1, 1, 2)]
    scores = [[each["log_probability"] for each in result.to_dict()["results"]] for result in drawn]
    assert scores[0] == scores[1] != scores[2]
    with pytest.raises(SatError, match="no split 'dev'; it has train, val, test"):
        evaluated(model, dataset, "dev")
    with pytest.raises(SatError, match=r"ptb.*Java"):
        evaluated(model, dataset, "val", tokens="ptb")
