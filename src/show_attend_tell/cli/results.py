"""What `sat caption` has made so far in one go: what it prints, and the files that hold it."""

import io
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import fail, printable, write_output
from show_attend_tell.cli.encode import report
from show_attend_tell.cli.outputs import TABLES, Named, columns_of, write_plain
from show_attend_tell.errors import PhotoError
from show_attend_tell.messages import plural
from show_attend_tell.show.outputs import OUTPUTS

if TYPE_CHECKING:
    from show_attend_tell.batch.output import Output
    from show_attend_tell.batch.reading import Item
    from show_attend_tell.batch.run import Targets
    from show_attend_tell.caption import Caption


@dataclass(kw_only=True)
class Results:
    """What the command has made so far, and the files that hold it."""

    outputs: Sequence[Named]
    tables: Sequence["Output"]  # that are written as a whole
    targets: "Targets"  # tables and sidecars that the same command goes on with
    photos: int  # of the command
    named: bool  # print each caption's model
    listed: bool  # print each caption's alternatives too
    cards: dict[str, str] = field(default_factory=dict)  # of the models, for the page
    captioned: int = 0  # photos
    failed: dict[str, str] = field(default_factory=dict)  # why photos could not be captioned, by their paths
    _rows: list[dict[str, Any]] = field(default_factory=list)  # of the tables
    _entries: list[dict[str, Any]] = field(default_factory=list)  # of the JSON
    _shown: list[dict[str, Any]] = field(default_factory=list)  # captions with their photos, of the page

    def __post_init__(self) -> None:
        self.forms = {output.form for output in self.outputs}
        self.piped = any(output.piped for output in self.outputs)

    def log(self, text: str) -> None:
        """Print a line, on standard error when standard output has captions alone."""
        click.echo(text, err=self.piped)

    def add(self, item: "Item", captions: Sequence["Caption | PhotoError"]) -> list["Caption"]:
        """Print a photo's captions, by each model, or why there are none; keep them for the files, and return them."""
        for error in captions:
            if isinstance(error, PhotoError):
                self._add_error(item, ": ".join(part for part in (error.reason, error.remedy) if part))
                return []
        made = [caption for caption in captions if not isinstance(caption, PhotoError)]
        self._keep(item, made)  # before they are printed, so that Ctrl-C loses nothing that was seen
        self.captioned += 1
        if made[0].warning:
            click.echo(f"note: {printable(click.format_filename(item.source))}: {made[0].warning}", err=True)
        for caption in made:
            self._print(item.source, caption)
        return made

    def _add_error(self, item: "Item", why: str) -> None:
        self.failed[item.source] = why
        self._entries.append({"source": item.source, "error": why})
        self._rows.append({"source": item.source, "error": why})
        self.targets.write([item.row({"error": why})])
        complain(f"{item.source}: {why}")

    def _print(self, source: str, caption: "Caption") -> None:
        others = [text for text, _ in caption.alternatives] if self.listed else []
        if "-" in self.forms:
            for text in (caption.text, *others):
                click.echo(f"{printable(source)}\t{printable(text)}")
        if self.piped:
            return
        name = printable(click.format_filename(source))
        by = f" [{caption.settings['model']}]" if self.named else ""
        check = f"  check: {', '.join(caption.to_check)}" if caption.to_check else ""
        if caption.reaches_min_confidence is False:
            check += f"  no caption reaches {caption.settings['min_confidence']:g}"
        ending = "" if caption.complete else " …"
        click.echo(f"{name}{printable(f'{by}: {caption}')}{ending}{printable(check)}")
        for text in others:
            click.echo(f"{name}{printable(f'{by}: {text}')}")

    def _keep(self, item: "Item", captions: Sequence["Caption"]) -> None:
        """Keep a photo's captions for the files that are written at the end, and write the others."""
        self.targets.write([item.row(captions[0].to_row())])
        for caption in captions:
            own = {"source": item.source, **({"model": caption.settings["model"]} if self.named else {})}
            self._rows.append(own | caption.to_row())
            if self.listed:
                self._rows += [
                    {**own, "caption": text, "log_probability": round(score, 6)} for text, score in caption.alternatives
                ]
        if not self.forms <= {*TABLES, "-", "xmp"}:
            entries = [{**caption.to_dict(), "source": item.source} for caption in captions]
            self._entries += entries
            if "html" in self.forms:
                from show_attend_tell.show import page

                self._shown += [
                    page.with_image(entry, caption.photo, side=page.longest(self.photos))
                    for entry, caption in zip(entries, captions, strict=True)
                ]

    def write(self) -> None:
        """Write the files, each even if another cannot be written. A file for which nothing was made stays as it is."""
        with ExitStack() as each_one:
            for output in reversed(self.outputs):
                each_one.callback(self._write, output)
            for table in self.tables if self._rows else ():
                each_one.callback(write_plain, table, self._rows, self.log)

    def finish(self, *, ended: bool) -> None:
        """Write the tables and count the sidecars that the same command goes on with."""
        report(self.targets.finish(ended=ended), self.log, self.targets.sidecars)

    def exit(self, *, interrupted: bool) -> None:
        """End the command, unless all went well."""
        if interrupted:
            fail(f"interrupted: {self.captioned} of {plural(self.photos, 'photo')} captioned", 130)
        if self.failed and self.photos > 1:
            fail(f"{len(self.failed)} of {self.photos} photos could not be captioned, as said above", 1)
        if self.failed or (self.targets.sidecars is not None and self.targets.sidecars.failed):
            sys.exit(1)

    def _write(self, output: Named) -> None:
        target = "-" if output.piped else output.target
        if output.form == "html" and self._shown:
            from show_attend_tell.show import page

            names = list(dict.fromkeys(entry["source"] for entry in self._shown))
            title = Path(names[0]).name if len(names) == 1 else plural(len(names), "photo")
            text = page.captions_page(self._shown, title=title, cards=self.cards, failed=self.failed.items())
            write_output(target, text)
            if not output.piped:
                self.log(f"a page to explore the captions in: {target}")
        elif output.form in TABLES and output.piped and self._rows:
            from show_attend_tell.batch.tables import write_rows

            content = io.BytesIO()
            columns = columns_of(self.named)
            write_rows(content, [dict.fromkeys(columns) | row for row in self._rows], columns, output.form)
            write_output("-", content.getvalue().decode())
        elif self._entries and (write := OUTPUTS.get(output.form)):
            write_output(target, write(self._entries))


def complain(text: str) -> None:
    """Say what went wrong with one photo."""
    click.echo(f"sat: {printable(text)}", err=True)
