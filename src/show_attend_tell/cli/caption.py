"""`sat caption`: captions of photos, as text, JSON, pictures or a page."""

import contextlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.checkpoint.hub import DEFAULT
from show_attend_tell.cli.command import (
    BaseCommand,
    backend_option,
    check_targets,
    device_option,
    fail,
    generation_options,
    model_option,
    note_shadowed,
    printable,
    seed_option,
    weights_option,
    write_output,
    write_text,
)
from show_attend_tell.errors import SatError
from show_attend_tell.files import check_writable, make_folder
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.captioner import Caption
    from show_attend_tell.data.photos import Photo

EXAMPLES = """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --recursive
  cat dog.jpg | sat caption -
  sat caption photos/ --save-maps looked/            where each word looked
  sat caption dog.jpg --save-maps looked/ --format svg --heat
  sat caption dog.jpg --save-maps looked/ --compare everyday-hard --attention-mode likeliest
  sat caption dog.jpg --html dog.html              a page to explore it in
  sat caption 'photos/*.jpg' --json captions.json  everything, for a program
  sat caption photos/ --json captions.jsonl        the same, a line per caption, written as it is made
  sat caption dog.jpg --num-captions 3                  three captions that differ in content
  sat caption dog.jpg --sample --temperature 0.5   random words instead of a search
"""


