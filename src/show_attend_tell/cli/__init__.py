"""The command `sat`: a thin layer over the package, a file for each command or for two that belong together.

Every message to the user is written here or in a `SatError`. What is slow to import is imported inside the commands, so
that ``--help`` is quick.
"""

import click

from show_attend_tell import __version__
from show_attend_tell.cli.caption import caption
from show_attend_tell.cli.check import check
from show_attend_tell.cli.command import Commands
from show_attend_tell.cli.compare import compare, report
from show_attend_tell.cli.encode import encode
from show_attend_tell.cli.evaluate import evaluate, score
from show_attend_tell.cli.models import models
from show_attend_tell.cli.review import export, review
from show_attend_tell.cli.serve import serve
from show_attend_tell.cli.train import train
from show_attend_tell.messages import SITE

EXAMPLES = f"""
\b
Examples:
  sat caption dog.jpg                                a caption
  sat caption photos/ --output captions.html         a page that shows what supported each word
  sat train photos/ --output my-model                a model of your own photos and captions

A photo may also be an address (https://…). This needs pip install 'fsspec[http]'.

Documentation: {SITE or "sat COMMAND --help, sat models NAME, and in Python help('show_attend_tell')"}
"""


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="sat")
def main() -> None:
    """Show, Attend and Tell: captions that show what in the photo supported each word."""


for command in (caption, review, export, models, check, train, evaluate, serve, encode, score, compare, report):
    main.add_command(command)
