"""Import a model of the authors' program: it gives the same probabilities and has the same attention.

    python research/import_arctic.py coco.npz coco.npz.pkl words.pkl --output coco --encoder-weights vgg19.safetensors
    sat caption dog.jpg --model ./coco --encoder-weights vgg19.safetensors

The three files are what the authors' Theano program (arctic-captions) saves: weights, settings and vocabulary. Nothing
in them is executed. Models with several LSTM layers, or with an LSTM over the annotations, cannot be imported.

The model was trained on annotations of the authors' encoder: VGG-19 with Oxford's original weights. The weights that
come with sat are scaled otherwise. So every command that gives this model photos needs --encoder-weights.
"""

from collections.abc import Sequence
from pathlib import Path

from arctic_captions.conversion import import_arctic
from stages import new_parser, reporting

from show_attend_tell.checkpoint.checkpoint import check_vacant
from show_attend_tell.errors import SatError
from show_attend_tell.messages import plural


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Read the arguments, and import the model; a mistake ends the program with one line."""
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.npz")
    parser.add_argument("options", type=Path, metavar="MODEL.npz.pkl")
    parser.add_argument("dictionary", type=Path, metavar="DICTIONARY.pkl")
    parser.add_argument("--output", type=Path, required=True, help="folder for the new model")
    parser.add_argument(
        "--encoder-weights",
        help="the authors' VGG-19, a safetensors file in torchvision's layout, whose SHA-256 the model records; "
        "without it, the model takes any weights that are named later",
    )
    convert(**vars(parser.parse_args(given)))


def convert(model: Path, options: Path, dictionary: Path, output: Path, encoder_weights: str | None) -> None:
    """Write the model that three files describe, and say what it is."""
    from show_attend_tell.vision.encoder import load_encoder

    if (output / "config.json").exists():
        raise SatError(f"{output} holds a model already: give another --output")
    check_vacant(output)
    encoder = None if encoder_weights is None else load_encoder("vgg19", weights=encoder_weights, resize="crop")
    checkpoint = import_arctic(model, options, dictionary, encoder=encoder)
    checkpoint.save(output)

    config = checkpoint.config
    print(f"{output}: {config.attention} attention; {config.sizes}; {config.vocabulary_size:,} words")
    if left_out := checkpoint.training.get("words_left_out"):
        print(f"{plural(left_out, 'word')} of {dictionary} have ids that the model lacks: they are unknown to it")
    if unused := checkpoint.training.get("ids_without_a_word"):
        print(f"{plural(unused, 'id')} of the model have no word in {dictionary}: they are called <unused-ID>")
    if encoder is not None or config.annotation_size == 512:
        print(f"For photos, it needs the authors' encoder: add --encoder-weights {encoder_weights or 'FILE'}")
    else:
        print(f"It takes annotations of {config.annotation_size} numbers. VGG-19 gives 512, so it takes no photos")


if __name__ == "__main__":
    main()
