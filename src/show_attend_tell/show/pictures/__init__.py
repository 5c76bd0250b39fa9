"""Pictures of where each word of a caption looked.

`strip` draws a caption, or several side by side, as one picture. `save` writes a file: pixels (png), a drawing whose
letters stay letters (svg), or a moving picture (gif, webp).

- `exhibit`: what is shown; `maps`: attention laid on a photo
- `style`: colours; `letters`: fonts
- `sheet`: what stands where; `raster` and `vector` draw it
- `animation`: moving pictures
- `signature`: how a file says that it is such a picture
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from show_attend_tell.errors import SatError
from show_attend_tell.show.pictures.animation import save_gif, save_webp
from show_attend_tell.show.pictures.figure import Exhibit
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


def strip(exhibits: Sequence[Exhibit], style: Style | None = None) -> Image.Image:
    """Draw captions side by side, each as a grid of panels: the photo, then the photo once for each word.

    The photo is bright where a word looked. All words of a caption share one scale, so that a flat map looks flat; the
    foot of the picture explains the scale. Below each word are its β and the peak of its α before smoothing. The places
    of a hard model are framed. What the encoder never saw is faded and striped. Letters that no font on this machine
    has become boxes, and the caption's note names them.
    """
    return drawn(lay_out(_noted(exhibits), style or Style()))


def save(file: Path, exhibits: Sequence[Exhibit], style: Style | None = None, *, form: str) -> None:
    """Write captions side by side in one of the `FORMATS`; a gif or webp shows the words one after the other.

    Raises `SatError` for another format.
    """
    style = style or Style()
    if form == "png":
        strip(exhibits, style).save(file, "PNG", exif=exif())
    elif form == "svg":
        file.write_text(svg(lay_out(exhibits, style)), encoding="utf-8")
    elif form == "gif":
        save_gif(file, _noted(exhibits), style)
    elif form == "webp":
        save_webp(file, _noted(exhibits), style)
    else:
        raise SatError(f"pictures cannot be written as {form!r}: choose one of {', '.join(FORMATS)}")


def _noted(exhibits: Sequence[Exhibit]) -> list[Exhibit]:
    """The exhibits, each with a note of its letters that no font has, or that cannot be joined here.

    An SVG needs none, since its reader has fonts.
    """
    noted = []
    for exhibit in exhibits:
        if unshaped(" ".join([exhibit.title, *exhibit.words])):
            unshaped_note = "letters are drawn one by one, from left to right: Pillow finds no FriBiDi on this machine"
            exhibit = dataclasses.replace(exhibit, note=" · ".join(filter(None, [exhibit.note, unshaped_note])))
        if boxes := lacking(" ".join([exhibit.title, *exhibit.words])):
            codes = ", ".join(" ".join(f"U+{ord(sign):04X}" for sign in letter) for letter in boxes[:BOXES])
            more = f" and {len(boxes) - BOXES} more" if len(boxes) > BOXES else ""
            boxes_note = f"boxes: letters that no font on this machine has ({codes}{more})"
            exhibit = dataclasses.replace(exhibit, note=" · ".join(filter(None, [exhibit.note, boxes_note])))
        noted.append(exhibit)
    return noted
