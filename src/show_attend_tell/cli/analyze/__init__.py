"""`sat analyze`: measurements of what attention does. Each file is named like the module of analysis/ that it calls."""

import click

from show_attend_tell.cli.analyze.ablation import ablation
from show_attend_tell.cli.analyze.evidence import evidence
from show_attend_tell.cli.analyze.scenes import scenes
from show_attend_tell.cli.command import Commands


@click.group(cls=Commands)
def analyze() -> None:
    """Measurements of what attention does, for research.

    Start with: sat analyze ablation --model flickr8k-soft --data flickr8k/
    """


analyze.add_section("Commands", (ablation, evidence, scenes))
