"""All shards of some sources, done by one or many workers, each once.

The plan, which photos are in which shard, is made once and kept with the output. So the same command goes on where an
earlier one was interrupted, and a shard whose worker is killed is done by another one. A *work* is what is done with
photos; it makes a row of each. The engines:

- ``local``: this process, or several on this machine;
- ``ray``: Ray Data (an extra), on this machine or on the cluster of ``RAY_ADDRESS``, which needs the sources, the
  output and this package on each of its machines.
"""

import array
import hashlib
import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from show_attend_tell.data.photos import Found
from show_attend_tell.data.shards.reading import Item, photos_of
from show_attend_tell.data.shards.sources import Shard, shards_of
from show_attend_tell.data.shards.writing import SCRATCH, Kind, Row, ShardFile, failures, form_of, part_name, sweep
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, file_lock, make_folder, read_object
from show_attend_tell.messages import plural
from show_attend_tell.progress import Progress
from show_attend_tell.threads import use_threads

VERSION = 1  # of the plan
SHARD = 1000  # photos of a folder that are done together, unless told
BLOCKS = 10_000  # of shards, at most, that Ray Data hands to its workers
DEATHS = 3  # workers that one shard may kill before it is given up

Engine = Literal["local", "ray"]
Log = Callable[[str], None]


class Work(Protocol):
    """What is done with photos. It is sent to workers, so it is loaded when it is first called."""

    columns: Mapping[str, Kind]  # of a row, the first is "source"

    def settings(self) -> dict[str, Any]:
        """What a row depends on besides its photo, as plain values."""
        ...

    def on_gpu(self) -> bool:
        """Whether each worker needs a GPU."""
        ...

    def __call__(self, photos: Iterator[Item]) -> Iterator[tuple[str, Row | SatError]]:
        """For each photo, what it is called and its row, or why there is none."""
        ...


class Done(NamedTuple):
    """A shard that is done."""

    number: int
    photos: int
    seconds: float


class Result(NamedTuple):
    """What a run did."""

    photos: int
    failed: int  # of the whole output, also in earlier runs
    shards: int
    seconds: float
    alone: float | None  # photos a second of one worker while it was the only one; None where that was not measured


@dataclass(frozen=True)
class Job:
    """An output and the plan of its shards."""

    output: Path
    work: Work
    note: str  # the settings, for the files

    @property
    def plan(self) -> Path:
        """The file with a shard a line."""
        return self.output / "_plan.jsonl"

    def is_done(self, number: int) -> bool:
        """Whether the shard's file is there."""
        return (self.output / part_name(number, form_of(self.output))).exists()

    def do(self, number: int, offset: int) -> Done:
        """Do the shard whose line in the plan begins at that byte."""
        began = time.monotonic()
        with open(self.plan, "rb") as plan:
            plan.seek(offset)
            shard = Shard.from_line(plan.readline().decode())
        file = ShardFile(self.output, number, self.work.columns, self.note)
        try:
            for source, row in self.work(photos_of(shard)):
                if isinstance(row, SatError):
                    file.fail(source, str(row))
                else:
                    file.add(row)
            file.finish()
        except BaseException:
            file.drop()
            raise
        return Done(number, sum(file.written), time.monotonic() - began)


