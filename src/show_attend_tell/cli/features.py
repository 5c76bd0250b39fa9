"""`sat features`: the photos of a data set encoded once."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import Teaching, cache_option, device_option, with_encoder

EXAMPLES = """
\b
Examples:
  sat features flickr8k/ --geometry squash
  sat features products/ --flipped --crops 2
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@with_encoder
@click.option("--flipped", is_flag=True, help="Mirrored training photos are encoded too, for training with them.")
@click.option(
    "--crops",
    type=click.IntRange(min=0),
    default=0,
    help="Number of random crops of each training photo that are encoded too.",
)
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
@cache_option
@device_option
def features(
    data: Path,
    encoder: str,
    encoder_weights: str | None,
    geometry: Any,
    flipped: bool,
    crops: int,
    restval: bool,
    cache: Path | None,
    device: str,
) -> None:
    """Encode the photos of a data set once.

    Training and evaluating then need not wait for it. Interrupt it when you like: the same command goes on.
    """
    from show_attend_tell.data.datasets import SPLITS, read_dataset
    from show_attend_tell.device import pick_device
    from show_attend_tell.training.config import TrainingConfig
    from show_attend_tell.vision.encoder import load_encoder
    from show_attend_tell.vision.feature_cache import default_cache
    from show_attend_tell.vision.sources import cached

    dataset = read_dataset(data, restval=restval)
    for line in dataset.report.lines():
        click.echo(line)
    network = load_encoder(encoder, weights=encoder_weights, geometry=geometry).to(pick_device(device))
    store = cached(dataset, network, cache or default_cache(), splits=SPLITS)
    for view in TrainingConfig(flipped=flipped, crops=crops).views:
        cached(dataset, network, cache or default_cache(), splits=("train",), view=view)
    click.echo(f"{len(store):,} photos are encoded in {store.folder}")
