"""How PyTorch's threads wait for each other, how many there are, and which warnings are shown.

These are settings of a process. The command `sat` and the workers of a batch make them for their own processes;
importing the package makes none. A program that uses the package may call `prepare_process` before it imports PyTorch.

PyTorch splits an operation among the threads of an OpenMP runtime. A thread that has done its part waits for the others
in a busy loop: of 300,000 rounds, more than 10 ms, in the GNU runtime of PyTorch's Linux builds. While another program
needs the processor, that loop takes the time that the other threads of the same operation need, and everything takes up
to twice as long. ``OMP_WAIT_POLICY=passive`` lets threads sleep instead. The GNU, LLVM and Intel runtimes all know
it. `benchmarks/threads.py` measures the difference.

The runtime reads its environment when it is loaded, so this must be set before PyTorch is imported, and this module
does not import it.
"""

import os
import sys
import warnings

# Settings with which a user has already decided how threads wait, in any of the three runtimes.
USER_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def prepare_process() -> None:
    """Set how threads wait and which warnings are shown, as the command `sat` does it.

    - PyTorch's threads sleep while they wait, unless the environment says how they wait. It changes the environment of
      this process and of those that it starts. It has no effect once PyTorch is imported.
    - Pillow's warnings, of many pixels or of damaged EXIF data, are not shown, because they name neither the photo nor
      a remedy. A filter that was set before comes first.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.", append=True)
    if "torch" not in sys.modules and not any(name in os.environ for name in USER_SETTINGS):
        os.environ["OMP_WAIT_POLICY"] = "passive"


def use_threads(number: int) -> None:
    """Compute on that many threads, whether PyTorch is imported already or not."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # PyTorch uses MKL's number where there is one
        os.environ[name] = str(number)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(number)
