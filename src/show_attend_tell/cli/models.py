"""`sat models` and `sat import-arctic`: models that come with the package, and those of the paper's authors."""

from pathlib import Path

import click

from show_attend_tell.checkpoint.hub import DEFAULT_MODEL
from show_attend_tell.cli.command import BaseCommand
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_text
from show_attend_tell.messages import plural

EXAMPLES = """
\b
Examples:
  sat models                       names to give to --model
  sat models everyday-soft         what a model was trained on, its scores and its limits
"""

IMPORT_EXAMPLES = """
\b
Examples:
  sat import-arctic coco.npz coco.npz.pkl dictionary.pkl --output coco --encoder-weights vgg19.safetensors
  sat caption dog.jpg --model ./coco --encoder-weights vgg19.safetensors
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("name", required=False)
def models(name: str | None) -> None:
    """List the models of this package, or show the card of one.

    NAME is a shipped model, a folder or a hub id. CIDEr is that of the test photos, ×100.
    """
    from show_attend_tell.checkpoint.config import read_configuration
    from show_attend_tell.checkpoint.hub import SHIPPED, find_model, shipped_models, shipped_size

    if name is not None:
        click.echo(read_text(find_model(name) / "README.md"), nl=False)
        return
    rows = [("model", "size", "for", "CIDEr on test")]
    for shipped in sorted(shipped_models(), key=lambda name: name != DEFAULT_MODEL):
        config, *_ = read_configuration(SHIPPED / shipped / "config.json")
        data, purpose = str(config.training.get("data")), str(config.training.get("purpose"))
        tests = {
            data if split == "test" else split.removesuffix(", test"): scores["cider"]
            for split, scores in config.scores.items()
            if split.split(", ")[-1] == "test"
        }
        figures = ", ".join(f"{split} {cider:.1f}" for split, cider in tests.items())
        rows.append((shipped, f"{shipped_size(shipped) / 1e6:.1f} MB", purpose, figures))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    click.echo(f"{DEFAULT_MODEL} is the default. Details: sat models NAME")


@click.command("import-arctic", cls=BaseCommand, epilog=IMPORT_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.npz")
@click.argument("options", type=click.Path(path_type=Path), metavar="MODEL.npz.pkl")
@click.argument("dictionary", type=click.Path(path_type=Path), metavar="DICTIONARY.pkl")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the new model."
)
@click.option(
    "--encoder-weights",
    metavar="FILE",
    help="Weights of the authors' VGG-19, a safetensors file in torchvision's layout. The new model records their "
    "SHA-256 and refuses others. Without this option, the new model takes any that are named later.",
)
def import_arctic(model: Path, options: Path, dictionary: Path, output: Path, encoder_weights: str | None) -> None:
    """Import a model of the authors' program.

    MODEL.npz (weights), MODEL.npz.pkl (settings) and DICTIONARY.pkl (vocabulary) are files of the authors' Theano
    program (arctic-captions). The new model gives the same probabilities and has the same attention. Nothing in the
    files is executed. Models with several LSTM layers, or with an LSTM over the annotations, cannot be imported.

    The model was trained on annotations of the authors' encoder: VGG-19 with Oxford's original weights. The weights
    that come with sat are scaled otherwise. So every command that gives this model photos needs --encoder-weights.
    """
    from show_attend_tell.checkpoint.arctic.conversion import import_arctic as imported
    from show_attend_tell.checkpoint.checkpoint import check_vacant
    from show_attend_tell.vision.encoder import load_encoder

    if (output / "config.json").exists():
        raise SatError(f"{output} holds a model already: give another --output")
    check_vacant(output)
    encoder = None if encoder_weights is None else load_encoder("vgg19", weights=encoder_weights, resize="crop")
    checkpoint = imported(model, options, dictionary, encoder=encoder)
    checkpoint.save(output)

    config = checkpoint.config
    click.echo(f"{output}: {config.attention} attention; {config.sizes}; {config.vocabulary_size:,} words")
    if left_out := checkpoint.training.get("words_left_out"):
        click.echo(f"{plural(left_out, 'word')} of {dictionary} have ids that the model lacks: they are unknown to it")
    if unused := checkpoint.training.get("ids_without_a_word"):
        click.echo(f"{plural(unused, 'id')} of the model have no word in {dictionary}: they are called <unused-ID>")
    if encoder is not None or config.annotation_size == 512:
        click.echo(f"For photos, it needs the authors' encoder: add --encoder-weights {encoder_weights or 'FILE'}")
    else:
        click.echo(f"It takes annotations of {config.annotation_size} numbers. VGG-19 gives 512, so it takes no photos")
