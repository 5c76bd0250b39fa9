"""Ray Data: photos are read, captioned and written on all machines of a cluster, or on this one.

Ray's own readers would end the run at the first file that is damaged, and number no rows; hence `_read`.
"""

import logging
import os
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from show_attend_tell.batch.local import made_locally
from show_attend_tell.batch.output import Output, stored
from show_attend_tell.batch.reading import KEY, Item, batches_left
from show_attend_tell.batch.sources import Piece
from show_attend_tell.batch.work import BatchConfig, PhotoBatch, Row, as_table, passed_over
from show_attend_tell.errors import SatError

BLOCKS = 10_000  # of pieces, at most, that Ray Data hands out
BLOCK_BYTES = 4 * 2**20  # of photos that a worker gets at once
LIGHT = 0.25  # of a core, for reading and for writing


def write_by_ray(
    work: PhotoBatch, pieces: Sequence[Piece], output: Output, config: BatchConfig, show: bool
) -> dict[str, str]:
    """Make the rows of all photos that are not done, and write them; ``show`` has Ray show its progress.

    Returns what was left out of photos' files, see `work.passed_over`. Raises `SatError` for what a worker raises.
    """
    import ray
    from ray.data.datasource import FilenameProvider

    started = not ray.is_initialized()
    if started:
        here = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **here)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = show
    context.target_max_block_size = BLOCK_BYTES
    cores, gpus = (ray.cluster_resources().get(kind, 0) for kind in ("CPU", "GPU"))
    rows = [{"piece": pickle.dumps(piece)} for piece in pieces]
    batches = ray.data.from_items(rows, override_num_blocks=min(len(rows), BLOCKS)).map_batches(
        _read, fn_args=(ray.put(output.done),), batch_size=1, num_cpus=LIGHT
    )
    gathered = ray.remote(num_cpus=0)(_Gathered).remote()
    tables = batches.map_batches(
        _Worker,
        fn_constructor_args=(work, gathered),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=config.workers),
        num_cpus=min(1, cores / 2 / config.workers),  # else workers reserve all cores, and nothing can be read
        num_gpus=1 if work.device.startswith("cuda") or (work.device == "auto" and gpus) else None,
    )
    try:
        tables.write_parquet(
            output.folder,
            filesystem=None if isinstance(output.system, LocalFileSystem) else output.system,
            filename_provider=FilenameProvider(dataset_uuid=output.run, file_format="parquet"),
            min_rows_per_file=output.together,
            ray_remote_args={"num_cpus": LIGHT},
        )
        left_out: dict[str, str] = ray.get(gathered.add.remote({}))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]  # the error of a worker, if one raised any
        raise SatError(f"Ray ended the run ({reason})", remedy="fix that, and run the command again") from error
    finally:
        if started:
            ray.shutdown()
    return left_out


class _Gathered:
    """What all workers passed over, in one process of the cluster."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def add(self, left_out: dict[str, str]) -> dict[str, str]:
        self.left_out |= left_out
        return self.left_out


def _read(pieces: Any, done: Any) -> Iterator[Any]:
    """Batches of the photos of pieces, pickled, one at a time."""
    import ray

    for batch in batches_left(map(pickle.loads, pieces["piece"]), ray.get(done)):
        yield {"batch": [pickle.dumps(batch)]}


class _Worker:
    """What Ray Data starts for each worker: it has a process of its own, which a photo may kill."""

    def __init__(self, work: PhotoBatch, gathered: Any) -> None:
        self.gathered = gathered
        self.columns = {**KEY, **work.columns}
        self.batches = deque[list[Item]]()
        self.rows = made_locally(work, iter(self.batches.popleft, None), 1)

    def __call__(self, pickled: Any) -> Any:
        import ray

        (batch,) = map(pickle.loads, pickled["batch"])
        self.batches.append(batch)
        rows: list[Row] = []
        while len(rows) < len(batch):
            rows += next(self.rows)
        ray.get(self.gathered.add.remote(passed_over(rows)))
        return as_table([stored(row, self.columns) for row in rows], self.columns)
