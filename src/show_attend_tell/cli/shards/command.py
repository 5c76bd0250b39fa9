"""The options of ``--output``, and what is said while all shards are done."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import F, fail, options, was_given
from show_attend_tell.errors import SatError

if TYPE_CHECKING:
    from show_attend_tell.data.shards.engine import Work

OPTIONS = ("engine", "workers", "shard_size", "column")


def shard_options(content: str) -> Callable[[F], F]:
    """``--output`` and the options that belong to it; ``content`` says what the output holds."""
    return options(
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help=f"Folder for {content} of any number of photos, one file a shard; its name ends in .parquet "
            "or .jsonl. The same command goes on where it was interrupted.",
        ),
        click.option(
            "--engine",
            type=click.Choice(["local", "ray"]),
            default="local",
            show_default=True,
            help="Engine of --output: this machine, or Ray Data, also on many machines.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Number of workers of --output.",
        ),
        click.option(
            "--shard-size",
            type=click.IntRange(1),
            default=1000,
            show_default=True,
            help="Largest number of photos of a folder in a shard of --output.",
        ),
        click.option(
            "--column", help="Column of Parquet files with the photos or their paths. [default: a usual name]"
        ),
    )


def check_alone(output: Path | None) -> None:
    """Raise `SatError` for options of ``--output`` without it."""
    given = [name for name in OPTIONS if was_given(name)]
    if output is None and given:
        raise SatError(f"--{given[0].replace('_', '-')} is for a stream of photos: add --output FOLDER.parquet")


def do_shards(
    sources: Sequence[str],
    output: Path,
    work: "Work",
    *,
    engine: Any,
    workers: int,
    shard_size: int,
    column: str | None,
    recursive: bool,
) -> None:
    """Let workers do all shards, and say what they did. Photos that failed make the command fail at its end."""
    from show_attend_tell.data.shards import engine as engines
    from show_attend_tell.data.shards.writing import quarantine_of
    from show_attend_tell.messages import plural

    try:
        result = engines.run(
            sources,
            output,
            work,
            engine=engine,
            workers=workers,
            size=shard_size,
            recursive=recursive,
            column=column,
            log=click.echo,
        )
    except engines.Interrupted as left:
        fail(f"interrupted: {left}; the same command goes on", 130)
    for line in engines.told(result, output, workers):
        click.echo(line)
    if result.failed:
        fail(f"{plural(result.failed, 'photo')} failed: see {quarantine_of(output)}", 1)
