"""The paper's recipe and ours beside the paper: two tables, what other tokens change, and the curves of the trainings.

    python research/reproduction.py flickr8k/ runs/    # score by the other conventions, keep logs of runs/paper-*; draw

`tables.py` writes the tables into README and docs. The scores are in results/raw-tokens.json and full-stop.json, the
logs in results/paper-recipe/, and the curves in docs/images/paper-recipe.svg.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import results
from stages import new_parser, reporting

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.evaluation import score_split
from show_attend_tell.files import read_object, read_text, write_text

KINDS = ("soft", "hard")
SEEDS = (1, 2, 3)
XU = {"soft": ("67", "44.8", "29.9", "19.5", "18.93"), "hard": ("67", "45.7", "31.4", "21.3", "20.30")}
CONVENTIONS = {  # of what is compared beside the split file's own tokens, with the file of the scores
    "raw": results.RESULTS / "raw-tokens.json",  # references with capitals and punctuation, captions as they are
    "full_stop": results.RESULTS / "full-stop.json",  # the same references; captions get a capital and " ."
}
LOGS = results.RESULTS / "paper-recipe"
FILE = results.RESULTS.parents[1] / "docs" / "images" / "paper-recipe.svg"


def of_seeds(name: str) -> list[str]:
    """The names of a recipe's evaluations."""
    return [f"{name}-{seed}-test" for seed in SEEDS]


RECIPES = {  # kept evaluations of soft and hard attention; hard reads the mean of all locations if not by argmax
    "its recipe here": {"soft": of_seeds("paper-soft"), "hard": of_seeds("paper-hard")},
    "its recipe here, by argmax": {"soft": [], "hard": of_seeds("paper-hard-argmax")},
    "our recipe": {"soft": of_seeds("soft"), "hard": []},
    "our recipe, by argmax": {"soft": [], "hard": of_seeds("hard")},
    "our recipe with uniform α": {"soft": of_seeds("uniform"), "hard": []},
    "the shipped model, in 4 bits a weight": {"soft": ["flickr8k-soft-test"], "hard": ["flickr8k-hard-mean-test"]},
    "the shipped model, in 4 bits a weight, by argmax": {"soft": [], "hard": ["flickr8k-hard-test"]},
    "the same weights, α held uniform": {"soft": ["flickr8k-soft-even-test"], "hard": ["flickr8k-hard-even-test"]},
}


def kept(title: str, kind: str, folder: Path = results.RESULTS) -> list[dict[str, Any]]:
    """The evaluations of a row that are kept, with the scores of the other conventions by their names."""
    others = {convention: read_object(file, "paper-soft-1-test") for convention, file in CONVENTIONS.items()}
    names = [name for name in RECIPES[title][kind] if name in results.names(folder)]
    return [
        results.read(name, folder) | {convention: scores.get(name, {}) for convention, scores in others.items()}
        for name in names
    ]


def with_full_stop(caption: str) -> str:
    """A caption as people write it in the raw references: with a capital, and a full stop as a word of its own."""
    return f"{caption[:1].upper()}{caption[1:]} ."


class Panel(NamedTuple):
    """One of the four charts: a figure of each epoch."""

    title: str
    key: str
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False


