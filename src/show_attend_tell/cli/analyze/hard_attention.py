"""`sat analyze hard-attention`: attention as a choice of places: its bounds, its approximation, its gradient."""

import json
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    check_targets,
    data_option,
    device_option,
    json_option,
    model_option,
    seed_option,
    split_option,
    weights_option,
    write_output,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat analyze hard-attention --model flickr8k-hard --data flickr8k/
  sat analyze hard-attention --model flickr8k-soft --model flickr8k-hard --data flickr8k/ --json examined.json
  sat analyze hard-attention --model flickr8k-hard --data flickr8k/ --photos 1000 --samples 1000 --draws 0
"""


@click.command("hard-attention", cls=BaseCommand, examples=EXAMPLES)
@model_option(required=True, several="Give it several times to compare the others with the first.")
@data_option
@split_option("val")
@click.option(
    "--photos", type=click.IntRange(2), default=200, show_default=True, help="Number of photos, drawn by the seed."
)
@click.option(
    "--samples",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Number of sampled sequences of places for each caption. log p is estimated from 1, 5, 50, 500 … of them, up "
    "to half of all.",
)
@click.option(
    "--draws",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of draws of each gradient estimator; 0 leaves the gradient out.",
)
@seed_option("photos, places and coins")
@json_option("all figures")
@weights_option
@cache_option
@device_option
def hard_attention(
    models: tuple[str, ...],
    data: Path,
    split: str,
    photos: int,
    samples: int,
    draws: int,
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Examine attention as a choice of one place for each word.

    \b
    Three things are measured:
    - how likely captions are when places are sampled: the bound L_s of the paper, and tighter bounds;
    - how far the expected context is from the expectation over all places;
    - how noisy the gradient is.

    Figures are nats per word, with standard errors, for the first caption of each photo. End tokens are counted.
    """
    from show_attend_tell.analysis.hard_attention import side_by_side
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.checkpoint.hub import find_model
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.vision.feature_cache import default_cache

    check_targets(json_file, read=[data, encoder_weights], models=models)
    folders = [find_model(model).resolve() for model in models]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise SatError(f"--model {models[number]}: this model is given twice, so leave it out")
    dataset = read_dataset(data)
    result = side_by_side(
        [Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights) for model in models],
        dataset,
        split,
        cache=cache or default_cache(),
        photos=photos,
        samples=samples,
        draws=draws,
        seed=seed,
    )
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    if write_output(json_file, text):
        return
    for found in result["models"]:
        for line in _lines(found):
            click.echo(line)
    for found in result["differences"]:
        own = found["own"]
        click.echo(
            f"{found['model']} less {found['less']}, each by its own log p: "
            f"{own['nats_per_word']:+.3f} ± {own['standard_error']:.3f} nats a word"
        )


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['model']} ({found['attention']}) on {found['data']} {found['split']}, first captions of "
        f"{found['photos']:,} photos, nats a word",
        "  -log p",
    ]
    for name, loss in found["log_loss"].items():
        if name != "own":
            kind, _, number = name.partition("_")
            label = {
                "mean": "by the expected context",
                "sample": f"by sampled places, N = {number}" + (" (-L_s)" if number == "1" else ""),
                "particles": f"by {number} particles",
            }[kind]
            mark = "  <- the model's own" if name == found["log_loss"]["own"]["by"] else ""
            lines.append(
                f"    {label:<36} {loss['nats_per_word']:.3f} ± {loss['standard_error']:.3f} "
                f"(places alone ± {loss['draw_error']:.4f}){mark}"
            )
    gaps = {name: f"{gap['mean']:.4f} ± {gap['standard_error']:.4f}" for name, gap in found["nwgm"].items()}
    lines += [
        f"  entropy of alpha {found['entropy']:.2f}; the place tells {gaps['information']} about the word",
        "  against the expectation over all places of the softmax",
    ]
    for name, label in (("one_pass", "softmax at the expected context"), ("nwgm", "softmax of the expected logits")):
        divergence, size, signed = (gaps[f"{name}_{kind}"] for kind in ("kl", "word_absolute", "word"))
        lines.append(f"    {label:<36} KL {divergence}; log p of the true word off by {size}, in the mean by {signed}")
    if found["gradient"]:
        lines.append("  the gradient's variance by the attention's weights, over that without baseline; over its mean²")
        for name, row in found["gradient"].items():
            noise = "lost in noise" if row["noise"] is None else f"{row['noise']:.3g}"
            paths = f"{row['paths']} path{'s' if row['paths'] > 1 else ''}"
            lines.append(f"    {name:<46} {paths:<8} {row['relative']:8.3f}  {noise}")
    return lines
