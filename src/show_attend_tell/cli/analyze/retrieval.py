"""`sat analyze retrieval`: the scores of captions that are borrowed from similar training photos."""

from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    check_targets,
    device_option,
    json_option,
    split_option,
    with_encoder,
)
from show_attend_tell.cli.evaluate import compared_by, print_scores, tokens_option, write_scores
from show_attend_tell.cli.training.start import check_trained

EXAMPLES = """
\b
Example:
  sat analyze retrieval flickr8k/ --split test --resize squash --json retrieval.json
"""


@click.command(cls=BaseCommand, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@split_option("test")
@tokens_option("those of the captions' language, split for English")
@json_option("the scores and the captions")
@with_encoder
@cache_option
@device_option
def retrieval(
    data: Path,
    split: str,
    tokens: Any,
    json_file: str | None,
    encoder: str,
    encoder_weights: str | None,
    resize: Any,
    cache: Path | None,
    device: str,
) -> None:
    """Score captions borrowed from similar training photos.

    Each photo gets the caption on which the most similar training photos agree: a comparator that writes no sentence of
    its own. DATA is a folder as for sat train.
    """
    from show_attend_tell.analysis.retrieval import evaluate
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training.presets import preset
    from show_attend_tell.training.presets.custom import cut
    from show_attend_tell.vision.encoder import load_encoder
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, encoder_weights])
    check_trained(encoder)
    dataset, _ = cut(read_dataset(data), preset("flickr8k", "soft"), None)
    network = load_encoder(encoder, weights=encoder_weights, resize=resize).to(pick_device(device))
    result = evaluate(dataset, network, split, cache=cache or default_cache(), tokens=tokens)
    if json_file != "-":
        chosen = result["retrieval"]
        click.echo(
            f"retrieval on {result['data']} {split}: {result['captions']} captions, each from {chosen['neighbors']} "
            f"photos, {'whitened' if chosen['whitened'] else 'centred'}, {compared_by(result)}"
        )
        print_scores(result)
    write_scores(json_file, result)
