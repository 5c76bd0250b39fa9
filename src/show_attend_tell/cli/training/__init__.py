"""The commands that train."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from show_attend_tell.cli.command import cache_option, device_option, encoder_options, note_shadowed, options

training_options = options(
    click.option(
        "--preset",
        "preset_name",
        default="flickr8k",
        show_default=True,
        help="Settings to start from: paper, flickr8k, flickr30k, coco, scenes or a file of sat tune.",
    ),
    click.option(
        "--attention",
        type=click.Choice(["soft", "hard", "uniform"]),
        help="Kind of attention to train; uniform weighs all locations alike, as a control. [default: soft]",
    ),
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="NAME=VALUE",
        help="Another value for any setting of the preset; an unknown NAME lists the settings. It may be given several "
        "times.",
    ),
    click.option(
        "--init-from",
        metavar="MODEL",
        callback=note_shadowed,
        help="Model whose decoder the training starts from, with its --resize and its words; none starts afresh. "
        "[default: without --preset, everyday-soft for soft attention on fewer than 2,000 custom photos with English "
        "captions; otherwise none]",
    ),
    encoder_options,
    cache_option,
    device_option,
)


@contextmanager
def log_printed() -> Iterator[None]:
    """Print what the package logs, from level INFO on, on standard output."""
    logger, handler = logging.getLogger("show_attend_tell"), logging.StreamHandler(sys.stdout)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
