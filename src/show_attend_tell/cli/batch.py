"""`sat caption-batch` and `sat encode`: a table of captions, or of features, of any number of photos."""

from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    PAPERS_ENCODER,
    BaseCommand,
    compute_options,
    device_option,
    encoder_options,
    fail,
    model_option,
)
from show_attend_tell.cli.options import generation_options, options_from
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.batch.work import PhotoBatch

CAPTION_EXAMPLES = """
\b
Examples:
  sat caption-batch photos/ --recursive --output captions.csv
  sat caption-batch "shards/*.tar" table.parquet --output captions.parquet/ --workers 8
  sat caption-batch s3://bucket/photos --output s3://bucket/captions.parquet --engine ray --workers 64
"""

ENCODE_EXAMPLES = """
\b
Examples:
  sat encode photos/ --recursive --output features.jsonl
  sat encode "shards/*.tar" --resize squash --output features.parquet/ --workers 8
"""

batch_options = options_from(
    "show_attend_tell.batch.work:BatchConfig", "recursive", "column", "engine", "workers", "rows", into="batch"
)


@click.command("caption-batch", cls=BaseCommand, epilog=CAPTION_EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help="File for the table: .csv, .tsv, .jsonl or .parquet; a folder of parts where the name ends in / or Ray works.",
)
@batch_options
@model_option()
@generation_options
@compute_options
def caption_batch(
    sources: tuple[str, ...],
    output: str,
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

    run_batch(CaptionBatch(model, **loading, **generation), sources, output, **batch)


@click.command(cls=BaseCommand, epilog=ENCODE_EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--output", required=True, metavar="FILE", help="File for the table: .parquet or .jsonl; FILE/ is a folder."
)
@encoder_options
@batch_options
@device_option
def encode(sources: tuple[str, ...], output: str, encoder: dict[str, Any], batch: dict[str, Any], device: str) -> None:
    """Encode any number of photos into a table.

    Sources are as for sat caption-batch. Each photo is a row: its source and annotations, or its error. The encoder is
    vgg19 with --resize crop, unless it is named. The same command goes on where it was interrupted.

    A data folder needs none of this: sat train and sat evaluate encode its photos once, and keep them.
    """
    from show_attend_tell.batch.work import EncodeBatch

    name, weights, resize = encoder.values()
    work = EncodeBatch(name or PAPERS_ENCODER, device=device, encoder_weights=weights, resize=resize or "crop")
    run_batch(work, sources, output, **batch)


def run_batch(work: "PhotoBatch", sources: tuple[str, ...], output: str, **batch: Any) -> None:
    """Make a row of each photo, and say how many there are."""
    from show_attend_tell.batch.run import run
    from show_attend_tell.batch.work import BatchConfig

    result = run(sources, output, work, BatchConfig(**batch), log=click.echo)
    click.echo(f"{output} has {plural(result.photos, 'photo')}: {result.new:,} new")
    if result.errors:
        fail(f"{plural(result.errors, 'photo')} could not be read: see the column error", 1)
