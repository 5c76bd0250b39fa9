"""`sat analyse occlusion`: whether the places that a model attends to matter to its words."""

import json
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    beam_option,
    cache_option,
    check_targets,
    data_option,
    device_option,
    gave,
    json_option,
    look_option,
    ranking_options,
    seed_option,
    split_option,
    weights_option,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat analyse occlusion --model flickr8k-soft --data flickr8k/
  sat analyse occlusion --model flickr8k-hard --data flickr8k/ --split val --encoded 0 --json hard.json
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.option("--model", default="flickr8k-soft", show_default=True, help="Shipped model, folder or hub id.")
@data_option
@split_option("test")
@click.option(
    "--photos", type=click.IntRange(2), default=200, show_default=True, help="Number of photos, drawn by the seed."
)
@click.option(
    "--encoded",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of these photos in which places are hidden in the pixels too. Each takes 60 encodings.",
)
@beam_option
@look_option
@ranking_options
@seed_option("photos and of sampled places")
@json_option("all figures")
@weights_option
@cache_option
@device_option
def occlusion(
    model: str,
    data: Path,
    split: str,
    photos: int,
    encoded: int,
    beam: int | None,
    look: Any,
    length_normalisation: float | None,
    reranker_weight: float | None,
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Measure what hiding the attended places costs each word.

    Places are hidden in the annotations, and in the pixels of some photos. The table compares the most attended places
    with as many random ones, with those of another word, and with the least attended.
    """
    from show_attend_tell.analysis.occlusion import gaze, gaze_table
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset

    check_targets(json_file, read=[data])
    if encoded == 1:
        raise SatError("--encoded 1 gives no interval: give 2 or more, or 0 for none")
    dataset = read_dataset(data)
    if len(dataset.split(split)) < 2:
        raise SatError(f"the split {split} has one photo, and occlusion needs 2 or more: give another --split")
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    decoding = captioner.checkpoint.decoding.but(
        beam=beam, look=look, length_normalisation=length_normalisation, reranker_weight=reranker_weight
    )
    captioner.check_decoding(decoding)
    measured = gaze(captioner, dataset.split(split), photos=photos, encoded=encoded, seed=seed, decoding=decoding)
    result = {"model": captioner.name, "data": dataset.name, "split": split, **measured}
    if gave(json_file, json.dumps(result, ensure_ascii=False, indent=1) + "\n"):
        return
    click.echo(f"{captioner.name} on {dataset.name} {split}")
    click.echo(gaze_table(measured))
