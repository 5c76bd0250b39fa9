"""What the tests of the documents share: their blocks of code, and a way to run these as a reader would."""

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from show_attend_tell.checkpoint.hub import SHIPPED

ROOT = Path(__file__).parents[2]

needs_models = pytest.mark.skipif(
    not (SHIPPED / "flickr8k-hard" / "config.json").exists(), reason="the shipped models are not in this checkout"
)


def module_of(file: Path) -> ModuleType:
    """A program that is in no package, as a module."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a Markdown document that name a language."""
    return re.findall(rf"```{language}\n(.*?)```", document, flags=re.DOTALL)


def plugin(file: Path, what: str, **renamed: str) -> Path:
    """The code of the documents on extending, or of their example of a decoder, that has these words, in a file.

    With other names, since a process registers each once.
    """
    pages = [page.read_text() for page in (ROOT / "docs/how-to/extend.md", ROOT / "CONTRIBUTING.md")]
    codes = [block for page in pages for block in blocks(page, "python")]
    codes.append((ROOT / "examples" / "transformer_decoder.py").read_text())
    (code,) = (code for code in codes if what in code)
    for before, after in renamed.items():
        assert f'"{before}"' in code
        code = code.replace(f'"{before}"', f'"{after}"')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    return file


def run(command: list[str], folder: Path) -> str:
    """Run a program in a folder, as one that finds neither Java nor a GPU, and return what it printed; it must succeed.

    Without Java the scores have no METEOR, which takes seconds each time and has its own tests.
    """
    path = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": path, "SAT_CACHE": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


COMMANDS = """
import shlex, sys
from show_attend_tell.cli import main

for line in sys.argv[1:]:
    name, *words = shlex.split(line, comments=True)
    assert name == "sat", line
    try:
        main(words, prog_name="sat")
    except SystemExit as ended:
        assert not ended.code, line
    print("--- end of command ---")
"""


def run_commands(document: str, folder: Path) -> dict[str, str]:
    """Run a document's `sat` commands in their order, and return what each printed.

    They run in one process, which imports PyTorch once.
    """
    lines = [line for block in blocks(document, "sh") for line in block.strip().splitlines()]
    printed = run([sys.executable, "-c", COMMANDS, *lines], folder).split("--- end of command ---\n")[:-1]
    return dict(zip(lines, printed, strict=True))
