"""`sat analyse pointing`: whether a model looks at the objects that it names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    check_targets,
    device_option,
    gave,
    json_option,
    look_option,
    model_option,
    seed_option,
    split_option,
    weights_option,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat analyse scenes scenes/ --photos 2000
  sat analyse pointing --model scenes-soft --data scenes/
  sat analyse pointing --model scenes-hard --data scenes/ --split val --json pointing.json
  sat analyse pointing --model flickr8k-soft --mosaic flickr8k/
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@model_option(required=True)
@click.option("--data", type=click.Path(path_type=Path), help="Folder made by sat analyse scenes.")
@click.option(
    "--mosaic",
    type=click.Path(path_type=Path),
    help="Folder of captioned photos, as for sat train, in place of --data: four photos share one picture.",
)
@click.option("--mosaics", type=click.IntRange(2), default=500, show_default=True, help="Number of mosaics.")
@split_option("test")
@look_option
@seed_option("mosaics and of sampled places")
@json_option("the figures")
@weights_option
@device_option
def pointing(
    model: str,
    data: Path | None,
    mosaic: Path | None,
    mosaics: int,
    split: str,
    look: Any,
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Measure attention on what words name.

    With --data the pictures are generated scenes, in which the place of every object is known. With --mosaic each
    picture is four photos, and a caption of one of them is told to the model: how much attention falls on that photo?
    """
    from show_attend_tell.analysis.mosaics import point_in_mosaics
    from show_attend_tell.analysis.pointing import point_in_scenes
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import read_dataset

    if (data is None) == (mosaic is None):
        raise SatError("give either --data, a folder made by sat analyse scenes, or --mosaic, a folder of photos")
    check_targets(json_file, read=[folder for folder in (data, mosaic) if folder is not None])
    if mosaic is not None:
        dataset = read_dataset(mosaic)
        examples = dataset.split(split)
        captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
        result = point_in_mosaics(captioner, examples, mosaics=mosaics, look=look, seed=seed)
        result |= {"data": dataset.name, "split": split}
    elif data is not None:
        captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
        result = point_in_scenes(captioner, data, split=split, look=look, seed=seed)
    if not gave(json_file, json.dumps(result, ensure_ascii=False, indent=1) + "\n"):
        for line in _in_mosaics(result) if mosaic is not None else _in_scenes(result, data):
            click.echo(line)


def _in_scenes(result: dict[str, Any], data: Path | None) -> Iterator[str]:
    yield (
        f"{result['model']} on {data} {result['split']}, look by {result['look']}: {result['photos']:,} photos, "
        f"{result['all']['words']:,} words that name an object"
    )
    for kind in ("all", "colour", "shape"):
        if found := result.get(kind):
            yield (
                f"  {kind:<6}  alpha on the object {_percent(found, 'share')}, on the others "
                f"{_percent(found, 'elsewhere')}; likeliest place inside {_percent(found, 'hit')}; "
                f"word right {100 * found['right']['mean']:.1f} %"
            )


def _in_mosaics(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{result['model']} on {result['mosaics']:,} mosaics of {result['data']} {result['split']} by seed "
        f"{result['seed']}, look by {result['look']}; nouns that tell the photo apart; "
        f"chance is {100 * result['chance']:g} %"
    )
    for step, title in (("word", "at the noun's own step"), ("next", "at the next step, after the noun")):
        yield f"  {title}"
        for before, found in result[step].items():
            share, hit = (
                f"{100 * found[name]['mean']:.1f} % [{100 * found[name]['low']:.1f}, {100 * found[name]['high']:.1f}]"
                for name in ("share", "hit")
            )
            nouns = {"all": "all", "1": "1 noun before"}.get(before, f"{before} nouns before")
            words = f"{found['words']:,} words"
            yield f"    {nouns:<24}{words:>12}  alpha on the right photo {share}, likeliest place on it {hit}"


def _percent(found: dict[str, Any], figure: str) -> str:
    """A mean with its 95 % interval, and what even attention gives."""
    mean, low, high = (100 * found[figure][name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} % [{low:.1f}, {high:.1f}] (chance {100 * found[f'{figure}_chance']['mean']:.1f} %)"
