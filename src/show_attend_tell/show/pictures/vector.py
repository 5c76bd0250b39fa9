"""A sheet as SVG: letters stay letters, and a photo is in the file once, however many words it is shown for.

For each word, a small veil lies on the photo. Whoever shows the file enlarges it: the map is smooth, so that one pixel
of the veil for each `VEIL` pixels of the panel is enough.
"""

import base64
import io
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.layout import SCALE_HEIGHT, SCALE_WIDTH, Layout, Panel, Scale
from show_attend_tell.show.pictures.signature import SIGNATURE
from show_attend_tell.show.pictures.style import EDGE, MARK, Color, Style

DENSITY = 2  # pixels of the embedded photo for each of the panel, along a side: for print
VEIL = 4  # pixels of the panel for each of a veil, along a side
FAMILIES = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"


def svg(layout: Layout) -> str:
    """Write a sheet as an SVG document; its title, for tabs and screen readers, is that of its captions."""
    style, photos = layout.style, _Photos()
    body = [f'<rect width="{layout.width}" height="{layout.height}" fill="{_hex(style.page)}"/>']
    used = [photos.use(panels) for panels in layout.captions]
    for panel in layout.panels:
        plain, ground = used[panel.caption]
        body += _panel(panel, layout.captions[panel.caption], plain if panel.step is None else ground)
    body.append(f'<g font-family="{FAMILIES}" fill="{_hex(style.ink)}">')
    for text in layout.texts:
        fill = f' fill="{_hex(style.pale_ink)}"' if text.pale else ""
        way = ' direction="rtl"' if text.rtl else ""
        place = f'x="{text.x:g}" y="{text.y:g}" font-size="{text.size}"'
        body.append(f"<text {place}{fill}{way}>{escape(text.text)}</text>")
    body.append("</g>")
    for scale in layout.scales:
        body += _scale(scale, style)

    title = " / ".join(
        panels.figure.title or panels.figure.between.join(panels.figure.words) for panels in layout.captions
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{layout.width}" '
        f'height="{layout.height}" viewBox="0 0 {layout.width} {layout.height}">',
        f"<title>{escape(title)}</title>",
        f"<!-- {SIGNATURE} -->",
        "<defs>",
        *photos.definitions,
        *(_seen(number, panels) for number, panels in enumerate(layout.captions)),
        *_hatching(style),
        *_gradient(style),
        "</defs>",
    ]
    return "\n".join([*head, *body, "</svg>", ""])


class _Photos:
    """The photos that a document holds, each once, even when several captions are of one."""

    def __init__(self) -> None:
        self.definitions: list[str] = []
        self.names: dict[str, str] = {}  # by content

    def use(self, panels: Panels) -> tuple[str, str]:
        """The elements that show an exhibit's photo, as it is and as it lies under a veil."""
        shrunk = min(1.0, panels.figure.photo.width / (DENSITY * panels.size[0]))  # never beyond the pixels it has
        width, height = (max(1, round(DENSITY * shrunk * side)) for side in panels.size)
        photo = panels.photo_at((width, height))
        return self._use(photo, panels.size), self._use(panels.style.ground(photo), panels.size)

    def _use(self, photo: Image.Image, size: tuple[int, int]) -> str:
        image = f'width="{size[0]}" height="{size[1]}" preserveAspectRatio="none" xlink:href="{_data(photo, "JPEG")}"/>'
        if image not in self.names:
            self.names[image] = f"photo{len(self.names)}"
            self.definitions.append(f'<image id="{self.names[image]}" {image}')
        return f'<use xlink:href="#{self.names[image]}"/>'


def _panel(panel: Panel, panels: Panels, photo: str) -> list[str]:
    style = panels.style
    left, top, right, bottom = panels.seen
    lines = [f'<g transform="translate({panel.x} {panel.y})">', photo]
    if panel.step is not None:
        across, down = max(2, round((right - left) / VEIL)), max(2, round((bottom - top) / VEIL))
        strength = np.pad(panels.strength_seen(panel.step, (across, down)), 1, mode="edge")  # for renderers that fade
        x, y = (right - left) / across, (bottom - top) / down  # an image's border: it lies outside what is shown
        lines.append(
            f'<image x="{left - x:g}" y="{top - y:g}" width="{right - left + 2 * x:g}" '
            f'height="{bottom - top + 2 * y:g}" preserveAspectRatio="none" clip-path="url(#seen{panel.caption})" '
            f'xlink:href="{_data(style.veil(strength), "PNG")}"/>'
        )
    if panels.cropped:
        width, height = panels.size
        outside = f"M0 0H{width}V{height}H0ZM{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z"
        for fill in (f'fill="{_hex(style.page)}" fill-opacity="0.85"', 'fill="url(#hatching)"'):
            lines.append(f'<path d="{outside}" fill-rule="evenodd" {fill}/>')
    frame = None if panel.step is None else panels.frame(panel.step)
    if frame is not None:
        x, y = frame[:2]
        box = f'<rect x="{x:g}" y="{y:g}" width="{frame[2] - x:g}" height="{frame[3] - y:g}" rx="3" fill="none"'
        lines.append(f'{box} stroke="{_hex(EDGE)}" stroke-width="5"/>')
        lines.append(f'{box} stroke="{_hex(MARK)}" stroke-width="3"/>')
    return [*lines, "</g>"]


def _seen(number: int, panels: Panels) -> str:
    left, top, right, bottom = panels.seen
    rectangle = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
    return f'<clipPath id="seen{number}"><rect {rectangle}/></clipPath>'


def _hatching(style: Style) -> list[str]:
    return [
        '<pattern id="hatching" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">',
        f'<rect width="1.4" height="7" fill="{_hex(style.faint)}"/>',
        "</pattern>",
    ]


def _gradient(style: Style) -> list[str]:
    colors = style.scale(17)
    stops = [
        f'<stop offset="{number / (len(colors) - 1):g}" stop-color="{_hex((int(red), int(green), int(blue)))}"/>'
        for number, (red, green, blue) in enumerate(colors)
    ]
    return ['<linearGradient id="scale">', *stops, "</linearGradient>"]


def _scale(scale: Scale, style: Style) -> list[str]:
    x, y = scale.x, scale.y
    lines = [
        f'<rect x="{x - 0.5}" y="{y - 0.5}" width="{SCALE_WIDTH + 1}" height="{SCALE_HEIGHT + 1}" '
        f'fill="url(#scale)" stroke="{_hex(style.pale_ink)}"/>'
    ]
    if scale.even is not None:
        tick = x + scale.even * SCALE_WIDTH
        lines.append(f'<path d="M{tick:g} {y + SCALE_HEIGHT}v5" stroke="{_hex(style.ink)}" stroke-width="2"/>')
    return lines


def _data(image: Image.Image, form: str) -> str:
    """An image as a data: URI."""
    held = io.BytesIO()
    image.save(held, form, quality=90, optimize=True)
    return f"data:image/{form.lower()};base64,{base64.b64encode(held.getvalue()).decode()}"


def _hex(color: Color) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)
