"""The environment without PyTorch, which `make acceptance` makes: it captions, draws and serves as PyTorch does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import without_pytorch
from builders import small_checkpoint
from searching import ReferenceBackend

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import SHIPPED
from show_attend_tell.messages import install_command
from show_attend_tell.vision.encoder import load_encoder

CHECKOUT = Path(__file__).parent.parent
LIGHT = Path(os.environ.get("SAT_LIGHT", CHECKOUT / ".venv-light")) / "bin"
PHOTO = CHECKOUT / "examples" / "dogs.jpg"
SIZE = 160e6  # bytes that the installation may take without the models and without compiled Python

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not (LIGHT / "sat").exists(), reason="no .venv-light here: make acceptance makes it"),
]


def light(program: str, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a program of the environment without PyTorch."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT / "tests" / "helpers")])
    done = subprocess.run(
        [str(LIGHT / program), *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**own, "PYTHONPATH": path},
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `without_pytorch` prints there."""
    return json.loads(light("python", without_pytorch.__file__, str(PHOTO)).stdout)


@pytest.mark.parametrize("model", without_pytorch.WAYS)
def test_captions_are_those_of_pytorch(model, found):
    """Words, log p, α, β, locations, rerank scores and alternatives: by every attention mode, searched and drawn."""
    checkpoint = Checkpoint.load(SHIPPED / model)
    loaded = TorchBackend.load(checkpoint, model, device=torch.device("cpu"))
    backend = ReferenceBackend(loaded.decoder, loaded.encoder)
    backend.encoder.fixed_precision = "float32"
    expected = without_pytorch.captions_of(Captioner(checkpoint, backend, name=model), str(PHOTO))
    assert len(found["captions"][model]) == len(expected) == len(without_pytorch.WAYS[model]) + 1
    for one, other in zip(found["captions"][model], expected, strict=True):
        exact = ("words", "complete", "locations", "size", "visible_box", "settings")
        assert {name: one[name] for name in exact} == {name: other[name] for name in exact}
        for name in ("log_probability", "rerank_score", "attention", "gate", "word_confidence"):
            assert (one[name] is None) == (other[name] is None)
            if one[name] is not None:
                numbers = [np.array(each[name], dtype=float) for each in (one, other)]  # null is NaN
                np.testing.assert_allclose(*numbers, atol=1e-4)
        texts = [[each["caption"] for each in caption["alternatives"]] for caption in (one, other)]
        assert texts[0][:5] == texts[1][:5] and len(texts[0]) == len(texts[1])


def test_pytorch_is_neither_there_nor_imported_where_it_is(found):
    assert "torch" not in found["modules"] and "onnxruntime" in found["modules"]
    assert light("python", "-c", "import torch", check=False).returncode
    program = f"""
import sys
from show_attend_tell import Captioner
print(Captioner.from_pretrained("flickr8k-soft", backend="onnx")({str(PHOTO)!r}, beam_size=1), "torch" in sys.modules)
"""
    source = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    here = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=source, check=True)
    assert here.stdout.endswith(" False\n")


def test_the_command_captions_draws_and_writes_pages(tmp_path):
    page, pictures, told = tmp_path / "page.html", tmp_path / "looked", tmp_path / "told.json"
    how = ["--generation", "beam_size=2", "--output", str(page), "--save-maps", str(pictures), "--output", str(told)]
    printed = light("sat", "caption", str(PHOTO), *how).stdout
    (caption,) = json.loads(told.read_text())
    assert caption["caption"] in printed and caption["caption"] in page.read_text()
    assert (pictures / "dogs.png").stat().st_size > 10_000
    assert "flickr8k-soft" in light("sat", "models").stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["train", "data", "--output", "model"], "sat train needs PyTorch"),
        (["caption", str(PHOTO), "--backend", "torch"], "backend 'torch': PyTorch is not installed"),
    ],
)
def test_what_needs_pytorch_says_so_in_one_line(arguments, why):
    done = light("sat", *arguments, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"sat: {why}: {install_command('torch')}\n"


def test_the_server_answers_by_a_model_of_ones_own(tmp_path):
    """A model as training saves it, in 32 bits a weight."""
    small_checkpoint(load_encoder("vgg19", resize="squash"), annotation_size=512).save(tmp_path / "own")
    command = [str(LIGHT / "sat"), "serve", "--port", "0", "--model", str(tmp_path / "own")]
    own = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as server:
        try:
            address = re.search(r"http://[^ ]+", server.stdout.readline())
            files = [("photos", ("dogs.jpg", PHOTO.read_bytes()))]
            answer = httpx.post(f"{address[0]}v1/captions", files=files, data={"beam_size": "3"}, timeout=120)
        finally:
            server.terminate()
    told = answer.json()
    assert told[0]["words"] and told[0]["attention"] and told[0]["settings"]["beam_size"] == 3


def test_the_installation_is_small():
    """What pip put there for the package itself, extras and compiled Python left out; the models are not counted."""
    program = """
import json, re
from importlib import metadata
pending, seen, total = ["show-attend-tell"], set(), 0
while pending:
    name = pending.pop()
    if name in seen:
        continue
    seen.add(name)
    found = metadata.distribution(name)
    for file in found.files or ():
        if name != "show-attend-tell" and file.suffix != ".pyc":
            total += file.size or 0
    for line in found.requires or ():
        if "extra ==" not in line and "platform_system" not in line and "sys_platform" not in line:
            pending.append(re.match(r"[A-Za-z0-9._-]+", line)[0].lower())
print(json.dumps([total, sorted(seen)]))
"""
    total, packages = json.loads(light("python", "-c", program).stdout)
    code = sum(file.stat().st_size for file in (CHECKOUT / "src").rglob("*") if file.suffix in (".py", ".js", ".ttf"))
    assert "onnxruntime" in packages and "torch" not in packages
    assert 50e6 < total + code < SIZE
