"""`sat caption`: captions of photos, as text, JSON, pictures or a page."""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    check_targets,
    fail,
    loading_options,
    model_option,
    note_shadowed,
    printable,
    write_output,
)
from show_attend_tell.cli.options import GENERATION, options_from
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.files import check_writable, make_folder, write_text
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.caption import Caption
    from show_attend_tell.data.photos import Photo

EXAMPLES = """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --recursive
  cat dog.jpg | sat caption -
  sat caption photos/ --save-maps maps/              pictures of what in the photo supported each word
  sat caption dog.jpg --save-maps maps/ --style format=svg --style dark=true
  sat caption dog.jpg --save-maps maps/ --style shown=attention    where the model looked before it chose the word
  sat caption dog.jpg --save-maps maps/ --compare everyday-hard --generation attention_mode=argmax
  sat caption dog.jpg --html dog.html                a page to explore it in
  sat caption 'photos/*.jpg' --json captions.json    everything, for a program
  sat caption dog.jpg --min-confidence 0.6           a caption whose nouns are probably right
  sat caption dog.jpg --num-captions 3               three captions that differ in content
  sat caption dog.jpg --generation do_sample=true --generation temperature=0.5    random words
"""
SECTIONS = {
    "Photos": "recursive",
    "Output": "json html save-maps style",
    "Model": "model compare encoder-weights plugin backend device threads",
    "Search": "beam-size min-confidence num-captions generation",
}


@dataclass
class PictureFile:
    """The file of a picture."""

    format: Literal["png", "svg", "gif", "webp"] = "png"  # svg keeps letters as text; gif and webp move word by word


@click.command(cls=BaseCommand, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("--recursive", is_flag=True, help="Photos in subfolders too.")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="File for words, evidence, attention, gate and settings as JSON; - is standard output.",
)
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    help="Page of all captions to write: point at a word and see what in the photo supported it.",
)
@click.option(
    "--save-maps",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for pictures of what supported each word. Earlier ones are replaced, other files never.",
)
@options_from(f"{__name__}:PictureFile show_attend_tell.show.pictures.style:Style", into="style", rest="--style")
@model_option()
@click.option(
    "--compare",
    multiple=True,
    metavar="MODEL",
    callback=note_shadowed,
    help="Another model, whose captions are shown with those of the first. It may be given several times.",
)
@loading_options
@options_from(
    *(GENERATION, "beam_size", "min_confidence", "num_captions"),
    into="generation",
    rest="--generation",
    default="the model's",
)
def caption(
    photos: tuple[str, ...],
    recursive: bool,
    json_file: str | None,
    html_file: str | None,
    save_maps: Path | None,
    style: dict[str, Any],
    model: str,
    compare: tuple[str, ...],
    loading: dict[str, Any],
    generation: dict[str, Any],
) -> None:
    """Caption photos: files, folders or globs.

    The photo - is standard input; sat caption-batch is for millions of photos. With --compare, models of soft attention
    ignore attention_mode and keep the mean. Ctrl-C ends the command, and the files then hold the captions made so
    far.
    """
    from show_attend_tell.captioner import FEW, Captioner, progress_bar
    from show_attend_tell.data.photos import find_photos

    if html_file == "-":
        raise SatError("--html - : name a file for the page")
    if json_file is not None and json_file.lower().endswith(".jsonl"):
        raise SatError(f"--json {json_file}: JSON Lines are made by sat caption-batch --output {json_file}")
    if save_maps is None and style:
        raise SatError("--style says how pictures look: add --save-maps FOLDER")
    found = find_photos([photo for photo in photos if photo != "-"], recursive=recursive)
    files = [*found.photos, STDIN] if "-" in photos else found.photos
    check_targets(json_file, html_file, read=[*found.photos, loading["encoder_weights"]], models=(model, *compare))
    names: dict[Path, str] = {}
    if save_maps is not None:
        names = dict(zip(files, picture_names(files, style.pop("format", "png")), strict=True))
        check_pictures([save_maps / name for name in names.values()], found.photos)
    inputs: list[Photo] = [standard_input() if file is STDIN else file for file in files]
    streams, cards = [], {}
    for each in (model, *compare):
        captioner = Captioner.from_pretrained(each, **loading)
        attention = captioner.checkpoint.config.attention
        if save_maps is not None and attention in ("none", "uniform"):
            raise SatError(f"{captioner.name} has no attention to draw: leave out --save-maps")
        overrides = dict(generation)
        if attention == "soft" and generation.get("attention_mode", "mean") != "mean":
            if compare:
                del overrides["attention_mode"]
            else:
                mode = generation["attention_mode"]
                click.echo(f"note: {model} was trained with the mean of attention; with {mode} it is poor", err=True)
        kept = bool(json_file or html_file or save_maps is not None)
        streams.append(captioner.stream(inputs, captioner.resolve_config(**overrides), evidence=kept))
        cards[captioner.name] = captioner.checkpoint.card(captioner.name)
    if found.note:
        click.echo(found.note, err=True)

    results = Results(
        json_file=json_file,
        html_file=html_file,
        photos=len(files),
        cards=cards,
        named=bool(compare),
        listed="num_captions" in generation,
    )
    interrupted, pictures = False, 0
    try:
        with progress_bar(len(files), show=len(files) > FEW) as bar:
            for file, *made in zip(files, *streams, strict=True):
                with bar.external_write_mode():
                    captions = results.add(file, made)
                if save_maps is not None and captions:
                    first, *others = captions
                    first.save(save_maps / names[file], compare=others, **style)
                    pictures += 1
                bar.update()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        results.write()
    if pictures:
        results.log(f"{plural(pictures, 'picture')} of what supported each word: {save_maps}{os.sep}")
    if html_file and results.captioned:
        results.log(f"a page to explore the captions in: {html_file}")
    if interrupted:
        fail(f"interrupted: {results.captioned} of {plural(len(files), 'photo')} captioned", 130)
    if results.failed and len(files) > 1:
        fail(f"{len(results.failed)} of {len(files)} photos could not be captioned, as said above", 1)
    if results.failed:
        sys.exit(1)


