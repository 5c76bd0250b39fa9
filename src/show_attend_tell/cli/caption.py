"""`sat caption`: captions of photos, as text, JSON, pictures or a page."""

import io
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
from show_attend_tell.files import atomic_write, check_writable, make_folder
from show_attend_tell.messages import plural
from show_attend_tell.show.outputs import OUTPUTS

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
  sat caption photos/ --output captions.csv          a table; also .tsv, .jsonl, .json (everything, for a program)
  sat caption dog.jpg --output dog.html              a page to explore it in
  sat caption photos/ --output xmp                   a sidecar for each photo, for darktable or digiKam
  sat caption photos/ --output - | cut -f2           the captions alone
  sat caption dog.jpg --min-confidence 0.6           a caption whose nouns are probably right
  sat caption dog.jpg --num-captions 3               three captions that differ in content
  sat caption dog.jpg --num-captions 5 --generation do_sample=true    five captions drawn at random
"""
SECTIONS = {
    "Photos": "recursive",
    "Output": "output save-maps style",
    "Model": "model compare encoder-weights plugin backend device threads",
    "Search": "beam-size min-confidence num-captions generation",
}


@dataclass
class PictureFile:
    """The file of a picture."""

    format: Literal["png", "jpg", "svg", "gif", "webp"] = "png"  # svg keeps letters as text; gif and webp move


RENAMED = {"--json": "--output FILE.json", "--html": "--output FILE.html"}


@click.command(cls=BaseCommand, epilog=EXAMPLES, sections=SECTIONS, renamed=RENAMED)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("--recursive", is_flag=True, help="Photos in subfolders too.")
@click.option(
    "--output",
    "targets",
    multiple=True,
    metavar="FILE",
    help="File for the captions: a table (.csv, .tsv, .jsonl), everything for a program (.json) or a page to explore "
    "(.html). - is standard output, a line of photo, tab and caption each, and -.json JSON. xmp writes sidecars with "
    "descriptions for photo managers. It may be given several times.",
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
    targets: tuple[str, ...],
    save_maps: Path | None,
    style: dict[str, Any],
    model: str,
    compare: tuple[str, ...],
    loading: dict[str, Any],
    generation: dict[str, Any],
) -> None:
    """Caption photos: files, folders, globs or addresses.

    An address, such as a URL, is read where fsspec can. The photo - is standard input; sat caption-batch is for
    millions of photos. With --compare, models of soft attention ignore attention_mode and keep the mean. Ctrl-C ends
    the command, and the files then hold the captions made so far.
    """
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.photos import find_photos, is_address
    from show_attend_tell.vision.prepared import FEW, progress_bar

    outputs = read_outputs(targets)
    if save_maps is None and style:
        raise SatError("--style says how pictures look: add --save-maps FOLDER")
    addresses = [photo for photo in photos if is_address(photo)]
    found = find_photos([photo for photo in photos if photo != "-" and photo not in addresses], recursive=recursive)
    files: list[Path | str] = [*found.photos, *dict.fromkeys(addresses), *([STDIN] if "-" in photos else [])]
    written = [each.target for each in outputs if each.form != "xmp" and not each.piped]
    check_targets(*written, read=[*found.photos, loading["encoder_weights"]], models=(model, *compare))
    if any(each.form == "xmp" for each in outputs):
        check_sidecars(found.photos, files)
    names: dict[Path | str, str] = {}
    if save_maps is not None:
        names = dict(zip(files, picture_names(files, style.pop("format", "png")), strict=True))
        check_pictures([save_maps / name for name in names.values()], found.photos)
    inputs: list[Photo] = [sys.stdin.buffer.read() if file is STDIN else file for file in files]
    if b"" in inputs:
        raise SatError("- : standard input is empty. Give it a photo, as in: cat dog.jpg | sat caption -")
    streams, cards = [], {}
    for each in (model, *compare):
        captioner = Captioner.from_pretrained(each, **loading)
        if captioner.name in cards:
            raise SatError(f"two models are called {captioner.name}: rename the folder of one")
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
        drawn = save_maps is not None or any(each.form in ("json", "html") for each in outputs)
        streams.append(captioner.stream(inputs, captioner.resolve_config(**overrides), evidence=drawn))
        cards[captioner.name] = captioner.checkpoint.card(captioner.name)
    if found.note:
        click.echo(found.note, err=True)

    listed = generation.get("num_captions") is not None
    results = Results(outputs=outputs, photos=len(files), cards=cards, named=bool(compare), listed=listed)
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
    if interrupted:
        fail(f"interrupted: {results.captioned} of {plural(len(files), 'photo')} captioned", 130)
    if results.failed and len(files) > 1:
        fail(f"{len(results.failed)} of {len(files)} photos could not be captioned, as said above", 1)
    if results.failed:
        sys.exit(1)


STDIN = Path("-")  # what standard input is called


def check_pictures(pictures: Sequence[Path], photos: Sequence[Path]) -> None:
    """Make the folder of the pictures; raises `SatError` where they would overwrite another file."""
    from show_attend_tell.show.pictures import is_signed

    make_folder(pictures[0].parent, "name another")
    own_photos = {file.resolve() for file in photos}
    for picture in pictures:
        if picture.resolve() in own_photos:
            raise SatError(f"the picture {picture} would overwrite a photo: name another folder")
        check_writable(picture)
        if picture.is_file() and not is_signed(picture):
            raise SatError(f"{picture} is there already, and was not drawn by this command: name another folder")


def check_sidecars(photos: Sequence[Path], files: Sequence[Path | str]) -> None:
    """Raise `SatError` where the photos' sidecars cannot be written, and for what has no folder for one."""
    from show_attend_tell.show.sidecar import sidecar_of

    if others := [os.fspath(file) for file in files[len(photos) :]]:
        raise SatError(f"--output xmp writes beside photos, and {others[0]} has no folder: leave out one or the other")
    for sidecar in {photo.parent: sidecar_of(photo) for photo in photos}.values():
        check_writable(sidecar)


