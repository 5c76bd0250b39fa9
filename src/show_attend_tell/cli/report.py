"""`sat report`: an evaluation as a page, to find out what a model gets wrong and where it looked."""

from pathlib import Path

import click

from show_attend_tell.cli.shared import Teaching, check_targets, write_text

EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --attention --json soft.json
  sat report soft.json
  sat report soft.json hard.json --output both.html     where the two differ
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("evaluation", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path), required=False)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    help="The page to write.",
)
@click.option("--link-photos", is_flag=True, help="Link to the photos where they are, instead of holding small copies.")
def report(evaluation: Path, other: Path | None, output: Path, link_photos: bool) -> None:
    """A page of an evaluation: scores, best and worst captions, and every photo with where each word looked.

    EVALUATION, and OTHER of the same photos, are as sat evaluate --json writes them; its --attention keeps where the
    model looked.
    """
    from show_attend_tell.analysis.report import report as made
    from show_attend_tell.checkpoint.find import SHIPPED, shipped_models
    from show_attend_tell.files import count, some

    files = [evaluation] if other is None else [evaluation, other]
    check_targets(str(output), read=files)
    cards = {name: (SHIPPED / name / "README.md").read_text(encoding="utf-8") for name in shipped_models()}
    result = made(files, cards=cards, linked_from=output.resolve().parent if link_photos else None)
    if result.missing:
        click.echo(
            f"note: {len(result.missing)} of {result.photos} photos are not where they were evaluated and stay empty: "
            f"{some(result.missing)}",
            err=True,
        )
    if not result.attention:
        click.echo("note: no evaluation says where the model looked; sat evaluate --attention keeps it", err=True)
    write_text(output, result.page)
    click.echo(f"{output}: {count(result.photos, 'photo')}, {output.stat().st_size / 1e6:.1f} MB")
