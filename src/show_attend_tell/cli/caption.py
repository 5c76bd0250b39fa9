"""`sat caption`: captions of photos, as text, JSON or pictures."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    beam_option,
    check_targets,
    device_option,
    fail,
    gave,
    json_option,
    look_option,
    seed_option,
    weights_option,
    write_text,
)
from show_attend_tell.errors import SatError

EXAMPLES = """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --picture looked/            where each word looked
  sat caption dog.jpg --picture looked/ --format svg --heat
  sat caption dog.jpg --picture looked/ --beside flickr8k-hard --look likeliest
  sat caption dog.jpg --html dog.html              a page to explore it in
  sat caption 'photos/*.jpg' --json captions.json  everything, for a program
  sat caption dog.jpg --sample --temperature 0.5   draw words instead of searching
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("--model", default="flickr8k-soft", show_default=True, help="Shipped model, folder or hub id.")
@click.option(
    "--beside", multiple=True, metavar="MODEL", help="Another model, whose captions stand beside those of the first."
)
@beam_option
@look_option
@click.option("--sample", is_flag=True, help="Random words instead of a search.")
@click.option(
    "--temperature",
    type=float,
    default=1.0,
    show_default=True,
    help="Temperature of --sample; below 1, likely words become likelier.",
)
@click.option(
    "--top-k", type=int, default=0, help="Number of words that --sample chooses from, the likeliest; 0 is all."
)
@click.option(
    "--top-p", type=float, default=1.0, help="Total probability of the words that --sample chooses from, the likeliest."
)
@seed_option("everything that is drawn")
@json_option("words, attention, gate and settings")
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    help="Page of all captions to write: point at a word and see where the model looked.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for pictures of where each word looked.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["png", "svg", "gif", "webp"]),
    default="png",
    show_default=True,
    help="Format of the pictures: svg keeps letters as text, gif and webp move from word to word.",
)
@click.option(
    "--heat", is_flag=True, help="Colours for attention in pictures, safe for colour-blind eyes, instead of light."
)
@click.option("--dark", is_flag=True, help="Dark page for pictures.")
@click.option("--stretch", is_flag=True, help="Own scale for each word in pictures; it makes a flat map look sharp.")
@weights_option
@device_option
def caption(
    photos: tuple[str, ...],
    model: str,
    beside: tuple[str, ...],
    beam: int | None,
    look: Any,
    sample: bool,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    json_file: str | None,
    html_file: str | None,
    picture: Path | None,
    form: str,
    heat: bool,
    dark: bool,
    stretch: bool,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Caption photos: files, folders or globs.

    With --beside, models of soft attention ignore --look and read attention by expectation.
    """
    from show_attend_tell.captioner import Captioner, Sampling
    from show_attend_tell.checkpoint.card import card
    from show_attend_tell.data.photos import find_photos
    from show_attend_tell.show import page

    if html_file == "-":
        raise SatError("--html - : name a file for the page")
    if not sample and (temperature, top_k, top_p) != (1.0, 0, 1.0):
        raise SatError("--temperature, --top-k and --top-p say how to draw words: add --sample")
    if sample and beam is not None:
        raise SatError("--sample draws the words and --beam searches them: give one of the two")
    if picture is None and (form, heat, dark, stretch) != ("png", False, False, False):
        raise SatError("--format, --heat, --dark and --stretch say how pictures look: add --picture FOLDER")
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p) if sample else None
    files = find_photos(photos)
    check_targets(json_file, html_file, read=files)
    captioners = [
        Captioner.from_pretrained(name, device=device, encoder_weights=encoder_weights) for name in (model, *beside)
    ]
    options: list[dict[str, Any]] = []  # of each model
    for captioner in captioners:
        attention = captioner.checkpoint.decoder.config.attention
        if picture is not None and attention == "none":
            raise SatError(f"{captioner.name} has no attention, so there is no looking to draw: leave out --picture")
        soft = attention == "soft"
        if soft and not beside and look not in (None, "expectation"):
            click.echo(f"note: {model} was trained to look by expectation; its captions by {look} are poor", err=True)
        own = None if soft and beside else look
        options.append({"beam": beam, "look": own, "sampling": sampling, "seed": seed})
    captions, shown, pictures, failed = [], [], 0, 0
    names = dict(zip(files, picture_names(files, form), strict=True))
    if picture is not None:
        own_photos = {file.resolve() for file in files}
        for name in names.values():
            if (picture / name).resolve() in own_photos:
                raise SatError(f"the picture {picture / name} would overwrite a photo: name another folder")
        picture.mkdir(parents=True, exist_ok=True)
    for batch in (files[start : start + BATCH] for start in range(0, len(files), BATCH)):
        for file, found in zip(batch, captions_or_errors(captioners, batch, options), strict=True):
            if isinstance(found, SatError):
                click.echo(f"sat: {found}", err=True)
                failed += 1
                continue
            for told in found:
                if json_file != "-":
                    by = f" [{told.settings['model']}]" if beside else ""
                    ending = "" if told.complete else " …"
                    file_name = click.format_filename(told.source)
                    click.echo(f"{file_name}{by}: {told}{ending}  (log p {told.log_probability:.2f})")
            if picture is not None:
                first, *others = found
                first.save(picture / names[file], beside=others, heat=heat, dark=dark, per_word_scale=stretch)
                pictures += 1
            captions += [told.to_dict() for told in found] if json_file else []
            if html_file:
                side = page.longest(len(files))
                shown += [page.with_image(told.to_dict(), told.photo, side=side) for told in found]
    if json_file:
        text = json.dumps(captions, ensure_ascii=False, indent=1) + "\n"
        gave(json_file, text)
    if pictures:
        click.echo(
            f"{pictures} picture{'s' if pictures > 1 else ''} of where each word looked: {picture}{os.sep}",
            err=json_file == "-",
        )
    if html_file and shown:
        title = files[0].name if len(files) == 1 else f"{len(files) - failed} photos"
        cards = {captioner.name: card(captioner.checkpoint, captioner.name) for captioner in captioners}
        write_text(Path(html_file), page.captions_page(shown, title=title, cards=cards))
        click.echo(f"a page of where each word looked: {html_file}", err=json_file == "-")
    if failed and len(files) > 1:
        fail(f"{failed} of {len(files)} photos could not be captioned, as said above", 1)
    if failed:
        sys.exit(1)


BATCH = 8  # photos captioned together, and so said together


def captions_or_errors(captioners: list[Any], batch: list[Path], options: list[dict[str, Any]]) -> list[Any]:
    """Each photo's captions, one by each model; where a photo cannot be read, its `SatError` in their place."""
    try:
        told = [captioner.caption(batch, **own) for captioner, own in zip(captioners, options, strict=True)]
        return list(zip(*told, strict=True))
    except SatError as error:
        if len(batch) == 1:
            return [error]
        return [captions_or_errors(captioners, [file], options)[0] for file in batch]


def picture_names(files: list[Path], form: str) -> list[str]:
    """One name a photo: its stem, numbered where two photos share one."""
    names: list[str] = []
    for file in files:
        name, number = f"{file.stem}.{form}", 2
        while name in names:
            name, number = f"{file.stem}-{number}.{form}", number + 1
        names.append(name)
    return names
