"""An animation: the photo with the attention of one word after the other, and the sentence under it as it grows.

Several captions stand side by side and go on word by word together; the shorter waits for the longer.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from show_attend_tell.show.pictures.figure import FigureData, Panels
from show_attend_tell.show.pictures.layout import COLUMN_GAP, MARGIN, in_lines, wrapped
from show_attend_tell.show.pictures.letters import UNDER, draw_dots, draw_text, length, right_to_left
from show_attend_tell.show.pictures.raster import panel_image
from show_attend_tell.show.pictures.style import EDGE, MARK, SIGNATURE, Style, exif

SIDE, SIDE_COMPARED = 400, 340  # of a square photo, alone and compared with another caption
SENTENCE, NOTE = 24, 15  # font sizes
LINE = SENTENCE + 14

FIRST, WORD, LAST = 700, 900, 2400  # milliseconds that the photo, each word and the full sentence stand
FADES, FADE = 2, 60  # frames from one to the next in a WebP, and the milliseconds of each

Frame = tuple[Image.Image, int]  # and the milliseconds that it stands


def save_animation(file: Path, figures: Sequence[FigureData], style: Style, *, form: str) -> None:
    """Write a WebP that fades from word to word, or a GIF that jumps, whose frames share one palette."""
    shown = frames(figures, style)
    options: dict[str, Any]
    if form == "webp":
        shown = faded(shown)
        options = {"quality": 80, "method": 4, "exif": exif()}
    else:
        palette = _palette([frame for frame, _ in shown], style)
        shown = [(frame.quantize(palette=palette, dither=Image.Dither.NONE), stand) for frame, stand in shown]
        options = {"palette": bytes(palette.getpalette() or []), "optimize": True, "comment": SIGNATURE}
    pictures = [picture for picture, _ in shown]
    stands = [stand for _, stand in shown]
    pictures[0].save(file, form, save_all=True, append_images=pictures[1:], duration=stands, loop=0, **options)


def _palette(pictures: Sequence[Image.Image], style: Style) -> Image.Image:
    """An image whose palette has the colors of text and marks and nearly those of photos; one index stays free."""
    exact = np.array(list(dict.fromkeys((*style.theme, MARK, EDGE))))
    sample = Image.fromarray(np.concatenate([np.asarray(picture)[::8, ::8] for picture in pictures]))
    reduced = sample.quantize(255 - len(exact), Image.Quantize.MEDIANCUT, kmeans=1)
    chosen = np.array(reduced.getpalette()).reshape(-1, 3)
    # Pillow looks colors up in steps of four, and would take one that is nearly an exact one in its place
    nearly = (np.abs(chosen[:, None] - exact).max(-1) <= 8).any(1)
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate([exact, chosen[~nearly]]).astype(np.uint8).tobytes())
    return palette


def frames(figures: Sequence[FigureData], style: Style) -> list[Frame]:
    """Draw the photo, then each word's attention, then the full sentence."""
    side = SIDE if len(figures) == 1 else SIDE_COMPARED
    sizes = {"area": side * side, "widest": 1.4 * side, "room": 3 * side}
    scenes = [_Scene(Panels(figure, style, **sizes)) for figure in figures]
    stands = [FIRST, *[WORD] * max(len(figure.words) for figure in figures), LAST]
    steps = enumerate(stands, start=-1)
    return [(_side_by_side([scene.at(step) for scene in scenes], style), stand) for step, stand in steps]


def faded(shown: Sequence[Frame]) -> list[Frame]:
    """Put frames between frames, so that one fades into the next."""
    full = [shown[0]]
    for (before, _), (after, stand) in pairwise(shown):
        full += [(Image.blend(before, after, number / (FADES + 1)), FADE) for number in range(1, FADES + 1)]
        full.append((after, stand))
    return full


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
        self.height = panels.size[1] + 12 + len(self.lines) * LINE + (1 + len(self.note)) * (NOTE + 9) + SENTENCE - NOTE

    def weight(self, step: int) -> float:
        """How thick the line under a word is, 0 to 1: by its evidence, or by β."""
        if self.panels.evident:
            return float(self.panels.strength(step).max())
        return 1.0 if self.panels.figure.gate is None else float(self.panels.figure.gate[step])

    def at(self, step: int) -> Image.Image:
        """The scene at a word; at -1 the photo alone, and after the last word the full sentence."""
        figure = self.panels.figure
        theme = self.panels.style.theme
        now = 0 <= step < len(figure.words)
        scene = Image.new("RGB", (self.width, self.height), theme.page)
        scene.paste(panel_image(self.panels, step if now else None), (0, 0))
        draw = ImageDraw.Draw(scene)
        y = self.panels.size[1] + 12 + SENTENCE
        number = 0
        for line in self.lines:
            x = float(self.width) if self.rtl else 0.0
            for word in line:
                x -= length(word, SENTENCE) if self.rtl else 0.0
                draw_text(draw, x, y, word, SENTENCE, theme.ink if number <= step else theme.faint)
                if number == step:
                    draw.rectangle(
                        (x, y + 7, x + length(word, SENTENCE), y + 8 + round(3 * self.weight(step))), fill=MARK
                    )
                if number <= step and number in figure.to_check:
                    draw_dots(draw, x, y + UNDER, length(word, SENTENCE), theme.ink)
                x += -length(self.between, SENTENCE) if self.rtl else length(f"{word}{self.between}", SENTENCE)
                number += 1
            y += LINE
        for text in [self.panels.numbers(step) if now else "", *self.note]:
            draw_text(draw, 0, y, text, NOTE, theme.pale_ink)
            y += NOTE + 9
        return scene


def _side_by_side(scenes: Sequence[Image.Image], style: Style) -> Image.Image:
    width = sum(scene.width for scene in scenes) + COLUMN_GAP * (len(scenes) - 1)
    page = Image.new("RGB", (width + 2 * MARGIN, max(scene.height for scene in scenes) + 2 * MARGIN), style.theme.page)
    x = MARGIN
    for scene in scenes:
        page.paste(scene, (x, MARGIN))
        x += scene.width + COLUMN_GAP
    return page
