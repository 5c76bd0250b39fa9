"""`sat analyze scenes`: generated pictures of colored shapes, with sentences and boxes."""

from pathlib import Path

import click

from show_attend_tell.cli.command import SEED, BaseCommand

EXAMPLES = """
OUTPUT is a folder for sat train. It holds images/, captions.csv and boxes.json. boxes.json has a box for every object,
and says which object each word names.

\b
Examples:
  sat analyze scenes scenes/ --photos 2000 --seed 1
  sat train scenes/ --attention soft --preset scenes --encoder small --resize squash --encoder-lr 1e-3 \\
    --output scenes-soft
  sat train scenes/ --attention hard --preset scenes --encoder small --resize squash --encoder-lr 5e-4 \\
    --init-from scenes-soft --output scenes-hard
  sat analyze evidence scenes/ --model scenes-hard
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--photos", type=int, default=2000, show_default=True, help="Number of pictures; train, val and test get 8 : 1 : 1."
)
@click.option(
    "--seed",
    type=SEED,
    default=1,
    show_default=True,
    help="Random seed; the same seed gives the same pictures.",
)
def scenes(output: Path, photos: int, seed: int) -> None:
    """Make pictures of colored shapes with known boxes."""
    from show_attend_tell.analysis.scenes import write_scenes

    write_scenes(output, photos, seed=seed)
    click.echo(f"{photos:,} photos with three sentences each are in {output}")
