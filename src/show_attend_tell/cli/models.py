"""`sat models`: what comes with the package."""

import click

from show_attend_tell.cli.command import Teaching

EXAMPLES = """
\b
Examples:
  sat models                                       names to give to --model
"""


@click.command(cls=Teaching, examples=EXAMPLES)
def models() -> None:
    """List the models that come with this package, and their scores."""
    from show_attend_tell.checkpoint.card import score_lines
    from show_attend_tell.checkpoint.checkpoint import Checkpoint
    from show_attend_tell.checkpoint.find import SHIPPED, shipped_models

    if not shipped_models():
        click.echo("no model comes with this build: train one with sat train")
    for name in shipped_models():
        checkpoint = Checkpoint.load(SHIPPED / name)
        click.echo(
            f"{name}: {checkpoint.decoder.config.attention} attention, trained on {checkpoint.training.get('data')}"
        )
        for line in score_lines(checkpoint.scores):
            click.echo(f"  {line}")
