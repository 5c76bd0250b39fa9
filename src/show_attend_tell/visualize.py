"""Pictures of where each word of a caption looked.

Letters in shapes: T words shown, H height and W width in pixels.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from show_attend_tell.errors import SatError

Rectangle = tuple[float, float, float, float]  # left, top, right, bottom, in pixels

SIGMA = 20 / 224  # of the Gaussian, in sides of what the encoder sees: the authors' 20 pixels of 224

PAPER = (252, 252, 250)
INK = (28, 30, 34)
PALE_INK = (112, 116, 124)
HATCH = (178, 178, 174)
MARK = (230, 97, 0)  # orange, told from white, grey and blue by colour-blind eyes too

PANEL_AREA = 300 * 300
STRIP_WIDTH = 1660  # at most: five square panels
MARGIN, GAP = 36, 20
TITLE_SIZE, WORD_SIZE, NOTE_SIZE = 30, 25, 16
SCALE_BAR = (180, 12)

# White stands for at least this many times the even share of attention, so that a caption whose every map is
# flat is shown grey, and not white.
FLAT = 4.0


def attention_map(alpha: NDArray[Any], size: tuple[int, int], seen: Rectangle) -> NDArray[np.float64]:
    """Lay one word's attention on its photo: each place painted over its part of the photo, then smoothed.

    `alpha` is (rows, columns), `size` the photo's (W, H), and `seen` the rectangle of it, in its pixels, that
    the encoder saw; a squashed photo was seen whole, at another aspect, and the Gaussian is squashed with it.
    Returns (H, W) in the units of alpha: even attention stays 1 / places at every pixel seen, the mean over
    the pixels seen stays that of `alpha`, and a pixel that the encoder never saw has 0. Section 5.4 of the
    paper, with the authors' sigma of 20 pixels in 224, as a formula and not step by step.

    Raises `SatError` for an `alpha` of another shape and a `seen` without an inside.
    """
    if alpha.ndim != 2 or alpha.size == 0:
        raise SatError(f"attention of shape {alpha.shape}: a map has rows and columns")
    left, top, right, bottom = seen
    if not (left < right and top < bottom):  # so written, it refuses nan too
        raise SatError(f"seen {seen}: give left, top, right, bottom in pixels, left < right and top < bottom")
    rows = _spread(alpha.shape[0], size[1], top, bottom)  # (H, rows)
    columns = _spread(alpha.shape[1], size[0], left, right)  # (W, columns)
    return rows @ alpha.astype(np.float64) @ columns.T


def attention_strip(
    photo: Image.Image,
    words: Sequence[str],
    attention: NDArray[Any],
    gate: NDArray[Any] | None,
    *,
    seen: Rectangle,
    places: NDArray[Any] | None = None,
    title: str | None = None,
    per_word_scale: bool = False,
) -> Image.Image:
    """Draw a caption as a grid of panels: the photo, then for each word the photo lit where it looked.

    `photo` is the original, `words` are T, `attention` (T, rows, columns), `gate` (T,) the beta of each word
    or None for a model without it, `seen` the rectangle of the photo, in its pixels, that the encoder saw,
    and `places` (T, 2) the row and column of the place that a hard model looked at, which is framed.

    White is where the word looked, and the same white for every word, so that a flat map looks flat; the
    footer says how much attention it stands for. With `per_word_scale` each word's own peak is white. What
    the encoder never saw is faded and hatched. Under each word stand its beta and the peak of its alpha,
    before smoothing.

    Raises `SatError` when the shapes disagree and for a place outside the grid.
    """
    _check(words, attention, gate, places)
    photo = photo.convert("RGB")
    panel, panel_seen = _panel(photo, seen)
    maps = [attention_map(alpha, panel.size, panel_seen) for alpha in attention]
    even = 1 / (attention.shape[1] * attention.shape[2])
    white = max([FLAT * even, *(float(laid.max()) for laid in maps)])

    pictures = [panel]
    for step, laid in enumerate(maps):
        peak = float(laid.max()) if per_word_scale else white
        picture = _lit(panel, laid / max(peak, 1e-12))
        if places is not None:
            _frame(picture, places[step], attention.shape[1:], panel_seen)
        pictures.append(picture)
    hatched, unseen = _hatched(panel), _unseen(panel.size, panel_seen)
    for picture in pictures:
        picture.paste(hatched, mask=unseen)
    notes = [("photo", "")]
    for step, word in enumerate(words):
        beta = "" if gate is None else f"beta {float(gate[step]):.2f}  ·  "
        notes.append((word, f"{beta}peak alpha {float(attention[step].max()):.3f}"))

    legend = ["white is each word's own peak" if per_word_scale else f"white is alpha {white:.3f}, smoothed"]
    if not per_word_scale:
        legend.append(f"tick: even attention, {even:.4f}")
    if places is not None:
        legend.append("frame: the place looked at")
    if unseen.getbbox():
        legend.append("hatched: never seen by the encoder")
    return _page(pictures, notes, title, "   ·   ".join(legend), None if per_word_scale else even / white)


def _spread(places: int, pixels: int, start: float, end: float) -> NDArray[np.float64]:
    """Return how much of each place a pixel shows along one side: (pixels, places), 0 for what was unseen."""
    centres = np.arange(pixels) + 0.5
    at = (centres - start) / (end - start)  # in sides of what was seen
    edges = np.linspace(0, 1, places + 1)
    weights = np.zeros((pixels, places))
    for mirrored in (-at, at, 2 - at):  # beyond its borders the map is continued by its mirror image
        weights += np.diff(_normal((edges[None, :] - mirrored[:, None]) / SIGMA), axis=1)
    weights[(at < 0) | (at > 1)] = 0
    total = weights.sum(1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def _normal(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cumulative distribution function of the standard normal distribution."""
    values = [0.5 * math.erfc(-x / math.sqrt(2)) for x in z.ravel().tolist()]
    return np.array(values).reshape(z.shape)


