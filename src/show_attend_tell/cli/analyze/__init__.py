"""`sat analyse`: measurements of what attention does. Each file is named like the module of analysis/ that it calls."""

import click

from show_attend_tell.cli.analyze.gaze import gaze
from show_attend_tell.cli.analyze.hard_attention import hard_attention
from show_attend_tell.cli.analyze.pointing import pointing
from show_attend_tell.cli.analyze.ranking import ranking
from show_attend_tell.cli.analyze.retrieval import retrieval
from show_attend_tell.cli.analyze.scenes import scenes
from show_attend_tell.cli.command import Commands


@click.group(cls=Commands)
def analyse() -> None:
    """Measurements of what attention does, for research.

    Start with: sat analyse gaze --model flickr8k-soft --data flickr8k/
    """


for command in (gaze, hard_attention, pointing, ranking, retrieval, scenes):
    analyse.add_command(command)
