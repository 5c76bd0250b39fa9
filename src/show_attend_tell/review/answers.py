"""What the page asks, and what it is answered: plain values, without HTTP.

A row is asked for by its number, which stays the same while the server runs.
"""

import random
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from show_attend_tell.errors import InvalidValue
from show_attend_tell.messages import first_three, plural
from show_attend_tell.review import deciding
from show_attend_tell.review.background import Captioning, Saving
from show_attend_tell.review.export import for_sidecars, write_sidecars
from show_attend_tell.review.order import View, folder_of, shown
from show_attend_tell.review.stopping import DRAW, forecast
from show_attend_tell.review.store import Review
from show_attend_tell.review.table import Decided, Row

PATIENCE = 20.0  # seconds that a page waits for something new
Asked = Mapping[str, Any]


class Answers:
    """The answers to one page or several."""

    def __init__(
        self, review: Review, captioning: Captioning, saving: Saving, *, model: str, left_out: str = ""
    ) -> None:
        """``model`` names what captions, ``left_out`` says which files of the folder are not shown."""
        self.review = review
        self.captioning = captioning
        self.saving = saving
        self.model = model
        self.left_out = left_out
        self.actions: dict[str, Callable[[Row, Asked], Decided]] = {
            "accept": lambda row, asked: deciding.accepted(row),
            "write": lambda row, asked: deciding.written(row, str(asked["text"])),
            "leave out": lambda row, asked: deciding.left_out(row),
            "describe": lambda row, asked: deciding.described(row, str(asked["text"]), bool(asked["decorative"])),
        }

    # Looking

    def state(self, asked: Asked) -> dict[str, Any]:
        """How far the review is; waits until it is another ``since`` the page asked last."""
        review = self.review
        with review.changed:
            review.changed.wait_for(lambda: str(review.version) != asked.get("since"), timeout=PATIENCE)
            reviewed = Counter(row.decided.reviewed for row in review.rows)
            judging = [row for row in review.rows if row.decided.split == "val"]
            return {
                "version": review.version,
                "sentence": forecast(review.rows, review.drawn).sentence(),
                "captioning": self.captioning.left(),
                "model": self.model,
                "problem": self.captioning.problem or self.saving.problem,
                "left_out": self.left_out,
                "folder": shlex.quote(str(review.table.parent)),
                "taught": reviewed["written"] + reviewed["edited"],
                "judging": len(judging),
                "judged": sum(row.decided.reviewed == "written" for row in judging),
                "conflicts": sum(bool(row.decided.other_caption) for row in review.rows),
                "compare": self.captioning.compare,
            }

    def order(self, asked: Asked) -> dict[str, Any]:
        """The numbers of the rows of a view, in order, and all folders."""
        with self.review.lock:
            rows = shown(self.review.rows, _view(asked), self.review.drawn)
            folders = sorted({folder_of(row) for row in self.review.rows})
            return {"ids": [row.number for row in rows], "folders": folders}

    def rows(self, asked: Asked) -> list[dict[str, Any]]:
        """Rows by their numbers, ``ids`` with commas; these are captioned first."""
        rows = [self._row(number) for number in str(asked["ids"]).split(",")]
        self.captioning.look_at(rows)
        with self.review.lock:
            return [self._shown(row) for row in rows]

    def path(self, number: Any) -> Path:
        """Where a row's photo is."""
        return self._row(number).path

    def _row(self, number: Any) -> Row:
        try:
            return self.review.rows[int(number)]
        except (ValueError, IndexError):
            raise InvalidValue(f"there is no row {number!r}") from None

    def _shown(self, row: Row) -> dict[str, Any]:
        decided = row.decided
        choices = deciding.choices(row)
        shown_choices = [{"text": text, "by": self._by(row, text)} for text in choices]
        return {
            "id": row.number,
            "name": row.source,
            "caption": "" if row.hidden else decided.caption,
            "words": [] if row.hidden else _words(row, choices),
            "confidence": None if row.hidden else row.confidence,
            "reviewed": decided.reviewed,
            "model_caption": "" if row.hidden else row.model_caption,
            "choices": shown_choices,
            "alt_text": decided.alt_text,
            "decorative": bool(decided.decorative),
            "hidden": row.hidden,
            "error": row.error,
        }

    def _by(self, row: Row, text: str) -> str:
        if text == row.decided.other_caption:
            return "the table"
        if text == row.offered:
            return self.model
        return ""

    # Deciding

    def decide(self, asked: Asked) -> dict[str, Any]:
        """Decide one row: an ``action``, with what it needs."""
        row = self._row(asked["id"])
        action = str(asked["action"])
        if action not in self.actions:
            raise InvalidValue(f"there is no action {action!r}")
        with self.review.lock:
            decided = self.actions[action](row, asked)
            self.review.decide(f"{row.source}: {decided.reviewed or action}", {row.key: decided})
            return self._shown(row)

    def undo(self, asked: Asked) -> dict[str, Any]:
        """Take the last decision back."""
        with self.review.lock:
            last = self.review.undo()
            if last is None:
                return {"label": "", "ids": []}
            rows = [self.review.by_key[change.key] for change in last.changes if change.key in self.review.by_key]
            return {"label": last.label, "ids": [row.number for row in rows]}

    def accept(self, asked: Asked) -> dict[str, Any]:
        """Accept all rows of a view that have a caption in sight and that nobody reviewed, as one decision."""
        with self.review.lock:
            rows = [row for row in self._in_view(asked) if row.decided.caption and not row.hidden]
            decided = {row.key: deciding.accepted(row, "accepted in bulk") for row in rows if not row.decided.reviewed}
            return self._together(asked, f"{plural(len(decided), 'caption')} accepted", decided, [])

    def replace(self, asked: Asked) -> dict[str, Any]:
        """Replace a word, ``old``, by another in the captions of a view, as one decision."""
        old = str(asked["old"]).strip()
        new = str(asked["new"])
        if not old:
            raise InvalidValue("there is nothing to find: give a word")
        with self.review.lock:
            decided = {row.key: deciding.replaced(row, old, new) for row in self._in_view(asked)}
            changes = {key: after for key, after in decided.items() if after != self.review.by_key[key].decided}
            label = f"{old} → {new} in {plural(len(changes), 'caption')}"
            return self._together(asked, label, changes, [after.caption for after in changes.values()])

    def _together(
        self, asked: Asked, label: str, decided: Mapping[str, Decided], captions: list[str]
    ) -> dict[str, Any]:
        """Decide rows as one, or only say how many they are, if ``try`` is asked."""
        if not asked.get("try"):
            self.review.decide(label, decided)
        return {"label": label, "number": len(decided), "captions": captions[:3]}

    def _in_view(self, asked: Asked) -> list[Row]:
        return shown(self.review.rows, _view(asked), self.review.drawn)

    def draw(self, asked: Asked) -> dict[str, Any]:
        """Draw photos at random: to be checked, or, for ``judge``, to be written without the model's caption."""
        with self.review.lock:
            rows = deciding.drawn(self.review.rows, DRAW, random.randrange(2**32))
            if asked.get("judge"):
                decided = {row.key: row.decided._replace(split="val") for row in rows}
                self.review.decide(f"{plural(len(rows), 'photo')} to judge by", decided)
            else:
                self.review.draw([row.key for row in rows])
            return {"number": len(rows)}

    def save(self, asked: Asked) -> dict[str, Any]:
        """Write the table now, and sidecars: of what is reviewed, and of what has a confidence ``above`` one."""
        self.saving.save()
        message = self.saving.problem or f"{self.review.table} is written"
        if asked.get("sidecars"):
            above = asked.get("above")
            with self.review.lock:
                rows = for_sidecars(self.review.rows, None if above is None else float(above))
            sentences, problems = write_sidecars(rows)
            message = ". ".join([message, *sentences])
            if problems:
                message += f". Not written: {first_three(problems)}"
        return {"message": message}


def _words(row: Row, choices: list[str]) -> list[dict[str, Any]]:
    """The words of a caption: those to be checked have what other captions say ``instead``."""
    doubted = set() if row.decided.reviewed else {word.lower() for word in row.to_check}
    instead = deciding.instead(row.decided.caption, choices) if doubted else {}
    words: list[dict[str, Any]] = []
    for place, text in enumerate(row.decided.caption.split()):
        word: dict[str, Any] = {"text": text}
        if text.lower().strip(".,;:!?") in doubted:
            word["instead"] = instead.get(place, [])
        words.append(word)
    return words


def _view(asked: Asked) -> View:
    return View(**{name: str(asked[name]) for name in View._fields if name in asked})
