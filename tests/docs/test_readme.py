"""Commands of the README and of three how-to pages run as they are written (all but those that install)."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from documents import ROOT, blocks, needs_models, run, run_commands
from PIL import Image

pytestmark = [pytest.mark.acceptance, needs_models]
README = (ROOT / "README.md").read_text()
PAGES = [(ROOT / "docs" / "how-to" / f"{name}.md").read_text() for name in ("train", "evaluate", "files")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that they speak of: photos, a small products/ to train on, captions and references."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "examples").mkdir()
    (folder / "products" / "images").mkdir(parents=True)
    for name in ("coffee.jpg", "dogs.jpg"):
        shutil.copy(ROOT / "examples" / name, folder / "examples")
    shutil.copy(ROOT / "examples" / "failures" / "otter.jpg", folder / "new.jpg")
    rows = ["photo,caption,split"]
    random = np.random.default_rng(7)
    for number in range(5):
        split = "train" if number < 3 else "val" if number == 3 else "test"
        pixels = random.integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((224, 224)).save(folder / "products" / "images" / f"{number}.jpg")
        rows += [f"{number}.jpg,a noisy square with many colors,{split}", f"{number}.jpg,many colored noise,{split}"]
    (folder / "products" / "captions.csv").write_text("\n".join(rows) + "\n")
    (folder / "captions.txt").write_text("a cat on a sofa\na dog runs\n")
    (folder / "references.txt").write_text("a cat sleeps on a sofa\na dog runs fast\n")
    return folder


def test_the_shell_commands_run_in_order(desk):
    commands = "\n".join([README, *PAGES])
    quick = commands.replace("sat train products/", "sat train products/ --epochs 1")  # 20 epochs take a minute
    told = run_commands(quick, desk)
    assert len(told) >= 8 and all(text.strip() for text in told.values())
    assert (desk / "maps" / "coffee.png").exists() and (desk / "maps" / "new.png").exists()
    assert (desk / "products-hard" / "model.safetensors").exists() and (desk / "scores.json").exists()
    assert (desk / "dogs.html").exists() and (desk / "report.html").exists()


def test_the_python_runs(desk):
    (code,) = blocks(README, "python")
    run([sys.executable, "-W", "error", "-c", code], desk)
    with Image.open(desk / "dogs.png") as picture:
        assert picture.width > 224


@needs_models
def test_a_training_is_called_as_the_reference_has_it(desk):
    code = "".join(blocks((ROOT / "docs" / "reference" / "python.md").read_text(), "python"))
    assert run([sys.executable, "-W", "error", "-c", f"{code}\nassert fitted.start.name"], desk).split()[-1] == "1"
    assert (desk / "products-1" / "model.safetensors").exists()
