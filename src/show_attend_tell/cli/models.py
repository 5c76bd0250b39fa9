"""`sat models`: the models that come with the package."""

import click

from show_attend_tell.checkpoint.hub import DEFAULT_MODEL
from show_attend_tell.cli.command import BaseCommand, printable

EXAMPLES = """
\b
Examples:
  sat models                       names to give to --model
  sat models everyday-soft         what a model was trained on, its scores and its limits
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("name", required=False)
def models(name: str | None) -> None:
    """List the models of this package, or show the card of one.

    NAME is a shipped model, a folder or a hub id. CIDEr is measured on the test photos, ×100.
    """
    from show_attend_tell.checkpoint.checkpoint import read_configuration
    from show_attend_tell.checkpoint.hub import SHIPPED, card_of, find_model, shipped_models, shipped_size

    if name is not None:
        read_configuration(find_model(name) / "config.json")  # raises where this is no model
        click.echo("\n".join(map(printable, card_of(name).split("\n"))), nl=False)
        return
    rows = [("model", "size", "for", "CIDEr on test")]
    for shipped in sorted(shipped_models(), key=lambda name: name != DEFAULT_MODEL):
        config, *_ = read_configuration(SHIPPED / shipped / "config.json")
        tests = {
            str(config.training.get("data")) if split == "test" else split.removesuffix(", test"): scores["cider"]
            for split, scores in config.scores.items()
            if split.endswith("test")
        }
        figures = ", ".join(f"{split} {cider:.1f}" for split, cider in tests.items())
        purpose = str(config.training.get("purpose"))
        rows.append((shipped, f"{shipped_size(shipped) / 1e6:.1f} MB", purpose, figures))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    click.echo(f"{DEFAULT_MODEL} is the default. Details: sat models NAME")
