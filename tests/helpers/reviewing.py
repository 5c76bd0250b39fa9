"""What the tests of `sat review` share: a table, a model without a network, a server in a thread, random decisions."""

import random
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from show_attend_tell.caption import Caption
from show_attend_tell.errors import PhotoError
from show_attend_tell.review import deciding
from show_attend_tell.review.journal import Journal
from show_attend_tell.review.running import beside, serving
from show_attend_tell.review.server import Server
from show_attend_tell.review.store import Review

Start = Callable[..., tuple[subprocess.Popen[str], str]]
CAPTIONS = {"a": "a red dog", "b": "two cats", "c": "a bird on a roof", "d": "a man", "e": "a fork"}


def write_table(folder: Path) -> Path:
    """A table as `sat caption` writes it, with photos beside it; "a" is trusted least."""
    for number, name in enumerate(CAPTIONS):
        Image.effect_noise((60, 40), 10 * (number + 1)).save(folder / f"{name}.png")  # no blank
    rows = [f"{name}.png,{text},0.{number + 3}," for number, (name, text) in enumerate(CAPTIONS.items())]
    table = folder / "captions.csv"
    table.write_text("\n".join(["source,caption,confidence,to_check", *rows, ""]), encoding="utf-8")
    return table


def opened(table: Path, photos: Iterable[Path] = ()) -> Review:
    """A review as a server has it."""
    return Review(table, Journal(beside(table, "journal")), photos)


def captions(review: Review) -> dict[str, tuple[str, str]]:
    """The caption of each row, and how it was reviewed."""
    return {row.key: (row.caption, row.reviewed) for row in review.rows}


def act(review: Review, chance: random.Random, step: int) -> None:
    """One step of somebody at work: a decision, several together, an undo, or a snapshot."""
    row = chance.choice(review.rows)
    kind = chance.choice(["write", "accept", "all", "undo", "save"])
    if kind == "write":
        review.decide("write", {row.key: deciding.written(row, f"caption {step}")})
    elif kind == "accept":
        review.decide("accept", {row.key: deciding.accepted(row)})
    elif kind == "all":
        review.decide("all", {row.key: deciding.accepted(row, "accepted in bulk") for row in review.rows})
    elif kind == "undo":
        review.undo()
    else:
        review.save()


class Parrot:
    """A model that says the name of the photo, and is not sure of it."""

    name = "parrot"

    def instead(self, caption: Caption) -> dict[str, list[str]]:
        return {word: ["house", "owl"] for word in caption.to_check}

    def stream(self, photos: Iterable[Any], /, *, batch_size: int) -> Iterator[Caption | PhotoError]:
        for photo in photos:
            if photo.stem == "damaged":
                yield PhotoError("damaged", subject=str(photo))
                continue
            words = ["a", photo.stem, "here"]
            yield Caption(
                words=words,
                log_probability=-1.0,
                word_log_probabilities=np.zeros(3),
                attention=None,
                gate=None,
                locations=None,
                complete=True,
                alternatives=[(f"a {other} here", -2.0) for other in ("house", "boat")],
                settings={"model": self.name},
                word_confidence=np.array([np.nan, 0.2, np.nan]),
            )


@contextmanager
def serving_review(table: Path, photos: Iterable[Path] = (), **options: Any) -> Iterator[Server]:
    """A server of a review in a thread."""
    load = options.pop("load", Parrot)
    cache = table.parent / ".thumbnails"
    with serving(table, list(photos), load, model="parrot", cache=cache, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
