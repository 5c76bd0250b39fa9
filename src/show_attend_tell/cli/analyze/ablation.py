"""`sat analyze ablation`: whether where a model attends matters to what it says."""

import json
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    check_targets,
    compute_options,
    data_option,
    json_option,
    model_option,
    seed_option,
    split_option,
    write_output,
)
from show_attend_tell.cli.options import generation_options

EXAMPLES = """
\b
Examples:
  sat analyze ablation --model flickr8k-soft --data flickr8k/
  sat analyze ablation --model flickr8k-hard --data flickr8k/ --beam-size 20 --rerank-weight 0 --json hard.json
  sat analyze ablation --model flickr8k-soft --data flickr8k/ --captions reference --captioned 0
  sat analyze ablation --model flickr8k-soft --data flickr8k/ --encoded 100      takes an hour on a CPU
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@model_option()
@data_option
@split_option("val")
@click.option(
    "--photos", type=click.IntRange(2), default=200, show_default=True, help="Number of photos, drawn by the seed."
)
@click.option(
    "--captions",
    type=click.Choice(["own", "reference"]),
    default="own",
    show_default=True,
    help="Captions whose words are measured: the model's own, or the first reference of each photo.",
)
@click.option(
    "--captioned",
    type=click.IntRange(0),
    help="Number of these photos that are also captioned with each replacement of attention at every word. "
    "[default: all]",
)
@click.option(
    "--encoded",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of these photos in which locations are hidden in the pixels too. Each takes 40 encodings.",
)
@generation_options
@seed_option("photos and of random locations")
@json_option("all figures")
@cache_option
@compute_options
def ablation(
    model: str,
    data: Path,
    split: str,
    photos: int,
    captions: Any,
    captioned: int | None,
    encoded: int,
    generation: dict[str, Any],
    seed: int,
    json_file: str | None,
    cache: Path | None,
    loading: dict[str, Any],
) -> None:
    """Measure what attention is worth to each word.

    At every word its attention is replaced: by uniform attention, by one map a photo, by another word's or another
    photo's map, by a random location. Or the locations that it attended to are hidden. The tables say what that costs
    the word's log-probability, by class of word, and what each replacement costs the captions' scores.
    """
    from show_attend_tell.analysis.ablation import run
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, loading["encoder_weights"]], models=[model])
    dataset = read_dataset(data)
    run.check_numbers(dataset, split, photos=photos, encoded=encoded, captioned=captioned)
    result = run.ablation(
        Captioner.from_pretrained(model, backend="torch", **loading),
        dataset,
        split,
        cache=cache or default_cache(),
        photos=photos,
        captions=captions,
        captioned=captioned,
        encoded=encoded,
        seed=seed,
        **generation,
    )
    if not write_output(json_file, json.dumps(result.to_dict(), ensure_ascii=False, indent=1) + "\n"):
        click.echo(result.to_text())
