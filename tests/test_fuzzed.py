"""Files from strangers, changed at random: each is read, or refused in one sentence, and does no harm.

The seeds are fixed, so that a failure comes again. `FUZZED` in the environment is the number of changes of each file.
"""

import hashlib
import io
import json
import os
import random
import re
import shutil
import struct
import tarfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import COLORS, COLUMNS, ROWS, D, captioner_of, shape_photo, small_checkpoint, small_encoder
from caption_cases import FORMS
from PIL import Image

from show_attend_tell.batch.reading import photos_of
from show_attend_tell.batch.sources import find_pieces
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.photos import open_photo
from show_attend_tell.data.tokenizers import Unigram
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.caption_files import read_evaluation
from show_attend_tell.vision.feature_cache import FeatureCache

pytestmark = pytest.mark.proof

CHANGES = int(os.environ.get("FUZZED", "100"))
MEMORY = 500_000_000  # bytes that reading a small file may take
NUMBERS = (0, 1, -1, 2**31, 2**53, 2**63 - 1, 10**30, -(10**30), 0.5, 1e308, -0.0)
TEXTS = (
    "",
    "\0",
    "../../etc/passwd",
    "/etc/passwd",
    "\ud800",
    "a" * 100_000,
    "__class__",
    "<script>",
    "\x1b[2J",
    "F64",
)
VALUES = (*NUMBERS, *TEXTS, None, True, [], {}, [[]], [None], {"": {}})


def changed(content: bytes, chance: random.Random) -> bytes:
    """A few bytes of a file changed, taken out, doubled or cut off."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 2, 8, 65, 1000))
        match chance.randrange(6):
            case 0:
                data[at : at + length] = chance.randbytes(length)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                del data[at:]
            case 4 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case _:
                data[at : at + 8] = struct.pack("<q", chance.choice((-1, 0, 2**31, 2**62, 10**15)))
    return bytes(data)


def changed_json(content: bytes, chance: random.Random) -> bytes:
    """A JSON file with one of its values, or of its names, replaced."""
    root = {"root": json.loads(content)}
    locations = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)):
            locations.append((value, key))
            if isinstance(value[key], (dict, list)):
                walk(value[key])

    walk(root)
    holder, key = chance.choice(locations)
    match chance.randrange(5):
        case 0 if holder is not root:
            del holder[key]
        case 1 if isinstance(holder, dict) and holder is not root:
            holder[chance.choice(TEXTS)] = holder.pop(key)
        case 2:
            return json.dumps(root["root"]).replace("1", "1" * 5000, 1).encode()  # a number of thousands of digits
        case 3:
            return b"[" * 200_000
        case _:
            holder[key] = chance.choice(VALUES)
    return json.dumps(root["root"], ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def changed_header(content: bytes, chance: random.Random) -> bytes:
    """A safetensors file whose header says something else of its tensors."""
    size = int.from_bytes(content[:8], "little")
    header, rest = changed_json(content[8 : 8 + size], chance), content[8 + size :]
    told = chance.choice((len(header), len(header), len(header), 0, 2**40, 2**63))
    return told.to_bytes(8, "little") + header + rest


WAYS = {
    ".json": (changed, changed_json, changed_json),
    ".safetensors": (changed, changed_header, changed_header),
}


def peak_of_memory(*, reset: bool = False) -> int:
    """The most memory that this process held since the last reset, in bytes; 0 where there is no /proc."""
    process = Path("/proc/self")
    if not process.exists():
        return 0
    if reset:
        (process / "clear_refs").write_text("5")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())[1])  # type: ignore[index]


@contextmanager
def harmless(folder: Path, *, writes: bool = False) -> Iterator[None]:
    """Nothing happens but a `SatError`: no file moves, little memory is taken, and nothing else is raised."""

    def files() -> dict[Path, str]:
        found = [path for path in folder.rglob("*") if path.is_file() and not (writes and "cache" in path.parts)]
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    before, memory = files(), peak_of_memory(reset=True)
    try:
        yield
    except SatError as error:
        assert len(str(error)) < 2000, str(error)[:3000]
    assert files() == before
    assert peak_of_memory() - memory < MEMORY


def fuzzed(folder: Path, file: Path, read: Callable[[], int], seed: str) -> int:
    """Read a file as often as it is changed; gives how much of it could still be read."""
    whole, chance, found = file.read_bytes(), random.Random(seed), 0
    for _ in range(CHANGES):
        file.write_bytes(chance.choice(WAYS.get(file.suffix, (changed,)))(whole, chance))
        with harmless(folder):
            found += read()
    print(f"{seed[:80]}: of {CHANGES} changed files {found} could still be read")
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with all the files that one can have."""
    checkpoint = small_checkpoint(small_encoder())
    words = list(checkpoint.vocabulary.words[2:])
    checkpoint.vocabulary = Vocabulary(words, Unigram(dict.fromkeys(words, -2.0)))
    judged = np.arange(2, 9, dtype=np.int32)
    checkpoint.confidence = {"words": judged, "offsets": judged / np.float32(9), "weights": np.ones(3, np.float32)}
    checkpoint.tuned_encoder = {name: value.numpy() for name, value in small_encoder().body.state_dict().items()}
    checkpoint.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) >= 6
    return tmp_path / "model"


