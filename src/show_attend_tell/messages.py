"""How messages to people name values: cut to a readable length, counted, listed."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path


def shown(value: object) -> str:
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


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines: the first column begins at the left, and the others end at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))])
        for first, *cells in rows
    ]


def times(number: int) -> str:
    """How often, in words: once, 5 times."""
    return "once" if number == 1 else f"{number:,} times"


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, for a checkout and for an installed package."""
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    return f"pip install 'show-attend-tell[{extra}]'"
