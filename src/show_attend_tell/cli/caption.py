"""`sat caption`: captions of photos, as text, JSON or pictures."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.shared import Teaching, check_target, device_option, fail, weights_option, write_text
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --picture pictures/          where each word looked
  sat caption dog.jpg --model flickr8k-hard --look likeliest
  sat caption 'photos/*.jpg' --json captions.json  everything, for a program
  sat caption dog.jpg --sample --temperature 0.5   draw words instead of searching
"""


@click.command(cls=Teaching, examples=EXAMPLES)
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
