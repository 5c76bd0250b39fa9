"""One server for each table: what starts it, and what a second command does instead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from show_attend_tell.errors import SatError
from show_attend_tell.files import file_lock
from show_attend_tell.review.answers import Answers
from show_attend_tell.review.background import Captioning, Saving
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.server import Server
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import read_table, spelling, write_table
from show_attend_tell.review.thumbnails import default_folder

if TYPE_CHECKING:
    from show_attend_tell.captioner import Captioner

ANSWER = 5.0  # seconds in which a server that runs must answer


def beside(table: Path, kind: str) -> Path:
    """The ``journal`` of a table, or the ``address`` of its server while that runs."""
    return table.with_name(f"{table.name}.{kind}")


def running(table: Path) -> str | None:
    """The address of the server that already has a table; None where none answers."""
    try:
        address = beside(table, "address").read_text(encoding="utf-8")
        with build_opener(ProxyHandler({})).open(address, timeout=ANSWER):  # without a proxy
            return address
    except (OSError, ValueError):  # nothing listens there, or something else does
        return None


def copied(source: Path, table: Path) -> None:
    """Write a table elsewhere, or in another form, unless it is there; its sources are spelled for the new place."""
    if table.exists() or source.resolve() == table.resolve():
        return
    columns, rows = read_table(source)
    for row in rows:
        row.source = spelling(row.path, table.parent)
    write_table(table, columns, rows)


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
        journal = Journal(beside(table, "journal"))
        stack.callback(journal.close)
        stack.enter_context(file_lock(journal.file, refusal=f"{table} is open in another sat review: give it a moment"))
        review = Review(table, journal, photos)
        captioning = Captioning(review, load, compare=compare)
        saving = Saving(review)
        answers = Answers(review, captioning, saving, model=model, left_out=left_out)
        server = stack.enter_context(Server(answers, cache or default_folder(), port))
        stack.callback(_end, captioning, saving)
        address = beside(table, "address")  # which other users may not read, for it has the token
        stack.callback(address.unlink, missing_ok=True)
        address.unlink(missing_ok=True)
        address.touch(0o600, exist_ok=False)
        address.write_text(server.address, encoding="utf-8")
        captioning.start()
        saving.start()
        yield server


def _end(captioning: Captioning, saving: Saving) -> None:
    for thread in (saving, captioning):
        thread.stopping.set()
    captioning.look_at(())  # it may wait for somebody who looks
    captioning.join()
    saving.join()
    saving.save(only_if_needed=True)
    if saving.problem:
        raise SatError(f"{saving.problem}. What was decided is in {saving.review.journal.file}")
