"""Ray Data: photos are read, captioned and written on all machines of a cluster, or on this one.

Ray's own readers would end the run at the first file that is damaged, and number no rows; hence `_read`.
"""

import hashlib
import logging
import os
import pickle
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.batch.config import BatchConfig
from show_attend_tell.batch.local import DEATHS, given_up, rows_of
from show_attend_tell.batch.output import Output, Sources
from show_attend_tell.batch.reading import Item, photos_left
from show_attend_tell.batch.sources import Piece
from show_attend_tell.batch.work import Kind, PhotoBatch, Row, arrow_schema
from show_attend_tell.errors import MissingPackage, PhotoError, SatError
from show_attend_tell.messages import install_command
from show_attend_tell.threads import prepare_process

BLOCKS = 10_000  # of pieces, at most, that Ray Data hands out
BLOCK_BYTES = 4 * 2**20  # of photos that a worker gets at once
LIGHT = 0.25  # of a core, for reading and for writing
SECONDS = 1.0  # between two looks at the progress
READ: dict[str, Kind] = {"source": "text", "content": "bytes", "error": "text"}


def import_ray() -> Any:
    """Ray, with Ray Data. Raises `MissingPackage` where it is not installed."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingPackage("--engine ray needs Ray Data", remedy=install_command("scale")) from None
    return ray


def write_by_ray(
    work: PhotoBatch,
    pieces: Sequence[Piece],
    done: Sources,
    output: Output,
    config: BatchConfig,
    batch: int,
    bar: Any,
) -> None:
    """Make the rows of all photos that are not ``done``, and write them; a worker gets ``batch`` photos at once.

    Raises the `SatError` of a worker.
    """
    ray = import_ray()
    from ray.data.datasource import FilenameProvider

    started, ended = not ray.is_initialized(), threading.Event()
    if started:
        here = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **here)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.target_max_block_size = False, BLOCK_BYTES
    cores, gpus = (ray.cluster_resources().get(kind, 0) for kind in ("CPU", "GPU"))
    ledger = ray.remote(num_cpus=0)(Ledger).remote()

    def show_progress() -> None:
        while not ended.wait(SECONDS):
            bar.update(len(done) + ray.get(ledger.photos.remote()) - bar.n)

    rows = [{"piece": pickle.dumps(piece)} for piece in pieces]
    photos = ray.data.from_items(rows, override_num_blocks=min(len(rows), BLOCKS)).map_batches(
        _read, fn_args=(ray.put(done), batch), batch_size=1, batch_format="pyarrow", num_cpus=LIGHT
    )
    made = photos.map_batches(
        _Worker,
        fn_constructor_args=(work, ledger),
        batch_size=batch,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=config.workers),
        num_cpus=min(1, cores / 2 / config.workers),  # did workers reserve all cores, nothing could be read, for ever
        num_gpus=1 if work.device.startswith("cuda") or (work.device == "auto" and gpus) else None,
    )
    watcher = threading.Thread(target=show_progress, daemon=True)
    try:
        watcher.start()
        made.write_parquet(
            output.folder,
            filesystem=None if isinstance(output.system, LocalFileSystem) else output.system,
            filename_provider=FilenameProvider(dataset_uuid=output.run, file_format="parquet"),
            min_rows_per_file=config.rows,
            ray_remote_args={"num_cpus": LIGHT},
        )
    except ray.exceptions.RayError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, SatError):
            cause = getattr(cause, "cause", None) or cause.__cause__
        reason = str(error).strip().splitlines()[-1]
        raise cause or SatError(f"Ray ended the run ({reason})", remedy="give the command again") from error
    finally:
        ended.set()
        watcher.join()  # which would start Ray again
        if started:
            ray.shutdown()


def _read(pieces: Any, done: Any, batch: int) -> Iterator[Any]:
    """Tables of the photos of pieces, a few photos at a time."""
    import pyarrow
    import ray

    done = ray.get(done)
    for piece in pieces["piece"].to_pylist():
        items = photos_left(pickle.loads(piece), done)
        while some := list(islice(items, batch)):
            rows = [
                {"source": source, "error": str(content)}
                if isinstance(content, SatError)
                else {"source": source, "content": content}
                for source, content in some
            ]
            yield pyarrow.Table.from_pylist(rows, arrow_schema(READ))


class Ledger:
    """What workers have begun and ended; it outlives them."""

    def __init__(self) -> None:
        self.begun, self.ended = Counter[str](), dict[str, int]()

    def begin(self, key: str) -> int:
        """Note that a worker begins a batch, and return how many workers were killed with it."""
        self.begun[key] += 1
        return self.begun[key] - 1

    def end(self, key: str, photos: int) -> None:
        """Note that a batch of that many photos is done."""
        self.begun[key], self.ended[key] = 0, photos

    def photos(self) -> int:
        """How many photos are done."""
        return sum(self.ended.values())


class _Worker:
    """What Ray Data starts for each worker."""

    def __init__(self, work: PhotoBatch, ledger: Any) -> None:
        prepare_process()
        self.work, self.ledger = work, ledger
        _ = work.model  # is loaded

    def __call__(self, table: Any) -> Any:
        import pyarrow

        items = [
            Item(row["source"], PhotoError(row["error"]) if row["content"] is None else row["content"])
            for row in table.to_pylist()
        ]
        return pyarrow.Table.from_pylist(self._rows(items), arrow_schema({"source": "text", **self.work.columns}))

    def _rows(self, batch: list[Item], deaths: int = 0) -> list[Row]:
        """The rows of a batch; of one with which a worker was killed before, one photo at a time."""
        import ray

        key = hashlib.sha256("\0".join(item.source for item in batch).encode()).hexdigest()
        deaths += ray.get(self.ledger.begin.remote(key))
        if deaths and len(batch) > 1:
            return [row for item in batch for row in self._rows([item], 1)]
        if deaths >= DEATHS:
            return [given_up(self.work, batch[0])]
        rows = rows_of(self.work, batch)
        ray.get(self.ledger.end.remote(key, len(batch)))
        return rows
