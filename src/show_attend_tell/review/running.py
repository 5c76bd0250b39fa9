"""One server for each table: what starts it, and what a second command does instead."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, file_lock
from show_attend_tell.review.answers import Answers
from show_attend_tell.review.background import Captioning, Saving
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.server import Server
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import read_table, spelling, table_bytes
from show_attend_tell.review.thumbnails import Thumbnails, default_folder

if TYPE_CHECKING:
    from show_attend_tell.captioner import Captioner

ANSWER = 5.0  # seconds in which a server that runs must answer


def journal_of(table: Path) -> Path:
    """The journal beside a table."""
    return table.with_name(f"{table.name}.journal")


def _address_file(table: Path) -> Path:
    """Where the address of a table's server is while it runs."""
    return table.with_name(f"{table.name}.address")


def running(table: Path) -> str | None:
    """The address of the server that already has a table; None where none answers."""
    try:
        address: str = json.loads(_address_file(table).read_text(encoding="utf-8"))["address"]
        without_proxy = build_opener(ProxyHandler({}))
        with without_proxy.open(f"{address}state?since=now", timeout=ANSWER) as answer:
            return address if answer.status == 200 else None
    except (OSError, ValueError, KeyError):  # nothing listens there, or something else does
        return None


def copied(source: Path, table: Path) -> None:
    """Write a table elsewhere, or in another form, unless it is there; its sources are spelled for the new place."""
    if table.exists() or source.resolve() == table.resolve():
        return
    found = read_table(source.read_bytes(), source)
    for row in found.rows:
        row.source = spelling(row.path, table.parent)
    content = table_bytes(found.columns, found.rows)
    atomic_write(table, lambda scratch: scratch.write_bytes(content))


@contextmanager
def serving(
    table: Path,
    photos: Sequence[Path],
    load: Callable[[], "Captioner"],
    *,
    model: str,
    compare: bool = False,
    left_out: str = "",
    port: int = 0,
    cache: Path | None = None,
) -> Iterator[Server]:
    """A server of a table that is ready to run, and captions and saves in the background until the context is left.

    Raises `SatError` where another process has the table, where nothing can be written beside it, and as `Review` does.
    """
    with ExitStack() as stack:
        journal = Journal(journal_of(table))
        stack.callback(journal.close)
        stack.enter_context(file_lock(journal.file, refusal=f"{table} is open in another sat review: give it a moment"))
        review = Review(table, journal, photos)
        captioning = Captioning(review, load, compare=compare)
        saving = Saving(review)
        answers = Answers(review, captioning, saving, model=model, left_out=left_out)
        server = stack.enter_context(Server(answers, Thumbnails(cache or default_folder()), port))
        stack.callback(_end, captioning, saving)
        stack.callback(_address_file(table).unlink, missing_ok=True)
        _publish(table, server.address)
        captioning.start()
        saving.start()
        yield server


def _publish(table: Path, address: str) -> None:
    """Write the address where a second command finds it; other users may not read it, for it has the token."""
    file = _address_file(table)
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump({"address": address}, stream)


def _end(captioning: Captioning, saving: Saving) -> None:
    captioning.stop()
    saving.stopping.set()
    saving.join()
    captioning.join()
    saving.save(only_if_needed=True)
    if saving.problem:
        raise SatError(f"{saving.problem}. What was decided is in {saving.review.journal.file}")
