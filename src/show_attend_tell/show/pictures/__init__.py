"""Pictures of where each word of a caption looked.

`strip` draws a caption, or several side by side, as one picture. `save` writes it as a file: as pixels (png), with
letters that stay letters (svg), or as a moving picture (gif, webp).

`maps` lays attention on a photo; `exhibit` is what there is to show and `style` how it looks; `sheet` says what stands
where, which `raster` and `vector` draw; `animation` is apart, for it has no panels.
"""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from show_attend_tell.errors import SatError
from show_attend_tell.show.pictures.animation import save_gif, save_webp
from show_attend_tell.show.pictures.exhibit import Exhibit
from show_attend_tell.show.pictures.maps import Rectangle, attention_map
from show_attend_tell.show.pictures.raster import drawn
from show_attend_tell.show.pictures.sheet import lay_out
from show_attend_tell.show.pictures.style import Style
from show_attend_tell.show.pictures.vector import svg

__all__ = ["FORMATS", "Exhibit", "Rectangle", "Style", "attention_map", "save", "strip"]

FORMATS = ("png", "svg", "gif", "webp")  # that `save` writes; the last two move


def strip(exhibits: Sequence[Exhibit], style: Style | None = None) -> Image.Image:
    """Draw captions side by side, each as a grid of panels: the photo, then for each word where it looked.

    Brightest is where a word looked, and equally bright for every word of a caption, so that a flat map looks flat; the
    foot of the picture says how much attention that is. Under each word stand its β and the peak of its α, before
    smoothing. A hard model's places are framed; what the encoder never saw is faded and hatched.
    """
    return drawn(lay_out(exhibits, style or Style()))


def save(file: Path, exhibits: Sequence[Exhibit], style: Style | None = None, *, form: str) -> None:
    """Write captions side by side in one of the `FORMATS`; a gif or webp shows the photo word by word, not in panels.

    Raises `SatError` for another format.
    """
    style = style or Style()
    if form == "png":
        strip(exhibits, style).save(file, "PNG")
    elif form == "svg":
        file.write_text(svg(lay_out(exhibits, style)), encoding="utf-8")
    elif form == "gif":
        save_gif(file, exhibits, style)
    elif form == "webp":
        save_webp(file, exhibits, style)
    else:
        raise SatError(f"no picture is written as {form!r}, but as {', '.join(FORMATS)}")
