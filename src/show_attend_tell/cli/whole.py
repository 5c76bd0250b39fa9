"""Photos that `sat caption` captions in one go, in this process: what is printed, drawn, compared or made a page of."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import check_targets
from show_attend_tell.cli.outputs import STDIN, Named, check_pictures, columns_of, open_plain, picture_names
from show_attend_tell.cli.results import Results
from show_attend_tell.errors import PhotoError, SatError
from show_attend_tell.messages import plural

if TYPE_CHECKING:
    from show_attend_tell.batch.output import Output
    from show_attend_tell.batch.reading import Item
    from show_attend_tell.batch.run import Selection, Targets
    from show_attend_tell.batch.sidecars import Sidecars
    from show_attend_tell.batch.work import BatchConfig, CaptionBatch
    from show_attend_tell.caption import Caption
    from show_attend_tell.captioner import Captioner


@dataclass
class Whole:
    """What is to be captioned, by which models and into what."""

    photos: "Selection"
    outputs: Sequence[Named]
    sidecars: "Sidecars | None"
    work: "CaptionBatch"
    config: "BatchConfig"
    compare: Sequence[str]  # more models
    plain: bool  # tables are written as a whole, and no command goes on with them
    piped: bool  # one more photo comes from standard input
    pictures: dict[str, Path] = field(default_factory=dict)  # by the photos' sources
    style: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def stdin(self) -> bytes | None:
        """The photo from standard input, if there is one."""
        if not self.piped:
            return None
        content = sys.stdin.buffer.read()
        if not content:
            raise SatError("- : standard input is empty. Give it a photo, as in: cat dog.jpg | sat caption -")
        return content

    def items(self) -> "Iterator[Item]":
        """The photos; that from standard input comes last."""
        from show_attend_tell.batch.reading import Item, photos_or_paths

        yield from photos_or_paths(self.photos.pieces)
        if self.stdin is not None:
            yield Item(STDIN, self.stdin)

    def draw(self, folder: Path, style: dict[str, Any]) -> None:
        """Draw pictures into a folder. Raises `SatError` where they would overwrite another file."""
        names = [item.source for item in self.items()]
        files = picture_names(names, style.pop("format", "png"))
        self.pictures = {name: folder / file for name, file in zip(names, files, strict=True)}
        self.style = style
        check_pictures(list(self.pictures.values()), list(map(Path, names)))

    def run(self, loading: dict[str, Any]) -> None:
        """Caption the photos; ends with 1 where some could not be captioned, and with 130 after Ctrl-C."""
        from show_attend_tell.batch.reading import expected

        files = [file.removeprefix("file://") for piece in self.photos.pieces for file in piece.files]
        models = (self.work.name, *self.compare)
        check_targets(
            *(output.file for output in self.outputs), read=[*files, loading["encoder_weights"]], models=models
        )
        targets = self._targets()
        results = Results(
            outputs=self.outputs,
            tables=self._plain_tables(),
            targets=targets,
            photos=expected(self.photos.pieces) + self.piped,
            named=bool(self.compare),
            listed="num_captions" in self.work.overrides,
        )
        streams = self._streams([self._load(name, loading) for name in models], results)
        with targets.opened(self.photos, self.work, self.config, results.log):
            if self.photos.note:
                click.echo(self.photos.note, err=True)
            interrupted = self._caption(streams, results)
            results.finish(ended=not interrupted)
        if self.pictures:
            folder = next(iter(self.pictures.values())).parent
            results.log(f"{plural(results.captioned, 'picture')} of what supported each word: {folder}{os.sep}")
        results.exit(interrupted=interrupted)

    def _targets(self) -> "Targets":
        from show_attend_tell.batch.run import Targets, tables_of

        if self.sidecars is not None and self.piped:
            raise SatError("--output xmp writes beside photos, and - has no folder: leave out one or the other")
        addresses = [output.target for output in self.outputs if output.is_table and not self.plain]
        return Targets(tables_of(addresses, self.work, self.config), self.sidecars)

    def _plain_tables(self) -> "list[Output]":
        columns = columns_of(bool(self.compare))
        overwrite = self.config.overwrite
        return [
            open_plain(output.target, columns, overwrite=overwrite)
            for output in self.outputs
            if output.is_table and self.plain
        ]

    def _load(self, name: str, loading: dict[str, Any]) -> "Captioner":
        """A model, which the page has the card of. Raises `SatError` for one that has no attention to draw."""
        from show_attend_tell.captioner import Captioner

        captioner = Captioner.from_pretrained(name, **loading)
        if self.pictures and captioner.checkpoint.config.attention in ("none", "uniform"):
            raise SatError(f"{captioner.name} has no attention to draw: leave out --save-maps")
        return captioner

    def _streams(
        self, captioners: "Sequence[Captioner]", results: Results
    ) -> "Iterator[tuple[Item, *tuple[Caption | PhotoError, ...]]]":
        """Each photo with its captions, by each model."""
        drawn = bool(self.pictures) or any(output.form in ("json", "html") for output in self.outputs)
        items, *copies = tee(self.items(), 1 + len(captioners))
        streams = []
        for captioner, photos in zip(captioners, copies, strict=True):
            if captioner.name in results.cards:
                raise SatError(f"two models are called {captioner.name}: rename the folder of one")
            results.cards[captioner.name] = captioner.checkpoint.card(captioner.name)
            config = captioner.resolve_config(**self._overrides(captioner))
            contents: Iterator[Any] = (item.content for item in photos)
            streams.append(captioner.stream(contents, config, evidence=drawn))
        self.work.model = captioners[0]
        return zip(items, *streams, strict=True)

    def _overrides(self, captioner: "Captioner") -> dict[str, Any]:
        """The settings for a model: beside others, one of soft attention keeps the mean."""
        overrides = dict(self.work.overrides)
        mode = overrides.get("attention_mode", "mean")
        if captioner.checkpoint.config.attention == "soft" and mode != "mean":
            if self.compare:
                del overrides["attention_mode"]
            else:
                note = f"{self.work.name} was trained with the mean of attention; with {mode} it is poor"
                click.echo(f"note: {note}", err=True)
        return overrides

    def _caption(self, streams: "Iterator[Any]", results: Results) -> bool:
        """Caption photos until the end, or until Ctrl-C: then true."""
        from show_attend_tell.vision.prepared import FEW, progress_bar

        try:
            with progress_bar(results.photos, show=results.photos > FEW) as bar:
                for item, *made in streams:
                    with bar.external_write_mode():
                        captions = results.add(item, made)
                    if self.pictures and captions:
                        first, *others = captions
                        first.save(self.pictures[item.source], compare=others, **self.style)
                    bar.update()
        except KeyboardInterrupt:
            return True
        finally:
            results.write()
        return False
