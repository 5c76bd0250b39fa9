"""Sidecars of photos as an output of a run: a photo whose sidecar has a description is done."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from show_attend_tell.batch.sources import Piece
from show_attend_tell.batch.work import Row
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.show.sidecar import Outcome, SidecarSettings, check_sidecars, settled, summary, write_sidecar


class Sidecars:
    """The sidecars of photos, with captions by a ``model``; ``log`` is told of each that cannot be written."""

    def __init__(self, options: SidecarSettings, model: str, log: Callable[[str], object]) -> None:
        self.options = options
        self.model = model
        self.log = log
        self.done: set[str] = set()  # the sources of photos that need no caption for their sidecars
        self.outcomes: Counter[Outcome] = Counter()
        self.failed = 0

    def __contains__(self, source: object) -> bool:
        return source in self.done

    def __len__(self) -> int:
        return len(self.done)

    def look_at(self, pieces: Sequence[Piece]) -> None:
        """Find the photos that are described. Raises `SatError` for those that can have no sidecar."""
        names: list[str] = []
        for piece in pieces:
            if piece.kind != "photos" or not piece.files[0].startswith("file://"):
                reason = f"--output xmp writes beside photos, and {piece.names[0]} has no folder"
                raise InvalidValue(reason, remedy="leave out one or the other")
            names += piece.names
        check_sidecars(map(Path, names))
        for name in names:
            with suppress(SatError):  # of a sidecar that cannot be read: `write` says so
                outcome = settled(Path(name), self.options)
                if outcome is not None:
                    self.done.add(name)
                    self.outcomes[outcome] += 1

    def write(self, rows: Iterable[Row]) -> None:
        """Write the captions of rows into sidecars."""
        for row in rows:
            if row.get("error"):
                continue
            own = {"model": self.model, "confidence": row["confidence"], "options": self.options}
            try:
                self.outcomes[write_sidecar(Path(row["source"]), row["caption"], **own)] += 1
                self.done.add(row["source"])
            except SatError as error:
                self.failed += 1
                self.log(str(error))

    def lines(self) -> list[str]:
        """What was done, in words."""
        return summary(self.outcomes)
