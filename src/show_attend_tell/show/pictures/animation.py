"""An animation: the photo with the attention of one word after the other, and the sentence under it as it grows.

Several captions stand side by side and go on word by word together; the shorter waits for the longer.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from show_attend_tell.show.pictures.figure import FigureData, Panels
from show_attend_tell.show.pictures.layout import COLUMN_GAP, MARGIN, Layout, Panel, Text, in_lines, wrapped
from show_attend_tell.show.pictures.letters import length, right_to_left
from show_attend_tell.show.pictures.raster import draw_layout
from show_attend_tell.show.pictures.style import SIGNATURE, Style, exif

SIDE, SIDE_COMPARED = 400, 340  # of a square photo, alone and compared with another caption
SENTENCE, NOTE = 24, 15  # font sizes
LINE = SENTENCE + 14
NOTE_LINE = NOTE + 9
FIRST_LINE = SENTENCE + 12  # from the photo down to the sentence's first baseline

FIRST, WORD, LAST = 700, 900, 2400  # milliseconds that the photo, each word and the full sentence stand


def save_animation(file: Path, figures: Sequence[FigureData], style: Style, *, form: str) -> None:
    """Write a WebP, or a GIF whose frames share one palette: the photo, each word's attention, the full sentence."""
    side = SIDE if len(figures) == 1 else SIDE_COMPARED
    scenes = [_Scene(Panels(figure, style, area=side * side, widest=1.4 * side, room=3 * side)) for figure in figures]
    stands = [FIRST, *[WORD] * max(len(figure.words) for figure in figures), LAST]
    pictures = [draw_layout(_layout(scenes, style, step)) for step in range(-1, len(stands) - 1)]
    options: dict[str, Any] = {"quality": 80, "exif": exif()}
    if form == "gif":
        sample = Image.fromarray(np.concatenate([np.asarray(picture)[::4, ::4] for picture in pictures]))
        palette = sample.quantize(256, Image.Quantize.MEDIANCUT, kmeans=1)
        pictures = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
        options = {"optimize": True, "comment": SIGNATURE}
    pictures[0].save(file, form, save_all=True, append_images=pictures[1:], duration=stands, loop=0, **options)


def _layout(scenes: Sequence["_Scene"], style: Style, step: int) -> Layout:
    """The frame at a word; at -1 the photos alone, and after the last word the full sentences."""
    layout = Layout(style, [scene.panels for scene in scenes])
    x = MARGIN
    for number, scene in enumerate(scenes):
        scene.place(layout, number, x, step)
        x += scene.width + COLUMN_GAP
    layout.width = x - COLUMN_GAP + MARGIN
    layout.height = max(scene.height for scene in scenes) + 2 * MARGIN
    return layout


class _Scene:
    """One caption's part of every frame."""

    def __init__(self, panels: Panels) -> None:
        words = panels.figure.words
        self.panels = panels
        self.width = max(panels.size[0], 280, *(math.ceil(length(word, SENTENCE)) for word in words))
        self.between = panels.figure.between
        self.rtl = right_to_left(self.between.join(words))
        self.lines = in_lines(words, self.between, SENTENCE, self.width)
        self.note = wrapped(panels.figure.note.split(), " ", NOTE, self.width)
        self.height = panels.size[1] + FIRST_LINE + len(self.lines) * LINE + len(self.note) * NOTE_LINE

    def place(self, layout: Layout, caption: int, x: int, step: int) -> None:
        now = 0 <= step < len(self.panels.figure.words)
        layout.panels.append(Panel(x, MARGIN, caption, step if now else None))
        y = MARGIN + self.panels.size[1] + FIRST_LINE
        number = 0
        for line in self.lines:
            at = float(x + self.width * self.rtl)
            for word in line:
                dotted = number <= step and number in self.panels.figure.to_check
                layout.texts.append(Text(at, y, word, SENTENCE, number > step, self.rtl, dotted))
                at += length(f"{word}{self.between}", SENTENCE) * (-1 if self.rtl else 1)
                number += 1
            y += LINE
        for text in [self.panels.numbers(step) if now else "", *self.note]:
            layout.texts.append(Text(x, y, text, NOTE, pale=True))
            y += NOTE_LINE
