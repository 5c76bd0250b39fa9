"""The commands of the page on reviews run as they are written, with a person who accepts one caption."""

import json
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from documents import ROOT, blocks, needs_models
from serving import client

pytestmark = [pytest.mark.acceptance, needs_models]
PAGE = (ROOT / "docs" / "how-to" / "review.md").read_text()


def test_a_review_and_what_is_made_of_it(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(ROOT / "examples" / "coffee.jpg", photos)
    review, *others = [shlex.split(line, comments=True)[1:] for line in blocks(PAGE, "sh")[0].splitlines()]
    program = [sys.executable, "-m", "show_attend_tell"]
    command = [*program, *review, "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().split(" ")[0]
        decision = json.dumps({"id": 0, "action": "write", "text": "an espresso"})
        with client() as web:
            assert web.post(f"{address}decide", content=decision).json()["reviewed"] == "written"
        server.send_signal(signal.SIGINT)
        assert "saved" in server.communicate()[0]
    assert server.returncode == 0
    for words in others:
        subprocess.run([*program, *words], cwd=tmp_path, check=True)
    assert "an espresso" in (photos / "coffee.jpg.xmp").read_text()
