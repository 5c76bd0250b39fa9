"""What the tests of the web page need: Node with its packages, and Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest
from documents import ROOT

WEB = ROOT / "web"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_node = pytest.mark.skipif(
    NODE is None or not (WEB / "node_modules" / "vite").is_dir(),
    reason="the page's packages are not installed: run make web, which needs Node",
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to drive here")


def node(*arguments: str | Path, cwd: Path = WEB) -> str:
    """Run Node; gives what it prints."""
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], cwd=cwd, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
