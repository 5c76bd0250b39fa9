"""Worker processes of this machine: this process reads photos and writes rows, and the workers make the rows."""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
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
    pool = _Pool(work, workers)
    try:
        while True:
            while pool.idle and (batch := again.popleft() if again else next(unread, None)):
                pool.give(batch)
            if not pool.busy:
                return
            for batch, rows in pool.answers():
                if rows is not None:
                    yield [item.row(row) for item, row in zip(batch, rows, strict=True)]
                    continue
                deaths.update(item.source for item in batch)
                if len(batch) == 1 and deaths[batch[0].source] == DEATHS:
                    error = SatError(f"its worker was killed {DEATHS} times: it may be too much for the memory")
                    yield [batch[0].row(work.row(error))]
                else:
                    again.extend([item] for item in batch)
    finally:
        pool.end()


class _Pool:
    """Worker processes, each with the batch that it has; one that is killed is replaced."""

    def __init__(self, work: PhotoBatch, workers: int) -> None:
        self.work = work
        self.workers = workers
        self.processes: dict[Connection, BaseProcess] = {}
        self.idle: list[Connection] = []
        self.busy: dict[Connection, list[Item]] = {}  # an empty batch while a worker loads the model
        for _ in range(workers):
            self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(theirs, self.work, self.workers), daemon=True)
        process.start()
        theirs.close()
        self.processes[ours] = process
        self.busy[ours] = []

    def give(self, batch: list[Item]) -> None:
        """Send a batch to an idle worker."""
        connection = self.idle.pop()
        self.busy[connection] = batch
        with suppress(OSError):  # of a worker that was killed, which `answers` sees
            connection.send(batch)

    def answers(self) -> Iterator[tuple[list[Item], list[Row] | None]]:
        """The batches that are done by now, at least one, with their rows; None where the worker was killed."""
        for connection in wait(list(self.busy)):
            assert isinstance(connection, Connection)
            batch = self.busy.pop(connection)
            try:
                answer = connection.recv()
            except (EOFError, OSError):
                self.processes.pop(connection).join()
                if not batch:
                    raise SatError("a worker was killed while it loaded the model: give fewer workers") from None
                self._start()
                yield batch, None
                continue
            if isinstance(answer, Exception):
                raise answer
            self.idle.append(connection)
            if batch:
                yield batch, answer

    def end(self) -> None:
        """End all workers."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
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
