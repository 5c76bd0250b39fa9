"""The command `sat`: a thin layer over the package; every message to the user is written here or in a `SatError`."""

import ast
import dataclasses
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from show_attend_tell import __version__
from show_attend_tell.errors import SatError

EXAMPLES = {
    "caption": """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --picture pictures/          where each word looked
  sat caption dog.jpg --model flickr8k-hard --look likeliest
  sat caption 'photos/*.jpg' --json captions.json  everything, for a program
  sat caption dog.jpg --sample --temperature 0.5   draw words instead of searching
""",
    "features": """
\b
Examples:
  sat features flickr8k/ --geometry squash
  sat features products/ --flipped
""",
    "train": """
DATA is a folder with a Karpathy split file (dataset*.json), the original Flickr token and split files, COCO's
captions JSON, or a captions.csv of your own (photo,caption[,split]), and the photos in images/.

\b
Examples:
  sat train flickr8k/ --attention soft --geometry squash --output my-model
  sat train products/ --attention soft --epochs 20 --output products-model
  sat train flickr8k/ --attention hard --start-from my-model --output my-hard-model
  sat train flickr8k/ --attention soft --output my-model --resume
  sat train flickr8k/ --attention soft --output big --set decoder.hidden_size=1024
""",
    "evaluate": """
\b
Examples:
  sat evaluate --model flickr8k-soft --data flickr8k/ --split test
  sat evaluate --model my-model --data flickr8k/ --split val --beam 3 --json scores.json
""",
    "models": """
\b
Examples:
  sat models                                       names to give to --model
""",
}


class Teaching(click.Command):
    """A command whose help ends with its examples, and whose mistakes are told in one sentence."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        text = EXAMPLES.get(self.name or "", "")
        if text:
            formatter.write_paragraph()
            for paragraph in text.strip().split("\n\n"):
                if paragraph.startswith("\b"):
                    formatter.write(paragraph.removeprefix("\b\n") + "\n")
                else:
                    formatter.write_text(" ".join(paragraph.split()))
                    formatter.write_paragraph()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SatError as error:
            fail(str(error), 1)
        except BrokenPipeError:
            raise  # `sat … | head`, which click sees to
        except OSError as error:  # a full disk, a folder that may not be written
            fail(str(error), 1)
        except KeyboardInterrupt:
            fail("interrupted", 130)


class Commands(click.Group):
    """The commands; what click itself refuses, an unknown option or a number out of range, is told in one line too."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        options["standalone_mode"] = False  # in which click raises its exceptions instead of printing them
        try:
            return super().main(*arguments, **options)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "sat"
            fail(f"{error.format_message()} ({command} --help tells more)", error.exit_code)
        except click.ClickException as error:
            fail(error.format_message(), error.exit_code)
        except click.Abort:
            fail("interrupted", 130)


def fail(message: str, code: int) -> NoReturn:
    click.echo(f"sat: {' '.join(message.split())}", err=True)
    sys.exit(code)


device_option = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
weights_option = click.option(
    "--encoder-weights",
    metavar="FILE",
    help="VGG-19 weights: a safetensors file in torchvision's layout, or the word torchvision to download its own. "
    "[default: those shipped]",
)
cache_option = click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where annotation features are kept. [default: $SAT_CACHE or ~/.cache]",
)
encoder_options = [
    click.option(
        "--encoder",
        default="vgg19",
        show_default=True,
        help="vgg19, or a vision model of Hugging Face transformers.",
    ),
    weights_option,
    click.option(
        "--geometry",
        type=click.Choice(["crop", "squash"]),
        default="crop",
        show_default=True,
        help="Shortest side and centre crop, or the whole photo squashed to a square.",
    ),
]


def with_encoder(command: Any) -> Any:
    for option in reversed(encoder_options):
        command = option(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="sat")
def main() -> None:
    """Show, Attend and Tell: captions that show where they looked.

    Start with: sat caption PHOTO
    """


