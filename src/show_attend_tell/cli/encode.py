"""`sat encode`: the features of photos, made once: of a data folder before training, or of any number of photos."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import BaseCommand, cache_option, device_option, with_encoder_of_start

EXAMPLES = """
\b
Examples:
  sat encode flickr8k/ --resize squash
  sat encode products/ --flipped --crops 2
"""


@click.command(cls=BaseCommand, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@with_encoder_of_start
@click.option("--flipped", is_flag=True, help="Mirrored training photos are encoded too, for training with them.")
@click.option(
    "--crops",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of random crops of each training photo that are encoded too.",
)
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
@cache_option
@device_option
def encode(
    data: Path,
    encoder: str | None,
    encoder_weights: str | None,
    resize: Any,
    flipped: bool,
    crops: int,
    restval: bool,
    cache: Path | None,
    device: str,
) -> None:
    """Encode the photos of a data set once.

    Training and evaluating then need not wait for it. Interrupt it when you like: the same command goes on. The
    encoder and how it resizes are those of a training of soft attention on DATA, unless they are named.
    """
    from show_attend_tell.backends.encoding import fastest_encode
    from show_attend_tell.cli.training.start import own_start, start_and_encoder
    from show_attend_tell.data.datasets import SPLITS, read_dataset
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training.config import TrainingConfig
    from show_attend_tell.training.presets import preset
    from show_attend_tell.training.run import without
    from show_attend_tell.vision.feature_cache import UnreadablePhotos, default_cache
    from show_attend_tell.vision.sources import cached

    dataset = read_dataset(data, restval=restval)
    for line in dataset.report.lines():
        click.echo(line)
    kind = {"weights": encoder_weights, "resize": resize}
    if dataset.report.photos["train"]:
        config = preset("flickr8k", "soft")
        _, network = own_start(dataset, config, encoder, log=click.echo, **kind)
    else:
        _, network = start_and_encoder(None, encoder, **kind)
    click.echo(f"encoder {network.name}, resize {network.preprocessing.resize}")
    fastest = fastest_encode(network.to(pick_device(device)))
    cache = cache or default_cache()
    try:
        store = cached(dataset, network, cache, splits=SPLITS, encode=fastest)
    except UnreadablePhotos as error:
        dataset = without(dataset, error)
        click.echo(f"left out: {error.reason}")
        store = cached(dataset, network, cache, splits=SPLITS, encode=fastest)
    for view in TrainingConfig(flipped=flipped, crops=crops).views:
        cached(dataset, network, cache, splits=("train",), encode=fastest, view=view)
    click.echo(f"{len(store):,} photos are encoded in {store.folder}")
