"""Pictures of where each word of a caption looked.

`strip` draws a caption, or several side by side, as one picture. `save` writes a file: pixels (png), a drawing whose
letters stay letters (svg), or a moving picture (gif, webp).

- `figure`: what is shown; `maps`: attention laid on a photo
- `style`: colors; `letters`: fonts
- `layout`: what stands where; `raster` and `vector` draw it
- `animation`: moving pictures
- `signature`: how a file says that it is such a picture
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from show_attend_tell.errors import SatError
from show_attend_tell.show.pictures.animation import save_gif, save_webp
from show_attend_tell.show.pictures.figure import FigureData
from show_attend_tell.show.pictures.layout import lay_out
from show_attend_tell.show.pictures.letters import lacking, unshaped
from show_attend_tell.show.pictures.maps import Rectangle, attention_map
from show_attend_tell.show.pictures.raster import drawn
from show_attend_tell.show.pictures.signature import exif, is_signed
from show_attend_tell.show.pictures.style import Style
from show_attend_tell.show.pictures.vector import svg

__all__ = ["FORMATS", "Exhibit", "Rectangle", "Style", "attention_map", "is_signed", "save", "strip"]

FORMATS = ("png", "svg", "gif", "webp")  # the last two move
BOXES = 8  # letters that a note names at most


def strip(figures: Sequence[FigureData], style: Style | None = None) -> Image.Image:
    """Draw captions side by side, each as a grid of panels: the photo, then the photo once for each word.

    The photo is bright where a word looked. All words of a caption share one scale, so that a flat map looks flat; the
    foot of the picture explains the scale. Below each word are its β and the peak of its α before smoothing. The places
    of a hard model are framed. What the encoder never saw is faded and striped. Letters that no font on this machine
    has become boxes, and the caption's note names them.
    """
    return drawn(lay_out(_noted(figures), style or Style()))


def save(file: Path, figures: Sequence[FigureData], style: Style | None = None, *, form: str) -> None:
    """Write captions side by side in one of the `FORMATS`; a gif or webp shows the words one after the other.

    Raises `SatError` for another format.
    """
    style = style or Style()
    if form == "png":
        strip(figures, style).save(file, "PNG", exif=exif())
    elif form == "svg":
        file.write_text(svg(lay_out(figures, style)), encoding="utf-8")
    elif form == "gif":
        save_gif(file, _noted(figures), style)
    elif form == "webp":
        save_webp(file, _noted(figures), style)
    else:
        raise SatError(f"pictures cannot be written as {form!r}: choose one of {', '.join(FORMATS)}")


def _noted(figures: Sequence[FigureData]) -> list[FigureData]:
    """The exhibits, each with a note of its letters that no font has, or that cannot be joined here.

    An SVG needs none, since its reader has fonts.
    """
    noted = []
    for figure in figures:
        if unshaped(" ".join([figure.title, *figure.words])):
            unshaped_note = "letters are drawn one by one, from left to right: Pillow finds no FriBiDi on this machine"
            figure = dataclasses.replace(figure, note=" · ".join(filter(None, [figure.note, unshaped_note])))
        if boxes := lacking(" ".join([figure.title, *figure.words])):
            codes = ", ".join(" ".join(f"U+{ord(sign):04X}" for sign in letter) for letter in boxes[:BOXES])
            more = f" and {len(boxes) - BOXES} more" if len(boxes) > BOXES else ""
            boxes_note = f"boxes: letters that no font on this machine has ({codes}{more})"
            figure = dataclasses.replace(figure, note=" · ".join(filter(None, [figure.note, boxes_note])))
        noted.append(figure)
    return noted
