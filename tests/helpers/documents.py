"""What the tests of the documents share: their blocks of code, and a way to run these as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from show_attend_tell.checkpoint.find import SHIPPED

ROOT = Path(__file__).parents[2]

needs_models = pytest.mark.skipif(
    not (SHIPPED / "flickr8k-hard" / "config.json").exists(), reason="the shipped models are not in this checkout"
)


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a Markdown document that name a language."""
    return re.findall(rf"```{language}\n(.*?)```", document, flags=re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder, this Python's programs first, and return what it printed; it must succeed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SAT_CACHE": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