PANELS = (
    Panel("val BLEU-4, greedy", "bleu_4", 0, 24, (0, 5, 10, 15, 20)),
    Panel("nats a word of val", "nats", 2.5, 4.5, (2.5, 3, 3.5, 4, 4.5)),
    Panel("variance of the gradient", "gradient_variance", 1e2, 1e5, (1e2, 1e3, 1e4, 1e5), True),
    Panel("entropy of α (uniform: 5.28)", "entropy", 0, 6, (0, 2, 4, 6)),
)
COLORS = {"soft": "#3b7dd8", "hard": "#d9822b"}
DASHES = {1: "", 2: "6 3", 3: "2 3"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 290, 170, 56, 64, 90
EPOCHS = 40


def curves() -> str:
    """The curves of all kept logs as SVG: soft and hard attention, three seeds each, by epoch."""
    logs = {
        (kind, seed): [json.loads(line) for line in read_text(file).splitlines()]
        for kind in KINDS
        for seed in SEEDS
        if (file := LOGS / f"{kind}-{seed}.jsonl").exists()
    }
    lines = [f'<text x="{LEFT}" y="24" font-weight="bold">The paper\'s recipe on Flickr8k, by epoch</text>']
    for number, kind in enumerate(KINDS):
        x = LEFT + 350 + 120 * number
        lines.append(f'<path d="M{x} 19h24" stroke="{COLORS[kind]}" stroke-width="3"/>')
        lines.append(f'<text x="{x + 30}" y="24">{kind}</text>')
    for number, panel in enumerate(PANELS):
        left, top = LEFT + (WIDTH + GAP) * (number % 2), TOP + (HEIGHT + GAP - 20) * (number // 2)
        lines += [*frame(panel, left, top), *(line(panel, left, top, each, log) for each, log in logs.items())]
    size = f"{2 * (WIDTH + GAP)} {TOP + 2 * (HEIGHT + GAP) - 80}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif"'
    back = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'{head} font-size="14" fill="#222">', back, *lines, "</svg>", ""])


def height(panel: Panel, value: float) -> float:
    """How far above the lower end of a panel a value lies, in pixels."""
    scale: Callable[[float], float] = math.log if panel.logarithmic else float
    share = (scale(value) - scale(panel.low)) / (scale(panel.high) - scale(panel.low))
    return HEIGHT * min(max(share, 0), 1)


def frame(panel: Panel, left: int, top: int) -> Iterator[str]:
    """A panel's title, ticks and epochs."""
    yield f'<text x="{left}" y="{top - 10}">{panel.title}</text>'
    for tick in panel.ticks:
        y = top + HEIGHT - height(panel, tick)
        yield f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y + 5:.1f}" text-anchor="end" font-size="12">{tick:g}</text>'
    for epoch in (1, 10, 20, 30, EPOCHS):
        x = left + WIDTH * epoch / EPOCHS
        yield f'<text x="{x:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle" font-size="12">{epoch}</text>'


def line(panel: Panel, left: int, top: int, of: tuple[str, int], log: Sequence[dict[str, float]]) -> str:
    """The line of one training, over the epochs that have the figure."""
    kind, seed = of
    points = [
        f"{left + WIDTH * row['epoch'] / EPOCHS:.1f} {top + HEIGHT - height(panel, row[panel.key]):.1f}"
        for row in log
        if panel.key in row
    ]
    stroke = f'stroke="{COLORS[kind]}" stroke-width="2" stroke-dasharray="{DASHES[seed]}"'
    return f'<path d="M{"L".join(points)}" fill="none" {stroke}/>' if points else ""


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Keep the scores by the other conventions and the logs, and draw the curves."""
    parser = new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of Flickr8k, as for sat train")
    parser.add_argument("runs", type=Path, help="folder of the trainings of paper_recipe.py")
    options = parser.parse_args(given)
    dataset = read_dataset(options.data)
    kept_names = [name for of in RECIPES.values() for names in of.values() for name in names if name in results.names()]
    for convention, file in CONVENTIONS.items():
        scores_by_name = {}
        for name in kept_names:
            entries = results.read(name)["results"]
            if convention == "full_stop":
                entries = [entry | {"caption": with_full_stop(entry["caption"])} for entry in entries]
            scores = score_split(dataset, "test", entries, tokens="raw").scores.corpus
            scores_by_name[name] = {key: round(value, 2) for key, value in scores.items() if value is not None}
        write_text(file, json.dumps(scores_by_name, indent=1) + "\n")
    for kind in KINDS:
        for seed in SEEDS:
            if (log := options.runs / f"paper-{kind}-{seed}" / "training" / "log.jsonl").exists():
                write_text(LOGS / f"{kind}-{seed}.jsonl", read_text(log))
    write_text(FILE, curves())


if __name__ == "__main__":
    main()