@pytest.mark.parametrize(
    "name", ["config.json", "vocabulary.json", "model.safetensors", "encoder.safetensors", "confidence.safetensors"]
)
def test_changed_models_do_no_harm(name, model):
    def read() -> int:
        checkpoint = Checkpoint.load(model)
        captioner = captioner_of(checkpoint, small_encoder())
        if checkpoint.generation.max_length < 100 and checkpoint.generation.beam_size < 100:  # a person sees these
            captioner(shape_photo("red", "circle", True), progress=False).to_dict()
        return 1

    found = fuzzed(model.parent, model / name, read, name)
    assert found or name == "encoder.safetensors"  # whose SHA-256 is noted


@pytest.mark.parametrize("pattern", ["*/*/*", "files.json"])
def test_changed_feature_caches_do_no_harm(pattern, tmp_path):
    """Whatever changes, a cache gives the annotations that the encoder gives, or none."""
    encoder = small_encoder()
    (tmp_path / "photos").mkdir()
    photos = {f"{color}.png": tmp_path / "photos" / f"{color}.png" for color in COLORS}
    for color, file in zip(COLORS, photos.values(), strict=True):
        shape_photo(color, "circle", True).save(file)
    first = FeatureCache.build(tmp_path / "cache", photos, encoder, progress=False)
    true = first[list(photos)].clone()
    assert true.shape == (len(photos), ROWS * COLUMNS, D)
    shutil.move(tmp_path / "cache", tmp_path / "whole")
    chance, read = random.Random(pattern), 0
    for _ in range(CHANGES):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "cache")
        file = chance.choice(sorted((tmp_path / "cache").glob(pattern)))
        ways = WAYS.get(file.suffix, (changed,))
        file.write_bytes(chance.choice(ways)(file.read_bytes(), chance))
        for _ in range(2):  # the second one goes on after what the first one dropped
            with harmless(tmp_path, writes=True):
                found = FeatureCache.build(tmp_path / "cache", photos, encoder, progress=False)[list(photos)]
                assert torch.allclose(found.float(), true.float(), atol=0.02)  # encoded again in another batch
                read += 1
    print(f"{pattern}: {read} of {2 * CHANGES} readings gave the annotations")
    assert read


FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "ICO", "TGA", "MPO", "JPEG2000", "HEIF")


@pytest.mark.parametrize("form", FORMATS)
def test_changed_photos_do_no_harm(form, tmp_path):
    file = tmp_path / "photo"
    try:
        shape_photo("red", "square", False).resize((160, 120)).save(file, form)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow cannot write {form}")

    def read() -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=r"PIL\.")  # as `data.photos` does
            opened = open_photo(file)
        assert isinstance(opened, Image.Image) and opened.mode == "RGB"
        return 1

    found = fuzzed(tmp_path, file, read, f"photo as {form}")
    assert bool(found) == (form not in ("ICO", "TGA"))  # which are not read at all


SENTENCES = [{"tokens": ["a", "dog"], "raw": "A dog."}]
SPLIT_FILE = {"dataset": "own", "images": [{"filename": "a.jpg", "split": "train", "sentences": SENTENCES}]}
CAPTIONS = [("dataset.json", json.dumps(SPLIT_FILE)), *((name, content) for name, content, *_ in FORMS.values())]


@pytest.mark.parametrize(("name", "content"), CAPTIONS, ids=["Karpathy", *FORMS])
def test_changed_captions_do_no_harm(name, content, tmp_path):
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    for photo in ("a.jpg", "b.jpg"):
        shape_photo("red", "circle", True).save(folder / "images" / photo)
    (folder / name).write_text(content)

    def read() -> int:
        for example in read_dataset(folder).examples:
            assert folder.resolve() in example.photo.resolve().parents
        return 1

    assert fuzzed(tmp_path, folder / name, read, content)


@pytest.mark.parametrize("form", ["tar", "tar.gz", "parquet"])
def test_changed_files_of_many_photos_do_no_harm(form, tmp_path):
    held = io.BytesIO()
    shape_photo("red", "square", False).save(held, "PNG")
    names, file = [f"folder/{color}.png" for color in COLORS], tmp_path / f"photos.{form}"
    if form == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"name": names, "image": [held.getvalue()] * len(names)}), file)
    else:
        with tarfile.open(file, "w:gz" if form == "tar.gz" else "w") as tar:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(held.getvalue())
                tar.addfile(member, io.BytesIO(held.getvalue()))

    def read() -> int:
        found = 0
        for piece in find_pieces([str(file)]):
            for item in photos_of(piece):
                assert isinstance(item.source, str) and isinstance(item.content, (bytes, SatError))
                found += isinstance(item.content, bytes)
        return found

    assert fuzzed(tmp_path, file, read, form)


def test_changed_evaluations_do_no_harm(tmp_path):
    entry = {"photo": "a.jpg", "caption": "a dog", "references": ["a dog runs"], "words": ["a", "dog"]}
    file = tmp_path / "evaluation.json"
    file.write_text(json.dumps({"tokens": "split", "model": "soft", "results": [entry]}))
    assert fuzzed(tmp_path, file, lambda: bool(read_evaluation(file)), "7")
