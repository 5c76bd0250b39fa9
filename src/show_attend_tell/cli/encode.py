"""`sat encode`: a table of the features of any number of photos."""

from typing import Any

import click

from show_attend_tell.cli.caption_batch import batch_options, run_batch
from show_attend_tell.cli.command import PAPERS_ENCODER, BaseCommand, device_option, encoder_options

EXAMPLES = """
\b
Examples:
  sat encode photos/ --recursive --output features.jsonl
  sat encode shards/*.tar --resize squash --output features.parquet/ --workers 8
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help="File for the table: .parquet or .jsonl; FILE/ is a folder.",
)
@encoder_options
@batch_options
@device_option
def encode(
    sources: tuple[str, ...],
    output: str,
    encoder: dict[str, Any],
    recursive: bool,
    batch: dict[str, Any],
    device: str,
) -> None:
    """Encode any number of photos into a table.

    Sources are as for sat caption-batch. Each photo is a row: its source and annotations, or its error. The encoder is
    vgg19 with --resize crop, unless it is named. The same command goes on where it was interrupted.

    A data folder needs none of this: sat train and sat evaluate encode its photos once, and keep them.
    """
    from show_attend_tell.batch.work import EncodeBatch

    name, weights, resize = encoder.values()
    work = EncodeBatch(name or PAPERS_ENCODER, device=device, encoder_weights=weights, resize=resize or "crop")
    run_batch(work, sources, output, recursive=recursive, **batch)
