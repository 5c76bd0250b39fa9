"""`sat tune`: a search for better settings of a training."""

import shlex
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import BaseCommand, fail, was_given
from show_attend_tell.cli.training import log_printed, training_options
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


@click.command(cls=BaseCommand, epilog=EXAMPLES)
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
@training_options
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
    encoder: dict[str, Any],
    cache: Path | None,
    device: str,
) -> None:
    """Search for better settings of a training.

    Each trial trains with other settings, which Optuna chooses by what the trials before reached on val. The best ones
    are written to settings.json in the output, which sat train takes as its --preset; study.db keeps all trials. What
    --set gives holds in all trials; of a setting that is searched, in the first.
    """
    from show_attend_tell.data.datasets import read_dataset
    from show_attend_tell.training.config import TrainingPlan, changed
    from show_attend_tell.training.presets import preset, tuned_settings
    from show_attend_tell.training.start import EncoderChoice, choose_start
    from show_attend_tell.training.tune import Range, Study, import_optuna

    import_optuna()
    preset_name, attention, tuned = tuned_settings(preset_name, attention)
    changes = (*tuned, *changes)
    base = preset(preset_name, attention)
    objective = "hard" if attention == "hard" else "soft"
    texts = ranges or tuple(text.format(objective=objective) for text in DEFAULT)
    fit_to_data = not was_given("preset_name")
    choice = EncoderChoice(**encoder)
    with log_printed():
        dataset, config = read_dataset(data), changed(base, changes)
        start = choose_start(dataset, config, choice, init_from=init_from, fit_to_data=fit_to_data)
        plan = TrainingPlan(
            dataset=dataset,
            start=start,
            config=config,
            output=output,
            given={change.partition("=")[0].strip() for change in changes},
            fit_to_data=fit_to_data,
            cache=cache,
            device=device,
        )
        searched = [Range.read(text, config) for text in texts]
        study = Study(plan, searched, preset=preset_name, attention=attention, base=base)
        try:
            found = study.run(trials=trials, seconds=None if minutes is None else 60 * minutes)
        except KeyboardInterrupt:
            fail(f"interrupted; {output} keeps the trials, and the same command goes on", 130)
    click.echo(
        f"best of {plural(found.trials, 'trial')}: {found.value:.3f}, trial {found.number}: {' '.join(found.changes)}"
    )
    repeated = {"init_from": start.name, **encoder}
    options = [
        part for name, value in repeated.items() if value is not None for part in (f"--{name.replace('_', '-')}", value)
    ]
    train = ["sat", "train", str(data), "--preset", str(output / "settings.json"), *options]
    click.echo(f"Train with it: {shlex.join(train)} --output MODEL")
