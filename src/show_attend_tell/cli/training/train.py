"""`sat train`: from captioned photos to a checkpoint."""

import math
import shlex
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
    plugin_option,
    was_given,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
DATA is a folder, or several, with the photos in images/ and one of these: captions.csv, .tsv or .jsonl of your own
(photo,caption[,split]), a Hugging Face imagefolder's metadata, COCO's captions_*.json, a Karpathy split file
(dataset*.json), or the original Flickr token and split files. See what it holds with: sat check DATA

\b
Examples:
  sat train flickr8k/ --attention soft --resize squash --output my-model
  sat train products/ --output products-model
  sat train flickr8k/ --attention hard --resize squash --init-from my-model --output my-hard-model
  sat train flickr8k/ --attention soft --resize squash --output my-model --resume
  sat train products/ --output products-model --resume --epochs 40
  sat train products/ --output afresh --init-from none
  sat train flickr8k/ products/ --weight 1 --weight 5 --attention soft --output both
  sat train flickr8k/ --plugin experiments/table1 --decoder nic --output my-nic
  sat train flickr8k/ --attention soft --output big --set decoder.hidden_size=1024
  torchrun --nproc-per-node 4 --no-python sat train flickr8k/ --output shared
"""


@click.command(cls=BaseCommand, examples=EXAMPLES)
@click.argument("data", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--weight",
    "weights",
    type=click.FloatRange(0, min_open=True),
    multiple=True,
    help="With several data folders, how often an epoch shows the captions of each; once for each folder, in order.",
)
@click.option(
    "--text-corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Captions without photos, one in each line of a text file, also packed by gzip: the decoder learns words and "
    "phrases from them.",
)
@click.option(
    "--attention",
    type=click.Choice(["soft", "hard", "uniform"]),
    help="Kind of attention to train; uniform looks at all places alike, as a control. [default: soft]",
)
@click.option(
    "--decoder",
    metavar="KIND",
    help="Decoder of another kind to train instead: one that a --plugin or an installed package registers.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the checkpoint.",
)
@click.option(
    "--preset",
    "preset_name",
    default="flickr8k",
    show_default=True,
    help="Settings to start from: paper, flickr8k, mosaics, flickr8k-cider, flickr30k, coco, scenes or a file of "
    "sat tune.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Largest number of epochs; with --resume, more than before let an ended training go on. [default: the "
    "preset's, and more for small data of your own]",
)
@click.option("--seed", type=click.IntRange(0), help="Random seed. [default: the preset's]")
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
    callback=note_shadowed,
    help="Model whose decoder the training starts from, with its geometry and its words; none starts afresh. [default: "
    "without --preset, everyday-soft for soft attention on fewer than 2,000 photos of your own with English captions; "
    "otherwise none]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continuation of the interrupted training in --output, or its start where there is none yet.",
)
@encoder_options
@click.option(
    "--encoder-lr",
    type=click.FloatRange(0, min_open=True),
    metavar="RATE",
    help="Learning rate of the encoder, which is then trained too.",
)
@click.option(
    "--unfreeze-from",
    metavar="BLOCK",
    help="First block of the encoder that is trained, such as conv5_1 of vgg19. [default: the whole encoder]",
)
@click.option(
    "--bits",
    type=click.Choice(["32", "16", "8", "4"]),
    default="16",
    show_default=True,
    help="Bits per stored weight.",
)
@click.option("--restval", is_flag=True, help="COCO: restval photos count as training photos.")
@click.option(
    "--tensorboard", is_flag=True, help="TensorBoard scalars and attention pictures, in OUTPUT/training/tensorboard."
)
@plugin_option
@cache_option
@device_option
def train(
    data: tuple[Path, ...],
    weights: tuple[float, ...],
    text_corpus: Path | None,
    attention: str | None,
    decoder: str | None,
    output: Path,
    preset_name: str,
    epochs: int | None,
    seed: int | None,
    changes: tuple[str, ...],
    init_from: str | None,
    resume: bool,
    encoder: str | None,
    encoder_weights: str | None,
    resize: Any,
    encoder_lr: float | None,
    unfreeze_from: str | None,
    bits: str,
    restval: bool,
    tensorboard: bool,
    cache: Path | None,
    device: str,
) -> None:
    """Train a captioner on a folder of captioned photos.

    Started by torchrun, several processes share each batch (docs/scale.md).
    """
    from show_attend_tell.checkpoint.hub import shipped_models
    from show_attend_tell.cli.training.settings import changed, preset_of
    from show_attend_tell.cli.training.start import start_of
    from show_attend_tell.data.datasets import join, read_dataset
    from show_attend_tell.data.text_corpus import read_text_corpus
    from show_attend_tell.devices import pick_device
    from show_attend_tell.training import ranks, run
    from show_attend_tell.training.presets.custom import fitted
    from show_attend_tell.training.state import stored_epochs
    from show_attend_tell.vision.feature_cache import default_cache

    if resume and epochs is None and not any(change.partition("=")[0].strip() == "epochs" for change in changes):
        epochs = stored_epochs(output / "training" / "state.safetensors")
    given = {"epochs": epochs, "seed": seed}
    changes += tuple(f"{name}={value}" for name, value in given.items() if value is not None)
    config = changed(preset_of(preset_name, attention, decoder), changes)
    if encoder_lr is not None and not math.isfinite(encoder_lr):
        raise SatError(f"--encoder-lr {encoder_lr}: give a learning rate, 1e-5 for example")
    if unfreeze_from is not None and encoder_lr is None:
        raise SatError(f"--unfreeze-from {unfreeze_from} needs a learning rate: add --encoder-lr 1e-5")
    try:
        dataset = read_dataset(data[0], restval=restval)
        if len(data) > 1 or weights:
            dataset = join([dataset, *(read_dataset(folder, restval=restval) for folder in data[1:])], weights)
        chosen = pick_device(device)
        fits = dataset.custom and decoder is None and not was_given("preset_name")  # the settings, to the data
        kind = {"weights": encoder_weights, "resize": resize, "encoder_lr": encoder_lr}
        start = start_of(dataset, config, init_from, encoder, fits=fits, **kind)

        def fit(dataset: Any) -> tuple[Any, list[str]]:
            names = {change.partition("=")[0] for change in changes}
            return fitted(dataset, config, given=names, started=start.model is not None) if fits else (config, [])

        own_config, lines = fit(start.dataset)
        with ranks.together(chosen) as own_device:
            run.train(
                start.dataset,
                own_config,
                start.encoder.to(own_device),
                output,
                cache=cache or default_cache(),
                device=own_device,
                resume=resume,
                init_from=start.model,
                encoder_lr=encoder_lr,
                unfreeze_from=unfreeze_from,
                text_corpus=() if text_corpus is None else read_text_corpus(text_corpus, start.dataset.tokenizer),
                bits=int(bits),  # type: ignore[arg-type]
                tensorboard=tensorboard,
                notes={
                    "preset": preset_name,
                    **({"weights": list(weights)} if weights else {}),
                    **({"text_corpus": text_corpus.name} if text_corpus else {}),
                    **({"init_from": start.name} if start.name else {}),
                    **({"fine_tuned_from": unfreeze_from} if unfreeze_from else {}),
                },
                plan=[*start.lines, *lines],
                refit=fit,
                log=click.echo,
            )
            speaks = ranks.first()
    except KeyboardInterrupt:
        again = "the same command" if resume else "the same command with --resume"
        fail(f"interrupted. To go on from here: {again}", 130)
    if not speaks:
        return
    scored = dataset.parts[0].dataset if dataset.parts else dataset  # sat evaluate scores one folder
    split = "test" if scored.report.photos["test"] else "val"
    model = f"./{output}" if str(output) in shipped_models() else str(output)
    words = ["sat", "evaluate", "--model", model, "--data", str(data[0]), "--split", split]
    words += ["--encoder-weights", encoder_weights] if encoder_weights is not None else []
    click.echo(f"Done. Score it with: {shlex.join(words)}")
