"""Progress of what takes time: a bar in a terminal, and a line now and then in a log file."""

import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import tqdm

SECONDS = 30.0  # between two lines in a log file
SHOWN = ContextVar("SHOWN", default=True)


class Progress(tqdm):  # type: ignore[misc]
    """`tqdm`, but where standard error is no terminal and no notebook it writes a whole line every `SECONDS`."""

    def __init__(self, iterable: Iterable[Any] | None = None, **options: Any) -> None:
        options["disable"] = options.get("disable") or not SHOWN.get()
        self.in_lines = not draws_bars(sys.stderr.isatty(), sys.modules)
        if self.in_lines:
            options |= {"mininterval": SECONDS, "miniters": 1, "leave": False}
            options["bar_format"] = "{desc}: {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left{postfix}"
        super().__init__(iterable, file=sys.stderr, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draw the bar, or write a line; returns whether there is something to take off the screen again."""
        if not self.in_lines:
            return bool(super().display(msg, pos))
        if self.n > self.initial and msg is None:
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def refresh(self, nolock: bool = False, lock_args: Any = None) -> None:
        """Draw the bar again, as tqdm does (``nolock``) after other text was printed; a line needs no such thing."""
        if not (self.in_lines and nolock):
            super().refresh(nolock, lock_args)

    def clear(self, nolock: bool = False) -> None:
        """Take the bar off the screen; a line stays."""
        if not self.in_lines:
            super().clear(nolock)


@contextmanager
def progress_shown(show: bool) -> Iterator[None]:
    """Show progress meanwhile, or hide it; where it is hidden already, it stays so."""
    before = SHOWN.set(show and SHOWN.get())
    try:
        yield
    finally:
        SHOWN.reset(before)


def draws_bars(terminal: bool, modules: Container[str]) -> bool:
    """Whether progress is a bar: on a terminal, and in a notebook, whose kernel is one of the imported modules."""
    return terminal or "ipykernel" in modules
