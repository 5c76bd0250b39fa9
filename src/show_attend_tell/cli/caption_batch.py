"""`sat caption-batch`: a table of captions of any number of photos, by many workers."""

from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import BaseCommand, compute_options, model_option, options
from show_attend_tell.cli.options import GENERATION, options_from
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.batch.work import PhotoBatch

EXAMPLES = """
\b
Examples:
  sat caption-batch photos/ --recursive --output captions.csv
  sat caption-batch shards/*.tar table.parquet --output captions.parquet/ --workers 8
  sat caption-batch s3://bucket/photos --output s3://bucket/captions.parquet --engine ray --workers 64
"""


batch_options = options(
    click.option("--recursive", is_flag=True, help="Photos in subfolders too."),
    options_from("show_attend_tell.batch.work:BatchConfig", "column", "engine", "workers", "rows", into="batch"),
)


@click.command("caption-batch", cls=BaseCommand, epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help="File for the table: .csv, .tsv, .jsonl or .parquet; a folder of parts where the name ends in / or Ray works.",
)
@batch_options
@model_option()
@options_from(
    *(GENERATION, "beam_size", "attention_mode", "length_penalty", "rerank_weight"),
    into="generation",
    rest="--generation",
    default="the model's",
)
@compute_options
def caption_batch(
    sources: tuple[str, ...],
    output: str,
    recursive: bool,
    batch: dict[str, Any],
    model: str,
    generation: dict[str, Any],
    loading: dict[str, Any],
) -> None:
    """Caption any number of photos into a table.

    A source is a photo, a folder, a glob, a tar or Parquet file, or an address of one. Each photo is a row: its source,
    caption, log_probability, complete, confidence and the words to_check, or the error of one that cannot be captioned.
    Ctrl-C ends the command; the table then has what was made so far. The same command goes on. It does photos again
    that had an error or have changed.
    """
    from show_attend_tell.batch.work import CaptionBatch

    run_batch(CaptionBatch(model, **loading, **generation), sources, output, recursive=recursive, **batch)


def run_batch(work: "PhotoBatch", sources: tuple[str, ...], output: str, **batch: Any) -> None:
    """Make a row of each photo, and say how many there are."""
    from show_attend_tell.batch.run import run
    from show_attend_tell.batch.work import BatchConfig

    result = run(sources, output, work, BatchConfig(**batch), log=click.echo)
    click.echo(f"{output} has {plural(result.photos, 'photo')}: {result.new:,} new")
    if result.errors:
        click.echo(f"{plural(result.errors, 'photo')} could not be read: see the column error", err=True)
