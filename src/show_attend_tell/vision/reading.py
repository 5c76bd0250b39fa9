"""The threads that read photos for an encoder."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from show_attend_tell.data.photos import open_photo
from show_attend_tell.errors import SatError

AHEAD = 64  # photos that are opened before the next ones are asked for


def photo_readers() -> ThreadPoolExecutor:
    """Threads to open photos in and to make pixels of them: two at least, eight at most.

    Pillow and NumPy let other threads run while they decode and resize, so the encoder computes meanwhile.
    """
    return ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2)), thread_name_prefix="photos")


def unreadable(photos: Sequence[Path]) -> Iterator[str | None]:
    """For each photo in turn, why it cannot be opened, or None. Several are opened at once, as for an encoder."""
    pool = photo_readers()
    try:
        for start in range(0, len(photos), AHEAD):
            yield from pool.map(_problem, photos[start : start + AHEAD])
    finally:
        pool.shutdown(cancel_futures=True)


def _problem(photo: Path) -> str | None:
    try:
        open_photo(photo)
    except (SatError, OSError) as error:
        return str(error).removeprefix(f"{photo}: ")
    return None
