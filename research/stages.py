"""What these programs share: stages that are made once, in order, and can be interrupted and gone on with.

A stage is one of the project's own commands, or a function call. It is done when its result is there, so what was made
elsewhere may be put in its place.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from show_attend_tell.cli import main
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object, read_text

P = ParamSpec("P")  # of a script's function

DATA = "flickr8k/"  # how commands that are shown or kept name the data folder
SQUASHED = ("--resize", "squash")  # the copy of Flickr8k at hand holds squashed photos


@dataclass(frozen=True)
class Stage:
    """One step on the way from data to results."""

    title: str
    done: Callable[[], bool]
    make: Callable[[], Sequence[object] | None]  # gives the arguments of the `sat` command to run, or does it itself


def sat(*arguments: object) -> None:
    """Run one of the project's commands in this process, and show it first; exit when it fails."""
    given = [str(argument) for argument in arguments]
    print("$ sat", *given, flush=True)
    try:
        main(given, prog_name="sat")
    except SystemExit as ended:
        if ended.code == 130:
            print("Interrupted. The same call of this script goes on from here.")
        if ended.code:
            raise


def new_parser(described: str | None) -> argparse.ArgumentParser:
    """A script's parser, whose help is the docstring as it stands."""
    return argparse.ArgumentParser(description=described, formatter_class=argparse.RawDescriptionHelpFormatter)


def parser_of_runs(described: str | None) -> argparse.ArgumentParser:
    """The parser of a script that measures on Flickr8k and COCO, and keeps what it makes in a folder."""
    parser = new_parser(described)
    parser.add_argument("output", type=Path, help="folder for what is made, and for the figures")
    parser.add_argument("--flickr8k", type=Path, default=Path("flickr8k"), help="folder of Flickr8k")
    parser.add_argument("--coco", type=Path, default=Path("coco"), help="folder of COCO")
    return parser


def kept_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file with a JSON object a line; none if there is no file."""
    return [json.loads(line) for line in read_text(file).splitlines()] if file.exists() else []


def keep_row(file: Path, row: dict[str, Any]) -> None:
    """Append a row to a file with a JSON object a line, so that a script that is interrupted goes on after it."""
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def reporting(main: Callable[P, None]) -> Callable[P, None]:
    """A script's function that ends with a sentence for mistakes, and for Ctrl-C."""

    @wraps(main)
    def report(*given: P.args, **options: P.kwargs) -> None:
        script = Path(sys.argv[0]).stem
        try:
            main(*given, **options)
        except SatError as error:
            sys.exit(f"{script}: {error}")
        except KeyboardInterrupt:
            sys.exit(f"{script}: interrupted")

    return report


def run(stages: Sequence[Stage], sat: Callable[..., None] = sat) -> None:
    """Make the stages that are not done, in order, and say what is done and what is left."""
    list_stages(stages)
    for number, stage in enumerate(stages, start=1):
        if not stage.done():
            print(f"\n[{number}/{len(stages)}] {stage.title}", flush=True)
            if (arguments := stage.make()) is not None:
                sat(*arguments)


def list_stages(stages: Sequence[Stage]) -> None:
    """Print every stage, and whether it is done."""
    for number, stage in enumerate(stages, start=1):
        print(f"[{number}/{len(stages)}] {stage.title}: {'done' if stage.done() else 'to do'}")
    left = sum(not stage.done() for stage in stages)
    print(f"{len(stages) - left} of {len(stages)} stages are done, {left} are left.", flush=True)


def training(data: Sequence[Path], model: Path, *arguments: object) -> Stage:
    """`sat train` on these folders with these arguments; an interrupted training is resumed."""

    def make() -> Sequence[object]:
        started = (model / "training" / "state.safetensors").exists()
        resize = () if "--resize" in arguments else SQUASHED
        return ("train", *data, *arguments, *resize, "--output", model, *(["--resume"] if started else []))

    return Stage(f"train {model.name}", lambda: is_trained(model), make)


def is_trained(model: Path) -> bool:
    """Whether a model's training has come to its end, which is the choice of its decoding."""
    if not (model / "config.json").exists():
        return False
    return any(name.startswith("validation_") for name in trained(model)["training"])


def trained(model: Path) -> dict[str, Any]:
    """A model's config.json."""
    return read_object(model / "config.json", "training")


def evaluation(
    data: Path, models: Sequence[Path], file: Path, split: str, options: Callable[[], Sequence[object]] = tuple
) -> Stage:
    """`sat evaluate` of a model, or of several as an ensemble, with options that may depend on earlier stages."""

    def make() -> Sequence[object]:
        named = [part for model in models for part in ("--model", model)]
        return ("evaluate", *named, "--data", data, "--split", split, *options(), "--json", file)

    return Stage(f"evaluate {file.stem}", file.exists, make)


def alone(model: Path) -> list[object]:
    """The options of `sat evaluate` for a model without its reranker, with the beam and γ that val chose for that.

    Without the filters that were chosen with the reranker, too.
    """
    chosen = trained(model)["training"].get("without_reranker")
    if chosen is None:  # the model has no reranker
        return []
    return [
        *("--rerank-weight", 0, "--beam-size", chosen["beam_size"]),
        *("--length-penalty", chosen["length_penalty"]),
        *("--generation", "repetition_cost=0", "--generation", "class_weight=0"),
    ]
