"""`sat review`: captions looked at and mended on a page; `sat export`: the table of them in other forms."""

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    FILE,
    PATH,
    BaseCommand,
    check_targets,
    loading_options,
    model_option,
    note,
    write_output,
)
from show_attend_tell.errors import MissingFile, SatError
from show_attend_tell.messages import first_three, plural

if TYPE_CHECKING:
    from show_attend_tell.captioner import Captioner

REVIEW_EXAMPLES = """
\b
Examples:
  sat review photos/                       captions and corrections in photos/captions.csv
  sat review captions.csv                  a table that sat caption wrote
  sat review photos/ --compare my-model    its captions beside those that nobody has reviewed
"""

EXPORT_EXAMPLES = """
\b
Examples:
  sat export photos/captions.csv --format xmp                  sidecars with what was reviewed
  sat export photos/captions.csv --format xmp --alt-text       with alternative texts too
  sat export photos/captions.csv --format xmp --above 0.8      others of this confidence too
  sat export photos/captions.csv --format jsonl --output captions.jsonl
  sat export photos/captions.csv --format imagefolder          for Hugging Face datasets
"""


@click.command(cls=BaseCommand, epilog=REVIEW_EXAMPLES)
@click.argument("source", metavar="FOLDER|TABLE", type=PATH)
@click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="CSV file for the table, for example if the photos' folder is read-only. [default: captions.csv in "
    "the folder, or the table itself]",
)
@model_option()
@click.option("--compare", metavar="MODEL", help="Another model, whose captions are offered too.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page. [default: a free one]")
@click.option("--browser/--no-browser", default=True, help="Whether to open the page in a browser.")
@loading_options
def review(
    source: Path,
    output: Path | None,
    model: str,
    compare: str | None,
    port: int,
    browser: bool,
    **loading: Any,
) -> None:
    """Review captions, the most doubtful first, and correct them.

    Opens a page that only this machine can reach. Each decision is on the disk at once; the table is written every
    few seconds. Photos without a caption are captioned in the background. Photos are never changed. Ctrl-C ends it.
    """
    from show_attend_tell.data.photos import photos_in
    from show_attend_tell.errors import MissingPhoto
    from show_attend_tell.review.running import copied, running, serving
    from show_attend_tell.review.thumbnails import raw_alone

    table = table_of(source, output)
    address = running(table)
    if address is not None:
        show(address, f"{table} is open already", browser)
        return
    photos: list[Path] = []
    left_out = ""
    if source.is_dir():
        photos = photos_in(source)
        if not photos:
            raise MissingPhoto("no photo in this folder", subject=str(source))
        raw = raw_alone(source, photos)
        if raw:
            names = first_three(file.name for file in raw)
            left_out = f"{plural(len(raw), 'raw file')} left out ({names}): export these photos as JPEG"
            note(left_out)
    else:
        copied(source, table)
    chosen = compare or model

    def load() -> "Captioner":
        from show_attend_tell.captioner import Captioner

        return Captioner.from_pretrained(chosen, **loading)

    serve = serving(table, photos, load, model=chosen, compare=compare is not None, left_out=left_out, port=port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the table is written at the end of Ctrl-C too
    with serve as server:
        show(server.address, f"the table is {table}; Ctrl-C ends this", browser)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    click.echo(f"saved: {table}")


def table_of(source: Path, output: Path | None) -> Path:
    """The file of the table. Raises `SatError` for a source that is not there, and for a place that is no CSV file."""
    if not source.exists():
        raise MissingFile("is not there", subject=str(source), remedy="name a folder of photos, or a table of captions")
    table = output or (source / "captions.csv" if source.is_dir() else source.with_suffix(".csv"))
    if table.suffix.lower() != ".csv":
        raise SatError("the table of a review is a CSV file", subject=str(table), remedy="name one that ends in .csv")
    return table.absolute()


def show(address: str, note: str, browser: bool) -> None:
    """Say where the page is, and open it."""
    click.echo(f"{address} ({note})")
    if browser:
        import webbrowser

        webbrowser.open(address)


@click.command(cls=BaseCommand, epilog=EXPORT_EXAMPLES)
@click.argument("table", type=PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(["xmp", "jsonl", "imagefolder", "coco", "alt"]),
    required=True,
    help="Format: sidecars beside the photos, a line of JSON for each photo, the metadata of an imagefolder, COCO's "
    "captions, or alternative texts (.csv).",
)
@click.option(
    "--output", metavar="FILE", help="File to write, except for xmp; - is standard output. [default: beside the table]"
)
@click.option(
    "--above",
    type=click.FloatRange(0, 1),
    help="Include captions that nobody reviewed, if they have at least this confidence. [default: reviewed ones only]",
)
@click.option("--alt-text", "alt", is_flag=True, help="Sidecars have the alternative texts too, as IPTC's Alt Text.")
def export(table: Path, form: str, output: str | None, above: float | None, alt: bool) -> None:
    """Write the captions of an edited table for other programs.

    The model cannot know what a photo is for, or names of people and places: these come from whoever edits.
    """
    from show_attend_tell.review.export import NAMES, exported, for_sidecars, with_alt, write_sidecars
    from show_attend_tell.review.table import read_table

    if alt and form != "xmp":
        raise SatError(f"--alt-text is for sidecars, not for {form}: give --format xmp, or --format alt alone")
    everything = read_table(table).rows
    rows = with_alt(everything) if form == "alt" else for_sidecars(everything, above)
    if not rows and form == "alt":
        raise SatError("no alternative text has been written yet", subject=str(table), remedy="sat review, and A")
    if not rows:
        raise SatError("no caption has been reviewed yet", subject=str(table), remedy="sat review, or give --above 0.8")
    if form == "xmp":
        if output:
            raise SatError("sidecars are written beside the photos: leave --output out")
        sentences, problems = write_sidecars(rows, alt=alt)
        for sentence in sentences:
            click.echo(sentence, err=True)
        if problems:
            raise SatError(f"{plural(len(problems), 'sidecar')} not written: {first_three(problems)}")
        return
    target = output or str(table.with_name(NAMES[form]))
    check_targets(target, read=[table])
    folder = table.parent if target == "-" else Path(target).absolute().parent
    write_output(target, exported(form, rows, folder))
    if target != "-":
        thing = "alternative text" if form == "alt" else "caption"
        click.echo(f"{plural(len(rows), thing)} in {target}", err=True)
