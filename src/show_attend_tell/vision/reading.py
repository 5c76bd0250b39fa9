"""Photos are read by threads while an encoder computes: Pillow and NumPy let other threads run meanwhile."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from show_attend_tell.data.photos import PASSED_OVER, open_photo
from show_attend_tell.errors import PhotoError, SatError

if TYPE_CHECKING:  # `sat caption` needs no readers of data sets
    from show_attend_tell.data.datasets import Example

Item = TypeVar("Item")
Result = TypeVar("Result")


def photo_readers() -> ThreadPoolExecutor:
    """Two to eight threads, by the number of processor cores."""
    return ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2)), thread_name_prefix="photos")


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = 64
) -> Iterator[Result | SatError]:
    """``read(item)`` of each item in turn, or its `SatError`; threads read at most ``ahead`` items in advance."""

    def attempt(item: Item) -> Result | SatError:
        try:
            return read(item)
        except SatError as error:
            return error
        except OSError as error:
            return PhotoError(f"cannot be read ({error.strerror or error})", subject=str(item))

    pool = photo_readers()
    waiting: deque[Future[Result | SatError]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(attempt, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def unreadable(examples: "Sequence[Example]", passed_over: dict[str, str]) -> Iterator[tuple[str, str | None]]:
    """The name of each photo in turn, and why its file cannot be opened, or None.

    ``passed_over`` gets, by name, what was left out of the files of photos whose pixels could be read without it.
    """

    def open_example(example: "Example") -> str | None:
        return open_photo(example.photo).info.get(PASSED_OVER)

    for example, opened in zip(examples, read_ahead(open_example, examples), strict=True):
        if isinstance(opened, str):
            passed_over[example.name] = opened
        yield example.name, f"{example.photo}: {opened.reason}" if isinstance(opened, SatError) else None