def run(
    sources: Sequence[str],
    output: Path,
    work: Work,
    *,
    engine: Engine = "local",
    workers: int = 1,
    size: int = SHARD,
    recursive: bool = False,
    column: str | None = None,
    log: Log,
    show: bool = True,
) -> Result:
    """Do all shards of the sources that are not done yet.

    ``size``, ``recursive`` and ``column`` are as in `sources.shards_of`. Raises `SatError` for an output of other
    sources or settings, for one that another process writes, for sources that cannot be read, and for a shard that
    kills its workers again and again.
    """
    form_of(output)
    if engine == "ray":
        _import_ray()  # before there is a plan
    if output.exists() and not output.is_dir():
        raise SatError(f"{output} is a file: name another output, which becomes a folder of files")
    new = not output.exists()
    make_folder(output, "name another output")
    planned = {"sources": [_absolute(source) for source in sources], "size": size, "recursive": recursive}
    planned |= {"column": column, "work": work.settings()}
    with file_lock(output, refusal=f"another process writes {output}: wait for it, or name another output"):
        job = Job(output, work, json.dumps(work.settings(), ensure_ascii=False, sort_keys=True))
        if not (output / "_plan.json").exists():
            left_out = Found()
            try:
                shards = shards_of(sources, size=size, recursive=recursive, column=column, left_out=left_out)
                _make_plan(job, planned, shards, left_out)
            except SatError:
                if new:
                    with suppress(OSError):  # a folder that is not empty stays
                        output.rmdir()
                raise
        else:
            _check_plan(output, planned)
            sweep(output)
        made = read_object(output / "_plan.json", "sources")
        if note := made.get("note"):
            log(note)
        offsets = _offsets(job.plan, made.get("digest"))
        todo = [(number, offset) for number, offset in enumerate(offsets) if not job.is_done(number)]
        if len(todo) < len(offsets):
            log(f"{output} has {len(offsets) - len(todo):,} of {plural(len(offsets), 'shard')} already")
        began = time.monotonic()
        done: list[Done] = []
        each = _ray(job, todo, workers) if engine == "ray" else _local(job, todo, workers)
        with Progress(total=len(todo), desc="shards", unit="shard", disable=not show) as bar:
            photos = 0
            try:
                for one in each:
                    done.append(one)
                    photos += one.photos
                    bar.update()
                    bar.set_postfix({"photos": f"{photos:,}"}, refresh=False)
            except KeyboardInterrupt:
                left = len(todo) - len(done)
                raise Interrupted(f"{plural(left, 'shard')} of {len(offsets):,} left") from None
        seconds = time.monotonic() - began
        measured = workers > 1 and len(done) > workers and done[0].seconds  # 0 where a lost worker had done it
        one_alone = done[0].photos / done[0].seconds if measured else None
        return Result(photos, failures(output, len(offsets)), len(done), seconds, one_alone)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; says what is left."""


def _absolute(source: str) -> str:
    return source if "://" in source else os.path.abspath(os.path.expanduser(source))


# The plan


def _make_plan(job: Job, planned: Mapping[str, Any], shards: Iterable[Shard], left_out: Found) -> None:
    def write(scratch: Path) -> None:
        with open(scratch, "wb") as file:
            for shard in shards:
                line = shard.to_line().encode()
                digest.update(line)
                file.write(line)

    digest = hashlib.sha256()
    atomic_write(job.plan, write, sync=True)
    made = {"version": VERSION, **planned, "note": left_out.note, "digest": digest.hexdigest()}
    text = json.dumps(made, indent=1)
    atomic_write(job.output / "_plan.json", lambda scratch: scratch.write_text(text, encoding="utf-8"), sync=True)


def _check_plan(output: Path, planned: Mapping[str, Any]) -> None:
    before = read_object(output / "_plan.json", "sources")
    if before.get("version") != VERSION:
        raise SatError(f"{output} was begun by another version of this program: name another output")
    ours = json.loads(json.dumps(planned))
    if different := [name for name in ours if before.get(name) != ours[name]]:
        raise SatError(
            f"{output} was begun with other {' and '.join(NAMES[name] for name in different)}: give the same, or name "
            "another output"
        )


NAMES = {
    **{"sources": "sources", "size": "sizes of shards", "recursive": "subfolders (--recursive)"},
    **{"column": "columns", "work": "settings"},
}


def _offsets(plan: Path, digest: str | None) -> "array.array[int]":
    """Where the lines of the plan begin, in bytes.

    ``digest`` is the SHA-256 of the whole plan; None for one of an earlier version, which did not keep it. Raises
    `SatError` for a plan that cannot be read, or is not the one that was made.
    """
    offsets, found = array.array("Q"), hashlib.sha256()
    try:
        with open(plan, "rb") as lines:
            location = 0
            for line in lines:
                offsets.append(location)
                location += len(line)
                found.update(line)
    except OSError as error:
        raise SatError(f"{plan} cannot be read ({error.strerror}): delete {plan.parent} to start afresh") from None
    if digest not in (None, found.hexdigest()):
        raise SatError(
            f"{plan} was changed or cut short since it was made, so its shards are not known: name another output, or "
            f"delete {plan.parent} to start afresh"
        )
    return offsets


# Engines. Both do the first shard by one worker alone, to know what one does.


def _local(job: Job, todo: Sequence[tuple[int, int]], workers: int) -> Iterator[Done]:
    """Workers of this machine; a single one is this process itself.

    When a worker is killed, the shards that were under way are done again, one at a time. So the next death shows which
    of them kills workers.
    """
    if workers == 1:
        for number, offset in todo:
            yield job.do(number, offset)
        return
    deaths = Counter[int]()
    waiting = list(reversed(todo))
    never_begun = len(waiting)  # shards that were not under way when a worker was killed; the others are done alone
    while waiting:
        busy: dict[Future[Done], tuple[int, int]] = {}
        pool = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare, initargs=(workers,)
        )
        measured = len(waiting) < len(todo) or len(todo) <= workers
        try:
            while waiting or busy:
                together = measured and len(waiting) + len(busy) <= never_begun
                while waiting and len(busy) < (workers if together else 1):
                    future = pool.submit(job.do, *waiting[-1])
                    busy[future] = waiting.pop()
                finished, _ = wait(busy, return_when=FIRST_COMPLETED)
                for future in finished:
                    done = future.result()
                    del busy[future]
                    measured = True
                    yield done
        except BrokenProcessPool:
            never_begun = min(never_begun, len(waiting))
            for number, offset in reversed(busy.values()):
                if job.is_done(number):  # the worker died after it
                    continue
                deaths[number] += len(busy) == 1
                if deaths[number] == DEATHS:
                    raise _killing(job, number) from None
                waiting.append((number, offset))
        finally:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _prepare(workers: int) -> None:
    """Make a process a worker: Ctrl-C is the main process' to hear, and the cores are shared."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "OMP_NUM_THREADS" not in os.environ:
        use_threads(max(1, (os.cpu_count() or 1) // workers))


def _killing(job: Job, number: int) -> SatError:
    return SatError(
        f"a worker was killed {DEATHS} times while it did shard {number}. The others are kept. Look at line "
        f"{number + 1} of {job.plan}: a photo of it may be too much for the memory"
    )


def _import_ray() -> Any:
    """Ray, with Ray Data. Raises `SatError` where it is not installed."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise SatError("--engine ray needs Ray Data: pip install 'show-attend-tell[scale]'") from None
    return ray


def _ray(job: Job, todo: Sequence[tuple[int, int]], workers: int) -> Iterator[Done]:
    """Workers of Ray Data."""
    ray = _import_ray()
    started = not ray.is_initialized()
    if started:
        here = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **here)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        first = [todo[:1], todo[1:]] if workers > 1 and len(todo) > workers else [todo]
        for part in first:
            rows = [{"number": number, "offset": offset} for number, offset in part]
            dataset = ray.data.from_items(rows, override_num_blocks=max(1, min(len(rows), BLOCKS)))
            size = min(workers, max(1, len(rows)))
            found = dataset.map(
                _RayWorker,
                fn_constructor_args=(job,),
                compute=ray.data.ActorPoolStrategy(size=size),
                num_gpus=1 if job.work.on_gpu() else None,
            )
            for row in found.iter_rows() if rows else ():
                if row["photos"] < 0:
                    raise _killing(job, row["number"])
                yield Done(row["number"], row["photos"], row["seconds"])
    finally:
        if started:
            ray.shutdown()


class _RayWorker:
    """What Ray Data starts on each worker."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        number, offset = int(row["number"]), int(row["offset"])
        begun = [self.job.output / f"{SCRATCH}{number:05d}-{attempt}" for attempt in range(DEATHS)]
        if self.job.is_done(number):  # by a worker that was lost before it could say so
            done = Done(number, 0, 0.0)
        elif left := [marker for marker in begun if not marker.exists()]:
            left[0].touch()  # Ray tries a task again for ever
            done = self.job.do(number, offset)
        else:
            return Done(number, -1, 0.0)._asdict()
        for marker in begun:
            marker.unlink(missing_ok=True)
        return done._asdict()


def told(result: Result, output: Path, workers: int) -> list[str]:
    """What a run did, in lines."""
    if not result.shards:
        return [f"{output} is complete: there is nothing left to do"]
    rate = result.photos / max(result.seconds, 1e-9)
    lines = [
        f"{plural(result.photos, 'photo')} in {plural(result.shards, 'shard')} and {result.seconds:,.0f} s: {rate:.2f} "
        f"photos a second with {plural(workers, 'worker')}"
    ]
    if result.alone:
        lines[0] += f"; one alone did {result.alone:.2f}, so they are {rate / result.alone:.1f} times as fast"
    return lines
