"""All photos of some sources, each once, by workers of this machine or of a cluster.

The same command goes on where an earlier one was interrupted or killed: what the outputs hold is not done again.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

from show_attend_tell.batch.output import Output
from show_attend_tell.batch.reading import batches_left, expected
from show_attend_tell.batch.sidecars import Sidecars
from show_attend_tell.batch.sources import Piece, find_pieces
from show_attend_tell.batch.work import BatchConfig, PhotoBatch, Row, passed_over
from show_attend_tell.data.photos import LeftOut
from show_attend_tell.errors import InvalidValue, MissingPackage
from show_attend_tell.messages import install_command, plural, read_without
from show_attend_tell.progress import Progress


class Result(NamedTuple):
    """What a run did for a table."""

    table: str
    photos: int  # rows of the whole table
    errors: int  # of these, rows with an error
    new: int  # photos of this run


class Selection(NamedTuple):
    """The photos that a command is given."""

    sources: Sequence[str]
    pieces: Sequence[Piece]
    note: str  # what was left out, or nothing

    def is_one_photo(self) -> bool:
        """Whether it is one photo that is named itself."""
        source = os.path.expanduser(self.sources[0])
        return len(self.sources) == 1 and self.pieces[0].kind == "photos" and os.path.isfile(source)


def select(sources: Sequence[str], config: BatchConfig) -> Selection:
    """The photos of sources. Raises `SatError` for one without any."""
    skipped = LeftOut()
    pieces = find_pieces(sources, recursive=config.recursive, column=config.column, skipped=skipped)
    return Selection(sources, pieces, skipped.note)


class Targets:
    """The tables and sidecars that one run fills: a photo is done when each of them has it."""

    def __init__(self, tables: Sequence[Output], sidecars: Sidecars | None = None) -> None:
        self.tables = tables
        self.sidecars = sidecars
        # sidecars first, so that a photo with a row has one
        self.all: list[Output | Sidecars] = [*([] if sidecars is None else [sidecars]), *tables]
        self.passed_over: dict[str, str] = {}  # what was left out of photos' files, by their sources

    def __contains__(self, source: object) -> bool:
        return all(source in target for target in self.all)

    def __len__(self) -> int:
        return min(map(len, self.all))

    @contextmanager
    def opened(
        self, photos: Selection, work: PhotoBatch, config: BatchConfig, log: Callable[[str], object]
    ) -> Iterator[None]:
        """Find out which photos are done, and say so. Raises `SatError` for a table of other settings."""
        with ExitStack() as tables:
            manifest = _manifest(photos, work, config) if self.tables else {}
            for table in self.tables:
                tables.enter_context(table.opened(manifest, photos.pieces, overwrite=config.overwrite))
                if table.copy:
                    log(f"{table.address} had other rows, which {table.copy} keeps")
                if len(table):
                    log(f"{table.address} has {plural(len(table), 'photo')} already")
                if table.again:
                    log(f"tried again, after an error or a change of the file: {plural(table.again, 'photo')}")
            if self.sidecars is not None:
                self.sidecars.look_at(photos.pieces)
            yield

    def write(self, rows: Sequence[Row]) -> None:
        """Give each target the rows that it lacks."""
        self.passed_over |= passed_over(rows)
        for target in self.all:
            target.write(row for row in rows if row["source"] not in target)

    def finish(self, *, ended: bool = True) -> list[Result]:
        """Write the tables as a whole, see `Output.finish`."""
        results = []
        for table in self.tables:
            after = table.finish(ended=ended)
            results.append(Result(table.address, len(after), after.errors, len(after) - len(table)))
        return results


def tables_of(addresses: Sequence[str], work: PhotoBatch, config: BatchConfig) -> list[Output]:
    """The tables that a run fills. Raises `SatError` for a name or an engine that does not fit."""
    ray = by_ray(addresses, config)
    return [Output(address, work.columns, folder=ray or address.endswith("/")) for address in addresses]


def by_ray(addresses: Sequence[str], config: BatchConfig) -> bool:
    """Whether Ray Data makes the table, one in Parquet. Raises `SatError` where it is asked for and cannot."""
    parquet = [address for address in addresses if address.rstrip("/").lower().endswith(".parquet")]
    fits = len(parquet) == len(addresses) == 1
    if config.engine == "ray" and find_spec("ray") is None:
        raise MissingPackage("--engine ray needs Ray Data", remedy=install_command("scale"))
    if config.engine == "ray" and not fits:
        reason = "Ray writes one table, in Parquet: name an output that ends in .parquet"
        raise InvalidValue(reason, subject=" and ".join(addresses))
    return config.engine != "local" and fits and find_spec("ray") is not None


def run(
    photos: Selection,
    targets: Targets,
    work: PhotoBatch,
    config: BatchConfig,
    *,
    log: Callable[[str], object],
    show: bool = True,
) -> list[Result]:
    """Make a row of each photo that a target does not have yet, or has with an error or of an older file."""
    with targets.opened(photos, work, config, log):
        total = max(expected(photos.pieces), len(targets))
        if photos.note:
            log(photos.note)
        try:
            if targets.sidecars is None and by_ray([table.address for table in targets.tables], config):
                from show_attend_tell.batch.cluster import write_by_ray

                targets.passed_over |= write_by_ray(work, photos.pieces, targets.tables[0], config, show)
            else:
                from show_attend_tell.batch.local import made_locally  # one photo needs neither

                made = made_locally(work, batches_left(photos.pieces, targets), config.workers)
                bar = Progress(total=total, initial=len(targets), desc="photos", unit="photo", disable=not show)
                with bar, closing(made) as batches:
                    for rows in batches:
                        targets.write(rows)
                        bar.update(len(rows))
        except KeyboardInterrupt:
            counts = [result.photos for result in targets.finish(ended=False)] or [len(targets)]
            log(f"{min(counts):,} of {plural(total, 'photo')} done; the same command continues")
            raise
        if targets.passed_over:
            log(read_without(targets.passed_over))
        return targets.finish()


def _manifest(photos: Selection, work: PhotoBatch, config: BatchConfig) -> dict[str, Any]:
    """What rows depend on."""
    absolute = [source if "://" in source else os.path.abspath(os.path.expanduser(source)) for source in photos.sources]
    manifest = {
        "sources": absolute,
        "subfolders": config.recursive,
        "column": config.column,
        "model_or_settings": work.settings(),
        "file_sizes": {piece.files[0]: piece.size for piece in photos.pieces if piece.kind != "photos"},
    }
    if any(piece.folder for piece in photos.pieces):  # names of photos are relative to where the command is given
        manifest["working_folder"] = os.getcwd()
    return manifest
