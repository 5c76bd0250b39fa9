"""`sat retrieve`: the scores of captions that are borrowed from similar training photos."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.shared import (
    Teaching,
    cache_option,
    check_targets,
    device_option,
    tell_scores,
    tokens_option,
    with_encoder,
    write_scores,
)

EXAMPLES = """
\b
Example:
  sat retrieve flickr8k/ --split test --geometry squash --json retrieval.json
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--split", default="test", show_default=True, help="val or test.")
@tokens_option
@click.option("--json", "json_file", metavar="FILE", help="Write the scores and the captions; - is standard output.")
@with_encoder
@cache_option
@device_option
def retrieve(
    data: Path,
    split: str,
    tokens: Any,
    json_file: str | None,
    encoder: str,
    encoder_weights: str | None,
    geometry: Any,
    cache: Path | None,
    device: str,
) -> None:
    """Score a baseline that makes no sentence: it borrows the caption on which similar training photos agree.

    DATA is a folder as for sat train.
    """
    from show_attend_tell.analysis import retrieval
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.device import pick_device
    from show_attend_tell.vision.encoder import load_encoder
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data])
    dataset = read_dataset(data)
    network = load_encoder(encoder, weights=encoder_weights, geometry=geometry).to(pick_device(device))
    result = retrieval.evaluate(dataset, network, split, cache=cache or default_cache(), tokens=tokens)
    if write_scores(json_file, result):
        return
    chosen = result["retrieval"]
    click.echo(
        f"retrieval on {result['data']} {split}: {result['captions']} captions, each from {chosen['neighbours']} "
        f"photos, {'whitened' if chosen['whitened'] else 'centred'}, {result['tokens']} tokens"
    )
    tell_scores(result)