def _check(
    words: Sequence[str], attention: NDArray[Any], gate: NDArray[Any] | None, places: NDArray[Any] | None
) -> None:
    steps = len(words)
    if attention.ndim != 3 or len(attention) != steps:
        raise SatError(f"attention of shape {attention.shape} for {steps} words: it is (words, rows, columns)")
    if gate is not None and gate.shape != (steps,):
        raise SatError(f"gate of shape {gate.shape} for {steps} words: one number a word")
    if places is None:
        return
    if places.shape != (steps, 2):
        raise SatError(f"places of shape {places.shape} for {steps} words: a row and a column a word")
    if steps and not ((places >= 0) & (places < attention.shape[1:])).all():
        raise SatError(f"places outside the grid of {attention.shape[1]} rows and {attention.shape[2]} columns")


def _panel(photo: Image.Image, seen: Rectangle) -> tuple[Image.Image, Rectangle]:
    """The photo at the size of a panel, and what was seen of it there."""
    width, height = photo.size
    ratio = min(max(width / height, 1 / 3), 3)  # keeps a panorama's panels from growing wider than the page
    scale = min(math.sqrt(PANEL_AREA * ratio) / width, math.sqrt(PANEL_AREA / ratio) / height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    x, y = size[0] / width, size[1] / height
    left, top, right, bottom = seen
    return photo.resize(size, Image.Resampling.LANCZOS), (left * x, top * y, right * x, bottom * y)


def _lit(panel: Image.Image, strength: NDArray[np.float64]) -> Image.Image:
    """The photo, from dark where `strength` (H, W) is 0 to nearly white where it is 1."""
    colours = np.asarray(panel, dtype=np.float64)  # (H, W, 3)
    grey = colours.mean(2, keepdims=True)
    dark = 0.32 * (0.5 * colours + 0.5 * grey)
    light = 0.25 * colours + 0.75 * 255
    return _image(dark + strength.clip(0, 1)[..., None] * (light - dark))


def _frame(picture: Image.Image, place: NDArray[Any], grid: Sequence[int], seen: Rectangle) -> None:
    left, top, right, bottom = seen
    height, width = (bottom - top) / grid[0], (right - left) / grid[1]
    x, y = left + int(place[1]) * width, top + int(place[0]) * height
    draw = ImageDraw.Draw(picture)
    for outset, colour, thickness in ((3, INK, 4), (2, MARK, 2)):
        box = (x - outset, y - outset, x + width - 1 + outset, y + height - 1 + outset)
        draw.rounded_rectangle(box, radius=outset + 1, outline=colour, width=thickness)


def _unseen(size: tuple[int, int], seen: Rectangle) -> Image.Image:
    """A mask, white where the encoder saw nothing."""
    x, y = np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5
    inside = ((seen[1] <= y) & (y <= seen[3]))[:, None] & ((seen[0] <= x) & (x <= seen[2]))[None, :]
    return Image.fromarray(np.where(inside, 0, 255).astype(np.uint8))


def _hatched(panel: Image.Image) -> Image.Image:
    rows, columns = np.indices((panel.height, panel.width))
    stripes = ((rows + columns) % 10 < 2)[..., None]
    return _image(np.where(stripes, HATCH, 0.15 * np.asarray(panel) + 0.85 * np.array(PAPER)))


def _image(colours: NDArray[np.float64]) -> Image.Image:
    return Image.fromarray(colours.round().clip(0, 255).astype(np.uint8))


def _page(
    pictures: Sequence[Image.Image],
    notes: Sequence[tuple[str, str]],
    title: str | None,
    legend: str,
    even: float | None,
) -> Image.Image:
    """Set the panels, their words and notes, the title and the footer on one sheet."""
    title_font, word_font, note_font = map(ImageFont.load_default, (TITLE_SIZE, WORD_SIZE, NOTE_SIZE))
    width, height = pictures[0].size
    width = max(width, 240)  # narrow photos still leave their notes the room
    fitting = max(1, (STRIP_WIDTH - 2 * MARGIN + GAP) // (width + GAP))
    rows = math.ceil(len(pictures) / fitting)
    columns = math.ceil(len(pictures) / rows)  # rows of nearly one length
    row_height = height + WORD_SIZE + NOTE_SIZE + 54

    legend_width = SCALE_BAR[0] + 14 + note_font.getlength(legend)
    page_width = 2 * MARGIN + max(columns * (width + GAP) - GAP, math.ceil(legend_width))
    lines = _wrapped(title, title_font, page_width - 2 * MARGIN) if title else []
    header = MARGIN + len(lines) * (TITLE_SIZE + 10) + (14 if lines else 0)
    page = Image.new("RGB", (page_width, header + rows * row_height + NOTE_SIZE + MARGIN), PAPER)
    draw = ImageDraw.Draw(page)
    for line, text in enumerate(lines):
        draw.text((MARGIN, MARGIN - 6 + line * (TITLE_SIZE + 10)), text, INK, title_font)

    for index, (picture, (word, note)) in enumerate(zip(pictures, notes, strict=True)):
        x = MARGIN + index % columns * (width + GAP)
        y = header + index // columns * row_height
        page.paste(picture, (x, y))
        baseline = y + height + 10 + WORD_SIZE
        draw.text((x, baseline), word, INK if index else PALE_INK, word_font, anchor="ls")
        draw.text((x, baseline + NOTE_SIZE + 8), note, PALE_INK, note_font, anchor="ls")

    x, y = MARGIN, page.height - MARGIN - NOTE_SIZE // 2
    bar_width, bar_height = SCALE_BAR
    ramp = _lit(Image.new("RGB", SCALE_BAR, (128, 128, 128)), np.linspace(0, 1, bar_width)[None, :])
    page.paste(ramp, (x, y - bar_height // 2))
    draw.rectangle((x - 1, y - bar_height // 2 - 1, x + bar_width, y + bar_height // 2), outline=PALE_INK)
    if even is not None:
        tick = x + round(even * (bar_width - 1))
        draw.line((tick, y + bar_height // 2, tick, y + bar_height // 2 + 5), INK, 2)
    draw.text((x + bar_width + 14, y), legend, PALE_INK, note_font, anchor="lm")
    return page


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
