"""`sat analyze ranking`: captions ranked for photos, photos for captions, and both held against experts' ratings."""

import json
from pathlib import Path

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    check_targets,
    data_option,
    device_option,
    json_option,
    model_option,
    split_option,
    weights_option,
    write_output,
)

EXAMPLES = """
\b
Examples:
  sat analyze ranking --model flickr8k-soft --data flickr8k/
  sat analyze ranking --model flickr8k-soft --data flickr8k/ --captions 1 --photos 200
  sat analyze ranking --model flickr8k-soft --data flickr8k/ --experts flickr8k/text/ExpertAnnotations.txt
"""
SCORES = {"log_p": "log p", "per_word": "log p a word", "less_mean": "log p less its mean"}


@click.command(cls=BaseCommand, examples=EXAMPLES)
@model_option()
@data_option
@split_option("test")
@click.option(
    "--captions",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of captions of each photo, from the first. Flickr8k's 1,000 photos and 5,000 captions take an hour or "
    "two of one core.",
)
@click.option(
    "--photos",
    type=click.IntRange(2),
    metavar="N",
    help="Number of photos, from the split's first; the work grows with its square. [default: all]",
)
@click.option(
    "--experts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ratings of experts: Flickr8k's ExpertAnnotations.txt.",
)
@json_option("all figures and rated pairs")
@weights_option
@cache_option
@device_option
def ranking(
    model: str,
    data: Path,
    split: str,
    captions: int,
    photos: int | None,
    experts: Path | None,
    json_file: str | None,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Rank captions for photos, and photos for captions.

    Three scores rank people's captions: log p of the caption, log p per word, and log p minus the caption's mean log p
    over the other photos. Recall is ×100. With --experts, the scores are also compared with experts' ratings.
    """
    from show_attend_tell.analysis.ranking import rank
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, experts, encoder_weights], models=[model])
    dataset = read_dataset(data)
    captioner = Captioner.from_pretrained(model, device=device, backend="torch", encoder_weights=encoder_weights)
    result = rank(
        captioner,
        dataset,
        split,
        cache=cache or default_cache(),
        captions=captions,
        photos=photos,
        experts=experts,
    )
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    if write_output(json_file, text):
        return
    click.echo(
        f"{result['model']} on {result['data']} {split}: {result['photos']:,} photos, {result['captions']:,} captions, "
        f"log p by the expected context, in {result['precision']}"
    )
    for task, title in (("image_to_caption", "a photo's captions"), ("caption_to_image", "a caption's photo")):
        for score, label in SCORES.items():
            found = result["retrieval"][score][task]
            recall = "  ".join(f"R@{k} {found[f'recall_{k}']:.1f}" for k in (1, 5, 10))
            click.echo(f"  {title:<18} by {label:<20} {recall}  median rank {found['median_rank']:g}")
    if "experts" in result:
        found = result["experts"]
        click.echo(
            f"  Kendall's tau_c ×100 with {found['ratings']:,} ratings of {len(found['pairs']):,} pairs "
            f"({found['own_captions_dropped']:,} of a photo with its own caption dropped)"
        )
        for score, label in SCORES.items():
            click.echo(f"    {label:<20} {figure(found['tau_c'][score])}")
        for metric, value in found["metrics"].items():
            click.echo(f"    {metric:<20} {figure(value)}")


def figure(value: float | None) -> str:
    """A figure, or a dash where every pair has the same score and nothing can be said."""
    return "–" if value is None else f"{value:.1f}"
