"""`sat train`: from captioned photos to a checkpoint."""

import shlex
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    FOLDER,
    PATH,
    SEED,
    BaseCommand,
    device_option,
    encoder_options,
    fail,
    log_printed,
)
from show_attend_tell.cli.options import options_from

EXAMPLES = """
DATA is a folder, or several, with the photos in images/ and one of these: captions.csv, .tsv or .jsonl with custom data
(photo,caption[,split]), a Hugging Face imagefolder's metadata, COCO's captions_*.json, a Karpathy split file
(dataset*.json), or the original Flickr token and split files. To see what it contains: sat check DATA

\b
Examples:
  sat train flickr8k/ --attention soft --resize squash --output my-model
  sat train products/ --output products-model
  sat train flickr8k/ --attention hard --resize squash --init-from my-model --output my-hard-model
  sat train flickr8k/ --attention soft --resize squash --output my-model --resume
  sat train products/ --output products-model --resume --epochs 40
  sat train products/ --output afresh --init-from none
  sat train flickr8k/ products/ --weight 1 --weight 5 --attention soft --output both
  sat train flickr8k/ --plugin research/table1 --decoder nic --output my-nic
  sat train flickr8k/ --attention soft --output big --set decoder.hidden_size=1024
  torchrun --nproc-per-node 4 --no-python sat train flickr8k/ --output shared
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("data", type=PATH, nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--weight",
    "weights",
    type=click.FloatRange(0, min_open=True),
    multiple=True,
    help="With several data folders, how often an epoch shows the captions of each; once for each folder, in order.",
)
@click.option(
    "--decoder",
    metavar="KIND",
    help="Decoder of another kind to train instead: one that a --plugin or an installed package registers.",
)
@click.option("--output", type=FOLDER, required=True, help="Folder for the checkpoint.")
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Maximum number of epochs; with --resume, a larger number continues a finished training. [default: the "
    "preset's; for custom data by the number of captions]",
)
@click.option("--seed", type=SEED, help="Random seed. [default: the preset's]")
@click.option(
    "--preset",
    "preset_name",
    help="Settings to start from: paper or flickr8k. [default: flickr8k, fitted to custom data]",
)
@click.option(
    "--attention",
    type=click.Choice(["soft", "hard", "uniform"]),
    help="Kind of attention to train; uniform weighs all locations equally, as a control. [default: soft]",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another value for any setting of the preset; an unknown NAME lists the settings. It may be given several "
    "times.",
)
@click.option(
    "--init-from",
    metavar="MODEL",
    help="Model whose decoder the training starts from, with its --resize and its words; none starts from scratch. "
    "[default: without --preset, everyday-soft for soft attention on fewer than 2,000 custom photos with English "
    "captions; otherwise none]",
)
@encoder_options
@device_option
@options_from(
    "show_attend_tell.training:RunOptions",
    "encoder_lr",
    "unfreeze_from",
    "text_corpus",
    "resume",
    "bits",
    into="run",
)
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
def train(
    data: tuple[Path, ...],
    output: Path,
    preset_name: str | None,
    attention: str | None,
    decoder: str | None,
    epochs: int | None,
    seed: int | None,
    changes: tuple[str, ...],
    run: dict[str, Any],
    **others: Any,  # which `plan_for` calls by the same names
) -> None:
    """Train a captioner on a folder of captioned photos.

    When torchrun starts it, several processes share each batch.
    """
    from show_attend_tell.checkpoint.hub import shipped_models
    from show_attend_tell.model.registry import plugins
    from show_attend_tell.training import ranks
    from show_attend_tell.training.plan import plan_for
    from show_attend_tell.training.run import train as run_training

    if attention is not None and decoder is not None:
        raise click.UsageError("Give only one of --attention (soft, hard or uniform) and --decoder.")
    changes += tuple(f"{name}={value}" for name, value in (("epochs", epochs), ("seed", seed)) if value is not None)
    encoder = {name: others.pop(name) for name in ("encoder", "encoder_weights", "resize")}
    run = {name: value for name, value in run.items() if value is not None}  # "none" is as if it were not given
    with log_printed():
        try:
            plan = plan_for(
                data,
                output,
                settings=changes,
                preset=preset_name,
                attention=attention or "soft",
                decoder=decoder,
                encoder=encoder,
                **others,
                **run,
            )
            run_training(plan)
        except KeyboardInterrupt:
            again = "the same command" if "resume" in run else "the same command with --resume"
            fail(f"interrupted. To go on from here: {again}", 130)
    if not ranks.is_main():
        return
    parts = plan.dataset.parts
    scored = parts[0].dataset if parts else plan.dataset  # sat evaluate scores one folder
    split = "test" if scored.report.photos["test"] else "val"
    name = f"./{output}" if str(output) in shipped_models() else str(output)
    words = ["sat", "evaluate", "--model", name, "--data", str(data[0]), "--split", split]
    if encoder["encoder_weights"] is not None:
        words += ["--encoder-weights", encoder["encoder_weights"]]
    words += [part for name in plugins for part in ("--plugin", name)]
    click.echo(f"Done. Score it with: {shlex.join(words)}")
