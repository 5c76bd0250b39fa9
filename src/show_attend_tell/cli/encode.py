"""`sat encode`: the features of photos, made once: of a data folder before training, or of any number of photos."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.caption_batch import batch_options, run_batch
from show_attend_tell.cli.command import PAPERS_ENCODER, BaseCommand, cache_option, device_option, encoder_options
from show_attend_tell.errors import InvalidValue

EXAMPLES = """
\b
Examples:
  sat encode flickr8k/ --resize squash
  sat encode products/ --flipped --crops 2
  sat encode shards/*.tar --output features.parquet/ --workers 8
"""
SECTIONS = {
    "Of a data folder": "flipped crops renderings restval cache",
    "Into a table": "output recursive column engine workers rows",
}


@click.command(cls=BaseCommand, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@encoder_options
@click.option("--flipped", is_flag=True, help="Mirrored training photos are encoded too, for training with them.")
@click.option(
    "--crops",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of random crops of each training photo that are encoded too.",
)
@click.option(
    "--renderings",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of copies of each training photo, in other sizes, colors and JPEG qualities, that are encoded too.",
)
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
@cache_option
@click.option("--output", metavar="FILE", help="File for a table of features: .parquet or .jsonl; FILE/ is a folder.")
@batch_options
@device_option
def encode(
    data: tuple[str, ...],
    encoder: dict[str, Any],
    flipped: bool,
    crops: int,
    renderings: int,
    restval: bool,
    cache: Path | None,
    output: str | None,
    recursive: bool,
    batch: dict[str, Any],
    device: str,
) -> None:
    """Encode the photos of a data folder, or into a table.

    Training and evaluating on a data folder then need not wait for it. The encoder and how it resizes are those of a
    training of soft attention on DATA, unless they are named.

    With --output, DATA are photos, folders, tar and Parquet files or addresses, as for sat caption-batch. Each photo is
    a row: its source and annotations, or its error. The encoder is vgg19 with --resize crop, unless it is named.

    Interrupt it when you like: the same command goes on.
    """
    if output is not None:
        if flipped or crops or renderings or restval or cache is not None:
            raise InvalidValue(
                "--flipped, --crops, --renderings, --restval and --cache are for a data folder: leave out --output"
            )
        from show_attend_tell.batch.work import EncodeBatch

        name, weights, resize = encoder.values()
        work = EncodeBatch(name or PAPERS_ENCODER, device=device, encoder_weights=weights, resize=resize or "crop")
        run_batch(work, data, output, recursive=recursive, **batch)
        return
    if recursive or batch or len(data) > 1:
        raise InvalidValue("several sources, --recursive and options of workers are for a table: add --output FILE")
    from show_attend_tell.backends.encoding import fastest_encode
    from show_attend_tell.data.datasets import SPLITS, read_dataset
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training.config import TrainingConfig
    from show_attend_tell.training.data import without_unreadable
    from show_attend_tell.training.presets import preset
    from show_attend_tell.training.start import EncoderChoice, choose_start
    from show_attend_tell.vision.feature_cache import UnreadablePhotos, default_cache, folder_name
    from show_attend_tell.vision.sources import cached

    dataset = read_dataset(Path(data[0]), restval=restval)
    choice = EncoderChoice(**encoder)
    fits = bool(dataset.report.photos["train"])
    start = choose_start(dataset, preset("flickr8k", "soft"), choice, init_from=None, fit_to_data=fits)
    network = start.encoder
    for line in (*dataset.report.lines(), *start.lines):
        click.echo(line)
    click.echo(f"encoder {network.name}, resize {network.preprocessing.resize}")
    fastest = fastest_encode(network.to(pick_device(device)))
    cache = cache or default_cache()
    build = partial(cached, encoder=network, cache=cache, encode=fastest)
    try:
        build(dataset, splits=SPLITS)
    except UnreadablePhotos as error:
        dataset = without_unreadable(dataset, error)
        click.echo(f"left out: {error.reason}")
        build(dataset, splits=SPLITS)
    for view in TrainingConfig(flipped=flipped, crops=crops, renderings=renderings).views:
        build(dataset, splits=("train",), view=view)
    click.echo(f"{len(dataset.examples):,} photos are encoded in {cache / folder_name(dataset.name)}")
