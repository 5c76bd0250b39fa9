"""What goes on in the background: captions, first of the photos that somebody looks at, and snapshots of the table."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import Row

if TYPE_CHECKING:
    from show_attend_tell.captioner import Captioner

TOGETHER = 4  # photos: few, so that those that come into view are soon next
OTHERS = 9  # further captions of the beam that are kept, one for each key
QUIET = 2.0  # seconds between looking at the table, and between two snapshots of it
PAUSE = 5.0  # seconds until a page is not waited for any more, or the disk is tried again


class Background(threading.Thread):
    """A thread that works on a review until ``stopping`` is set."""

    def __init__(self, review: Review) -> None:
        super().__init__(daemon=True)
        self.review = review
        self.problem = ""  # why it does not go on
        self.stopping = threading.Event()


class Captioning(Background):
    """The thread that captions the rows of a review which have no caption yet.

    A row in view that has one, of a table, gets the other captions of the beam. With ``compare`` it offers another
    model's captions for all rows that nobody reviewed.
    """

    def __init__(self, review: Review, load: Callable[[], "Captioner"], *, compare: bool = False) -> None:
        super().__init__(review)
        self.load = load
        self.compare = compare
        self._in_view: Sequence[Row] = ()
        self._looked_at = threading.Event()
        self._done: set[str] = set()  # keys

    def look_at(self, rows: Sequence[Row]) -> None:
        """Take these rows first."""
        self._in_view = rows
        self._looked_at.set()

    def left(self) -> int:
        """How many photos wait for a caption."""
        return sum(self._waits(row) for row in self.review.rows)

    def run(self) -> None:
        """Caption what waits."""
        self._looked_at.wait(timeout=PAUSE)  # a model takes seconds to load, and the page comes first
        if self.stopping.is_set():
            return
        try:
            model = self.load()
        except SatError as error:
            self.problem = str(error)
            return
        while not self.stopping.is_set():
            rows = self._next()
            if not rows:
                with self.review.changed:
                    self.review.changed.wait(timeout=1.0)
                continue
            try:
                self._caption(model, rows)
                self.problem = ""
            except SatError as error:  # a full disk
                self.problem = str(error)
                self.stopping.wait(PAUSE)

    def _next(self) -> list[Row]:
        with self.review.lock:
            in_view = [row for row in self._in_view if self._waits(row, in_view=True)]
            chosen = in_view or [row for row in self.review.rows if self._waits(row)]
        return chosen[:TOGETHER]

    def _waits(self, row: Row, *, in_view: bool = False) -> bool:
        if row.reviewed or row.hidden or row.key in self._done:
            return False
        return self.compare or not row.model_caption or (in_view and not row.alternatives)

    def _caption(self, model: "Captioner", rows: Sequence[Row]) -> None:
        captions = model.stream([row.path for row in rows], batch_size=TOGETHER)
        for row, caption in zip(rows, captions, strict=True):
            made: dict[str, Any]
            if isinstance(caption, PhotoError):
                made = {"error": caption.reason}
            elif self.compare:
                made = {"offered": caption.text}
            else:
                made = {
                    "caption": caption.text,
                    "confidence": caption.confidence,
                    "to_check": caption.doubts,
                    "alternatives": [text for text, _ in caption.alternatives[:OTHERS]],
                    "instead": model.instead(caption),
                }
            self.review.captioned(row.key, made)
            self._done.add(row.key)


class Saving(Background):
    """The thread that writes the table when something was decided, and sees what other programs write into it."""

    def run(self) -> None:
        """Look and save."""
        pause = QUIET
        while not self.stopping.wait(pause):
            began = time.monotonic()
            self.save(only_if_needed=True)
            pause = max(QUIET, 10 * (time.monotonic() - began))  # decisions wait for a snapshot, on a slow disk

    def save(self, *, only_if_needed: bool = False) -> None:
        """Write the table; what stands in the way is the `problem`."""
        try:
            self.review.look_at_table()
            if self.review.unsaved or not only_if_needed:
                self.review.save()
            self.problem = ""
        except SatError as error:
            self.problem = str(error)
