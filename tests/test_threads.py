"""The command lets PyTorch's threads sleep while they wait; importing the package changes nothing in the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import show_attend_tell

SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# A process that ends at the first import of PyTorch, and says what the environment is then.
AT_IMPORT_OF_TORCH = f"""
import os, sys

class Watch:
    def find_spec(self, name, *rest):
        if name == "torch":
            print({{name: os.environ[name] for name in {SETTINGS} if name in os.environ}})
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Watch())
"""


def at_import_of_torch(program: str, *arguments: str, **environment: str) -> dict[str, str]:
    """The settings of threads in the environment at the moment when a program imports PyTorch."""
    clean = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    source = str(Path(show_attend_tell.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT_OF_TORCH + program, *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**clean, "PYTHONPATH": source, **environment},
        timeout=120,
        check=True,
    )
    return dict(eval(done.stdout))


PHOTO = Path(__file__).parent.parent / "examples" / "dogs.jpg"
COMMAND = "from show_attend_tell.cli import main; main(prog_name='sat')"


@pytest.mark.parametrize("command", [f"caption {PHOTO}", "train data/ --attention soft --output model"])
def test_the_commands_let_threads_sleep(command):
    assert at_import_of_torch(COMMAND, *command.split()) == {"OMP_WAIT_POLICY": "passive"}


PROGRAM = "from show_attend_tell.threads import prepare_process; prepare_process(); import torch"


def test_a_program_chooses_whether_threads_sleep():
    assert at_import_of_torch("import show_attend_tell.captioner, torch") == {}
    assert at_import_of_torch(PROGRAM) == {"OMP_WAIT_POLICY": "passive"}


@pytest.mark.acceptance
def test_importing_the_package_changes_nothing_in_the_process():
    program = """
import logging, os, signal, sys, warnings
import numpy, onnxruntime, PIL.Image, pydantic, safetensors, torch, fastapi, tqdm

def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return list(warnings.filters), dict(os.environ), handlers, list(logging.root.handlers), torch.get_num_threads()

before = state()
import show_attend_tell.captioner, show_attend_tell.evaluation, show_attend_tell.server, show_attend_tell.training.run
sys.exit(state() != before)
"""
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


@pytest.mark.parametrize("own", [{"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "1000"}], ids=str)
def test_a_user_s_own_settings_win(own):
    assert at_import_of_torch(PROGRAM, **own) == own
    number = {"OMP_NUM_THREADS": "5"}
    assert at_import_of_torch(COMMAND, "caption", str(PHOTO), **own, **number) == {**own, **number}