@main.command(cls=Teaching)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("--model", default="flickr8k-soft", show_default=True, help="A shipped model, a folder, or a hub id.")
@click.option("--beam", type=click.IntRange(1, 100), help="Width of the beam; 1 is greedy. [default: the model's]")
@click.option(
    "--look",
    type=click.Choice(["expectation", "likeliest", "sampled"]),
    help="By the mean over all places, at the one likeliest, or at one drawn by α. [default: the model's]",
)
@click.option("--sample", is_flag=True, help="Draw the words at random instead of searching.")
@click.option(
    "--temperature", type=float, default=1.0, show_default=True, help="With --sample: below 1 keeps to likelier words."
)
@click.option("--top-k", type=int, default=0, help="With --sample: only the k likeliest words.")
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    help="With --sample: only the likeliest words of this total probability.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything that is drawn.")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Write words, attention, gate and settings as JSON; - is standard output.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write a picture of where each word looked.",
)
@weights_option
@device_option
def caption(
    photos: tuple[str, ...],
    model: str,
    beam: int | None,
    look: Any,
    sample: bool,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    json_file: str | None,
    picture: Path | None,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Caption photos: files, folders or globs."""
    from show_attend_tell.captioner import Captioner, Sampling
    from show_attend_tell.checkpoint import replace
    from show_attend_tell.photos import find_photos

    check_target(json_file)
    if not sample and (temperature, top_k, top_p) != (1.0, 0, 1.0):
        raise SatError("--temperature, --top-k and --top-p say how to draw words: add --sample")
    if sample and beam is not None:
        raise SatError("--sample draws the words and --beam searches them: give one of the two")
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p) if sample else None
    files = find_photos(photos)
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    if look not in (None, "expectation") and captioner.checkpoint.decoder.config.attention == "soft":
        click.echo(f"note: {model} was trained to look by expectation; its captions by {look} are poor", err=True)
    options: dict[str, Any] = {"beam": beam, "look": look, "sampling": sampling, "seed": seed}
    captions, failed = [], 0
    if picture is not None:
        picture.mkdir(parents=True, exist_ok=True)
    names = dict(zip(files, picture_names(files), strict=True))
    for batch in (files[start : start + BATCH] for start in range(0, len(files), BATCH)):
        for found in captions_or_errors(captioner, batch, options):
            if isinstance(found, SatError):
                click.echo(f"sat: {found}", err=True)
                failed += 1
                continue
            if json_file != "-":
                ending = "" if found.complete else " …"
                click.echo(f"{found.source}: {found}{ending}  (log p {found.log_probability:.2f})")
            if picture is not None:
                image = found.picture()
                target = picture / names[Path(str(found.source))]
                replace(target, lambda file, image=image: image.save(file, format="PNG"))  # type: ignore[misc]
            captions.append(found.to_dict() if json_file else None)
    if json_file:
        text = json.dumps(captions, ensure_ascii=False, indent=1) + "\n"
        if json_file == "-":
            click.echo(text, nl=False)
        else:
            write_text(Path(json_file), text)
    if picture is not None and captions:
        told = f"{len(captions)} picture{'s' if len(captions) > 1 else ''}"
        click.echo(f"{told} of where each word looked: {picture}{os.sep}", err=json_file == "-")
    if failed and len(files) > 1:
        fail(f"{failed} of {len(files)} photos could not be captioned, as said above", 1)
    if failed:
        sys.exit(1)


BATCH = 8  # photos captioned together, and so said together


def captions_or_errors(captioner: Any, batch: list[Path], options: dict[str, Any]) -> list[Any]:
    """The captions of a batch; where a photo cannot be read, its `SatError` in the place of its caption."""
    try:
        return list(captioner.caption(batch, **options))
    except SatError as error:
        if len(batch) == 1:
            return [error]
        return [captions_or_errors(captioner, [file], options)[0] for file in batch]


def picture_names(files: list[Path]) -> list[str]:
    """One PNG name a photo: its stem, numbered where two photos share one."""
    names: list[str] = []
    for file in files:
        name, number = f"{file.stem}.png", 2
        while name in names:
            name, number = f"{file.stem}-{number}.png", number + 1
        names.append(name)
    return names


def check_target(json_file: str | None) -> None:
    """Raise `SatError` for a file that cannot be written, before any time is spent on its content."""
    if json_file and json_file != "-":
        file = Path(json_file)
        if not file.parent.is_dir():
            raise SatError(f"{file.parent} is not a folder: make it first, or name another file")
        if file.is_dir():
            raise SatError(f"{file} is a folder: name a file")


def write_text(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from show_attend_tell.checkpoint import replace

    replace(file, lambda scratch: scratch.write_text(text, encoding="utf-8"))


@main.command(cls=Teaching)
@click.argument("data", type=click.Path(path_type=Path))
@with_encoder
@click.option("--flipped", is_flag=True, help="Encode the training photos mirrored too, for training with them.")
@click.option("--restval", is_flag=True, help="COCO: count the restval photos as training photos.")
@cache_option
@device_option
def features(
    data: Path,
    encoder: str,
    encoder_weights: str | None,
    geometry: Any,
    flipped: bool,
    restval: bool,
    cache: Path | None,
    device: str,
) -> None:
    """Encode a data set's photos once, so that training and evaluating need not wait for it; interrupt and resume at
    will."""
    from show_attend_tell.datasets import SPLITS, read_dataset
    from show_attend_tell.encoder import load_encoder
    from show_attend_tell.features import default_cache
    from show_attend_tell.hardware import pick_device
    from show_attend_tell.pipeline import cached

    dataset = read_dataset(data, restval=restval)
    for line in dataset.report.lines():
        click.echo(line)
    network = load_encoder(encoder, weights=encoder_weights, geometry=geometry).to(pick_device(device))
    store = cached(dataset, network, cache or default_cache(), splits=SPLITS)
    if flipped:
        cached(dataset, network, cache or default_cache(), splits=("train",), view="flipped")
    click.echo(f"{len(store):,} photos are encoded in {store.folder}")


@main.command(cls=Teaching)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--attention", type=click.Choice(["soft", "hard"]), required=True, help="The kind of attention to train.")
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
    help="paper, flickr8k, flickr30k or coco.",
)
@click.option("--epochs", type=click.IntRange(1), help="At most. [default: the preset's]")
@click.option("--seed", type=click.IntRange(0), help="[default: the preset's]")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change any setting of the preset; an unknown NAME lists them.",
)
@click.option("--start-from", metavar="MODEL", help="Begin with this model's decoder.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted training in --output.")
@with_encoder
@click.option(
    "--fine-tune-encoder",
    type=click.FloatRange(0, min_open=True),
    metavar="RATE",
    help="Train the encoder too, at this rate.",
)
@click.option(
    "--bits",
    type=click.Choice(["32", "16", "8"]),
    default="16",
    show_default=True,
    help="A weight in the checkpoint.",
)
@click.option("--restval", is_flag=True, help="COCO: count the restval photos as training photos.")
@click.option(
    "--tensorboard", is_flag=True, help="Write scalars and attention pictures to OUTPUT/training/tensorboard."
)
@cache_option
@device_option
def train(
    data: Path,
    attention: str,
    output: Path,
    preset_name: str,
    epochs: int | None,
    seed: int | None,
    changes: tuple[str, ...],
    start_from: str | None,
    resume: bool,
    encoder: str,
    encoder_weights: str | None,
    geometry: Any,
    fine_tune_encoder: float | None,
    bits: str,
    restval: bool,
    tensorboard: bool,
    cache: Path | None,
    device: str,
) -> None:
    """Train a captioner on a folder of captioned photos."""
    from show_attend_tell import pipeline
    from show_attend_tell.checkpoint import Checkpoint, find_model
    from show_attend_tell.datasets import read_dataset
    from show_attend_tell.encoder import load_encoder
    from show_attend_tell.features import default_cache
    from show_attend_tell.hardware import pick_device
    from show_attend_tell.presets import preset

    config = changed(preset(preset_name, attention), changes)
    given: dict[str, Any] = {"epochs": epochs, "seed": seed}
    config = dataclasses.replace(config, **{name: value for name, value in given.items() if value is not None})
    dataset = read_dataset(data, restval=restval)
    chosen = pick_device(device)
    start = Checkpoint.load(find_model(start_from)) if start_from is not None else None
    network = load_encoder(encoder, weights=encoder_weights, geometry=geometry).to(chosen)
    try:
        pipeline.train(
            dataset,
            config,
            network,
            output,
            cache=cache or default_cache(),
            device=chosen,
            resume=resume,
            start_from=start,
            fine_tune=fine_tune_encoder,
            bits=int(bits),  # type: ignore[arg-type]
            tensorboard=tensorboard,
            notes={"preset": preset_name, **({"started_from": start_from} if start_from else {})},
            say=click.echo,
        )
    except KeyboardInterrupt:
        fail(f"interrupted; the same command with --resume goes on from {output / 'training'}", 130)
    click.echo(f"Done. Score it with: sat evaluate --model {output} --data {data} --split test")


SET_ELSEWHERE = {
    "decoder.attention": "--attention",
    "decoder.annotation_size": "the encoder",
    "decoder.vocabulary_size": "vocabulary_size and minimum_count",
}


def changed(config: Any, changes: Sequence[str]) -> Any:
    """A configuration with settings changed, "decoder.hidden_size=1024" and the like, all at once.

    Raises `SatError` for a value of another kind, and listing the settings that there are for a name that is not one.
    """
    groups: dict[str, dict[str, Any]] = defaultdict(dict)
    for change in changes:
        name, equals, text = change.partition("=")
        if elsewhere := SET_ELSEWHERE.get(name):
            raise SatError(f"--set {change}: {name} is not set so, but by {elsewhere}")
        group, _, entry = name.rpartition(".")
        known = settings(config)
        if not equals or name not in known:
            raise SatError(f"--set {change}: give NAME=VALUE with one of these names: {', '.join(known)}")
        try:
            value: Any = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        now = known[name]
        if isinstance(now, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if now is not None and type(value) is not type(now):
            raise SatError(f"--set {change}: {name} is a {type(now).__name__} (now {now!r}), and {text!r} is not")
        groups[group][entry] = value
    plain: dict[str, Any] = groups.pop("", {})
    parts = {group: dataclasses.replace(getattr(config, group), **values) for group, values in groups.items()}
    return dataclasses.replace(config, **plain, **parts)


def settings(config: Any) -> dict[str, Any]:
    """Every setting by its name, "epochs" or "decoder.hidden_size"."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            found |= {f"{field.name}.{part.name}": getattr(value, part.name) for part in dataclasses.fields(value)}
        else:
            found[field.name] = value
    return found


@main.command(cls=Teaching)
@click.option("--model", default="flickr8k-soft", show_default=True, help="A shipped model, a folder, or a hub id.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="A folder as for sat train.")
@click.option("--split", default="test", show_default=True, help="train, val or test.")
@click.option("--beam", type=click.IntRange(1, 100), help="[default: the model's]")
@click.option("--look", type=click.Choice(["expectation", "likeliest", "sampled"]), help="[default: the model's]")
@click.option("--length-normalisation", type=click.FloatRange(0), help="γ of log p / length^γ. [default: the model's]")
@click.option(
    "--tokens",
    type=click.Choice(["split", "ptb"]),
    default="split",
    show_default=True,
    help="What is compared: the data set's own tokens, or PTB tokens of the raw captions.",
)
@click.option(
    "--bound",
    type=click.IntRange(1),
    metavar="N",
    help="Also the lower bound L_s of log p by N sampled sequences of places (first caption of each photo).",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of sampled places.")
@click.option("--json", "json_file", metavar="FILE", help="Write the scores and the captions; - is standard output.")
@click.option("--card", is_flag=True, help="Write the scores on the model's card too; --model must be a folder.")
@weights_option
@cache_option
@device_option
def evaluate(
    model: str,
    data: Path,
    split: str,
    beam: int | None,
    look: Any,
    length_normalisation: float | None,
    tokens: Any,
    bound: int | None,
    seed: int,
    json_file: str | None,
    card: bool,
    encoder_weights: str | None,
    cache: Path | None,
    device: str,
) -> None:
    """Score a model on a split: BLEU with and without brevity penalty, METEOR, ROUGE-L and CIDEr, ×100."""
    from show_attend_tell import pipeline
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.datasets import read_dataset
    from show_attend_tell.features import default_cache

    check_target(json_file)
    if card and not Path(model).is_dir():
        raise SatError(f"--card writes into the model's folder, and {model} is not one")
    dataset = read_dataset(data)
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    result = pipeline.evaluate(
        captioner,
        dataset,
        split,
        cache=cache or default_cache(),
        beam=beam,
        look=look,
        length_normalisation=length_normalisation,
        tokens=tokens,
        bound_samples=bound or 0,
        seed=seed,
    )
    if card:
        kept = {name: value for name, value in result.items() if name not in ("results", "variety", "model", "split")}
        captioner.checkpoint.scores[split] = kept
        captioner.checkpoint.describe(model)
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    if json_file == "-":
        click.echo(text, nl=False)
        return
    if json_file:
        write_text(Path(json_file), text)
    click.echo(
        f"{result['model']} on {result['data']} {split}: {result['captions']} captions, beam {result['beam']}, look by "
        f"{result['look']}, {result['tokens']} tokens"
    )
    for kind, suffix in (("with brevity penalty", ""), ("without", "_no_brevity")):
        figures = "  ".join(f"B-{n} {result[f'bleu_{n}{suffix}']:.1f}" for n in (1, 2, 3, 4))
        click.echo(f"  BLEU {kind:<21} {figures}")
    meteor = f"{result['meteor']:.1f}" if result["meteor"] is not None else f"– ({result['meteor_missing']})"
    click.echo(f"  METEOR {meteor}  ROUGE-L {result['rouge_l']:.1f}  CIDEr {result['cider']:.1f}")
    if bound:
        found = result["bound"]
        click.echo(
            f"  -L_s by {found['samples']} sampled sequences: {found['nats_per_word']:.3f} nats a word, "
            f"{found['nats_per_caption']:.2f} a caption; entropy of alpha {found['entropy']:.2f} nats"
        )


@main.command(cls=Teaching)
def models() -> None:
    """The models that come with this package, and their scores."""
    from show_attend_tell.checkpoint import SHIPPED, Checkpoint, score_lines, shipped_models

    if not shipped_models():
        click.echo("no model comes with this build; train one with sat train")
    for name in shipped_models():
        checkpoint = Checkpoint.load(SHIPPED / name)
        click.echo(
            f"{name}: {checkpoint.decoder.config.attention} attention, trained on {checkpoint.training.get('data')}"
        )
        for line in score_lines(checkpoint.scores):
            click.echo(f"  {line}")
