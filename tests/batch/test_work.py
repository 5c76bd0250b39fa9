"""Captions and features of batches: those of the captioner and of the encoder, in every form of batch."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import shape_photos, small_encoder
from shades import rows_of

from show_attend_tell.batch import CaptionBatch, EncodeBatch
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "many-photos.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
GENERATION = "--generation beam_size=1 --generation rerank_weight=0".split()
GREEDY = {"beam_size": 1, "rerank_weight": 0.0}
COLUMNS = ("caption", "confidence", "to_check", "log_probability", "complete", "error")


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return Captioner.from_pretrained("everyday-soft", device="cpu")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    shape_photos(folder)
    (folder / "broken.png").write_bytes((folder / "photo0.png").read_bytes()[:60])
    return folder


def caption_batch(captioner: Captioner, column: str = "bytes") -> CaptionBatch:
    work = CaptionBatch("everyday-soft", column=column, **GREEDY)
    vars(work)["model"] = captioner  # is loaded
    return work


def test_a_batch_gets_the_captions_of_the_captioner(captioner, photos):
    files = sorted(photos.iterdir())
    contents = [*(file.read_bytes() for file in files), {"bytes": None, "path": str(files[1])}, None]
    found = caption_batch(captioner)({"name": np.arange(6), "bytes": contents})
    assert list(found) == ["name", *COLUMNS] and list(found["name"]) == list(range(6))
    for row, file in ((1, files[1]), (2, files[2]), (3, files[3]), (4, files[1])):
        expected = captioner(file, **GREEDY)
        assert found["caption"][row] == str(expected) and found["error"][row] is None
        assert found["log_probability"][row] == pytest.approx(expected.log_probability, abs=1e-4)
        assert found["complete"][row] == expected.complete
        assert found["confidence"][row] == pytest.approx(expected.confidence, abs=1e-4)
        assert found["to_check"][row] == ", ".join(expected.to_check)
    assert [found[name][0] for name in COLUMNS[:-1]] == [None] * 5 and found["error"][0].startswith("damaged")
    assert found["error"][5] == "nothing where a photo should be"
    sent = pickle.dumps(caption_batch(captioner))  # to a worker, without its model
    assert len(sent) < 1000 and "model" not in vars(pickle.loads(sent))


def test_what_a_row_depends_on_is_in_the_settings(captioner, tmp_path):
    work = caption_batch(captioner)
    assert work.settings() == caption_batch(captioner).settings()
    captioner.checkpoint.save(tmp_path / "other", bits=16)
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"weights")
    others = [CaptionBatch("everyday-soft", beam_size=2), CaptionBatch(str(tmp_path / "other"), **GREEDY)]
    others.append(CaptionBatch("everyday-soft", encoder_weights=str(weights), **GREEDY))
    for other in others:
        vars(other)["model"] = captioner
        assert other.settings() != work.settings()


@pytest.mark.proof
def test_columns_of_a_table_have_types_where_all_is_null(captioner):
    import pyarrow

    found = caption_batch(captioner)(pyarrow.table({"name": ["a"], "bytes": [b"no photo"]}))
    numbers = {"log_probability": "double", "complete": "bool", "confidence": "double"}
    types = {**dict.fromkeys(("name", "caption", "to_check", "error"), "string"), **numbers}
    assert {field.name: str(field.type) for field in found.schema} == types


def test_features_are_those_of_the_encoder(photos):
    work = EncodeBatch("small", resize="squash", device="cpu")
    vars(work)["model"] = encoder = small_encoder()
    files = sorted(photos.iterdir())
    rows = work.rows([file.read_bytes() for file in files])
    pixels = np.stack([encoder.preprocessing.pixels(open_photo(file)) for file in files[1:]])
    expected = encoder.annotate(pixels).half().numpy()
    for row, annotations in zip(rows[1:], expected, strict=True):
        found = np.frombuffer(row["annotations"], "<f2").reshape(work.settings()["shape"])
        assert np.array_equal(found, annotations) and row["error"] is None
    assert rows[0]["annotations"] is None and rows[0]["error"].startswith("damaged")
    with torch.no_grad():
        next(encoder.parameters()).mul_(1e9)
    assert "beyond half precision" in work.rows([files[1].read_bytes()])[0]["error"]


@pytest.mark.proof
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_docs_run(number, photos, tmp_path):
    path = os.pathsep.join(part for part in sys.path if part)
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", EXAMPLES[number]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*-captions")
    rows = rows_of(folder.rename(folder.with_suffix(".parquet")))
    assert len(rows) == 4 and sum(row["error"] is not None and row["caption"] is None for row in rows) == 1
