"""The history of a study as a picture: each trial's value, and the best so far."""

from collections.abc import Sequence
from itertools import accumulate
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 320, 60, 30, 40


def history(points: Sequence[tuple[int, float, bool]], *, title: str) -> str:
    """An SVG of trials: number, value, and whether it was pruned. A pruned one is a ring, and no part of the best."""
    values = [value for _, value, _ in points]
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    last = max(1, max(number for number, _, _ in points))

    def location(number: int, value: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - 20) * number / last
        down = TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / spread)
        return round(across, 1), round(down, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">{escape(title)} by trial; rings: pruned; line: the best so far</text>',
    ]
    for value in (low, low + spread / 2, low + spread):
        _, down = location(0, value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{down}" y2="{down}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down + 4}" text-anchor="end">{value:.2f}</text>')
    for number in sorted({0, last // 2, last}):
        parts.append(f'<text x="{location(number, low)[0]}" y="{HEIGHT - 14}" text-anchor="middle">{number}</text>')
    whole = [(number, value) for number, value, pruned in points if not pruned]
    best = accumulate((value for _, value in whole), max)
    line = [location(number, value) for (number, _), value in zip(whole, best, strict=True)]
    steps = " ".join(f"{across},{down}" for across, down in line)
    parts.append(f'<polyline points="{steps}" fill="none" stroke="#c60" stroke-width="2"/>')
    for number, value, pruned in points:
        across, down = location(number, value)
        parts.append(
            f'<circle cx="{across}" cy="{down}" r="4" fill="{"white" if pruned else "#06c"}" stroke="#06c">'
            f"<title>trial {number}: {value:.3f}</title></circle>"
        )
    return "\n".join([*parts, "</svg>\n"])
