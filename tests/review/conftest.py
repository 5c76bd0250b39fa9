"""What the tests of a review share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from reviewing import Start


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server by Python in a process of its own, which a test may kill; gives its address too."""
    processes = []

    def started(*arguments: Any) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # with the tests' helpers
        )
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[0]

    yield started
    for process in processes:
        process.kill()
        process.communicate()
