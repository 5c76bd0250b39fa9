"""How PyTorch's threads wait for each other, and which warnings are shown.

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
