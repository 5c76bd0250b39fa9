"""`sat analyze pointing`: whether a model attends to the objects that it names."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    check_targets,
    compute_options,
    json_option,
    model_option,
    seed_option,
    split_option,
    was_given,
    write_output,
)
from show_attend_tell.cli.options import attention_mode_option
from show_attend_tell.errors import SatError
from show_attend_tell.files import write_text
from show_attend_tell.messages import aligned, first_three, plural

if TYPE_CHECKING:
    from show_attend_tell.analysis.mosaics import MosaicPointing
    from show_attend_tell.analysis.pointing import ScenePointing
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import Example
    from show_attend_tell.metrics.bootstrap import WordClass

ON_PAGE = 8  # mosaics at most
IDLE = {  # the options that do nothing, by what is given
    "generated scenes": {"html_file": "--html", "captions": "--caption", "mosaics": "--mosaics"},
    "captioned photos": {"captions": "--caption"},
    "photos without captions": {"split": "--split", "mosaics": "--mosaics", "json_file": "--json"},
}

EXAMPLES = """
\b
Examples:
  sat analyze scenes scenes/ --photos 2000
  sat analyze pointing scenes/ --model scenes-soft
  sat analyze pointing scenes/ --model scenes-hard --split val --json pointing.json
  sat analyze pointing flickr8k/
  sat analyze pointing a.jpg b.jpg c.jpg d.jpg --html mosaic.html
  sat analyze pointing my-photos/ --html mosaics.html
  sat analyze pointing a.jpg b.jpg c.jpg d.jpg --html mosaic.html \\
    --caption "a dog" --caption "a boat" --caption "two men" --caption "a red car"
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("photos", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DATA|PHOTO...")
@model_option()
@click.option(
    "--html",
    "html_file",
    type=click.Path(),
    help="Page to write of mosaics: on each the model reads the captions of its four photos word by word.",
)
@click.option(
    "--caption",
    "captions",
    multiple=True,
    metavar="TEXT",
    help="Caption of a photo of your own, once for each photo, in their order. [default: the model's own captions]",
)
@click.option("--mosaics", type=click.IntRange(2), default=500, show_default=True, help="Number of mosaics.")
@split_option("test")
@attention_mode_option
@seed_option("mosaics and of sampled locations")
@json_option("the figures")
@compute_options
def pointing(
    photos: tuple[Path, ...],
    model: str,
    html_file: str | None,
    captions: tuple[str, ...],
    mosaics: int,
    split: str,
    generation: dict[str, Any],
    seed: int,
    json_file: str | None,
    loading: dict[str, Any],
) -> None:
    """Measure attention on what words name.

    DATA is a folder made by sat analyze scenes, in whose pictures the box of every object is known, or a folder of
    captioned photos, as for sat train. Then each picture is a mosaic of four photos, and the model reads a caption of
    one of them: how much attention falls on that photo? On the page of --html you choose which of the four captions is
    read, and go or play through its words.

    PHOTOs or a folder of them, without captions, also make such a page, four photos a mosaic, upper row first. They get
    your captions (--caption), or those that the model gives each photo by itself. Nothing is measured on them.
    """
    from show_attend_tell.analysis.mosaics import draw_mosaics, mosaic_page, own_mosaics, point_in_mosaics
    from show_attend_tell.analysis.pointing import point_in_scenes
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import NoCaptions, read_dataset
    from show_attend_tell.data.photos import find_photos

    check_targets(json_file, html_file, read=[*photos, loading["encoder_weights"]], models=[model])
    data, dataset, kind = photos[0], None, "photos without captions"
    if (data / "boxes.json").exists():
        kind = "generated scenes"
        if not was_given("model"):
            raise SatError(f"{data}: add --model, with a model that was trained on scenes")
    elif len(photos) == 1 and not data.is_file():
        try:
            dataset, kind = read_dataset(data), "captioned photos"
        except NoCaptions:
            if html_file is None:
                raise
    for name, option in IDLE[kind].items():
        if was_given(name):
            raise SatError(f"{option}: it does nothing for {kind}: leave it out")
    files = (
        find_photos([str(each) for each in photos], recursive=None).photos if kind == "photos without captions" else []
    )
    if files and html_file is None:
        raise SatError(f"{data}: nothing is measured on photos without captions: add --html FILE for a page")
    captioner = Captioner.from_pretrained(model, backend="torch", **loading)

    shown: Sequence[Sequence[Example]] = []
    of = data.resolve().name if len(photos) == 1 else plural(len(photos), "photo")
    if kind == "generated scenes":
        in_scenes = point_in_scenes(captioner, data, split=split, seed=seed, **generation)
        found, lines = in_scenes.to_dict(), _in_scenes(in_scenes, f"{data} {split}")
    elif dataset is not None:
        examples = dataset.split(split)
        in_mosaics = point_in_mosaics(captioner, examples, mosaics=mosaics, seed=seed, **generation)
        found = {**in_mosaics.to_dict(), "data": dataset.name, "split": split}
        lines = _in_mosaics(in_mosaics, f"{dataset.name} {split}")
        if html_file is not None:
            shown = [one.photos for one in draw_mosaics(examples, min(mosaics, ON_PAGE), seed)]
    else:
        shown = own_mosaics(captioner, files, captions, most=ON_PAGE, **generation)
        if left := len(files) - 4 * len(shown):
            left_out = f"{plural(left, 'photo')} of {len(files)} left out"
            click.echo(f"{left_out}: a page has 4 photos a mosaic, and {ON_PAGE} mosaics", err=True)
        if unknown := _unknown(captioner, captions):
            click.echo(f"note: {captioner.name} does not know {first_three(unknown)}: read as <unk>", err=True)
    if html_file is not None:
        title = f"{captioner.name} on {'a mosaic' if len(shown) == 1 else 'mosaics'} of {of}"
        write_text(Path(html_file), mosaic_page(captioner, shown, title=title, seed=seed, **generation))
        click.echo(f"a page of {plural(len(shown), 'mosaic')}: {html_file}", err=True)
    if not files and not write_output(json_file, json.dumps(found, ensure_ascii=False, indent=1) + "\n"):
        click.echo("\n".join(lines))


def _unknown(captioner: "Captioner", captions: Sequence[str]) -> list[str]:
    """The words of captions that the model does not know, each once."""
    vocabulary = captioner.checkpoint.vocabulary
    words = [word for caption in captions for word in vocabulary.tokenizer.words(caption)]
    return list(dict.fromkeys(word for word in words if word not in vocabulary))


def _in_scenes(result: "ScenePointing", of: str) -> list[str]:
    heads = ("alpha on the object", "chance", "on the others", "chance", "argmax inside", "chance", "word right")
    rows = [["", "words", *heads]]
    for kind, found in result.kinds.items():
        rows.append([kind, f"{found.words:,}", *(_percent(found, name) for name in found.means)])
    title = f"{result.model} on {of}, attention mode {result.attention_mode}: {result.photos:,} photos"
    return [f"{title}; 95 % intervals over photos", *aligned(rows)]


def _in_mosaics(result: "MosaicPointing", of: str) -> list[str]:
    title = (
        f"{result.model} on {result.mosaics:,} mosaics of {plural(result.photos, 'photo')} of {of} by seed "
        f"{result.seed}, attention mode {result.attention_mode}; nouns that tell the photo apart; chance is "
        f"{100 * result.chance:g} %; 95 % intervals over photos"
    )
    rows = [("nouns before", "words", "alpha on the right photo", "argmax on it")]
    for step, by_nouns in (("at the noun's own step", result.word), ("at the next step", result.next)):
        for before, found in by_nouns.items():
            rows.append((f"{step}, {before}", f"{found.words:,}", _percent(found, "share"), _percent(found, "hit")))
    return [title, *aligned(rows)]


def _percent(found: "WordClass", name: str) -> str:
    figure = found.means[name].interval()
    interval = "" if name.endswith("chance") else f" [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
    return f"{100 * figure.mean:.1f} %{interval}"
