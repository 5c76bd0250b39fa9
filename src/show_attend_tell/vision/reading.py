"""The threads that read photos for an encoder."""

import os
from concurrent.futures import ThreadPoolExecutor


def photo_readers() -> ThreadPoolExecutor:
    """Threads to open photos in and to make pixels of them: two at least, eight at most.

    Pillow and NumPy let other threads run while they decode and resize, so the encoder computes meanwhile.
    """
    return ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2)), thread_name_prefix="photos")
