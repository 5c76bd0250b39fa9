"""`sat analyse pointing`: whether a model looks at the objects that it names."""

import json
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    check_targets,
    device_option,
    gave,
    json_option,
    seed_option,
    split_option,
    weights_option,
)

EXAMPLES = """
\b
Examples:
  sat analyse scenes scenes/ --photos 2000
  sat analyse pointing --model scenes-soft --data scenes/
  sat analyse pointing --model scenes-hard --data scenes/ --split val --json pointing.json
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.option("--model", required=True, help="Shipped model, folder or hub id.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder made by sat analyse scenes.")
@split_option("test")
@click.option(
    "--look",
    type=click.Choice(["expectation", "likeliest", "sampled"]),
    help="How attention is read: expectation (weighted mean), likeliest (the top place) or sampled (a random place). "
    "[default: expectation for a soft model, likeliest for a hard one]",
)
@seed_option("sampled places")
@json_option("the figures")
@weights_option
@device_option
def pointing(
    model: str,
    data: Path,
    split: str,
    look: Any,
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Measure attention on the objects that words name.

    The pictures are generated scenes, in which the place of every object is known.
    """
    from show_attend_tell.analysis import pointing as measured
    from show_attend_tell.captioner import Captioner

    check_targets(json_file, read=[data])
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    result = measured.pointing(captioner, data, split=split, look=look, seed=seed)
    text = json.dumps(result, indent=1) + "\n"
    if gave(json_file, text):
        return
    click.echo(
        f"{result['model']} on {data} {split}, look by {result['look']}: {result['photos']:,} photos, "
        f"{result['all']['words']:,} words that name an object"
    )
    for kind in ("all", "colour", "shape"):
        if found := result.get(kind):
            click.echo(
                f"  {kind:<6}  alpha on the object {_percent(found, 'share')}, on the others "
                f"{_percent(found, 'elsewhere')}; likeliest place inside {_percent(found, 'hit')}; "
                f"word right {100 * found['right']['mean']:.1f} %"
            )


def _percent(found: dict[str, Any], figure: str) -> str:
    """A mean with its 95 % interval, and what even attention gives."""
    mean, low, high = (100 * found[figure][name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} % [{low:.1f}, {high:.1f}] (chance {100 * found[f'{figure}_chance']['mean']:.1f} %)"
