"""`sat compare`: whether one system's captions are better than another's."""

import json
from pathlib import Path

import click

from show_attend_tell.cli.shared import Teaching, check_targets, gave
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat compare soft.json hard.json
  sat compare nic-1.json,nic-2.json,nic-3.json soft-1.json,soft-2.json,soft-3.json --markdown comparison.md
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("systems", nargs=-1, required=True, metavar="BASELINE.json SYSTEM.json...")
@click.option("--resamples", type=click.IntRange(1), default=10_000, show_default=True, help="Of the photos.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the resamples.")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON; - is standard output.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write it as Markdown; - is standard output.")
def compare(
    systems: tuple[str, ...], resamples: int, seed: int, json_file: str | None, markdown_file: str | None
) -> None:
    """Compare the scores of systems with those of the first: differences and their 95 % intervals.

    Each system is an evaluation, as sat evaluate --json and sat score --json write it, or several of one system trained
    with several seeds, joined by commas; then trainings are resampled as well as photos.
    """
    from show_attend_tell.scoring.caption_files import read_evaluation
    from show_attend_tell.scoring.comparison import compare as compared

    if json_file == markdown_file == "-":
        raise SatError("only one of --json and --markdown can be standard output: name a file for the other")
    files = [[Path(part) for part in system.split(",") if part] for system in systems]
    check_targets(json_file, markdown_file, read=[file for each in files for file in each])
    if not all(files):
        raise SatError("a system is given without a file: name its evaluations, joined by commas")
    names = [_name(each) for each in files]
    if len(set(names)) < len(names):
        names = [",".join(map(str, each)) for each in files]
    taken: dict[Path, Path] = {}
    for file in (file for each in files for file in each):
        if taken.setdefault(file.resolve(), file) is not file:
            raise SatError(f"{file} is given twice: a system cannot be compared with itself, nor be two trainings")
    found = compared(
        {name: [read_evaluation(file) for file in each] for name, each in zip(names, files, strict=True)},
        resamples=resamples,
        seed=seed,
    )
    told = gave(json_file, json.dumps(found.to_dict(), ensure_ascii=False, indent=1) + "\n")
    if not gave(markdown_file, found.to_markdown()) and not told:
        click.echo(found.to_text(), nl=False)


def _name(files: list[Path]) -> str:
    """What a system is called: its file's name, less the number of a training."""
    stem = files[0].stem if len(files) == 1 else files[0].stem.rstrip("0123456789").rstrip("-_. ")
    return stem or ",".join(map(str, files))
