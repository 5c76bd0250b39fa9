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
    context = multiprocessing.get_context("spawn")
    unread = iter(batches)
    again = deque[list[Item]]()  # photos of a worker that was killed
    deaths = Counter[str]()  # by the photos' sources
    processes: dict[Connection, BaseProcess] = {}
    idle: list[Connection] = []
    busy: dict[Connection, list[Item]] = {}  # an empty batch while a worker loads the model

    def start() -> None:
        ours, theirs = context.Pipe()
        processes[ours] = context.Process(target=_worker, args=(theirs, work, workers), daemon=True)
        processes[ours].start()
        theirs.close()
        busy[ours] = []

    try:
        for _ in range(workers):
            start()
        while True:
            while idle and (batch := again.popleft() if again else next(unread, None)):
                busy[idle[-1]] = batch
                with suppress(OSError):  # of a worker that was killed, which is seen below
                    idle.pop().send(batch)
            if not busy:
                return
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                batch = busy.pop(connection)
                try:
                    answer = connection.recv()
                except (EOFError, OSError):  # the worker was killed
                    processes.pop(connection).join()
                    if not batch:
                        raise SatError("a worker was killed while it loaded the model: give fewer workers") from None
                    start()
                    deaths.update(item.source for item in batch)
                    if len(batch) == 1 and deaths[batch[0].source] == DEATHS:
                        error = SatError(f"its worker was killed {DEATHS} times: it may be too much for the memory")
                        yield [batch[0].row(work.row(error))]
                    else:
                        again.extend([item] for item in batch)
                    continue
                if isinstance(answer, Exception):
                    raise answer
                idle.append(connection)
                if batch:
                    yield [item.row(row) for item, row in zip(batch, answer, strict=True)]
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join()


def _worker(connection: Connection, work: PhotoBatch, workers: int) -> None:
    """Make the rows of batches until the main process is gone, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare_process()
    if "OMP_NUM_THREADS" not in os.environ:
        use_threads(max(1, (os.cpu_count() or 1) // workers))
    with suppress(OSError):  # of the connection, when the main process is gone
        try:
            _ = work.model
            connection.send("loaded")
            while True:
                batch: list[Item] = connection.recv()
                connection.send(work.rows([item.content for item in batch]))
        except Exception as error:
            connection.send(error)
