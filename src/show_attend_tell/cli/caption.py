"""`sat caption`: captions of photos, as text, JSON, pictures, a page, tables or sidecars."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from show_attend_tell.cli.command import (
    FOLDER,
    BaseCommand,
    check_targets,
    complain,
    loading_options,
    model_option,
)
from show_attend_tell.cli.encode import batch_options, report
from show_attend_tell.cli.options import GENERATION, options_from
from show_attend_tell.cli.outputs import Named, read_outputs
from show_attend_tell.errors import SatError

if TYPE_CHECKING:
    from show_attend_tell.batch.sidecars import Sidecars

EXAMPLES = """
\b
Examples:
  sat caption dog.jpg
  sat caption photos/ --recursive
  cat dog.jpg | sat caption -
  sat caption photos/ --save-maps maps/              pictures of what in the photo supported each word
  sat caption dog.jpg --save-maps maps/ --style format=svg --style dark=true
  sat caption dog.jpg --save-maps maps/ --style shown=attention    where the model looked before the word
  sat caption dog.jpg --save-maps maps/ --compare everyday-hard --generation attention_mode=argmax
  sat caption photos/ --output captions.csv          a table; the same command resumes an interrupted run
  sat caption dog.jpg --output dog.html              a page to explore it in
  sat caption dog.jpg --hide nouns                   is a noun gone when what it lit is hidden?
  sat caption photos/ --output xmp                   a sidecar for each photo, for darktable or digiKam
  sat caption photos/ --output - | cut -f2           the captions alone
  sat caption dog.jpg --min-confidence 0.6           a caption whose nouns are probably right
  sat caption dog.jpg --generation num_captions=3    three captions that differ in content
  sat caption "shards/*.tar" table.parquet --output captions.parquet --workers 8
"""


class CaptionCommand(BaseCommand):
    """`sat caption`, whose options stand in sections of the help."""

    sections: ClassVar[Mapping[str, str]] = {
        "Photos": "recursive column",
        "Output": "output overwrite save-maps style hide sidecar",
        "Model": "model compare encoder-weights plugin",
        "Captions": "min-confidence generation",
        "Machine": "workers engine backend device",
    }


@click.command(cls=CaptionCommand, epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="PHOTO...")
@click.option(
    "--output",
    "targets",
    multiple=True,
    metavar="FILE",
    help="File for the captions: a table (.csv, .tsv, .jsonl, .parquet; FILE/ is a folder of parts), everything for a "
    "program (.json) or a page to explore (.html). - is standard output, with a line of photo, tab and caption for "
    "each; -.json writes JSON there. xmp writes sidecars with descriptions for photo managers. It may be given "
    "several times.",
)
@click.option(
    "--save-maps",
    type=FOLDER,
    metavar="FOLDER",
    help="Folder for pictures of what supported each word. Earlier pictures are replaced, other files never.",
)
@options_from(
    "show_attend_tell.show.pictures.style:PictureFile show_attend_tell.show.pictures.style:Style",
    into="style",
    rest="--style",
)
@click.option(
    "--hide",
    metavar="WORD",
    help="Hide what a word of the caption lit, caption the photo again, and say whether the word is gone, beside five "
    "controls; nouns hides each noun that has a confidence. Pages and JSON include the results.",
)
@options_from("show_attend_tell.show.sidecar:SidecarSettings", into="sidecar", rest="--sidecar")
@model_option()
@click.option(
    "--compare",
    multiple=True,
    metavar="MODEL",
    help="Another model, whose captions are shown with those of the first. It may be given several times.",
)
@loading_options
@batch_options
@options_from(GENERATION, "min_confidence", into="generation", rest="--generation", default="the model's")
def caption(
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    save_maps: Path | None,
    style: dict[str, Any],
    hide: str | None,
    sidecar: dict[str, Any],
    model: str,
    compare: tuple[str, ...],
    generation: dict[str, Any],
    batch: dict[str, Any],
    **loading: Any,
) -> None:
    """Caption photos: files, folders, globs or addresses.

    It also reads photos in tar files and in tables (Parquet); - is a photo from standard input. For tables and
    sidecars, --workers processes or a cluster caption any number of photos, and the same command resumes an
    interrupted run. It captions again the photos that had an error or have changed, but never those whose captions
    you have edited. All other output is made in one go. After Ctrl-C, the files hold the captions made so far.
    """
    from show_attend_tell.batch.run import Targets, run, select, tables_of
    from show_attend_tell.batch.work import BatchConfig, CaptionBatch

    outputs = read_outputs(targets)
    if save_maps is None and style:
        raise SatError("--style says how pictures look: add --save-maps FOLDER")
    if hide and "-" in targets:
        raise SatError("--output - has no place for the results of --hide: name a page or JSON, or leave it out")
    sidecars = open_sidecars(outputs, sidecar, model)
    config = BatchConfig(**batch)
    work = CaptionBatch(model, **loading, **generation)
    photos = select(sources, config)
    resumes = bool(outputs) and all(output.is_table or output.form == "xmp" for output in outputs)
    whole = not resumes or "-" in sources or save_maps or compare or hide or "num_captions" in generation
    if whole and set(batch) & {"workers", "engine"}:
        raise SatError("only tables and sidecars of one caption a photo are made so: leave out --workers and --engine")
    if not whole and not photos.is_one_photo():
        check_targets(*(output.file for output in outputs))
        addresses = [output.target for output in outputs if output.is_table]
        filled = Targets(tables_of(addresses, work, config), sidecars)
        report(run(photos, filled, work, config, log=click.echo), sidecars)
        return
    from show_attend_tell.cli.whole import Whole

    one_go = Whole(photos, outputs, sidecars, work, compare, hide)
    if save_maps is not None:
        one_go.draw(save_maps, style)
    one_go.run(loading, overwrite=config.overwrite)


def open_sidecars(outputs: Sequence[Named], options: Mapping[str, Any], model: str) -> "Sidecars | None":
    """The sidecars, if they are an output. Raises `SatError` for settings of sidecars without them."""
    from show_attend_tell.batch.sidecars import Sidecars
    from show_attend_tell.checkpoint.hub import find_model, model_name
    from show_attend_tell.show.sidecar import SidecarSettings

    if any(output.form == "xmp" for output in outputs):
        return Sidecars(SidecarSettings(**options), model_name(find_model(model)), complain)
    if options:
        raise SatError("--sidecar says what sidecars are like: add --output xmp")
    return None