@click.command(cls=BaseCommand, examples=EXAMPLES)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("--recursive", is_flag=True, help="Photos in subfolders too.")
@model_option(default=DEFAULT)
@click.option(
    "--compare",
    multiple=True,
    metavar="MODEL",
    callback=note_shadowed,
    help="Another model, whose captions stand beside those of the first. It may be given several times.",
)
@generation_options
@click.option(
    "--num-captions",
    type=click.IntRange(1, 100),
    help="Number of captions of each photo, which differ in content. With --sample: number of captions drawn.",
)
@click.option("--sample", is_flag=True, help="Random words instead of a search.")
@click.option(
    "--temperature",
    type=float,
    default=1.0,
    show_default=True,
    help="Temperature of --sample; below 1, likely words become likelier.",
)
@click.option(
    "--top-k",
    type=int,
    default=0,
    show_default=True,
    help="Number of words that --sample chooses from, the likeliest; 0 is all.",
)
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    help="Total probability of the words that --sample chooses from, the likeliest.",
)
@seed_option("everything that is drawn")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="File for words, attention, gate and settings as JSON; - is standard output. A name that ends in .jsonl gets "
    "JSON Lines, each written as soon as its photo is captioned.",
)
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    help="Page of all captions to write: point at a word and see where the model looked.",
)
@click.option(
    "--save-maps",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for pictures of where each word looked. Earlier ones are replaced, other files never.",
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
    "--heat", is_flag=True, help="Colors for attention in pictures, safe for color-blind eyes, instead of light."
)
@click.option("--dark", is_flag=True, help="Dark page for pictures.")
@click.option("--stretch", is_flag=True, help="Own scale for each word in pictures; it makes a flat map look sharp.")
@weights_option
@backend_option
@device_option
def caption(
    photos: tuple[str, ...],
    recursive: bool,
    model: str,
    compare: tuple[str, ...],
    beam_size: int | None,
    attention_mode: Any,
    length_penalty: float | None,
    rerank_weight: float | None,
    num_captions: int | None,
    sample: bool,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    json_file: str | None,
    html_file: str | None,
    save_maps: Path | None,
    form: str,
    heat: bool,
    dark: bool,
    stretch: bool,
    encoder_weights: str | None,
    backend: str,
    precision: str,
    device: str,
) -> None:
    """Caption photos: files, folders or globs.

    The photo - is standard input; sat caption-batch is for millions of photos. With --compare, models of soft attention
    ignore --attention-mode and read attention by expectation. Ctrl-C ends the command, and the files then hold the
    captions made so far.
    """
    from show_attend_tell.captioner import FEW, Captioner, Sampling, checked_num_captions, progress_bar
    from show_attend_tell.data.photos import find_photos

    if html_file == "-":
        raise SatError("--html - : name a file for the page")
    if not sample and (temperature, top_k, top_p) != (1.0, 0, 1.0):
        raise SatError("--temperature, --top-k and --top-p say how to draw words: add --sample")
    search = {"beam_size": beam_size, "length_penalty": length_penalty, "rerank_weight": rerank_weight}
    if sample and any(value is not None for value in search.values()):
        raise SatError(
            "--beam-size, --length-penalty and --rerank-weight are for a search, and --sample draws the words: "
            "leave out one or the other"
        )
    if save_maps is None and (form, heat, dark, stretch) != ("png", False, False, False):
        raise SatError("--format, --heat, --dark and --stretch say how pictures look: add --save-maps FOLDER")
    sampling = None
    if sample:
        sampling = Sampling(captions=num_captions or 1, temperature=temperature, top_k=top_k, top_p=top_p)
    differing = None if sample else num_captions
    found = find_photos([name for name in photos if name != "-"], recursive=recursive)
    files = [*found.photos, STDIN] if "-" in photos else found.photos
    check_targets(json_file, html_file, read=[*found.photos, encoder_weights], models=(model, *compare))
    names: dict[Path, str] = {}
    if save_maps is not None:
        names = dict(zip(files, picture_names(files, form), strict=True))
        check_pictures([save_maps / name for name in names.values()], found.photos)
    inputs: list[Photo] = [standard_input() if file is STDIN else file for file in files]
    captioners = [
        Captioner.from_pretrained(
            name, device=device, encoder_weights=encoder_weights, backend=backend, precision=precision
        )
        for name in (model, *compare)
    ]
    streams = []
    for captioner in captioners:
        attention = captioner.checkpoint.decoder.config.attention
        if save_maps is not None and attention in ("none", "uniform"):
            raise SatError(f"{captioner.name} has no attention to draw: leave out --save-maps")
        soft = attention == "soft"
        if not compare:
            note_attention_mode(model, attention, attention_mode)
        generation = captioner.checkpoint.generation.merge(
            attention_mode=None if soft and compare else attention_mode, **search
        )
        captioner.check_generation(generation)
        checked_num_captions(differing, generation, sampling)
        streams.append(
            captioner.stream(inputs, generation, sampling=sampling, num_captions=differing, seed=seed, errors="skip")
        )
    if found.note:
        click.echo(found.note, err=True)

    cards = {captioner.name: captioner.checkpoint.card(captioner.name) for captioner in captioners}
    results = Results(
        json_file, html_file, cards, named=bool(compare), listed=num_captions is not None, photos=len(files)
    )
    interrupted, pictures = False, 0
    try:
        with progress_bar(len(files), show=len(files) > FEW) as bar:
            for file, *made in zip(files, *streams, strict=True):
                captions = [told for told in made if not isinstance(told, SatError)]
                with bar.external_write_mode():
                    results.add(file, captions, made[0] if isinstance(made[0], SatError) else None)
                if save_maps is not None and captions:
                    first, *others = captions
                    first.save(
                        save_maps / names[file],
                        compare=others,
                        colormap="heat" if heat else "light",
                        dark=dark,
                        per_word_scale=stretch,
                    )
                    pictures += 1
                bar.update()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        results.write()
    if pictures:
        results.log(f"{plural(pictures, 'picture')} of where each word looked: {save_maps}{os.sep}")
    if html_file and results.captioned:
        results.log(f"a page to explore the captions in: {html_file}")
    if interrupted:
        kept = ""
        if json_file and json_file != "-" and (results.captioned or results.failed):
            kept = f"; {json_file} has what was made"
        fail(f"interrupted: {results.captioned} of {plural(len(files), 'photo')} captioned{kept}", 130)
    if results.failed and len(files) > 1:
        fail(f"{results.failed} of {len(files)} photos could not be captioned, as said above", 1)
    if results.failed:
        sys.exit(1)


def note_attention_mode(model: str, attention: str, attention_mode: str | None) -> None:
    """Say that a model of that kind of attention was not trained for that look, if so."""
    if attention == "soft" and attention_mode not in (None, "mean"):
        click.echo(
            f"note: {model} was trained to look by expectation; its captions by {attention_mode} are poor", err=True
        )


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


