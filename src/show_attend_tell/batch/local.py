"""Worker processes of this machine: this process reads photos and writes rows, and the workers make the rows."""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from show_attend_tell.batch.reading import Item
from show_attend_tell.batch.work import PhotoBatch, Row
from show_attend_tell.errors import SatError
from show_attend_tell.threads import prepare_process, use_threads

DEATHS = 3  # of workers with one photo, before it is given up


def made_locally(work: PhotoBatch, batches: Iterable[list[Item]], workers: int) -> Generator[list[Row]]:
    """The rows of each batch, as soon as they are made; photos whose worker was killed are done one by one."""
    unread = iter(batches)
    again = deque[list[Item]]()  # photos of a worker that was killed
    deaths = Counter[str]()  # by the photos' sources
    running = dict(_start(work, workers) for _ in range(workers))
    try:
        while running:
            for connection in wait(list(running)):
                assert isinstance(connection, Connection)
                process, batch = running[connection]
                rows = _received(connection, batch)
                if rows is None:
                    del running[connection]
                    running |= [_start(work, workers)]
                    deaths.update(item.source for item in batch)
                    if len(batch) > 1 or deaths[batch[0].source] < DEATHS:
                        again.extend([item] for item in batch)
                        continue
                    error = SatError(f"its worker was killed {DEATHS} times: it may be too much for the memory")
                    yield [batch[0].row(work.row(error))]
                    continue
                yield [item.row(row) for item, row in zip(batch, rows, strict=True)]
                following = again.popleft() if again else next(unread, None)
                if following is None:
                    del running[connection]
                    process.terminate()
                else:
                    running[connection] = process, following
                    with suppress(OSError):  # of a worker that was killed, which is seen above
                        connection.send(following)
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


def _start(work: PhotoBatch, workers: int) -> tuple[Connection, tuple[BaseProcess, list[Item]]]:
    """A worker that loads the model: the connection to it, and its process with its batch, which is empty yet."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_worker, args=(theirs, work, workers), daemon=True)
    process.start()
    theirs.close()
    return ours, (process, [])


def _received(connection: Connection, batch: list[Item]) -> list[Row] | None:
    """The rows that a worker has made of a batch, None where it was killed. Raises the error that ended it."""
    try:
        answer = connection.recv()
    except (EOFError, OSError):
        if batch:
            return None
        raise SatError("a worker was killed while it loaded the model: give fewer workers") from None
    if isinstance(answer, Exception):
        raise answer
    rows: list[Row] = answer
    return rows


def _worker(connection: Connection, work: PhotoBatch, workers: int) -> None:
    """Make the rows of batches until the main process is gone, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare_process()
    if "OMP_NUM_THREADS" not in os.environ:
        use_threads(max(1, (os.cpu_count() or 1) // workers))
    with suppress(OSError):  # of the connection, when the main process is gone
        try:
            _ = work.model
            connection.send([])  # it is loaded
            while True:
                batch: list[Item] = connection.recv()
                connection.send(work.rows([item.content for item in batch]))
        except Exception as error:
            connection.send(error)
