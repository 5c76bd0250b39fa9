"""Each message of the questions and messages is what the command beside it says."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from commands import refused
from documents import ROOT, needs_models

PAGE = (ROOT / "docs" / "how-to" / "faq.md").read_text()
ROWS = re.findall(r"^\| `sat (.+?)` \| (.+?) \|", PAGE, re.MULTILINE)


@needs_models
@pytest.mark.parametrize(("command", "message"), ROWS)
def test_the_command_says_it(command, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "gull.jpg", "cat.jpg")
    Path("cut.jpg").write_bytes(Path("cat.jpg").read_bytes()[:9000])
    Path("note.jpg").write_text("no photo")
    Path("empty", "images").mkdir(parents=True)
    Path("missing").mkdir()
    Path("missing", "captions.csv").write_text("photo,caption\nmug.jpg,a mug\n")
    assert message in refused(*shlex.split(command))
