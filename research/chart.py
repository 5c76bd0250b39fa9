"""The README's chart of what attention is worth to a noun, made of a kept evaluation: docs/images/attention.svg.

Its letters are large enough for a phone, and it follows the reader's choice of light or dark.
"""

import results

FILE = results.RESULTS.parents[1] / "docs" / "images" / "attention.svg"
MODEL = "everyday-soft"
MEASURED = f"{MODEL}-reference"  # of people's captions: those of its own were found under its own map
BARS = {
    "with another photo's map": ("at_word", "other_photo"),
    "with the same weight everywhere": ("at_word", "uniform"),
    "with another word's map": ("at_word", "other_word"),
    "20 locations hidden: its strongest": ("annotations", "most"),
    "20 locations hidden: another word's": ("annotations", "other_word"),
    "20 locations hidden: at random": ("annotations", "random"),
}
WIDTH, LEFT, ROW, TOP = 470, 10, 46, 64
BAR = 18  # pixels of its height
SCALE = (WIDTH - LEFT - 70) / 0.44  # pixels of a nat
STYLE = (
    "text{fill:#222}.page{fill:#fff}.bar{fill:#3b7dd8}path{stroke:#222}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.page{fill:#17181b}path{stroke:#e6e6e6}}"
)


def chart() -> str:
    """The chart as SVG: a bar for each change, with its 95 % interval over photos."""
    found = results.read(MEASURED, results.ABLATION)
    groups = {"at_word": found["at_word"]["noun"], "annotations": found["occlusion"]["annotations"]["noun"]}
    lines = [
        f'<text x="{LEFT}" y="24" font-weight="bold">How much log p of a noun falls, in nats</text>',
        f'<text x="{LEFT}" y="46">people\'s captions, {MODEL}, {found["photos"]} photos of {found["split"]}</text>',
    ]
    for number, (label, (group, key)) in enumerate(BARS.items()):
        figure, y = groups[group][key], TOP + ROW * number
        length, low, high = (LEFT + SCALE * max(figure[name], 0) for name in ("mean", "low", "high"))
        lines += [
            f'<text x="{LEFT}" y="{y + 12}">{label}</text>',
            f'<rect class="bar" x="{LEFT}" y="{y + BAR}" width="{length - LEFT:.0f}" height="{BAR}"/>',
            f'<path d="M{low:.0f} {y + BAR * 3 // 2}H{high:.0f}" stroke-width="2"/>',
            f'<text x="{high + 8:.0f}" y="{y + BAR + 15}">{figure["mean"]:.2f}</text>',
        ]
    height = TOP + ROW * len(BARS)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    page = f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    style = f"<style>{STYLE}</style>"
    return "\n".join([f'{head} font-family="sans-serif" font-size="16">', style, page, *lines, "</svg>", ""])
