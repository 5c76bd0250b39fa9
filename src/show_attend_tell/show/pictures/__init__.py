"""Pictures of the evidence of each word of a caption, or of its attention.

`strip` draws a caption, or several side by side, as one picture. `save` writes a file: pixels (png, jpg), a drawing
whose text stays text (svg), or an animation (gif, webp).

- `figure`: what is shown; `maps`: a map laid on a photo
- `style`: colors, and a file's signature; `letters`: fonts
- `layout`: what stands where; `raster` and `vector` draw it
- `animation`: one word after the other
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from show_attend_tell.messages import first_three
from show_attend_tell.registries import Registry
from show_attend_tell.show.pictures.animation import save_animation
from show_attend_tell.show.pictures.figure import FigureData
from show_attend_tell.show.pictures.layout import lay_out
from show_attend_tell.show.pictures.letters import lacking
from show_attend_tell.show.pictures.maps import attention_map
from show_attend_tell.show.pictures.raster import draw_layout
from show_attend_tell.show.pictures.style import Shown, Style, exif, is_signed
from show_attend_tell.show.pictures.vector import svg

__all__ = ["FORMATS", "FigureData", "Shown", "Style", "attention_map", "is_signed", "save", "strip"]


def strip(figures: Sequence[FigureData], style: Style | None = None) -> Image.Image:
    """Draw captions side by side, each as a grid of panels: the photo, then the photo once for each word.

    The photo is bright where a word's evidence is, or its attention. All words share one scale, which the foot
    explains. Below each word are its evidence, in percent of the strongest, and its place, or its β and the peak of α.
    A frame shows a chosen location, and stripes what the encoder did not see.
    """
    return draw_layout(lay_out(noted(figures), style or Style()))


def save(file: Path, figures: Sequence[FigureData], style: Style | None = None, *, form: str) -> None:
    """Write captions side by side in one of the `FORMATS`."""
    FORMATS[form](file, figures, style or Style())


def save_pixels(file: Path, figures: Sequence[FigureData], style: Style, *, form: str) -> None:
    """Write the `strip`, as "PNG" or "JPEG"."""
    strip(figures, style).save(file, form, quality=90, exif=exif())


def save_drawing(file: Path, figures: Sequence[FigureData], style: Style) -> None:
    """Write an SVG."""
    file.write_text(svg(lay_out(figures, style)), encoding="utf-8")


def save_moving(file: Path, figures: Sequence[FigureData], style: Style, *, form: str) -> None:
    """Write an animation, as "gif" or "webp"."""
    save_animation(file, noted(figures), style, form=form)


# what writes a file, by the ending of its name
FORMATS: Registry[Callable[[Path, Sequence[FigureData], Style], None]] = Registry(
    "a picture format",
    "pictures",
    {
        "png": partial(save_pixels, form="PNG"),
        "jpg": partial(save_pixels, form="JPEG"),
        "svg": save_drawing,
        "gif": partial(save_moving, form="gif"),
        "webp": partial(save_moving, form="webp"),
    },
)


def noted(figures: Sequence[FigureData]) -> list[FigureData]:
    """The figures, each with a note of its letters that no font here has; an SVG needs none."""
    with_notes = []
    for figure in figures:
        texts = [figure.title, *figure.words]
        lacked = dict.fromkeys(sign for text in texts for sign in lacking(text))
        if lacked:
            codes = first_three(f"U+{ord(sign):04X}" for sign in lacked)
            note = f"letters that no font found here has: {codes}"
            figure = dataclasses.replace(figure, note=" · ".join(filter(None, [figure.note, note])))
        with_notes.append(figure)
    return with_notes
