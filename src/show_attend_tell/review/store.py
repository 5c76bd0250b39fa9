"""The rows of a review, its journal and its table: nothing that a person decided is lost.

An entry of the journal is one of these:

- ``{"label": …, "changes": [[key, before, after], …]}``: rows were decided together, and are undone together;
- ``{"undo": 1}``: the last decision that was not undone is;
- ``{"made": key, …}``: what a model says of a photo;
- ``{"written": 1}``: the table is written with all that was decided so far.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from show_attend_tell.messages import plural
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.table import Decided, Row, read_table, spelling, write_table
from show_attend_tell.values import Record


class Review:
    """The rows of a table, with what is decided; each method may be called from any thread.

    ``version`` grows with each change; ``changed`` wakes those who wait for one.
    """

    def __init__(self, table: Path, journal: Journal, photos: Iterable[Path] = ()) -> None:
        """Read the table, if there is one, and the journal; further ``photos`` become rows without a caption.

        Raises `SatError` for a damaged table.
        """
        self.table = table
        self.journal = journal
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.version = 0
        self.history: list[Record] = []  # the entries of decisions, without what was undone
        self.columns: list[str] = []
        self.rows: list[Row] = []
        self.by_key: dict[str, Row] = {}
        self._stamp: tuple[int, ...] = ()  # when the table was last changed, and its size
        self._in_table: dict[str, Decided] = {}  # what rows were that are decided since it was written
        self._earlier: dict[str, set[Decided]] = defaultdict(set)  # all that rows have ever been
        self.unsaved = False  # whether the table lacks something
        with self.lock:
            theirs = self._read()
            self._add_photos(photos)
            for entry in journal.entries():
                self._apply(entry)
            self.unsaved |= not theirs
            self._merge(theirs)

    def _add_photos(self, photos: Iterable[Path]) -> None:
        """Add rows of photos that the table lacks, spelled as it spells those that it has."""
        known = {row.path for row in self.rows}
        before = ""  # their folder, as `sat caption` names it from where it was called
        if self.rows:
            before = self.rows[0].source.removesuffix(spelling(self.rows[0].path, self.table.parent))
        for path in map(Path.absolute, photos):
            if path not in known:
                source = before + spelling(path, self.table.parent)
                self._add(Row(path, source, source))

    def _add(self, row: Row) -> None:
        row.number = len(self.rows)
        self.rows.append(row)
        self.by_key[row.key] = row

    def _read(self) -> dict[str, Decided]:
        """What the table says of its rows, if it is there and has changed since it was last read or written."""
        stamp = self._stamp_now()
        if not stamp or stamp == self._stamp:
            return {}
        columns, rows = read_table(self.table)
        self._stamp = stamp
        self.columns = list(dict.fromkeys([*columns, *self.columns]))
        for row in rows:
            if row.key in self.by_key:
                self.by_key[row.key].more = row.more
            else:
                self._add(row)
        self._changed()
        return {row.key: row.decided for row in rows}

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            status = self.table.stat()
        except FileNotFoundError:
            return ()
        return status.st_mtime_ns, status.st_size

    # Deciding

    def decide(self, label: str, decided: Mapping[str, Decided]) -> None:
        """Decide rows by their keys, as one decision. The journal has it when this returns."""
        with self.lock:
            before = {key: self.by_key[key].decided for key in decided}
            changes = [(key, before[key], after) for key, after in decided.items() if after != before[key]]
            if changes:
                self._do({"label": label, "changes": changes})

    def undo(self) -> Record | None:
        """Take the last decision back, and return its entry; None where there is none."""
        with self.lock:
            last = self.history[-1] if self.history else None
            if last:
                self._do({"undo": 1})
            return last

    def captioned(self, key: str, made: Mapping[str, Any]) -> None:
        """Take what a model says of a photo, see `background.made`; errors and what is compared are not kept."""
        with self.lock:
            take = self._do if "caption" in made else self._apply
            take({"made": key, **made})

    def _do(self, entry: Record) -> None:
        self.journal.append(entry)
        self._apply(entry)

    def _apply(self, entry: Record) -> None:
        """Take what an entry of the journal says, now or when the table is opened again."""
        match entry:
            case {"label": _, "changes": changes}:
                self.history.append(entry)
                for key, before, after in changes:
                    self._set(key, Decided(*before), Decided(*after))
            case {"undo": _} if self.history:
                for key, before, after in self.history.pop()["changes"]:
                    self._set(key, Decided(*after), Decided(*before))
            case {"made": key} if key in self.by_key:
                captioned(self.by_key[key], entry)
            case {"written": _}:
                self._in_table.clear()
        self.unsaved = "written" not in entry
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.changed.notify_all()

    def _set(self, key: str, before: Decided, after: Decided) -> None:
        self._earlier[key] |= {before, after}
        self._in_table.setdefault(key, before)
        if key in self.by_key:  # the photo is not gone
            self.by_key[key].decided = after

    # The table

    def save(self) -> None:
        """Write the table with all that is decided, after what another program wrote into it is merged.

        Raises `SatError` where it cannot be written, or where another program has damaged it; the journal has all.
        """
        with self.lock:
            self.look_at_table()
            write_table(self.table, self.columns, self.rows)
            self._stamp = self._stamp_now()
            self._do({"written": 1})

    def look_at_table(self) -> None:
        """Merge the table, if another program has changed it since it was last read or written."""
        with self.lock:
            self._merge(self._read())

    def _merge(self, theirs: Mapping[str, Decided]) -> None:
        """Take what is only changed in the table, and keep both captions where both sides changed.

        Another program may have read the table long ago, and write back what rows were then: that is no change. Nor
        has it seen a decision that it does not repeat in ``reviewed``.
        """
        merged: dict[str, Decided] = {}
        for key, their in theirs.items():
            row = self.by_key[key]
            mine = row.decided
            base = self._in_table.get(key, mine)
            if their in self._earlier[key] or not (their.caption or their.reviewed):
                continue
            if their == mine:
                if not their.reviewed and their.caption != row.model_caption:  # before this review
                    merged[key] = their._replace(reviewed="edited")
                continue
            self._earlier[key].add(their)
            unseen = bool(mine.reviewed) and their.reviewed != mine.reviewed
            if mine.caption != their.caption and (unseen or mine != base):
                merged[key] = mine._replace(other_caption=their.caption)
            elif mine == base:
                edited = their.reviewed == base.reviewed and their.caption != base.caption
                merged[key] = their._replace(reviewed="edited") if edited else their
        if merged:
            self.decide(f"{plural(len(merged), 'caption')} changed in another program", merged)


def captioned(row: Row, made: Mapping[str, Any]) -> None:
    """Take what a model says of a row's photo. The first caption stays the model's; another one is among the others."""
    row.error = made.get("error", "")
    row.offered = made.get("offered", row.offered)
    if "caption" not in made:
        return
    caption = made["caption"]
    if not row.model_caption:
        row.model_caption = caption
        row.confidence = made["confidence"]
        row.to_check = made["to_check"]
        if not row.caption and not row.reviewed:
            row.decided = row.decided._replace(caption=caption)
    row.alternatives = [text for text in (caption, *made["alternatives"]) if text != row.model_caption]
    row.instead = made.get("instead", {})  # entries of earlier versions have none
