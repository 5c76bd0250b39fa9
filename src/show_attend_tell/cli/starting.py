"""Ctrl-C while the command starts: it ends at once and in one line.

This is the first module that the command imports. It imports little itself, since Ctrl-C prints a traceback until then.
From now on, Ctrl-C ends the process at once while it imports modules, until the back end is imported: an import that an
exception breaks off may print tracebacks, and the import of PyTorch may abort the process. Ctrl-C anywhere else raises
`KeyboardInterrupt`, as ever.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from types import FrameType

IMPORT = "<frozen importlib"  # where Python's own code of an import comes from


def _interrupted(number: int, frame: "FrameType | None") -> None:
    while frame is not None and not frame.f_code.co_filename.startswith(IMPORT):
        frame = frame.f_back
    if frame is None or _has_backend():
        raise KeyboardInterrupt
    os.write(2, b"sat: interrupted\n")
    os._exit(130)


def _has_backend() -> bool:
    """Whether PyTorch or ONNX Runtime is imported, all of it."""
    there = [sys.modules[name] for name in ("torch", "onnxruntime") if name in sys.modules]
    return any(not getattr(module.__spec__, "_initializing", False) for module in there)


try:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise Ctrl-C is ignored, and goes on so
        signal.signal(signal.SIGINT, _interrupted)
except ValueError:  # in a thread, which Ctrl-C does not reach
    pass
