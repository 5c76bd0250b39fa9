"""What the programs share that measure models: how model, data, split and seed are said, and one report with intervals.

A figure has a 95 % interval over photos (`metrics.bootstrap`). Where a program prints ± it is one standard error.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from show_attend_tell.files import check_writable, write_text
from show_attend_tell.messages import aligned
from show_attend_tell.metrics.bootstrap import Interval, plain
from show_attend_tell.settings import ATTENTION_MODES
from show_attend_tell.vision.feature_cache import default_cache

Cell = Interval | str | None


def arguments(
    description: str | None, *, split: str, photos: int | None = None, seeded: bool = True
) -> argparse.ArgumentParser:
    """A parser with the arguments that every such program has, to which a program adds its models and its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of captioned photos, as for sat train")
    parser.add_argument("--split", default=split, help=f"part of the data: train, val or test; default: {split}")
    if photos is not None:
        parser.add_argument("--photos", type=int, default=photos, help=f"photos, drawn by the seed; default: {photos}")
    if seeded:
        parser.add_argument("--seed", type=int, default=0, help="random seed; default: 0")
    parser.add_argument("--json", type=writable, metavar="FILE", help="file for all figures")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the feature cache")
    parser.add_argument("--device", default="auto", help="device to compute on")
    return parser


def writable(name: str) -> Path:
    """A file to write at the end; raises `SatError` at once where it cannot be."""
    check_writable(Path(name))
    return Path(name)


def add_generation(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options of the generation config, the model's by default; `generation` reads them."""
    parser.add_argument("--attention-mode", choices=ATTENTION_MODES, help="default: the model's")
    for name in names:
        kind = int if name == "beam_size" else float
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help="default: the model's")


def generation(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of `add_generation`, by the names of the fields."""
    names = ("attention_mode", "beam_size", "length_penalty", "rerank_weight")
    given = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Report:
    """What was measured of a model: facts (model, data, split, photos, seed, settings), figures by name, and tables."""

    facts: Mapping[str, Any]
    figures: Mapping[str, Any]
    tables: Sequence[str]  # lines for a terminal

    def __getitem__(self, name: str) -> Any:
        return self.facts[name] if name in self.facts else self.figures[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return plain({**self.facts, **self.figures})

    def finish(self, file: Path | None) -> None:
        """Print the report, and write all figures to the file, if one is named."""
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.facts.items() if value is not None))
        print("95 % intervals over photos; – where there is none", *self.tables, sep="\n")
        if file is not None:
            write_text(file, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def table(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[Cell]]) -> list[str]:
    """The lines of a table, with an empty one before."""
    cells = [["", *heads], *([name, *map(shown, row)] for name, row in rows.items())]
    return ["", title, *(f"  {line}" for line in aligned(cells))]


def shown(found: Cell) -> str:
    """A figure with its interval; a dash where there is none."""
    if isinstance(found, str):
        return found
    return "–" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
