"""The server with the shipped models, as `sat serve` starts it, fuzzed from its own document."""

import signal
import subprocess
import sys

import httpx
import pytest

pytestmark = pytest.mark.proof


def test_the_api_fuzzed_from_its_own_document(tmp_path):
    serve = [sys.executable, "-c", "from show_attend_tell.cli import main; main()", "serve", "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split("/ ")[0]
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"),
            *("--max-examples", "100", "--seed", "7", "--request-timeout", "90", "--max-response-time", "90"),
            # The document cannot say what a photo is, and in a form a value of a wrong type is a text like any other.
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance,negative_data_rejection"),
        ]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        health = httpx.get(f"{url}/healthz")
        process.send_signal(signal.SIGINT)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert health.status_code == 200 and health.json() == {"status": "ok", "waiting": 0}