STDIN = Path("-")  # what standard input is called


def standard_input() -> bytes:
    """The photo on standard input. Raises `SatError` when there is nothing."""
    content = sys.stdin.buffer.read()
    if not content:
        raise SatError("- : standard input is empty. Give it a photo, as in: cat dog.jpg | sat caption -")
    return content


def check_pictures(pictures: Sequence[Path], photos: Sequence[Path]) -> None:
    """Make the folder of the pictures.

    Raises `SatError` when they cannot be written, or would overwrite a photo or what is no such picture.
    """
    from show_attend_tell.show.pictures import is_signed

    own_photos = {file.resolve() for file in photos}
    for picture in pictures:
        if picture.resolve() in own_photos:
            raise SatError(f"the picture {picture} would overwrite a photo: name another folder")
    for folder in {picture.parent for picture in pictures}:
        make_folder(folder, "name another")
    for picture in pictures:
        check_writable(picture)
        if picture.is_file() and not is_signed(picture):
            raise SatError(f"{picture} is there already, and was not drawn by this command: name another folder")


@dataclass(kw_only=True)
class Results:
    """What the command has made so far, and the files that hold it."""

    json_file: str | None
    html_file: str | None
    photos: int  # of the command
    cards: Mapping[str, str]  # of the models, for the page
    named: bool  # print each caption's model
    listed: bool  # print each caption's alternatives too
    captioned: int = 0  # photos
    failed: dict[str, str] = field(default_factory=dict)  # why photos could not be captioned, by their paths
    _entries: list[dict[str, Any]] = field(default_factory=list)  # of the JSON
    _shown: list[dict[str, Any]] = field(default_factory=list)  # captions with their photos, of the page

    def log(self, text: str) -> None:
        """Print a line, on standard error when standard output has the JSON."""
        click.echo(text, err=self.json_file == "-")

    def add(self, file: Path, made: Sequence["Caption | PhotoError"]) -> list["Caption"]:
        """Print a photo's captions, by each model, or why there are none; keep them for the files, and return them."""
        source = os.fspath(file)
        for error in made:
            if isinstance(error, PhotoError):
                self.failed[source] = error.reason
                self._entries.append({"source": source, "error": error.reason})
                click.echo(f"sat: {printable(f'{source}: {error.reason}')}", err=True)
                return []
        captions = [caption for caption in made if not isinstance(caption, PhotoError)]
        entries = [{**caption.to_dict(), "source": source} for caption in captions]
        if self.json_file:  # before it is printed, so that Ctrl-C loses nothing that was seen
            self._entries += entries
        if self.html_file:
            from show_attend_tell.show import page

            self._shown += [
                page.with_image(entry, caption.photo, side=page.longest(self.photos))
                for entry, caption in zip(entries, captions, strict=True)
            ]
        self.captioned += 1
        name = printable(click.format_filename(file))
        for caption in captions if self.json_file != "-" else ():
            by = f" [{caption.settings['model']}]" if self.named else ""
            ending = "" if caption.complete else " …"
            score = f"log p {caption.log_probability:.2f}"
            check = f"  check: {', '.join(caption.to_check)}" if caption.to_check else ""
            if caption.reaches_min_confidence is False:
                check += f"  no caption reaches {caption.settings['min_confidence']:g}"
            click.echo(f"{name}{printable(f'{by}: {caption}')}{ending}  ({score}){printable(check)}")
            for text, log_probability in caption.alternatives if self.listed else ():
                click.echo(f"{name}{printable(f'{by}: {text}')}  (log p {log_probability:.2f})")
        return captions

    def write(self) -> None:
        """Write the files, each even if another cannot be written. A file for which nothing was made stays as it is."""
        try:
            if self._entries:
                lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in self._entries)
                write_output(self.json_file, f"[\n{lines}\n]\n")
        finally:
            if self.html_file and self._shown:
                from show_attend_tell.show import page

                names = list(dict.fromkeys(entry["source"] for entry in self._shown))
                title = Path(names[0]).name if len(names) == 1 else plural(len(names), "photo")
                text = page.captions_page(self._shown, title=title, cards=self.cards, failed=self.failed.items())
                write_text(Path(self.html_file), text)


def picture_names(files: Sequence[Path], form: str) -> list[str]:
    """A name for each photo's picture: the photo's own, with its ending or a number where several would be alike."""
    endings: dict[str, set[str]] = defaultdict(set)
    for file in files:
        endings[file.stem].add(file.suffix)
    names: dict[str, None] = {}  # a set in order
    alike: dict[str, int] = defaultdict(int)
    for file in files:
        name = own = "stdin" if file is STDIN else file.stem if len(endings[file.stem]) == 1 else file.name
        while name in names:
            alike[own] += 1
            name = f"{own}-{alike[own] + 1}"
        names[name] = None
    return [f"{name}.{form}" for name in names]
