"""The rows of a review, its journal and its table: nothing that a person decided is lost.

An entry of the journal is one of these:

- ``{"label": …, "changes": [[key, before, after], …]}``: rows were decided together, and are undone together;
- ``{"undo": 1}``: the last decision that was not undone is;
- ``{"made": key, …}``: what a model says of a photo;
- ``{"drawn": [key, …]}``: photos drawn at random, to be checked;
- ``{"table": digest}``: the table is written next, with all that was decided so far;
- ``{"written": digest}``: it is written.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from show_attend_tell.files import atomic_write
from show_attend_tell.messages import plural
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.table import Decided, Row, Table, read_table, spelling, table_bytes

ELSEWHERE = "changed in another program"  # the label of what was read from the table


class Change(NamedTuple):
    """A row before and after a decision."""

    key: str
    before: Decided
    after: Decided


@dataclass
class Decision:
    """Rows that were decided together."""

    label: str
    changes: list[Change]


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
        self.unsaved = False  # whether the table lacks something
        self.history: list[Decision] = []  # without what was undone
        self.drawn: set[str] = set()
        self.columns: list[str] = []
        self.rows: list[Row] = []
        self.by_key: dict[str, Row] = {}
        self._stamp: tuple[int, int] | None = None  # when the table was last changed, and its size
        self._digest = ""  # of the table as it was last read or written
        self._base: dict[str, Decided] = {}  # its rows then
        self._earlier: dict[str, set[Decided]] = defaultdict(set)  # all that rows have ever been
        self._open(photos)

    # Opening

    def _open(self, photos: Iterable[Path]) -> None:
        found = self._read()
        for row in found.rows if found else ():
            self._add(row)
        for photo in photos:
            source = spelling(photo.absolute(), self.table.parent)
            if source in self.by_key:
                self.by_key[source].path = photo.absolute()
            else:
                self._add(Row(photo.absolute(), source, source))
        replayed = _replay(self.journal.entries(), self._digest)
        for key, made in replayed.made.items():
            if key in self.by_key:
                self._captioned(self.by_key[key], made)
        theirs = {row.key: row.decided for row in found.rows} if found else {}
        self._base = {**theirs, **replayed.base}
        self.history = replayed.history
        self.drawn = replayed.drawn
        self._earlier = replayed.earlier
        for row in self.rows:
            decided = row.decided
            changed = row.model_caption and decided.caption not in ("", row.model_caption)
            if changed and not decided.reviewed:  # in another program
                row.decided = decided._replace(reviewed="edited")
            row.decided = replayed.mine.get(row.key, row.decided)
        if not replayed.known:
            self._merge(theirs)
        self._base |= theirs
        if found and not replayed.mine:
            self.journal.append({"written": self._digest})
        self.unsaved = found is None or bool(replayed.mine)

    def _add(self, row: Row) -> None:
        row.number = len(self.rows)
        self.rows.append(row)
        self.by_key[row.key] = row

    def _read(self) -> Table | None:
        """The table as it is now; None where there is none."""
        try:
            status = self.table.stat()
            content = self.table.read_bytes()
        except FileNotFoundError:
            return None
        found = read_table(content, self.table)
        self._stamp = (status.st_mtime_ns, status.st_size)
        self._digest = hashlib.sha256(content).hexdigest()
        self.columns = found.columns
        return found

    # Deciding

    def decide(self, label: str, decided: Mapping[str, Decided]) -> int:
        """Decide rows by their keys, as one decision; returns how many change. The journal has it when this returns."""
        with self.lock:
            rows = [(self.by_key[key], after) for key, after in decided.items()]
            changes = [Change(row.key, row.decided, after) for row, after in rows if row.decided != after]
            if changes:
                self.journal.append({"label": label, "changes": changes})
                self.history.append(Decision(label, changes))
                _note(self._earlier, changes)
                self._set({change.key: change.after for change in changes})
            return len(changes)

    def undo(self) -> Decision | None:
        """Take the last decision back; returns it, or None where there is none."""
        with self.lock:
            if not self.history:
                return None
            self.journal.append({"undo": 1})
            last = self.history.pop()
            self._set({change.key: change.before for change in last.changes})
            return last

    def draw(self, keys: Sequence[str]) -> None:
        """Note photos that were drawn at random, to be checked."""
        with self.lock:
            self.journal.append({"drawn": list(keys)})
            self.drawn.update(keys)
            self._changed()

    def captioned(self, key: str, made: Mapping[str, Any]) -> None:
        """Take what a model says of a photo, see `background.made`."""
        with self.lock:
            if "alternatives" in made:
                self.journal.append({"made": key, **made})
            self._captioned(self.by_key[key], made)
            self.unsaved = True
            self._changed()

    def _captioned(self, row: Row, made: Mapping[str, Any]) -> None:
        row.error = made.get("error", "")
        row.offered = made.get("offered", row.offered)
        if "alternatives" not in made:
            return
        if not row.model_caption:
            row.model_caption = made["caption"]
            row.confidence = made["confidence"]
            row.to_check = made["to_check"]
            if not row.decided.caption and not row.decided.reviewed:
                row.decided = row.decided._replace(caption=made["caption"])
        others = [made["caption"], *made["alternatives"]]
        row.alternatives = [text for text in others if text != row.model_caption]

    def _set(self, decided: Mapping[str, Decided]) -> None:
        for key, value in decided.items():
            if key in self.by_key:  # not of a photo that is gone
                self.by_key[key].decided = value
        self.unsaved = True
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.changed.notify_all()

    # The table

    def save(self) -> None:
        """Write the table with all that is decided, after what another program wrote into it is merged.

        Raises `SatError` where it cannot be written, or where another program has damaged it; the journal has all.
        """
        with self.lock:
            self.look_at_table()
            content = table_bytes(self.columns, self.rows)
            digest = hashlib.sha256(content).hexdigest()
            self.journal.append({"table": digest})
            atomic_write(self.table, lambda scratch: scratch.write_bytes(content), sync=True)
            self.journal.append({"written": digest})
            status = self.table.stat()
            self._stamp = (status.st_mtime_ns, status.st_size)
            self._digest = digest
            self._base = {row.key: row.decided for row in self.rows}
            self.unsaved = False

    def look_at_table(self) -> None:
        """Merge the table, if another program has changed it since it was last read or written."""
        with self.lock:
            try:
                status = self.table.stat()
            except FileNotFoundError:
                return
            if self._stamp == (status.st_mtime_ns, status.st_size):
                return
            before = self._digest
            columns = self.columns
            found = self._read()
            if found is None or self._digest == before:
                return
            self.columns = list(dict.fromkeys([*found.columns, *columns]))
            for row in found.rows:
                if row.key in self.by_key:
                    self.by_key[row.key].more = row.more
                else:
                    self._add(row)
                    self._base[row.key] = row.decided
            theirs = {row.key: row.decided for row in found.rows}
            self._merge(theirs)
            self._base |= theirs
            self._changed()

    def _merge(self, theirs: Mapping[str, Decided]) -> None:
        """Take what is only changed in the table, and keep both captions where both sides changed.

        Another program may have read the table long ago, and write back what rows were then: that is no change. Nor
        has it seen a decision that it does not repeat in ``reviewed``.
        """
        merged: dict[str, Decided] = {}
        for key, their in theirs.items():
            base = self._base.get(key, their)
            mine = self.by_key[key].decided
            known = {_plain(base), _plain(mine), *self._earlier[key]}
            if _plain(their) in known or not (their.caption or their.reviewed):
                continue
            self._earlier[key].add(_plain(their))
            unseen = bool(mine.reviewed) and their.reviewed != mine.reviewed
            if mine.caption != their.caption and (unseen or _plain(mine) != _plain(base)):
                merged[key] = mine._replace(other_caption=their.caption)
            elif _plain(mine) == _plain(base):
                edited = their.caption != base.caption and their.reviewed == base.reviewed
                merged[key] = their._replace(reviewed="edited") if edited else their
        if merged:
            self.decide(f"{plural(len(merged), 'caption')} {ELSEWHERE}", merged)


def _plain(decided: Decided) -> Decided:
    """What people decided; the split is written for all rows and says nothing of one."""
    return decided._replace(split="")


def _note(earlier: dict[str, set[Decided]], changes: Iterable[Change]) -> None:
    """Note what rows were and what they become."""
    for change in changes:
        earlier[change.key] |= {_plain(change.before), _plain(change.after)}


class _Replayed(NamedTuple):
    history: list[Decision]
    mine: dict[str, Decided]  # the decided rows, as they are
    base: dict[str, Decided]  # the same rows as they were in the table
    made: dict[str, dict[str, Any]]
    drawn: set[str]
    earlier: dict[str, set[Decided]]
    known: bool  # whether the table is one that the journal tells of


def _replay(entries: Sequence[dict[str, Any]], digest: str) -> _Replayed:
    """What the journal says, beside a table of this digest."""
    known = [number for number, entry in enumerate(entries) if digest in (entry.get("table"), entry.get("written"))]
    confirmed = [number for number, entry in enumerate(entries) if "written" in entry]
    written = max(known or confirmed, default=0)  # the entry at which the table was written
    history: list[Decision] = []
    mine: dict[str, Decided] = {}
    base: dict[str, Decided] = {}
    made: dict[str, dict[str, Any]] = {}
    drawn: set[str] = set()
    earlier: dict[str, set[Decided]] = defaultdict(set)
    for number, entry in enumerate(entries):
        changes: list[tuple[str, Decided, Decided]] = []  # keys, with what was there and what is
        if "changes" in entry:
            decision = Decision(
                entry["label"],
                [Change(key, Decided(*before), Decided(*after)) for key, before, after in entry["changes"]],
            )
            history.append(decision)
            _note(earlier, decision.changes)
            changes = [(change.key, change.before, change.after) for change in decision.changes]
        elif "undo" in entry and history:
            changes = [(key, after, before) for key, before, after in history.pop().changes]
        elif "made" in entry:
            made[entry["made"]] = made.get(entry["made"], {}) | entry
        drawn.update(entry.get("drawn", ()))
        for key, before, after in changes:
            mine[key] = after
            if number < written:
                base[key] = after
            else:
                base.setdefault(key, before)
    return _Replayed(history, mine, base, made, drawn, earlier, bool(known))
