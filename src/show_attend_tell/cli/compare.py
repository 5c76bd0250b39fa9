"""`sat compare` and `sat report`: evaluations read again, as differences with intervals or as a page of every photo."""

import json
from pathlib import Path

import click

from show_attend_tell.cli.command import (
    FILE,
    PATH,
    SEED,
    BaseCommand,
    check_targets,
    json_option,
    note,
    write_output,
)
from show_attend_tell.files import write_text

COMPARE_EXAMPLES = """
\b
Examples:
  sat compare soft.json hard.json
  sat compare nic-1.json,nic-2.json,nic-3.json soft-1.json,soft-2.json,soft-3.json
"""

REPORT_EXAMPLES = """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --attention --json soft.json
  sat report soft.json
  sat report soft.json hard.json --output both.html     where the two differ
"""


@click.command(cls=BaseCommand, epilog=COMPARE_EXAMPLES)
@click.argument("systems", nargs=-1, required=True, metavar="BASELINE.json SYSTEM.json...")
@click.option(
    "--resamples",
    type=click.IntRange(100),
    default=10_000,
    show_default=True,
    help="Number of bootstrap resamples of the photos.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Random seed of the resamples.")
@json_option("the comparison")
def compare(systems: tuple[str, ...], resamples: int, seed: int, json_file: str | None) -> None:
    """Compare the scores of systems with those of the first.

    The result is a table in Markdown: a difference and its 95 % interval for each score. A system is an evaluation, as
    sat evaluate --json and sat score --json write it. Several evaluations joined by commas are one system trained with
    several seeds: then trainings are resampled as well as photos.
    """
    from show_attend_tell.metrics.caption_files import read_evaluation
    from show_attend_tell.metrics.comparison import compare as compared

    files = [[Path(name) for name in system.split(",") if name] for system in systems]
    check_targets(json_file, read=[file for of_system in files for file in of_system])
    names = [",".join(file.stem for file in of_system) for of_system in files]
    if len(set(names)) < len(names):
        names = [",".join(map(str, of_system)) for of_system in files]
    comparison = compared(
        {name: [read_evaluation(file) for file in of_system] for name, of_system in zip(names, files, strict=True)},
        resamples=resamples,
        seed=seed,
    )
    if not write_output(json_file, json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1) + "\n"):
        click.echo(comparison.to_markdown(), nl=False)


@click.command(cls=BaseCommand, epilog=REPORT_EXAMPLES)
@click.argument("evaluation", type=PATH)
@click.argument("other", type=PATH, required=False)
@click.option(
    "--output",
    type=FILE,
    default="report.html",
    show_default=True,
    help="Page to write.",
)
def report(evaluation: Path, other: Path | None, output: Path) -> None:
    """Make a page of an evaluation.

    It shows the scores and every photo. You can sort the captions: the worst first, the best first, or by how
    much two models differ.

    EVALUATION is a file of sat evaluate --json. OTHER is another evaluation of the same photos, to compare it with.
    The page shows where each word looked if the evaluation was made with --attention.
    """
    from show_attend_tell.messages import first_three, plural
    from show_attend_tell.report import report as page_of

    files = [evaluation] if other is None else [evaluation, other]
    check_targets(str(output), read=files)
    result = page_of(files)
    check_targets(str(output), read=result.files)
    if missing := result.missing:
        note(f"{len(missing)} of {result.photos} photos were not found and stay empty: {first_three(missing)}")
    if not result.attention:
        note(
            "the page cannot show where the model looked: "
            "sat evaluate --attention keeps that, for a model with attention"
        )
    write_text(output, result.page)
    click.echo(f"{output}: {plural(result.photos, 'photo')}, {output.stat().st_size / 1e6:.1f} MB")
