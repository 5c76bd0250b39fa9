"""`sat serve`: what it refuses before the work, and how it starts and stops."""

import signal
import socket
import subprocess
import sys

from commands import refused


def test_other_machines_are_not_served_without_a_token():
    line = refused("serve", "--host", "0.0.0.0")
    assert "0.0.0.0 can be reached from other machines" in line and "SAT_TOKEN" in line
    assert "printable" in refused("serve", "--token", "no\nlines")


def test_a_taken_port_costs_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in refused("serve", "--port", port)


def test_interrupted_while_the_models_load_it_ends_in_one_line():
    program = """
import time
from show_attend_tell.captioner import Captioner
from show_attend_tell.cli import main

def load(name, **options):
    print("loading", flush=True)
    time.sleep(60)

Captioner.from_pretrained = load
main(["serve", "--port", "0"])
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "sat: interrupted\n")
