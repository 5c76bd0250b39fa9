"""All photos of some sources, each once, by workers of this machine or of a cluster.

The same command goes on where an earlier one was interrupted or killed: what the output holds is not done again.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import Any, NamedTuple

from show_attend_tell.batch.cluster import write_by_ray
from show_attend_tell.batch.local import made_locally
from show_attend_tell.batch.output import Output
from show_attend_tell.batch.reading import Item, batches_left, expected
from show_attend_tell.batch.sources import find_pieces
from show_attend_tell.batch.work import BatchConfig, PhotoBatch, Row
from show_attend_tell.data.photos import Found
from show_attend_tell.errors import InvalidValue, MissingPackage
from show_attend_tell.messages import install_command, plural
from show_attend_tell.progress import Progress


class Result(NamedTuple):
    """What a run did."""

    photos: int  # rows of the whole output
    errors: int  # of these, rows with an error
    new: int  # photos of this run


def run(
    sources: Sequence[str],
    output: str,
    work: PhotoBatch,
    config: BatchConfig,
    *,
    log: Callable[[str], object],
    show: bool = True,
) -> Result:
    """Make a row of each photo that the output does not hold yet, or holds with an error or of an older file."""
    parquet = output.rstrip("/").lower().endswith(".parquet")
    if config.engine == "ray" and find_spec("ray") is None:
        raise MissingPackage("--engine ray needs Ray Data", remedy=install_command("scale"))
    if config.engine == "ray" and not parquet:
        raise InvalidValue("Ray writes Parquet: name an output that ends in .parquet", subject=output)
    ray = config.engine != "local" and parquet and find_spec("ray") is not None
    target = Output(output, work.columns, folder=ray or output.endswith("/"))
    skipped = Found()
    pieces = find_pieces(sources, recursive=config.recursive, column=config.column, skipped=skipped)
    if skipped.note:
        log(skipped.note)
    manifest = {
        "sources": [source if "://" in source else os.path.abspath(os.path.expanduser(source)) for source in sources],
        "subfolders": config.recursive,
        "column": config.column,
        "model_or_settings": work.settings(),
        "file_sizes": {piece.files[0]: piece.size for piece in pieces if piece.kind != "photos"},
    }
    with target.opened(manifest, pieces) as done:
        total = max(expected(pieces), len(done))
        if len(done):
            log(f"{output} has {plural(len(done), 'photo')} already")
        if target.again:
            log(f"{plural(target.again, 'photo')} that had errors, or whose file has changed, are tried again")
        try:
            with Progress(total=total, initial=len(done), desc="photos", unit="photo", disable=not show) as bar:
                if ray:
                    write_by_ray(work, pieces, done, target, config, bar)
                else:
                    _write_locally(work, batches_left(pieces, done), target, config, bar)
        except KeyboardInterrupt:
            log(f"{len(target.finish(ended=False)):,} of {plural(total, 'photo')} done; the same command goes on")
            raise
        after = target.finish()
    return Result(len(after), after.errors, len(after) - len(done))


def _write_locally(
    work: PhotoBatch, batches: Iterable[list[Item]], target: Output, config: BatchConfig, bar: Any
) -> None:
    """Write files of rows; what is made when the run is interrupted is written too."""
    waiting: list[Row] = []
    try:
        with closing(made_locally(work, batches, config.workers)) as found:
            for made in found:
                waiting += made
                bar.update(len(made))
                if len(waiting) >= config.rows:
                    target.write(waiting)
                    waiting = []
    finally:
        if waiting:
            target.write(waiting)
