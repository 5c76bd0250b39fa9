"""Run `sat` in this process, or in one of its own."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from builders import SIZES
from click.testing import CliRunner, Result

import show_attend_tell
from show_attend_tell.cli import main


def sat(*arguments: object) -> Result:
    """Run a command that must succeed."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result


def settings(**changes: object) -> list[str]:
    """The options --set of `sat train` that make a training take seconds."""
    small = {f"decoder.{name}": size for name, size in SIZES.items()}
    values = {**small, "batch_size": 4, "visual_ngrams": "false", **changes}
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


def refused(*arguments: object, code: int | None = None) -> str:
    """Run a command that must end with one line for the user, after progress bars at most; return it."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code != 0 and result.exit_code == (code or result.exit_code)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    *bars, line = (line for line in result.stderr.splitlines() if line.strip())
    assert line.startswith("sat: ") and all("|" in bar for bar in bars), result.stderr
    assert result.stderr.endswith(f"{line}\n")
    return line


def in_a_process(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process of its own."""
    program = "from show_attend_tell.cli import main; main(prog_name='sat')"
    source = str(Path(show_attend_tell.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )


def ctrl_c_at(pipe: Path) -> None:
    """Make a pipe, and press Ctrl-C when it is opened for reading."""

    def press() -> None:
        with open(pipe, "wb"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    os.mkfifo(pipe)
    threading.Thread(target=press, daemon=True).start()
