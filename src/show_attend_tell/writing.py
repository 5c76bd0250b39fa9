"""Writing files: whole or not at all, and where the user meant them to be."""

import os
from collections.abc import Callable
from pathlib import Path

from show_attend_tell.errors import SatError


def replace(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name and then rename it into place.

    A link stays one, and the file that it leads to is replaced; a device or a pipe is written to as it is. Raises
    `SatError` as `check_file` does.
    """
    check_file(file)
    if file.exists() and not file.is_file():
        write(file)
        return
    file = Path(os.path.realpath(file))
    scratch = file.with_name(f".{file.name}.part")
    try:
        write(scratch)
        mask = os.umask(0)
        os.umask(mask)
        scratch.chmod(0o666 & ~mask)  # safetensors would have it readable by its owner alone
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)


def check_file(file: Path) -> None:
    """Raise `SatError` for a file that is a folder, or that there is no folder for."""
    if not file.parent.is_dir():
        raise SatError(f"{file.parent} is not a folder: make it first, or name another file")
    if file.is_dir():
        raise SatError(f"{file} is a folder: name a file")
