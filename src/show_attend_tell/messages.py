"""How messages to people name values: cut to a readable length, counted, listed."""

import http
from collections.abc import Iterable, Mapping

SITE = ""  # the documentation's address once it is known; research/release.py writes it
CPU = "--extra-index-url https://download.pytorch.org/whl/cpu"  # where pip finds PyTorch without what GPUs need


def quoted(value: object) -> str:
    """A damaged value of a file for a message, never a whole file of it."""
    return "missing" if value is None else shorten(value)


def shorten(value: object, most: int = 80) -> str:
    """A wrong value for a message, cut to 80 characters, or to another number."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def first_three(names: Iterable[str]) -> str:
    """The first three names, and how many more there are."""
    names = list(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def plural(number: int, thing: str) -> str:
    """A number of things: 1 photo, 2,000 photos, 3 batches."""
    return f"{number:,} {thing}" + ("" if number == 1 else "es" if thing.endswith("tch") else "s")


def read_without(left_out: Mapping[str, str]) -> str:
    """How many photos were read without a part of their files; ``left_out`` says which part, by the photos' names."""
    named = first_three(f"{name} ({part})" for name, part in left_out.items())
    why = "although something beside the pixels is damaged, missing or too large"
    return f"{plural(len(left_out), 'photo')} read {why}: {named}"


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, from its folder and after a release."""
    command = f"pip install -e '.[{extra}]' in the project's folder, or pip install 'show-attend-tell[{extra}]'"
    if extra not in ("torch", "transformers"):
        return command
    return f"{command}; without a GPU, with {CPU} (1.1 GB on the disk, and 5.5 GB without it on Linux)"


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, of this machine or behind an address."""
    status = getattr(error, "status", None) or getattr(error, "code", None)  # the clients' errors have no common type
    if isinstance(status, int) and status in set(http.HTTPStatus):
        return f"the server answered {status}, {http.HTTPStatus(status).phrase}"
    return f"cannot be read ({getattr(error, 'strerror', None) or error or type(error).__name__})"
