"""The README's chart of what attention is worth to a noun, made of a kept evaluation: docs/images/attention.svg."""

import results

FILE = results.RESULTS.parents[1] / "docs" / "images" / "attention.svg"
MODEL = "everyday-soft"
MEASURED = f"{MODEL}-reference"  # of people's captions: those of its own were found under its own map
BARS = {
    "another photo's map": ("at_word", "other_photo"),
    "the same weight everywhere": ("at_word", "uniform"),
    "another word's map": ("at_word", "other_word"),
    "20 locations hidden: its own": ("annotations", "most"),
    "20 locations hidden: another word's": ("annotations", "other_word"),
    "20 locations hidden: at random": ("annotations", "random"),
}
WIDTH, LEFT, ROW, TOP = 720, 270, 34, 46
SCALE = (WIDTH - LEFT - 70) / 0.7  # pixels of a nat


def chart() -> str:
    """The chart as SVG: a bar for each change, with its 95 % interval over photos."""
    found = results.read(MEASURED, results.ABLATION)
    groups = {"at_word": found["at_word"]["noun"], "annotations": found["occlusion"]["annotations"]["noun"]}
    which = f"{MODEL}, {found['photos']} photos of {found['split']}"
    title = f"By how many nats log p of a noun in people's captions falls ({which})"
    lines = [f'<text x="10" y="24" font-weight="bold">{title}</text>']
    for number, (label, (group, key)) in enumerate(BARS.items()):
        figure, y = groups[group][key], TOP + ROW * number
        length, low, high = (LEFT + SCALE * max(figure[name], 0) for name in ("mean", "low", "high"))
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length - LEFT:.0f}" height="22" fill="#3b7dd8"/>',
            f'<path d="M{low:.0f} {y + 11}H{high:.0f}" stroke="#888" stroke-width="2"/>',
            f'<text x="{high + 8:.0f}" y="{y + 16}">{figure["mean"]:.2f}</text>',
        ]
    height = TOP + ROW * len(BARS)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
    back = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    return "\n".join([f'{head} font-size="15" fill="#222">', back, *lines, "</svg>", ""])
