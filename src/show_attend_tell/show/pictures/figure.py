"""What a picture shows: a caption with its photo, and that photo at the size of a panel.

Letters in shapes: T words shown, H height and W width of a panel in pixels.
"""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.show.pictures.maps import CELLS, Rectangle, attention_map, place, region
from show_attend_tell.show.pictures.style import Style

# The brightest color stands for the largest value of the caption. For evidence that is this much at least, in nats at a
# location, so that noise is not white.
DIMMEST = 1e-3

# For attention it is this many times the average at least, so that a caption whose maps are all flat is not white, and
# only words count whose β is at least this share of the largest: a word with a sharp map and a small β would make all
# others dark.
FLAT, RELIED = 4.0, 0.5

POWER = 2 / 3  # of a value's share of the largest, for evidence: a few places have most of it, and others show too

DOUBT = 0.01  # the least 1 − p of a word by which its evidence is divided

DARK = 0.1  # of the caption's largest value: a word that has less evidence everywhere has no place in the photo

FRAME = 1.5  # pixels between a location and the middle of the line that frames it
THINNEST = 60  # pixels of a panel's shorter side, where the room allows it: else a panorama is a line


def of_log_odds(evidence: NDArray[Any], log_probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Evidence (T, rows, columns) for log-odds: that for log p (T,) divided by 1 − p, so that words can be compared."""
    doubt: NDArray[np.float64] = np.maximum(DOUBT, 1 - np.exp(log_probabilities))
    found: NDArray[np.float64] = evidence / doubt[:, None, None]
    return found


@dataclass(frozen=True, kw_only=True)
class FigureData:
    """A caption as pictures show it."""

    photo: Image.Image  # the original
    words: Sequence[str]  # T
    attention: NDArray[Any]  # α (T, rows, columns)
    gate: NDArray[Any] | None  # β (T,); None for a model without it
    evidence: NDArray[Any] | None = None  # (T, rows, columns), `of_log_odds`; None: attention is shown
    visible_box: Rectangle  # the part of the photo, in its pixels, that the encoder saw
    offset: tuple[float, float] = (0.0, 0.0)  # where a location looks, down and right of its cell's middle, in cells
    locations: NDArray[Any] | None = None  # (T, 2) row and column of the chosen locations; None for the mean
    to_check: Container[int] = ()  # the numbers of words that are more probably wrong than right
    title: str = ""  # over the panels
    between: str = " "  # what stands between two words
    note: str = ""  # small, under the title: the model, the score

    @property
    def text(self) -> str:
        """The title, or the words where there is none."""
        return self.title or self.between.join(self.words)

    @property
    def uniform(self) -> float:
        """α of each location when attention is uniform."""
        return 1 / int(np.prod(self.attention.shape[1:]))


class Panels:
    """A caption's photo at a panel's size, about ``area`` pixels, and each word's map on it."""

    def __init__(self, figure: FigureData, style: Style, *, area: float, widest: float, room: float) -> None:
        width, height = figure.photo.size
        widest = min(room, max(widest, THINNEST * width / height))
        tallest = max(1.75 * math.sqrt(area), THINNEST * height / width)
        scale = min(math.sqrt(area / (width * height)), widest / width, tallest / height)
        self.figure = figure
        self.style = style
        self.size = max(1, int(width * scale)), max(1, int(height * scale))  # (W, H)
        self.photo = figure.photo.convert("RGB").resize(self.size, Image.Resampling.LANCZOS)
        x, y = self.size[0] / width, self.size[1] / height
        left, top, right, bottom = figure.visible_box
        self.visible_box: Rectangle = left * x, top * y, right * x, bottom * y
        self.evident = style.shown == "evidence" and figure.evidence is not None  # else attention is shown
        self.maps = figure.attention if figure.evidence is None or not self.evident else figure.evidence.clip(0)
        self.laid = [
            attention_map(one, self.size, self.visible_box, figure.offset) for one in self.maps
        ]  # on the photo
        self.peaks = peaks = [float(laid.max()) for laid in self.laid]
        least = DIMMEST if self.evident else FLAT * figure.uniform
        gate = np.ones(len(peaks)) if self.evident or figure.gate is None else figure.gate
        strongest = [peak for peak, beta in zip(peaks, gate, strict=True) if beta >= RELIED * max(gate)]
        self.white = max([least, *strongest])  # the smoothed map that is brightest on the shared scale

    @property
    def cropped(self) -> bool:
        """Whether a pixel of the panel is outside the visible box."""
        left, top, right, bottom = self.visible_box
        return left > 0.5 or top > 0.5 or right < self.size[0] - 0.5 or bottom < self.size[1] - 0.5

    def strength(self, step: int) -> NDArray[np.float64]:
        """How brightly a word lights each pixel of the panel (H, W), 0 to 1."""
        share: NDArray[np.float64] = np.minimum(self.laid[step] / self.white, 1)
        return share**POWER if self.evident else share

    def numbers(self, step: int) -> str:
        """What stands below a word: its evidence in percent of the strongest, and its place; or β and the peak of α."""
        if not self.evident:
            beta = "" if self.figure.gate is None else f"β {float(self.figure.gate[step]):.2f} · "
            return f"{beta}peak α {float(self.maps[step].max()):.3f}"
        share = f"evidence {100 * self.peaks[step] / self.white:.0f} %"
        if self.peaks[step] < DARK * self.white:
            return share
        x, y = place(attention_map(self.maps[step], (CELLS, CELLS), (0, 0, CELLS, CELLS), self.figure.offset))
        left, top, right, bottom = self.visible_box
        middle = (left + x * (right - left)) / self.size[0], (top + y * (bottom - top)) / self.size[1]
        return f"{share} · {region(*middle)}"

    def frame(self, step: int) -> Rectangle | None:
        """The frame around the location chosen for a word, in pixels of the panel and within it."""
        if self.figure.locations is None:
            return None
        left, top, right, bottom = self.visible_box
        _, rows, columns = self.figure.attention.shape
        width, height = (right - left) / columns, (bottom - top) / rows
        row, column = (int(number) for number in self.figure.locations[step])
        x, y = left + (column + self.figure.offset[1]) * width, top + (row + self.figure.offset[0]) * height
        return (
            max(x - FRAME, FRAME),
            max(y - FRAME, FRAME),
            min(x + width + FRAME, self.size[0] - FRAME),
            min(y + height + FRAME, self.size[1] - FRAME),
        )
