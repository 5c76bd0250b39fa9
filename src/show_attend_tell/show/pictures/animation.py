"""A moving picture: the photo, lit word by word where each looked, and the sentence under it as it grows.

Several captions stand side by side and say their words in step; the shorter waits for the longer.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from show_attend_tell.show.pictures.figure import FigureData, Panels
from show_attend_tell.show.pictures.layout import COLUMN_GAP, MARGIN, in_lines, wrapped
from show_attend_tell.show.pictures.letters import draw_text, length, right_to_left
from show_attend_tell.show.pictures.raster import lit
from show_attend_tell.show.pictures.signature import SIGNATURE, exif
from show_attend_tell.show.pictures.style import EDGE, MARK, Style

SIDE, SIDE_COMPARED = 400, 340  # of a square photo, alone and beside another caption
SENTENCE, NOTE = 24, 15  # sizes of letters
LINE = SENTENCE + 14

FIRST, WORD, LAST = 700, 900, 2400  # milliseconds that the photo, each word and the whole sentence stand
FADES, FADE = 2, 60  # frames from one to the next in a WebP, and the milliseconds of each

Frame = tuple[Image.Image, int]  # and the milliseconds that it stands


def save_webp(file: Path, figures: Sequence[FigureData], style: Style) -> None:
    """Write a moving WebP that fades from word to word, about 30 kB for each word."""
    _save(file, faded(frames(figures, style)), "WEBP", quality=80, method=4, exif=exif())


def save_gif(file: Path, figures: Sequence[FigureData], style: Style) -> None:
    """Write a GIF that jumps from word to word, about 80 kB for each word.

    All frames share one palette, so that a color that does not change stays the same from word to word.
    """
    shown = frames(figures, style)
    palette = _palette([frame for frame, _ in shown], style)
    colors = [(frame.quantize(palette=palette, dither=Image.Dither.NONE), stand) for frame, stand in shown]
    _save(file, colors, "GIF", palette=bytes(palette.getpalette() or []), optimize=True, comment=SIGNATURE)


def _palette(pictures: Sequence[Image.Image], style: Style) -> Image.Image:
    """An image whose palette serves all pictures: the colors of letters and marks as they are, and the photos' nearly.

    The photos' colors are chosen on every eighth pixel each way. One of 256 numbers stays free, to be transparent
    where a frame repeats the one before.
    """
    exact = dict.fromkeys((style.page, style.ink, style.pale_ink, style.faint, MARK, EDGE))
    width, height = pictures[0].width // 8, pictures[0].height // 8
    sample = Image.new("RGB", (width, height * len(pictures)))
    for number, picture in enumerate(pictures):
        sample.paste(picture.resize((width, height), Image.Resampling.NEAREST), (0, number * height))
    chosen = sample.quantize(255 - len(exact), Image.Quantize.MEDIANCUT, kmeans=1).getpalette() or []
    colors = list(exact)
    for color in zip(*[iter(chosen)] * 3, strict=True):
        # Pillow looks colors up in steps of four, and would take one that is nearly an exact one in its place
        if all(max(abs(ours - theirs) for ours, theirs in zip(color, other, strict=True)) > 8 for other in exact):
            colors.append(color)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color in dict.fromkeys(colors) for part in color])
    return palette


def _save(file: Path, shown: Sequence[Frame], form: str, **options: Any) -> None:
    pictures, stands = [picture for picture, _ in shown], [stand for _, stand in shown]
    pictures[0].save(file, form, save_all=True, append_images=pictures[1:], duration=stands, loop=0, **options)


def frames(figures: Sequence[FigureData], style: Style) -> list[Frame]:
    """Draw the photo, then each word's look, then the whole sentence."""
    side = SIDE if len(figures) == 1 else SIDE_COMPARED
    scenes = [_Scene(Panels(figure, style, area=side * side, widest=1.4 * side)) for figure in figures]
    words = max(len(figure.words) for figure in figures)
    stands = [FIRST, *[WORD] * words, LAST]
    return [
        (_together([scene.at(step) for scene in scenes], style), stand) for step, stand in enumerate(stands, start=-1)
    ]


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
        self.panels, self.style = panels, panels.style
        self.width = max(panels.size[0], 280, *(math.ceil(length(word, SENTENCE)) for word in words))
        self.between = panels.figure.between
        self.rtl = right_to_left(self.between.join(words))
        self.lines = in_lines(words, self.between, SENTENCE, self.width)
        self.note = wrapped(panels.figure.note.split(), " ", NOTE, self.width)
        self.height = panels.size[1] + 12 + len(self.lines) * LINE + (1 + len(self.note)) * (NOTE + 9) + SENTENCE - NOTE

    def at(self, step: int) -> Image.Image:
        """The scene at a word; at -1 the photo alone, and after the last word the whole sentence."""
        figure, style = self.panels.figure, self.style
        now = 0 <= step < len(figure.words)
        scene = Image.new("RGB", (self.width, self.height), style.page)
        scene.paste(lit(self.panels, step if now else None), (0, 0))
        draw = ImageDraw.Draw(scene)
        y, number = self.panels.size[1] + 12 + SENTENCE, 0
        for line in self.lines:
            x = float(self.width) if self.rtl else 0.0
            for word in line:
                x -= length(word, SENTENCE) if self.rtl else 0.0
                draw_text(draw, x, y, word, SENTENCE, style.ink if number <= step else style.faint)
                if number == step:
                    beta = 1.0 if figure.gate is None else float(figure.gate[step])
                    draw.rectangle((x, y + 7, x + length(word, SENTENCE), y + 8 + round(3 * beta)), fill=MARK)
                x += -length(self.between, SENTENCE) if self.rtl else length(f"{word}{self.between}", SENTENCE)
                number += 1
            y += LINE
        for text in [figure.numbers(step) if now else "", *self.note]:
            draw_text(draw, 0, y, text, NOTE, style.pale_ink)
            y += NOTE + 9
        return scene


def _together(scenes: Sequence[Image.Image], style: Style) -> Image.Image:
    """Scenes side by side on a page."""
    width = sum(scene.width for scene in scenes) + COLUMN_GAP * (len(scenes) - 1)
    page = Image.new("RGB", (width + 2 * MARGIN, max(scene.height for scene in scenes) + 2 * MARGIN), style.page)
    x = MARGIN
    for scene in scenes:
        page.paste(scene, (x, MARGIN))
        x += scene.width + COLUMN_GAP
    return page
