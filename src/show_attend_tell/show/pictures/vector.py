"""A layout as SVG: text stays text, and a photo is in the file once, however many words it is shown for.

For each word, a small overlay lies on the photo. The viewer enlarges it: the map is smooth, so that one pixel of the
overlay for each `COARSE` pixels of the panel is enough.
"""

import base64
import io
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from show_attend_tell.show.pictures.figure import Panels
from show_attend_tell.show.pictures.layout import SCALE_HEIGHT, SCALE_WIDTH, Layout, Panel, Scale
from show_attend_tell.show.pictures.letters import DOTS, UNDER, length
from show_attend_tell.show.pictures.style import EDGE, MARK, SIGNATURE, Color, Style

DENSITY = 2  # pixels of the embedded photo for each of the panel, along a side: for print
COARSE = 4  # pixels of the panel for each of an overlay, along a side
FAMILIES = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"


def svg(layout: Layout) -> str:
    """Write a layout as an SVG document; its title, for tabs and screen readers, is that of its captions."""
    theme = layout.style.theme
    photos: dict[str, str] = {}  # the definition of each photo, once even when several captions are of it; its id
    uses = [_uses(panels, photos) for panels in layout.captions]
    body = [f'<rect width="{layout.width}" height="{layout.height}" fill="{_hex(theme.page)}"/>']
    for panel in layout.panels:
        body += _panel(panel, layout.captions[panel.caption], uses[panel.caption][panel.step is not None])
    body.append(f'<g font-family="{FAMILIES}" fill="{_hex(theme.ink)}">')
    for text in layout.texts:
        fill = f' fill="{_hex(theme.pale_ink)}"' if text.pale else ""
        direction = ' direction="rtl"' if text.rtl else ""
        at = f'x="{text.x:g}" y="{text.y:g}" font-size="{text.size}"'
        body.append(f"<text {at}{fill}{direction}>{escape(text.text)}</text>")
        if text.dotted:
            dots = f'stroke="{_hex(theme.ink)}" stroke-width="2" stroke-dasharray="2 {DOTS - 2}"'
            across = length(text.text, text.size) * (-1 if text.rtl else 1)
            body.append(f'<path d="M{text.x:g} {text.y + UNDER + 1:g}h{across:g}" {dots}/>')
    body.append("</g>")
    for scale in layout.scales:
        body += _scale(scale, layout.style)

    title = " / ".join(panels.figure.text for panels in layout.captions)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{layout.width}" '
        f'height="{layout.height}" viewBox="0 0 {layout.width} {layout.height}">',
        f"<title>{escape(title)}</title>",
        f"<!-- {SIGNATURE} -->",
        "<defs>",
        *(f'<image id="{name}" {definition}' for definition, name in photos.items()),
        *(
            f'<clipPath id="visible{number}"><rect x="{left:g}" y="{top:g}" width="{right - left:g}" '
            f'height="{bottom - top:g}"/></clipPath>'
            for number, panels in enumerate(layout.captions)
            for left, top, right, bottom in [panels.visible_box]
        ),
        '<pattern id="hatching" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">',
        f'<rect width="1.4" height="7" fill="{_hex(theme.faint)}"/>',
        "</pattern>",
        "</defs>",
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _uses(panels: Panels, photos: dict[str, str]) -> list[str]:
    """The elements that show a caption's photo as it is, and as it lies under an overlay."""
    width, height = panels.size
    density = min(DENSITY, panels.figure.photo.width / width)  # never beyond the pixels it has
    photo = panels.photo_at((max(1, round(density * width)), max(1, round(density * height))))
    uses = []
    for image in (photo, panels.style.ground(photo)):
        data = embedded(image, "JPEG")
        definition = f'width="{width}" height="{height}" preserveAspectRatio="none" xlink:href="{data}"/>'
        uses.append(f'<use xlink:href="#{photos.setdefault(definition, f"photo{len(photos)}")}"/>')
    return uses


def _panel(panel: Panel, panels: Panels, use: str) -> list[str]:
    style = panels.style
    width, height = panels.size
    left, top, right, bottom = panels.visible_box
    lines = [f'<g transform="translate({panel.x} {panel.y})">', use]
    if panel.step is not None:
        across = max(2, round((right - left) / COARSE))
        down = max(2, round((bottom - top) / COARSE))
        # some renderers fade an image's border: it lies outside what is shown
        strength = np.pad(panels.strength(panel.step, (across, down)), 1, mode="edge")
        x, y = (right - left) / across, (bottom - top) / down
        lines.append(
            f'<image x="{left - x:g}" y="{top - y:g}" width="{right - left + 2 * x:g}" '
            f'height="{bottom - top + 2 * y:g}" preserveAspectRatio="none" clip-path="url(#visible{panel.caption})" '
            f'xlink:href="{embedded(style.overlay(strength), "PNG")}"/>'
        )
    if panels.cropped:
        outside = f"M0 0H{width}V{height}H0ZM{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z"
        for fill in (f'fill="{_hex(style.theme.page)}" fill-opacity="0.85"', 'fill="url(#hatching)"'):
            lines.append(f'<path d="{outside}" fill-rule="evenodd" {fill}/>')
    frame = None if panel.step is None else panels.frame(panel.step)
    if frame is not None:
        x, y = frame[:2]
        box = f'<rect x="{x:g}" y="{y:g}" width="{frame[2] - x:g}" height="{frame[3] - y:g}" rx="3" fill="none"'
        lines.append(f'{box} stroke="{_hex(EDGE)}" stroke-width="5"/>')
        lines.append(f'{box} stroke="{_hex(MARK)}" stroke-width="3"/>')
    return [*lines, "</g>"]


def _scale(scale: Scale, style: Style) -> list[str]:
    x = scale.x
    y = scale.y
    size = f'width="{SCALE_WIDTH}" height="{SCALE_HEIGHT}"'
    colors = embedded(Image.fromarray(style.scale(SCALE_WIDTH)[None]), "PNG")
    lines = [
        f'<image x="{x}" y="{y}" {size} preserveAspectRatio="none" xlink:href="{colors}"/>',
        f'<rect x="{x}" y="{y}" {size} fill="none" stroke="{_hex(style.theme.pale_ink)}"/>',
    ]
    if scale.average is not None:
        tick = x + scale.average * SCALE_WIDTH
        lines.append(f'<path d="M{tick:g} {y + SCALE_HEIGHT}v5" stroke="{_hex(style.theme.ink)}" stroke-width="2"/>')
    return lines


def embedded(image: Image.Image, form: str, *, quality: int = 90) -> str:
    """An image as a data: URI of a file in that format of Pillow's."""
    held = io.BytesIO()
    image.save(held, form, quality=quality, optimize=True)
    return f"data:image/{form.lower()};base64,{base64.b64encode(held.getvalue()).decode()}"


def _hex(color: Color) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)
