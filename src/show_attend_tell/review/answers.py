"""What the page asks, and what it is answered: plain values, without HTTP.

A row is asked for by its number, which stays the same while the server runs.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from show_attend_tell.data.rows.fields import BY_PEOPLE
from show_attend_tell.errors import InvalidValue
from show_attend_tell.messages import first_three, plural
from show_attend_tell.review import deciding
from show_attend_tell.review.background import Captioning, Saving
from show_attend_tell.review.export import for_sidecars, write_sidecars
from show_attend_tell.review.order import shown
from show_attend_tell.review.stopping import DRAW, forecast
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import Decided, Row
from show_attend_tell.values import Record

PATIENCE = 20.0  # seconds that a page waits for something new
ACTIONS: dict[str, Callable[..., Decided]] = {
    "accept": deciding.accepted,
    "write": deciding.written,
    "exchange": deciding.exchanged,
    "leave out": deciding.left_out,
    "describe": deciding.described,
}


@dataclass
class Answers:
    """The answers to one page or several."""

    review: Review
    captioning: Captioning
    saving: Saving
    model: str  # what captions
    left_out: str = ""  # which files of the folder are not shown

    # Looking

    def state(self, since: int | None = None) -> Record:
        """How far the review is; waits until it is another ``since`` the page asked last."""
        review = self.review
        with review.changed:
            review.changed.wait_for(lambda: review.version != since, timeout=PATIENCE)
            taught = [row for row in review.rows if row.reviewed in BY_PEOPLE]
            judging = [row.reviewed for row in review.rows if row.decided.split == "val"]
            return {
                "version": review.version,
                "sentence": forecast(review.rows).sentence(),
                "captioning": self.captioning.left(),
                "photos": len(review.rows),
                "model": self.model,
                "problem": self.captioning.problem or self.saving.problem,
                "left_out": self.left_out,
                "folder": shlex.quote(str(review.table.parent)),
                "taught": f"{len(taught)} captions are written or edited. "
                f"{judging.count('written')} of {len(judging)} photos to judge by are written.",
                "conflicts": sum(bool(row.decided.other_caption) for row in review.rows),
                "compare": self.captioning.compare,
            }

    def order(self, **view: str) -> Record:
        """The numbers of the rows of a view, in order, and all folders."""
        with self.review.lock:
            folders = sorted({row.source.rpartition("/")[0] for row in self.review.rows})
            return {"ids": [row.number for row in shown(self.review.rows, view)], "folders": folders}

    def rows(self, ids: Iterable[int]) -> list[Record]:
        """Rows by their numbers; these are captioned first."""
        rows = [self.row(number) for number in ids]
        self.captioning.look_at(rows)
        with self.review.lock:
            return [self._shown(row) for row in rows]

    def row(self, number: Any) -> Row:
        """A row by its number."""
        try:
            return self.review.rows[int(number)]
        except (ValueError, IndexError):
            raise InvalidValue(f"there is no row {number!r}") from None

    def _shown(self, row: Row) -> Record:
        by = {row.offered: self.model, row.decided.other_caption: "the table"}
        choices = [{"text": text, "by": by.get(text, "")} for text in deciding.choices(row)]
        hidden = row.hidden
        if hidden:
            row = replace(row, decided=row.decided._replace(caption=""), model_caption="", confidence=None)
        doubted = {word.lower(): row.instead.get(word, []) for word in row.to_check}
        if row.reviewed not in ("", "edited"):  # one of several words may be exchanged
            doubted = {}
        words = row.caption.split()
        return {
            **row.decided._asdict(),
            "id": row.number,
            "name": row.source,
            "words": [{"text": word, "instead": doubted.get(word.lower().strip(".,;:!?"))} for word in words],
            "confidence": row.confidence,
            "model_caption": row.model_caption,
            "choices": choices,
            "hidden": hidden,
            "error": row.error,
        }

    # Deciding

    def decide(self, id: int, action: str, **needed: Any) -> Record:
        """Decide a row: an action, with what it needs."""
        row = self.row(id)
        with self.review.lock:
            decided = ACTIONS[action](row, **needed)
            self.review.decide(f"{row.source}: {decided.reviewed or action}", {row.key: decided})
            return self._shown(row)

    def undo(self) -> Record:
        """Take the last decision back."""
        with self.review.lock:
            last = self.review.undo() or {"label": "", "changes": []}
            rows = self.review.by_key
            return {"label": last["label"], "ids": [rows[key].number for key, *_ in last["changes"] if key in rows]}

    def accept(self, tried: bool = False, **view: str) -> Record:
        """Accept all rows of a view that have a caption in sight and that nobody reviewed, as one decision."""

        def decided(row: Row) -> Decided:
            waits = row.caption and not row.hidden and not row.reviewed
            return deciding.accepted(row, "accepted in bulk") if waits else row.decided

        return self._together("accepted in bulk", decided, tried, view)

    def replace(self, old: str, new: str, tried: bool = False, **view: str) -> Record:
        """Replace a word, or several, by another in the captions of a view, as one decision."""
        if not old.strip():
            raise InvalidValue("there is nothing to find: give a word")
        return self._together(f"{old} → {new}", lambda row: deciding.replaced(row, old, new), tried, view)

    def _together(self, label: str, decide: Callable[[Row], Decided], tried: bool, view: dict[str, str]) -> Record:
        """Decide the rows of a view as one; if it is only ``tried``, say how many would change."""
        with self.review.lock:
            rows = shown(self.review.rows, view)
            decided = {row.key: decide(row) for row in rows}
            captions = [decided[row.key].caption for row in rows if decided[row.key] != row.decided]
            label = f"{label}: {plural(len(captions), 'caption')}"
            if not tried:
                self.review.decide(label, decided)
            return {"label": label, "number": len(captions), "captions": captions[:3]}

    def draw(self, judge: bool = False) -> Record:
        """Draw photos at random: to be checked, or, for ``judge``, to be written without the model's caption."""
        how = {"split": "val"} if judge else {"drawn": "yes"}
        with self.review.lock:
            rows = deciding.drawn(self.review.rows, DRAW)
            decided = {row.key: row.decided._replace(**how) for row in rows}
            self.review.decide(f"{plural(len(rows), 'photo')} drawn", decided)
            return {"number": len(rows)}

    def save(self, sidecars: bool = False, above: float | None = None, alt: bool = False) -> Record:
        """Write the table now, and sidecars: of what is reviewed, and of what has a confidence ``above`` one.

        With ``alt``, these have the alternative texts too.
        """
        self.saving.save()
        message = self.saving.problem or f"{self.review.table} is written"
        if sidecars:
            with self.review.lock:
                rows = for_sidecars(self.review.rows, above)
            sentences, problems = write_sidecars(rows, alt=alt)
            message = ". ".join([message, *sentences])
            if problems:
                message += f". Not written: {first_three(problems)}"
        return {"message": message}
