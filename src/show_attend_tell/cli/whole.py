"""Photos that `sat caption` captions in one go, in this process: what is printed, drawn, compared or made a page of."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, product, tee
from pathlib import Path
from typing import Any

import click

from show_attend_tell.batch.reading import Item, expected, photos_of, sources_of
from show_attend_tell.batch.run import Selection
from show_attend_tell.batch.sidecars import Sidecars
from show_attend_tell.batch.work import CaptionBatch
from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.cli.command import check_targets, complain, fail, note, printable, write_output
from show_attend_tell.cli.outputs import Named, check_pictures, picture_names
from show_attend_tell.cli.plain import open_plain, write_plain
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.hide.words import hide_words
from show_attend_tell.messages import plural, read_without
from show_attend_tell.show import page
from show_attend_tell.show.outputs import OUTPUTS
from show_attend_tell.vision.prepared import FEW, progress_bar


@dataclass
class Whole:
    """What is to be captioned, by which models and into what, and what has been made so far."""

    photos: Selection
    outputs: Sequence[Named]
    sidecars: Sidecars | None
    work: CaptionBatch
    compare: Sequence[str]  # more models
    hide: str | None  # a word whose place is hidden, or nouns
    pictures: dict[str, Path] = field(default_factory=dict)  # by the photos' sources
    style: dict[str, Any] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)  # of the models, for the page
    captioned: int = 0  # photos
    failed: dict[str, str] = field(default_factory=dict)  # why photos could not be captioned, by their sources
    passed_over: dict[str, str] = field(default_factory=dict)  # what was left out of photos' files, by their sources
    contents: dict[Named, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))  # of the files

    def __post_init__(self) -> None:
        self.total = expected(self.photos.pieces)
        self.forms = {output.form for output in self.outputs}
        self.piped = any(output.piped for output in self.outputs)
        self.listed = "num_captions" in self.work.overrides  # each caption's alternatives are written too

    def log(self, text: str) -> None:
        """Print a line, on standard error when standard output has captions alone."""
        click.echo(text, err=self.piped)

    def draw(self, folder: Path, style: dict[str, Any]) -> None:
        """Draw pictures into a folder. Raises `SatError` where they would overwrite another file."""
        names = [source for piece in self.photos.pieces for source in sources_of(piece)]
        files = picture_names(names, style.pop("format", "png"))
        self.pictures = {name: folder / file for name, file in zip(names, files, strict=True)}
        self.style = style
        check_pictures(list(self.pictures.values()))

    def run(self, loading: dict[str, Any], *, overwrite: bool) -> None:
        """Caption the photos; ends with 1 where some could not be captioned, and with 130 after Ctrl-C."""
        files = [name for piece in self.photos.pieces for name in piece.names]
        models = (self.work.name, *self.compare)
        read = [*files, loading["encoder_weights"], *models]
        check_targets(*(output.file for output in self.outputs), read=read)
        columns = {"source": "string", **({"model": "string"} if self.compare else {}), **CaptionBatch.columns}
        self.tables = {
            output: open_plain(output.target, columns, overwrite=overwrite)
            for output in self.outputs
            if output.is_table
        }
        if self.sidecars is not None:
            self.sidecars.look_at(self.photos.pieces)
        streams = self._streams([self._load(name, loading) for name in models])
        if self.photos.note:
            click.echo(self.photos.note, err=True)
        interrupted = self._caption(streams)
        if self.passed_over:
            note(read_without(self.passed_over))
        for line in self.sidecars.lines() if self.sidecars is not None else ():
            self.log(line)
        if self.pictures:
            folder = next(iter(self.pictures.values())).parent
            self.log(f"{plural(self.captioned, 'picture')} of what supported each word: {folder}{os.sep}")
        if interrupted:
            fail(f"interrupted: {self.captioned} of {plural(self.total, 'photo')} captioned", 130)
        if self.failed and self.total > 1:
            fail(f"{len(self.failed)} of {self.total} photos could not be captioned, as said above", 1)
        if self.failed or (self.sidecars is not None and self.sidecars.failed):
            sys.exit(1)

    def _load(self, name: str, loading: dict[str, Any]) -> Captioner:
        """A model, which the page has the card of. Raises `SatError` for one that has no attention to draw."""
        captioner = Captioner.from_pretrained(name, **loading)
        if self.pictures and not captioner.checkpoint.config.attends:
            raise SatError(f"{captioner.name} has no attention to draw: leave out --save-maps")
        if captioner.name in self.cards:
            raise SatError(f"two models are called {captioner.name}: rename the folder of one")
        self.cards[captioner.name] = captioner.checkpoint.card(captioner.name)
        return captioner

    def _streams(self, captioners: Sequence[Captioner]) -> Iterator[tuple[Item, *tuple[Caption | PhotoError, ...]]]:
        """Each photo with its captions, by each model."""
        drawn = bool(self.pictures or self.hide) or not self.forms.isdisjoint(("json", "html"))
        items, *copies = tee(chain.from_iterable(map(photos_of, self.photos.pieces)), 1 + len(captioners))
        streams = []
        for captioner, photos in zip(captioners, copies, strict=True):
            config = captioner.resolve_config(**self._overrides(captioner))
            contents: Iterator[Any] = (item.content for item in photos)
            stream = captioner.stream(contents, config, evidence=drawn)
            streams.append(hide_words(captioner, stream, self.hide, note) if self.hide else stream)
        return zip(items, *streams, strict=True)

    def _overrides(self, captioner: Captioner) -> dict[str, Any]:
        """The settings for a model: beside others, one of soft attention keeps the mean."""
        overrides = dict(self.work.overrides)
        mode = overrides.get("attention_mode", "mean")
        if captioner.checkpoint.config.attention == "soft" and mode != "mean":
            if self.compare:
                del overrides["attention_mode"]
            else:
                note(f"{self.work.name} was trained with the mean of attention; with {mode} it is poor")
        return overrides

    def _caption(self, streams: Iterator[Any]) -> bool:
        """Caption photos until the end, or until Ctrl-C: then true."""
        try:
            with progress_bar(self.total, show=self.total > FEW) as bar:
                for item, *captions in streams:
                    with bar.external_write_mode():
                        self._add(item, captions)
                    bar.update()
        except KeyboardInterrupt:
            return True
        finally:  # each file, even if another cannot be written
            with ExitStack() as files:
                for output in reversed(self.outputs):
                    files.callback(self._write, output)
        return False

    def _add(self, item: Item, captions: Sequence[Any]) -> None:
        """Keep a photo's captions, by each model, or why there are none, and print them."""
        for caption in captions:
            if isinstance(caption, PhotoError):
                self.failed[item.source] = caption.why
                for output in self.outputs:
                    if output.form != "html":
                        self.contents[output].append({"source": item.source, "error": caption.why})
                complain(f"{item.source}: {caption.why}")
                return
        self._keep(item, captions)  # before they are printed, so that Ctrl-C loses nothing that was seen
        self.captioned += 1
        if captions[0].passed_over:
            self.passed_over[item.source] = captions[0].passed_over
        if captions[0].warning:
            note(f"{click.format_filename(item.source)}: {captions[0].warning}")
        for caption in captions:
            self._print(item.source, caption)
        if self.pictures:
            captions[0].save(self.pictures[item.source], compare=captions[1:], **self.style)

    def _print(self, source: str, caption: Caption) -> None:
        others = [text for text, _ in caption.alternatives] if self.listed else []
        if "-" in self.forms:
            for text in (caption.text, *others):
                click.echo(f"{printable(source)}\t{printable(text)}")
        if self.piped:
            return
        name = printable(click.format_filename(source))
        by = f" [{caption.settings['model']}]" if self.compare else ""
        check = f"  check: {', '.join(caption.to_check)}" if caption.to_check else ""
        if caption.reaches_min_confidence is False:
            check += f"  no caption reaches {caption.settings['min_confidence']:g}"
        ending = "" if caption.complete else " …"
        click.echo(f"{name}{printable(f'{by}: {caption}')}{ending}{printable(check)}")
        for text in others:
            click.echo(f"{name}{printable(f'{by}: {text}')}")
        for line in dict.fromkeys(line for answer in caption.hidden for line in answer["lines"]):
            click.echo(f"  {printable(line)}")

    def _keep(self, item: Item, captions: Sequence[Caption]) -> None:
        """Keep a photo's captions for the files that are written at the end; its sidecar is written now."""
        if self.sidecars is not None and item.source not in self.sidecars:
            self.sidecars.write([{"source": item.source, **captions[0].to_row()}])
        photo = captions[0].photo if "html" in self.forms else None  # which is read from its file again, once
        for output, caption in product(self.outputs, captions):
            content = self.contents[output]
            if output.is_table:
                own = {"source": item.source, "model": caption.settings["model"]}
                content.append(own | caption.to_row())
                for text, score in caption.alternatives if self.listed else ():
                    content.append({**own, "caption": text, "log_probability": round(score, 6)})
            elif photo is not None and output.form == "html":
                entry = {**caption.to_dict(), "source": item.source}
                content.append(page.with_image(entry, photo, side=page.longest(self.total)))
            elif OUTPUTS.get(output.form):
                content.append({**caption.to_dict(), "source": item.source})

    def _write(self, output: Named) -> None:
        """Write one of the files; one for which nothing was made stays as it is."""
        content = self.contents[output]
        if not content:
            return
        if output.is_table:
            write_plain(self.tables[output], content, self.log)
        elif output.form == "html":
            names = list(dict.fromkeys(entry["source"] for entry in content))
            title = Path(names[0]).name if len(names) == 1 else plural(len(names), "photo")
            text = page.captions_page(content, title=title, cards=self.cards, failed=self.failed.items())
            write_output(output.target, text)
            self.log(f"a page to explore the captions in: {output.target}")
        elif write := OUTPUTS.get(output.form):
            write_output("-" if output.piped else output.target, write(content))
