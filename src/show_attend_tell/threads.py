"""How PyTorch's threads wait for each other, how many there are, and which warnings are shown.

These are settings of a process. The command `sat` and the workers of a batch make them for their own processes;
importing the package makes none.

A thread of PyTorch's OpenMP runtime that has done its part waits for the others in a busy loop, and while another
program needs the processor, everything then takes up to twice as long (`benchmarks/threads.py`). With
``OMP_WAIT_POLICY=passive`` it sleeps. The runtime reads this when PyTorch is imported.
"""

import os
import sys
import warnings

# Settings with which a user has already decided how threads wait, in any of the three runtimes.
USER_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def prepare_process() -> None:
    """Set how threads wait, unless the environment says so, and hide Pillow's warnings, as the command `sat` does."""
    warnings.filterwarnings("ignore", module=r"PIL\.", append=True)
    if "torch" not in sys.modules and not any(name in os.environ for name in USER_SETTINGS):
        os.environ["OMP_WAIT_POLICY"] = "passive"


def use_threads(number: int) -> None:
    """Compute on that many threads, whether PyTorch is imported already or not."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # PyTorch uses MKL's number where there is one
        os.environ[name] = str(number)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(number)
