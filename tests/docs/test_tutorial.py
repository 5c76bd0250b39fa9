"""The tutorials' code runs as it is written, prints what stands under it, and makes its pictures.

When a shipped model or a picture has changed, write what is printed and the pictures anew, then read them once:

    python tests/docs/test_tutorial.py
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from documents import ROOT, blocks, needs_models, run, run_commands
from PIL import Image

DOCS = ROOT / "docs" / "tutorials"
TUTORIALS = {file.name: file.read_text() for file in DOCS.glob("*.md")}

END_OF_BLOCK = "--- end of block ---"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def session(folder: Path, text: str) -> list[str]:
    """Run the Python blocks one after the other, as one session in a folder; what each printed."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    code = "".join(f"{block}\nprint({END_OF_BLOCK!r})\n" for block in blocks(text, "python"))
    (folder / "session.py").write_text(code)
    return run([sys.executable, "-W", "error", "session.py"], folder).split(END_OF_BLOCK + "\n")[:-1]


def written(text: str) -> list[str]:
    """What a tutorial says that each Python block prints: the text block right under it, or nothing."""
    return re.findall(r"```python\n.*?```\n(?:\n```text\n(.*?)```)?", text, flags=re.DOTALL)


def alike(printed: str, said: str) -> bool:
    """Whether two outputs have the same words, and numbers that are as near as other hardware makes them."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", said).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(said), strict=True)
    return all(abs(float(a) - float(b)) <= 0.02 + 0.05 * abs(float(b)) for a, b in pairs)


@needs_models
@pytest.mark.acceptance
@pytest.mark.parametrize("name", sorted(TUTORIALS))
def test_the_python_prints_what_is_written_and_makes_the_pictures(name, tmp_path):
    text = TUTORIALS[name]
    printed = session(tmp_path, text)
    stale = [f"printed:\n{a}written:\n{b}" for a, b in zip(printed, written(text), strict=True) if not alike(a, b)]
    assert not stale, "\n".join(["run python tests/docs/test_tutorial.py, if this is right:", *stale])
    for name in re.findall(r"!\[.+\]\((.+)\)", text):
        with Image.open(tmp_path / name) as made, Image.open(DOCS / name) as shown:
            assert made.size == shown.size, name
            difference = np.asarray(made, dtype=float) - np.asarray(shown, dtype=float)
            assert np.abs(difference).mean() < 4, f"{name} is of another model: run python tests/docs/test_tutorial.py"


def test_the_pictures_are_light():
    sizes = [file.stat().st_size for file in DOCS.glob("tutorial-*")]
    assert max(sizes) < 150_000 and sum(sizes) < 700_000


@needs_models
@pytest.mark.acceptance
def test_the_commands_run(tmp_path):
    """On two photos in the place of Flickr8k."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "flickr8k" / "images").mkdir(parents=True)
    rows = ["photo,caption,split"]
    for name in ("dogs.jpg", "gull.jpg"):
        shutil.copy(ROOT / "examples" / name, tmp_path / "flickr8k" / "images")
        rows.append(f"{name},a brown animal is near the water,val")
    (tmp_path / "flickr8k" / "captions.csv").write_text("\n".join(rows) + "\n")
    told = run_commands("\n".join(TUTORIALS.values()), tmp_path)
    assert told and all(text.strip() for text in told.values())
    assert (tmp_path / "maps" / "pizza.png").exists() and (tmp_path / "pizza.html").exists()


def renew() -> None:
    """Write the outputs and the pictures of the tutorials anew."""
    for name, text in TUTORIALS.items():
        with tempfile.TemporaryDirectory() as scratch:
            outputs = iter(session(Path(scratch), text))
            for picture in Path(scratch).glob("tutorial-*"):
                shutil.copy(picture, DOCS)

        def with_output(block: re.Match[str], outputs: Iterator[str] = outputs) -> str:
            printed = next(outputs)
            return block[1] + (f"\n```text\n{printed}```\n" if printed else "")

        text = re.sub(r"(```python\n.*?```\n)(?:\n```text\n.*?```\n)?", with_output, text, flags=re.DOTALL)
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    renew()
