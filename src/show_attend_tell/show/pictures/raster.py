"""A layout in pixels."""

import numpy as np
from PIL import Image, ImageDraw

from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.layout import SCALE_HEIGHT, SCALE_WIDTH, Layout
from show_attend_tell.show.pictures.letters import UNDER, draw_dots, draw_text, length
from show_attend_tell.show.pictures.style import EDGE, MARK, Theme, color_scale, composite, overlay


def draw_layout(layout: Layout) -> Image.Image:
    theme = layout.style.theme
    page = Image.new("RGB", (layout.width, layout.height), theme.page)
    draw = ImageDraw.Draw(page)
    for panel in layout.panels:
        page.paste(panel_image(layout.captions[panel.caption], panel.step), (panel.x, panel.y))
    for text in layout.texts:
        x = text.x - length(text.text, text.size) if text.rtl else text.x
        draw_text(draw, x, text.y, text.text, text.size, theme.pale_ink if text.pale else theme.ink)
        if text.dotted:
            draw_dots(draw, x, text.y + UNDER, length(text.text, text.size), theme.ink)
    for x, y in layout.scales:
        page.paste(Image.fromarray(np.repeat(color_scale(SCALE_WIDTH)[None], SCALE_HEIGHT, 0)), (x, y))
        draw.rectangle((x - 1, y - 1, x + SCALE_WIDTH, y + SCALE_HEIGHT), outline=theme.pale_ink)
    return page


def panel_image(panels: Panels, step: int | None) -> Image.Image:
    """The photo as it is, or with a word's attention; what lies outside the visible box is faded and hatched."""
    photo = panels.photo.copy()
    if step is not None:
        photo = composite(overlay(panels.strength(step)), photo)
    if panels.cropped:
        photo.paste(_hatched(photo, panels.style.theme), mask=_invisible(panels))
    frame = None if step is None else panels.frame(step)
    if frame is not None:
        left, top, right, bottom = frame
        draw = ImageDraw.Draw(photo)
        for outset, color, thickness in ((2.5, EDGE, 5), (1.5, MARK, 3)):  # the line's outer half
            box = (left - outset, top - outset, right + outset - 1, bottom + outset - 1)
            draw.rounded_rectangle(box, radius=3 + outset, outline=color, width=thickness)
    return photo


def _invisible(panels: Panels) -> Image.Image:
    """A mask, white outside the visible box."""
    left, top, right, bottom = panels.visible_box
    x, y = np.arange(panels.size[0]) + 0.5, np.arange(panels.size[1]) + 0.5
    inside = ((top <= y) & (y <= bottom))[:, None] & ((left <= x) & (x <= right))[None, :]
    return Image.fromarray(np.where(inside, 0, 255).astype(np.uint8))


def _hatched(photo: Image.Image, theme: Theme) -> Image.Image:
    rows, columns = np.indices((photo.height, photo.width))
    faded = 0.15 * np.asarray(photo) + 0.85 * np.array(theme.page)
    stripes = ((rows + columns) % 10 < 2)[..., None]
    return Image.fromarray(np.where(stripes, theme.faint, faded).round().astype(np.uint8))
