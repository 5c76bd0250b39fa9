"""`sat tune`: a search for better settings of a training."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    cache_option,
    device_option,
    encoder_options,
    fail,
    note_shadowed,
    was_given,
)
from show_attend_tell.messages import plural

EXAMPLES = """
A setting's values are NAME=LOW..HIGH or NAME=ONE,OTHER. By default five settings are searched: the learning rate, both
dropouts, label smoothing and the batch size.

\b
Examples:
  sat tune flickr8k/ --resize squash --output tuned --minutes 90
  sat tune flickr8k/ --output tuned --search learning_rate=1e-4..1e-2 --search batch_size=32,64
  sat train flickr8k/ --resize squash --preset tuned/settings.json --output my-model
"""

DEFAULT = (
    *("learning_rate=3e-4..4e-3", "decoder.dropout=0.2..0.7", "decoder.annotation_dropout=0..0.4"),
    *("{objective}.label_smoothing=0..0.2", "batch_size=32,64,128"),
)


@click.command(cls=BaseCommand, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the study; the same command goes on, also in several processes at a time.",
)
@click.option(
    "--search",
    "ranges",
    multiple=True,
    metavar="NAME=VALUES",
    help="Setting to search, and its values. It may be given several times.",
)
@click.option(
    "--trials", type=click.IntRange(1), default=50, show_default=True, help="Number of trials of the whole study."
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Minutes after which this process starts no further trial. [default: no limit]",
)
@click.option(
    "--preset", "preset_name", default="flickr8k", show_default=True,
    help="Settings to start from: a preset of sat train, or a file of sat tune.",
)  # fmt: skip
@click.option(
    "--attention", type=click.Choice(["soft", "hard", "uniform"]),
    help="Kind of attention to train. [default: soft]",
)  # fmt: skip
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a setting in all trials; of one that is searched, in the first. It may be given several times.",
)
@click.option(
    "--init-from", metavar="MODEL", callback=note_shadowed,
    help="Model that each trial starts from; none starts afresh. [default: as for sat train]",
)  # fmt: skip
@encoder_options
@cache_option
@device_option
def tune(
    data: Path,
    output: Path,
    ranges: tuple[str, ...],
    trials: int,
    minutes: float | None,
    preset_name: str,
    attention: str | None,
    changes: tuple[str, ...],
    init_from: str | None,
    encoder: str | None,
    encoder_weights: str | None,
    resize: Any,
    cache: Path | None,
    device: str,
) -> None:
    """Search for better settings of a training.

    Each trial trains with other settings, which Optuna chooses by what the trials before reached on val. The best ones
    are written to settings.json in the output, which sat train takes as its --preset, and history.svg shows all trials.
    """
    from show_attend_tell.cli.training.settings import changed, preset_behind
    from show_attend_tell.cli.training.start import start_of
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training.presets import preset
    from show_attend_tell.training.presets.custom import fitted
    from show_attend_tell.training.tune import Range, Study
    from show_attend_tell.vision.feature_cache import default_cache

    Study.optuna()
    chosen = pick_device(device)
    preset_name, attention, tuned = preset_behind(preset_name, attention)
    changes = (*tuned, *changes)
    base = preset(preset_name, attention)
    config = changed(base, changes)
    objective = "hard" if attention == "hard" else "soft"
    texts = ranges or tuple(text.format(objective=objective) for text in DEFAULT)
    dataset = read_dataset(data)
    fits = not was_given("preset_name") and dataset.custom  # the settings are fitted to the data, as in sat train
    start = start_of(dataset, config, init_from, encoder, fits=fits, weights=encoder_weights, resize=resize)

    def own_settings(given: Sequence[str]) -> tuple[Any, list[str]]:
        """The settings that fit own data, but for those given, and lines about them."""
        names = {change.partition("=")[0] for change in given}
        return fitted(start.dataset, changed(base, given), given=names, started=start.model is not None)

    def all_changes(more: Sequence[str]) -> list[str]:
        """The changes of the preset: what fits own data, what was given, and what a trial changes."""
        given = [*changes, *more]
        before = changed(base, given).to_dict()
        own = own_settings(given)[0].to_dict() if fits else before
        return [*(f"{name}={value}" for name, value in own.items() if value != before[name]), *given]

    for line in [*start.lines, *(own_settings(changes)[1] if fits else ())]:
        click.echo(line)
    study = Study(
        folder=output,
        dataset=start.dataset,
        encoder=start.encoder.to(chosen),
        cache=cache or default_cache(),
        device=chosen,
        changes=all_changes,
        build=lambda more: changed(base, all_changes(more)),
        ranges=[Range.read(text) for text in texts],
        base={"preset": preset_name, "attention": attention, "set": list(changes), "init_from": start.name},
        init_from=start.model,
        log=click.echo,
    )
    try:
        found = study.run(trials=trials, seconds=None if minutes is None else 60 * minutes)
    except KeyboardInterrupt:
        fail(f"interrupted; {output} keeps the trials, and the same command goes on", 130)
    click.echo(
        f"best of {plural(found['trials'], 'trial')}: {found['value']:.3f}, trial {found['trial']}: "
        f"{' '.join(found['set'])}"
    )
    repeated = {
        "--init-from": start.name,
        "--encoder": encoder,
        "--encoder-weights": encoder_weights,
        "--resize": resize,
    }
    options = [part for name, value in repeated.items() if value is not None for part in (name, value)]
    train = ["sat", "train", str(data), "--preset", str(output / "settings.json"), *options]
    click.echo(f"Train with it: {shlex.join(train)} --output MODEL")
