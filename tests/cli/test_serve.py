"""`sat serve`: what it refuses before the work, and how it starts and stops."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import refused
from serving import WEB

from show_attend_tell.cli.serve import listening
from show_attend_tell.errors import SatError

# `sat serve` with small models, in a process of its own; they take as long to load as `wait` says.
SCRIPT = """
import sys, time
from serving import small_captioners
from show_attend_tell.captioner import Captioner
from show_attend_tell.cli import main

def load(name, **options):
    print("loading", flush=True)
    time.sleep(float(sys.argv[1]))
    return small_captioners()[0]

Captioner.from_pretrained = load
main(["serve", "--port", "0", "--model", "small-soft"])
"""
HELPERS = str(Path(__file__).parents[1] / "helpers")


def test_other_machines_are_not_served_without_a_token() -> None:
    line = refused("serve", "--host", "0.0.0.0")
    assert "0.0.0.0 can be reached from other machines" in line and "SAT_TOKEN" in line
    assert "printable" in refused("serve", "--token", "no\nlines")


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example"])
def test_a_host_that_cannot_be_costs_one_line(host: str) -> None:
    with pytest.raises(SatError, match=rf"cannot listen at {re.escape(host)} port 0 \(.+\): choose another"):
        listening(host, 0)


def test_a_taken_port_costs_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in refused("serve", "--port", port)


def test_interrupted_while_pytorch_is_imported_it_ends_at_once_in_one_line() -> None:
    program = """
import signal, sys

class Watch:
    def find_spec(self, name, *rest):
        if name == "torch":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Watch())
from show_attend_tell.cli import main
main(["serve", "--port", "0", "--backend", "torch"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sat: interrupted\n")


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Any:
    """`sat serve` as a process, whose models take so many seconds to load."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {HELPERS!r})\n{SCRIPT}", str(request.param)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("started", [60], indirect=True)
def test_interrupted_while_the_models_load(started: "subprocess.Popen[str]") -> None:
    assert started.stdout is not None
    assert started.stdout.readline() == "loading\n"
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=120)
    assert (started.returncode, errors) == (130, "sat: interrupted\n")


@pytest.mark.parametrize("started", [0], indirect=True)
def test_interrupted_while_clients_stall(started: "subprocess.Popen[str]") -> None:
    assert started.stdout is not None
    assert started.stdout.readline() == "loading\n"
    line = started.stdout.readline()
    assert line.startswith("serving small-soft at http://127.0.0.1:")
    port = int(line.split("127.0.0.1:")[1].split("/")[0])
    halves = (
        b"GET / HT",
        b"POST /v1/captions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        b"Content-Type: multipart/form-data; boundary=a\r\n\r\n--a",
    )
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in halves]
    for client, half in zip(clients, halves, strict=True):
        client.sendall(half)
    assert WEB.get(f"http://127.0.0.1:{port}/healthz").status_code == 200  # so the halves have come too
    started.send_signal(signal.SIGINT)
    output, errors = started.communicate(timeout=120)
    for client in clients:
        client.close()
    assert (started.returncode, output, errors) == (0, "stopped\n", "")