class Output(NamedTuple):
    """A file that captions are written to: what ``--output`` names."""

    target: str  # a path; a text that begins with - for standard output; or xmp, for sidecars of photos
    form: str  # one of FILES, or - for lines, or xmp

    @property
    def piped(self) -> bool:
        """Whether it is standard output, which then gets nothing else."""
        return self.target.startswith("-")


TABLES = ("csv", "tsv", "jsonl")
FILES = (*TABLES, "json", "html")


def read_outputs(given: Sequence[str]) -> list[Output]:
    """What ``--output`` names. Raises `SatError` for another ending, and for two that are standard output."""
    outputs = []
    for target in dict.fromkeys(given):
        form = target if target in ("-", "xmp") else target.rpartition(".")[2].lower()
        if form not in (*FILES, target) and not OUTPUTS.get(form):
            endings = f"name a file that ends in .{', .'.join(FILES)}"
            raise SatError(f"--output {target}: {endings}; - is standard output, and xmp a sidecar of each photo")
        outputs.append(Output(target, form))
    if len(piped := [each.target for each in outputs if each.piped]) > 1:
        raise SatError(f"--output {' and '.join(piped)}: give one for standard output")
    return outputs


@dataclass(kw_only=True)
class Results:
    """What the command has made so far, and the files that hold it."""

    outputs: Sequence[Output]
    photos: int  # of the command
    cards: Mapping[str, str]  # of the models, for the page
    named: bool  # print each caption's model
    listed: bool  # print each caption's alternatives too
    captioned: int = 0  # photos
    described: Counter[bool] = field(default_factory=Counter)  # whether sidecars have got a caption, or had one before
    failed: dict[str, str] = field(default_factory=dict)  # why photos could not be captioned, by their paths
    _rows: list[dict[str, Any]] = field(default_factory=list)  # of the tables
    _entries: list[dict[str, Any]] = field(default_factory=list)  # of the JSON
    _shown: list[dict[str, Any]] = field(default_factory=list)  # captions with their photos, of the page

    def __post_init__(self) -> None:
        self.forms = {each.form for each in self.outputs}
        self.piped = any(each.piped for each in self.outputs)

    def log(self, text: str) -> None:
        """Print a line, on standard error when standard output has captions alone."""
        click.echo(text, err=self.piped)

    def add(self, file: "Path | str", made: Sequence["Caption | PhotoError"]) -> list["Caption"]:
        """Print a photo's captions, by each model, or why there are none; keep them for the files, and return them."""
        source = os.fspath(file)
        for error in made:
            if isinstance(error, PhotoError):
                why = self.failed[source] = ": ".join(part for part in (error.reason, error.remedy) if part)
                self._entries.append({"source": source, "error": why})
                self._rows.append({"source": source, "error": why})
                click.echo(f"sat: {printable(f'{source}: {why}')}", err=True)
                return []
        captions = [caption for caption in made if not isinstance(caption, PhotoError)]
        self._keep(file, captions)  # before they are printed, so that Ctrl-C loses nothing that was seen
        self.captioned += 1
        name = printable(click.format_filename(file))
        if captions and captions[0].warning:
            click.echo(f"note: {name}: {captions[0].warning}", err=True)
        for caption in captions:
            others = [text for text, _ in caption.alternatives] if self.listed else []
            if "-" in self.forms:
                for text in (caption.text, *others):
                    click.echo(f"{printable(source)}\t{printable(text)}")
            if self.piped:
                continue
            by = f" [{caption.settings['model']}]" if self.named else ""
            check = f"  check: {', '.join(caption.to_check)}" if caption.to_check else ""
            if caption.reaches_min_confidence is False:
                check += f"  no caption reaches {caption.settings['min_confidence']:g}"
            ending = "" if caption.complete else " …"
            click.echo(f"{name}{printable(f'{by}: {caption}')}{ending}{printable(check)}")
            for text in others:
                click.echo(f"{name}{printable(f'{by}: {text}')}")
        return captions

    def _keep(self, file: "Path | str", captions: Sequence["Caption"]) -> None:
        """Keep a photo's captions for the files, and write its sidecar."""
        source = os.fspath(file)
        if self.forms & set(TABLES):
            from show_attend_tell.batch.work import row_of

            for caption in captions:
                own = {"source": source, **({"model": caption.settings["model"]} if self.named else {})}
                self._rows.append(own | row_of(caption))
                self._rows += [
                    {**own, "caption": text, "log_probability": round(score, 6)}
                    for text, score in (caption.alternatives if self.listed else ())
                ]
        if not self.forms <= {*TABLES, "-", "xmp"}:
            from show_attend_tell.show import page

            entries = [{**caption.to_dict(), "source": source} for caption in captions]
            self._entries += entries
            if "html" in self.forms:
                self._shown += [
                    page.with_image(entry, caption.photo, side=page.longest(self.photos))
                    for entry, caption in zip(entries, captions, strict=True)
                ]
        if "xmp" in self.forms:
            from show_attend_tell.show.sidecar import describe

            try:
                self.described[describe(Path(file), captions[0].text)] += 1
            except SatError as error:
                click.echo(f"sat: {printable(str(error))}: left as it is", err=True)

    def write(self) -> None:
        """Write the files, each even if another cannot be written. A file for which nothing was made stays as it is."""
        with ExitStack() as each_one:
            for output in reversed(self.outputs):
                each_one.callback(self._write, output)

    def _keep_former(self, table: Path, text: str) -> None:
        """Copy a table that has rows which its new text has not: a person may have written into them."""
        before = table.read_bytes() if table.is_file() else b""
        if set(before.decode("utf-8-sig", "replace").splitlines()) - set(text.splitlines()):
            copy = next(free for n in count(1) if not (free := table.with_stem(f"{table.stem}-{n}")).exists())
            atomic_write(copy, lambda scratch: scratch.write_bytes(before))
            self.log(f"{table} had other rows, which {copy} keeps")

    def _write(self, output: Output) -> None:
        target = "-" if output.piped else output.target
        if output.form == "html" and self._shown:
            from show_attend_tell.show import page

            names = list(dict.fromkeys(entry["source"] for entry in self._shown))
            title = Path(names[0]).name if len(names) == 1 else plural(len(names), "photo")
            text = page.captions_page(self._shown, title=title, cards=self.cards, failed=self.failed.items())
            write_output(target, text)
            if not output.piped:
                self.log(f"a page to explore the captions in: {target}")
        elif output.form in TABLES and self._rows:
            from show_attend_tell.batch.tables import write_rows
            from show_attend_tell.batch.work import CaptionBatch

            names = ["source", *(["model"] if self.named else []), *CaptionBatch.columns]
            content = io.BytesIO()
            rows = [dict.fromkeys(names) | row for row in self._rows]
            write_rows(content, rows, dict.fromkeys(names, ""), output.form)
            text = content.getvalue().decode()
            self._keep_former(Path(target), text)
            # a mark of UTF-8 without which Excel misreads other letters than ASCII
            write_output(target, text if text.isascii() or output.form != "csv" or output.piped else f"\ufeff{text}")
        elif self._entries and (write := OUTPUTS.get(output.form)):
            write_output(target, write(self._entries))
        elif output.form == "xmp":
            self.log(f"{plural(self.described[True], 'sidecar')} written beside the photos")
            if self.described[False]:
                self.log(f"{plural(self.described[False], 'sidecar')} with a description left as they are")


def picture_names(files: Sequence[Path | str], form: str) -> list[str]:
    """A name for each photo's picture: the photo's own, with its ending or a number where several would be alike."""
    endings: dict[str, set[str]] = defaultdict(set)
    for file in map(Path, files):
        endings[file.stem].add(file.suffix)
    names: dict[str, str] = {}  # by what a file system that ignores case tells apart
    alike: dict[str, int] = defaultdict(int)
    for file in map(Path, files):
        name = own = "stdin" if file == STDIN else file.stem if len(endings[file.stem]) == 1 else file.name
        while name.casefold() in names:
            alike[own] += 1
            name = f"{own}-{alike[own] + 1}"
        names[name.casefold()] = name
    return [f"{name}.{form}" for name in names.values()]
