"""A layout as SVG: a picture of all but its letters, and over it the letters, which stay text."""

import base64
import dataclasses
import io
from xml.sax.saxutils import escape

from PIL import Image

from show_attend_tell.show.pictures.layout import Layout
from show_attend_tell.show.pictures.letters import DOTS, UNDER, length
from show_attend_tell.show.pictures.raster import draw_layout
from show_attend_tell.show.pictures.style import SIGNATURE, Color

FAMILIES = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"


def svg(layout: Layout) -> str:
    """Write a layout as an SVG document; its title, for tabs and screen readers, is that of its captions."""
    theme = layout.style.theme
    size = f'width="{layout.width}" height="{layout.height}"'
    ground = embedded(draw_layout(dataclasses.replace(layout, texts=[])))
    title = " / ".join(panels.figure.text for panels in layout.captions)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {size} '
        f'viewBox="0 0 {layout.width} {layout.height}">',
        f"<title>{escape(title)}</title>",
        f"<!-- {SIGNATURE} -->",
        f'<image {size} xlink:href="{ground}"/>',
        f'<g font-family="{FAMILIES}" fill="{_hex(theme.ink)}">',
    ]
    for text in layout.texts:
        fill = f' fill="{_hex(theme.pale_ink)}"' if text.pale else ""
        direction = ' direction="rtl"' if text.rtl else ""
        at = f'x="{text.x:g}" y="{text.y:g}" font-size="{text.size}"'
        lines.append(f"<text {at}{fill}{direction}>{escape(text.text)}</text>")
        if text.dotted:
            dots = f'stroke="{_hex(theme.ink)}" stroke-width="2" stroke-dasharray="2 {DOTS - 2}"'
            across = length(text.text, text.size) * (-1 if text.rtl else 1)
            lines.append(f'<path d="M{text.x:g} {text.y + UNDER + 1:g}h{across:g}" {dots}/>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


def embedded(image: Image.Image, *, quality: int = 90) -> str:
    """An image as a data: URI of a JPEG."""
    held = io.BytesIO()
    image.save(held, "JPEG", quality=quality, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(held.getvalue()).decode()}"


def _hex(color: Color) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)
