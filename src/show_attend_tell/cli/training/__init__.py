"""The commands that train."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click


class EchoHandler(logging.Handler):
    """Prints log messages on standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage())


@contextmanager
def log_printed() -> Iterator[None]:
    """Print what the package logs, from level INFO on."""
    logger, handler = logging.getLogger("show_attend_tell"), EchoHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
