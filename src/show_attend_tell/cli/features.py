"""`sat features`: the photos of a data set encoded once."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.shared import Teaching, cache_option, device_option, with_encoder

EXAMPLES = """
\b
Examples:
  sat features flickr8k/ --geometry squash
  sat features products/ --flipped --crops 2
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@with_encoder
@click.option("--flipped", is_flag=True, help="Encode the training photos mirrored too, for training with them.")
@click.option("--crops", type=click.IntRange(min=0), default=0, help="Encode so many random crops of each too.")
@click.option("--restval", is_flag=True, help="COCO: count the restval photos as training photos.")
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
    """Encode a data set's photos once, so that training and evaluating need not wait for it; interrupt and resume at
    will."""
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
