"""`sat export`: an edited table in the form that another program reads."""

from pathlib import Path

import click

from show_attend_tell.cli.command import BaseCommand, check_targets, write_output
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, plural

EXAMPLES = """
\b
Examples:
  sat export photos/captions.csv --format xmp                  sidecars with what was reviewed
  sat export photos/captions.csv --format xmp --above 0.8      and with captions that are trusted so far
  sat export photos/captions.csv --format jsonl --output captions.jsonl
  sat export photos/captions.csv --format imagefolder          photos/metadata.jsonl, for Hugging Face datasets
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["xmp", "jsonl", "imagefolder", "coco", "alt"]),
    required=True,
    help="Form: sidecars beside the photos, a line of JSON for each photo, the metadata of an imagefolder, COCO's "
    "captions, or alternative texts (.csv).",
)
@click.option("--output", metavar="FILE", help="File to write; - is standard output. [default: beside the table]")
@click.option(
    "--above",
    type=click.FloatRange(0, 1),
    help="Also captions that nobody reviewed, from this confidence on. [default: reviewed ones only]",
)
def export(table: Path, form: str, output: str | None, above: float | None) -> None:
    """Write the captions of an edited table for other programs.

    What a photo is for, and names of people and places, the model cannot know: these come from those who edit.
    """
    from show_attend_tell.review.export import FORMATS, for_sidecars, write_sidecars
    from show_attend_tell.review.table import read_table

    try:
        content = table.read_bytes()
    except OSError as error:
        raise SatError(f"cannot be read ({error.strerror})", subject=str(table)) from None
    rows = for_sidecars(read_table(content, table).rows, above)
    if not rows:
        raise SatError("nobody has reviewed a caption", subject=str(table), remedy="sat review, or give --above 0.8")
    if form == "xmp":
        sentences, problems = write_sidecars(rows)
        for sentence in sentences:
            click.echo(sentence, err=True)
        if problems:
            raise SatError(f"{plural(len(problems), 'sidecar')} not written: {first_three(problems)}")
        return
    name, write = FORMATS[form]
    target = output or str(table.with_name(name))
    check_targets(target, read=[table])
    folder = table.parent if target == "-" else Path(target).absolute().parent
    write_output(target, write(rows, folder))
    if target != "-":
        click.echo(f"{plural(len(rows), 'caption')} in {target}", err=True)
