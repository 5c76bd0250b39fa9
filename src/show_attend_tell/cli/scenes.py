"""`sat scenes`: generated pictures of coloured shapes, with sentences and boxes."""

from pathlib import Path

import click

from show_attend_tell.cli.shared import Teaching

EXAMPLES = """
OUTPUT is then a folder for sat train: images/, captions.csv, and boxes.json with a box for every object and the object
that every word names.

\b
Examples:
  sat scenes scenes/ --photos 2000 --seed 1
  sat train scenes/ --attention soft --preset scenes --encoder small --geometry squash --fine-tune-encoder 1e-3 \\
    --output scenes-soft
  sat train scenes/ --attention hard --preset scenes --encoder small --geometry squash --fine-tune-encoder 5e-4 \\
    --start-from scenes-soft --output scenes-hard
  sat pointing --model scenes-hard --data scenes/
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--photos", type=int, default=2000, show_default=True, help="In train, val and test together, 8 : 1 : 1.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The same seed, the same pictures.")
def scenes(output: Path, photos: int, seed: int) -> None:
    """Make a data folder of coloured shapes whose boxes are known."""
    from show_attend_tell.analysis.scenes import write_scenes

    write_scenes(output, photos, seed=seed)
    click.echo(f"{photos:,} photos with three sentences each are in {output}")
