"""`sat encode`: a table of features of any number of photos."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    PAPERS_ENCODER,
    BaseCommand,
    device_option,
    encoder_options,
    fail,
)
from show_attend_tell.cli.options import options_from
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.batch.run import Result
    from show_attend_tell.batch.sidecars import Sidecars

EXAMPLES = """
\b
Examples:
  sat encode photos/ --recursive --output features.jsonl
  sat encode "shards/*.tar" --resize squash --output features.parquet/ --workers 8
"""

batch_options = options_from(
    "show_attend_tell.batch.work:BatchConfig",
    "recursive",
    "column",
    "overwrite",
    "workers",
    "engine",
    into="batch",
)


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--output", required=True, metavar="FILE", help="File for the table: .parquet or .jsonl; FILE/ is a folder."
)
@encoder_options
@batch_options
@device_option
def encode(sources: tuple[str, ...], output: str, batch: dict[str, Any], device: str, **encoder: Any) -> None:
    """Encode any number of photos into a table.

    Sources are as for sat caption. Each photo is a row: its source and annotations, or its error. The encoder is
    vgg19 with --resize crop, unless you name another. The same command resumes an interrupted run.

    A data folder needs none of this: sat train and sat evaluate encode its photos once, and keep the result.
    """
    from show_attend_tell.batch.run import Targets, run, select, tables_of
    from show_attend_tell.batch.work import BatchConfig, EncodeBatch

    config = BatchConfig(**batch)
    name = encoder["encoder"] or PAPERS_ENCODER
    weights = encoder["encoder_weights"]
    work = EncodeBatch(name, device=device, encoder_weights=weights, resize=encoder["resize"] or "crop")
    targets = Targets(tables_of([output], work, config))
    report(run(select(sources, config), targets, work, config, log=click.echo))


def report(results: "Sequence[Result]", sidecars: "Sidecars | None" = None) -> None:
    """Say how many photos each table has, and how many sidecars were written; ends with 1 where some have none."""
    for result in results:
        click.echo(f"{result.table} has {plural(result.photos, 'photo')}: {result.new:,} new")
    for line in sidecars.lines() if sidecars is not None else ():
        click.echo(line)
    errors = max((result.errors for result in results), default=0)
    if errors:
        fail(f"{plural(errors, 'photo')} could not be read: see the column error", 1)
    if sidecars is not None and sidecars.failed:
        sys.exit(1)