class Results:
    """What the command has made so far, and the files that hold it."""

    def __init__(
        self,
        json_file: str | None,
        html_file: str | None,
        cards: dict[str, str],
        *,
        named: bool,
        listed: bool,
        photos: int,
    ) -> None:
        """``named``: print each caption's model. ``listed``: print its alternatives too. ``photos``: how many."""
        self.json_file, self.html_file, self.cards = json_file, html_file, cards
        self.named, self.listed, self.photos = named, listed, photos
        self.captioned = self.failed = 0  # photos
        self._entries: list[dict[str, Any]] = []  # of the JSON
        self._shown: list[dict[str, Any]] = []  # captions with their photos, of the page
        self._in_lines = bool(json_file) and str(json_file).lower().endswith(".jsonl")
        self._lines: io.FileIO | None = None  # the file of JSON Lines, which is opened when the first one is written

    def log(self, text: str) -> None:
        """Print a line, on standard error when standard output has the JSON."""
        click.echo(text, err=self.json_file == "-")

    def add(self, file: Path, captions: Sequence["Caption"], error: SatError | None) -> None:
        """Print a photo's captions, by each model, or why there are none; and keep them for the files."""
        source = os.fspath(file)
        if error is not None:
            self.failed += 1
            reason = str(error).partition(": ")[2] if file is STDIN else str(error).removeprefix(f"{source}: ")
            self._keep([{"source": source, "error": reason}])
            click.echo(f"sat: {printable(f'{source}: {reason}')}", err=True)
            return
        told = [{**caption.to_dict(), "source": source} for caption in captions]
        if self.html_file:
            from show_attend_tell.show import page

            self._shown += [
                page.with_image(entry, caption.photo, side=page.longest(self.photos))
                for entry, caption in zip(told, captions, strict=True)
            ]
        self._keep(told)  # before it is printed, so that Ctrl-C loses nothing that was seen
        self.captioned += 1
        if self.json_file != "-":
            name = printable(click.format_filename(file))
            for caption in captions:
                by = f" [{caption.settings['model']}]" if self.named else ""
                ending = "" if caption.complete else " …"
                unsure = f", unsure: doubt {caption.doubt:.2f}" if caption.unsure else ""
                likely = f"log p {caption.log_probability:.2f}"
                click.echo(f"{name}{printable(f'{by}: {caption}')}{ending}  ({likely}{unsure})")
                for text, log_probability in caption.alternatives if self.listed else ():
                    click.echo(f"{name}{printable(f'{by}: {text}')}  (log p {log_probability:.2f})")

    def _keep(self, entries: list[dict[str, Any]]) -> None:
        if not self._in_lines:
            self._entries += entries if self.json_file else []
            return
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        try:
            self._append(text.encode("utf-8", "backslashreplace"))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SatError(
                f"{self.json_file} cannot be written ({error.strerror}): it holds the captions of "
                f"{plural(self.captioned, 'photo')}"
            ) from error

    def _append(self, lines: bytes) -> None:
        """Add whole lines to the file of JSON Lines. What is written of them is cut off again if the disk is full."""
        if self._lines is None:
            self._lines = io.FileIO(str(self.json_file), "w")
        whole = self._lines.tell() if self._lines.seekable() else None
        try:
            while lines:
                lines = lines[self._lines.write(lines) or 0 :]
        except OSError:
            if whole is not None:
                with contextlib.suppress(OSError):
                    self._lines.truncate(whole)
            raise

    def write(self) -> None:
        """Write the files, each even if another cannot be written. A file for which nothing was made stays as it is."""
        try:
            if self._lines is not None:
                self._lines.close()
            elif self._entries:
                write_output(self.json_file, json.dumps(self._entries, ensure_ascii=False, indent=1) + "\n")
        finally:
            self._write_page()

    def _write_page(self) -> None:
        if self.html_file and self._shown:
            from show_attend_tell.show import page

            names = list(dict.fromkeys(entry["source"] for entry in self._shown))
            title = Path(names[0]).name if len(names) == 1 else plural(len(names), "photo")
            write_text(Path(self.html_file), page.captions_page(self._shown, title=title, cards=self.cards))


def picture_names(files: list[Path], form: str) -> list[str]:
    """A name for each photo's picture: the photo's own, numbered where two photos share it."""
    names: dict[str, None] = {}  # a set in order
    alike = Counter[str]()  # names that were made of a photo's own
    for file in files:
        name = own = "stdin" if file is STDIN else file.stem
        while name in names:
            alike[own] += 1
            name = f"{own}-{alike[own] + 1}"
        names[name] = None
    return [f"{name}.{form}" for name in names]
