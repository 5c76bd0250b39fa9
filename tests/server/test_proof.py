"""The server with the shipped models, as `sat serve` starts it, fuzzed from its own document."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

pytestmark = pytest.mark.proof


class Running(NamedTuple):
    """`sat serve` in a process of its own."""

    process: "subprocess.Popen[str]"
    url: str


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    command = [sys.executable, "-c", "from show_attend_tell.cli import main; main()", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    yield Running(process, line.split(" at ")[1].split("/ ")[0])
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stdout.close()


def healthy(server: Running) -> bool:
    found = httpx.get(f"{server.url}/healthz")
    return found.status_code == 200 and found.json() == {"status": "ok", "waiting": 0}


def test_the_api_fuzzed_from_its_own_document(server: Running, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--no-color"),
        *("--max-examples", "100", "--seed", "7", "--request-timeout", "90", "--max-response-time", "90"),
        # The document cannot say what a photo is, and in a form a value of a wrong type is a text like any other.
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance,negative_data_rejection"),
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert healthy(server)
