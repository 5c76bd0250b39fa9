"""The command `sat`: a thin layer over the package, one file a command.

Every message to the user is written here or in a `SatError`. What is slow to import is imported inside the commands, so
that ``--help`` is quick.
"""

import click

from show_attend_tell import __version__
from show_attend_tell.cli.caption import caption
from show_attend_tell.cli.compare import compare
from show_attend_tell.cli.evaluate import evaluate
from show_attend_tell.cli.examine import examine
from show_attend_tell.cli.features import features
from show_attend_tell.cli.models import models
from show_attend_tell.cli.pointing import pointing
from show_attend_tell.cli.rank import rank
from show_attend_tell.cli.report import report
from show_attend_tell.cli.retrieve import retrieve
from show_attend_tell.cli.scenes import scenes
from show_attend_tell.cli.score import score
from show_attend_tell.cli.serve import serve
from show_attend_tell.cli.shared import Commands
from show_attend_tell.cli.train import train


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="sat")
def main() -> None:
    """Show, Attend and Tell: captions that show where they looked.

    Start with: sat caption PHOTO
    """


for command in (
    caption,
    features,
    train,
    evaluate,
    score,
    compare,
    report,
    examine,
    rank,
    retrieve,
    models,
    scenes,
    pointing,
    serve,
):
    main.add_command(command)
