"""A picture's layout, the same for every format: panels, words and numbers under them, a title, and a scale.

Each caption has a column of its own, and columns stand side by side. Lengths are in pixels, y grows downwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from show_attend_tell.show.pictures.figure import FigureData, Panels
from show_attend_tell.show.pictures.letters import length, right_to_left
from show_attend_tell.show.pictures.style import Style

WIDTH = 1660  # of a page, about
MARGIN, GAP, COLUMN_GAP = 36, 20, 64
SIDE = 300  # of a square panel, at most
TITLE, WORD, NOTE = 30, 25, 16  # sizes of letters
SCALE_WIDTH, SCALE_HEIGHT, LEGEND_GAP = 180, 12, 14


@dataclass(frozen=True)
class Text:
    """A line of text that starts at the left end of its baseline, or at the right end if ``rtl``."""

    x: float
    y: float
    text: str
    size: int
    pale: bool = False
    rtl: bool = False
    dotted: bool = False  # whether a dotted line is under it


@dataclass(frozen=True)
class Panel:
    """A photo at its upper left corner: as it is, or with the map of the word ``step``."""

    x: int
    y: int
    caption: int  # its index in the layout's captions
    step: int | None


@dataclass
class Layout:
    """What is drawn where."""

    style: Style
    captions: list[Panels]
    width: int = 0
    height: int = 0
    panels: list[Panel] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    scales: list[tuple[int, int]] = field(default_factory=list)  # x and y of bars from least to most


def lay_out(figures: Sequence[FigureData], style: Style) -> Layout:
    """Place a caption's panels in a grid, or the grids of several captions side by side."""
    room = (WIDTH - 2 * MARGIN - COLUMN_GAP * (len(figures) - 1)) / len(figures)
    across = {1: 4, 2: 3}.get(len(figures), 2)  # so many panels of any photo fit into a row
    widest = (room + GAP) / across - GAP
    area = min(SIDE, widest) ** 2
    columns = [_Column(Panels(figure, style, area=area, widest=widest, room=room), room) for figure in figures]
    top = MARGIN + max(column.header for column in columns)  # so that all columns' panels begin at one height
    layout = Layout(style, [column.panels for column in columns])
    x = MARGIN
    for number, column in enumerate(columns):
        column.place(layout, number, x, top)
        x += column.width + COLUMN_GAP
    layout.width = x - COLUMN_GAP + MARGIN
    layout.height = top + max(column.body for column in columns) + MARGIN
    return layout


class _Column:
    """One caption's part of a layout."""

    def __init__(self, panels: Panels, room: float) -> None:
        figure = panels.figure
        self.panels = panels
        self.rtl = right_to_left(figure.text)
        self.notes = [("photo", "")] + [(word.strip(), panels.numbers(step)) for step, word in enumerate(figure.words)]
        needed = [max(room_for(word, WORD), room_for(note, NOTE)) for word, note in self.notes]
        self.cell = max(panels.size[0], math.ceil(max(needed)))
        fitting = max(1, int((room + GAP) // (self.cell + GAP)))
        rows = math.ceil(len(self.notes) / fitting)
        self.across = math.ceil(len(self.notes) / rows)  # rows of nearly one length
        self.row = panels.size[1] + WORD + NOTE + 54
        legend = _legend(panels)
        footer = SCALE_WIDTH + LEGEND_GAP + math.ceil(max(room_for(part, NOTE) for part in legend))
        self.width = max(self.across * (self.cell + GAP) - GAP, footer)
        parts = figure.title.split() if figure.between else list(figure.title)
        self.title = wrapped(parts, figure.between, TITLE, self.width)
        self.note = wrapped(figure.note.split(), " ", NOTE, self.width)
        self.legend = wrapped(legend, " · ", NOTE, self.width - SCALE_WIDTH - LEGEND_GAP)
        self.header = len(self.title) * (TITLE + 10) + len(self.note) * (NOTE + 8) + (16 if self.title else 0)
        self.body = rows * self.row + len(self.legend) * (NOTE + 8) - 8

    def place(self, layout: Layout, number: int, x: int, top: int) -> None:
        y = MARGIN
        for text in self.title:
            y += TITLE + 10
            layout.texts.append(Text(x + self.width * self.rtl, y - 16, text, TITLE, rtl=self.rtl))
        for text in self.note:
            y += NOTE + 8
            layout.texts.append(Text(x, y - 10, text, NOTE, pale=True))

        for index, (word, note) in enumerate(self.notes):
            column = self.across - 1 - index % self.across if self.rtl else index % self.across
            left = x + column * (self.cell + GAP)
            y = top + index // self.across * self.row
            left += (self.cell - self.panels.size[0]) * self.rtl
            layout.panels.append(Panel(left, y, number, index - 1 if index else None))
            baseline = y + self.panels.size[1] + 10 + WORD
            rtl = right_to_left(word)
            dotted = index - 1 in self.panels.figure.to_check
            right = left + self.panels.size[0]
            layout.texts.append(Text(right if rtl else left, baseline, word, WORD, index == 0, rtl=rtl, dotted=dotted))
            if note:
                layout.texts.append(Text(left, baseline + NOTE + 8, note, NOTE, pale=True))

        y = top + self.body - len(self.legend) * (NOTE + 8) + 8
        layout.scales.append((x, y + 3))
        for line, text in enumerate(self.legend):
            layout.texts.append(
                Text(x + SCALE_WIDTH + LEGEND_GAP, y + line * (NOTE + 8) + NOTE - 2, text, NOTE, pale=True)
            )


def _legend(panels: Panels) -> list[str]:
    """What the scale, the marks and the symbols mean, in words for anybody."""
    figure = panels.figure
    if panels.evident:
        legend = ["dark: least evidence", "white: most evidence of the caption, 100 %"]
    else:
        times = panels.white / figure.uniform
        legend = ["dark: least attention", f"white: most attention, {times:.0f} times the average"]
    if figure.locations is not None:
        legend.append("frame: the chosen location")
    if any(number in figure.to_check for number in range(len(figure.words))):
        legend.append("dotted: more probably wrong than right")
    if panels.cropped:
        legend.append("striped: not seen by the model")
    if panels.evident:
        legend.append("evidence: how fast a word grows more probable with the attention to what supports it")
    elif figure.words:
        legend.append("α: a location’s share of the attention")
        if figure.gate is not None:
            legend.append("β: how much a word relied on the photo, 0 to 1")
    return legend


def room_for(text: str, size: int) -> float:
    """The room that a line of text needs: a tenth more than here, since an SVG may be shown in a wider font."""
    return 1.1 * length(text, size)


def wrapped(parts: Sequence[str], between: str, size: int, width: float) -> list[str]:
    """Lines of ``parts`` no longer than ``width``, where a part of its own is not longer already."""
    return [between.join(line) for line in in_lines(parts, between, size, width)]


def in_lines(parts: Sequence[str], between: str, size: int, width: float) -> list[list[str]]:
    """The parts of each line of `wrapped`."""
    lines: list[list[str]] = []
    for part in parts:
        if lines and room_for(between.join([*lines[-1], part]), size) <= width:
            lines[-1].append(part)
        else:
            lines.append([part])
    return lines
