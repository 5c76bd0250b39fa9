"""`sat analyze pointing`: whether a model attends to the objects that it names."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    BaseCommand,
    check_targets,
    device_option,
    json_option,
    model_option,
    seed_option,
    split_option,
    was_given,
    weights_option,
    write_output,
)
from show_attend_tell.cli.options import attention_mode_option
from show_attend_tell.errors import SatError
from show_attend_tell.files import write_text
from show_attend_tell.messages import first_three, plural, shorten

if TYPE_CHECKING:
    from show_attend_tell.analysis.mosaics import MosaicPointing
    from show_attend_tell.analysis.pointing import ScenePointing
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import Example
    from show_attend_tell.metrics.bootstrap import Interval

ON_PAGE = 8  # mosaics at most
# What only a measurement uses, and a page of photos without captions does not.
OF_MEASUREMENTS = {"split": "--split", "mosaics": "--mosaics", "json_file": "--json"}

EXAMPLES = """
\b
Examples:
  sat analyze scenes scenes/ --photos 2000
  sat analyze pointing --model scenes-soft --data scenes/
  sat analyze pointing --model scenes-hard --data scenes/ --split val --json pointing.json
  sat analyze pointing --mosaic flickr8k/
  sat analyze pointing --mosaic a.jpg b.jpg c.jpg d.jpg --html mosaic.html
  sat analyze pointing --mosaic my-photos/ --html mosaics.html
  sat analyze pointing --mosaic a.jpg b.jpg c.jpg d.jpg --html mosaic.html \\
    --caption "a dog" --caption "a boat" --caption "two men" --caption "a red car"
"""


@click.command(cls=BaseCommand, epilog=EXAMPLES)
@click.argument("photos", nargs=-1, type=click.Path(path_type=Path), metavar="[PHOTO]...")
@model_option()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder made by sat analyze scenes. It needs --model, with a model that was trained on scenes.",
)
@click.option(
    "--mosaic",
    type=click.Path(path_type=Path),
    help="Folder of captioned photos, as for sat train, in place of --data: four photos share one picture. With --html "
    "also your own photos without captions: four files, upper row first, or a folder.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(),
    help="Page to write for --mosaic: on each mosaic the model reads the captions of its four photos word by word.",
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
@weights_option
@device_option
def pointing(
    photos: tuple[Path, ...],
    model: str,
    data: Path | None,
    mosaic: Path | None,
    html_file: str | None,
    captions: tuple[str, ...],
    mosaics: int,
    split: str,
    generation: dict[str, Any],
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Measure attention on what words name.

    With --data the pictures are generated scenes, in which the box of every object is known. With --mosaic each
    picture is four photos, and the model reads a caption of one of them: how much attention falls on that photo?
    On the page of --html you choose which of the four captions is read, and go or play through its words. Photos
    without captions get yours (--caption), or those that the model gives each photo by itself. Nothing is measured on
    them.
    """
    from show_attend_tell.analysis.mosaics import draw_mosaics, mosaic_page, own_mosaics, point_in_mosaics
    from show_attend_tell.analysis.pointing import point_in_scenes
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import NoCaptions, read_dataset
    from show_attend_tell.data.photos import find_photos

    if (data is None) == (mosaic is None):
        raise SatError("give either --data, a folder made by sat analyze scenes, or --mosaic, photos or their folder")
    if mosaic is None and (photos or html_file):
        given = f"--html {html_file}: the page shows" if html_file else f"{photos[0]}: photos are for"
        raise SatError(f"{given} mosaics, so give --mosaic, and not --data")
    if data is not None and not was_given("model"):
        raise SatError(f"--data {data}: add --model, with a model that was trained on scenes")
    if data is not None and was_given("mosaics"):
        raise SatError("--mosaics: no mosaics are made of scenes: leave it out")
    named = [] if mosaic is None else [mosaic, *photos]
    check_targets(json_file, html_file, read=[*named, data, encoder_weights], models=[model])
    dataset, own = None, bool(photos) or (mosaic is not None and mosaic.is_file())
    if mosaic is not None and not own:
        try:
            dataset = read_dataset(mosaic)
        except NoCaptions:
            if html_file is None:
                raise
            own = True
    files: list[Path] = []
    if own:
        files = find_photos([str(each) for each in named], recursive=None).photos
        if html_file is None:
            raise SatError(f"{mosaic}: nothing is measured on photos without captions: add --html FILE for a page")
        for name, option in OF_MEASUREMENTS.items():
            if was_given(name):
                raise SatError(f"{option}: nothing is measured on photos without captions: leave it out")
        if captions and len(captions) != len(files):
            raise SatError(
                f"{plural(len(captions), 'caption')} for {plural(len(files), 'photo')}: give --caption once for each"
            )
        files = _in_fours(files, of=named[0])
    elif captions:
        raise SatError(f"--caption {shorten(captions[0])}: only photos without captions of their own can be given one")

    captioner = Captioner.from_pretrained(model, device=device, backend="torch", encoder_weights=encoder_weights)

    def write_page(shown: "Sequence[Sequence[Example]]", of: str) -> None:
        title = f"{captioner.name} on {'a mosaic' if len(shown) == 1 else 'mosaics'} of {of}"
        write_text(Path(str(html_file)), mosaic_page(captioner, shown, title=title, seed=seed, **generation))
        click.echo(f"a page of {plural(len(shown), 'mosaic')}: {html_file}", err=True)

    if own:
        shown = own_mosaics(captioner, files, captions[: len(files)], **generation)
        if unknown := _unknown(captioner, captions):
            click.echo(f"note: {captioner.name} does not know {first_three(unknown)}: read as <unk>", err=True)
        write_page(shown, of=plural(len(files), "photo") if len(named) > 1 else named[0].resolve().name)
        return
    if dataset is not None:
        examples = dataset.split(split)
        in_mosaics = point_in_mosaics(captioner, examples, mosaics=mosaics, seed=seed, **generation)
        found = {**in_mosaics.to_dict(), "data": dataset.name, "split": split}
        lines = _in_mosaics(in_mosaics, f"{dataset.name} {split}")
        if html_file is not None:
            write_page([one.photos for one in draw_mosaics(examples, min(mosaics, ON_PAGE), seed)], of=dataset.name)
    elif data is not None:
        in_scenes = point_in_scenes(captioner, data, split=split, seed=seed, **generation)
        found, lines = in_scenes.to_dict(), _in_scenes(in_scenes, f"{data} {split}")
    if not write_output(json_file, json.dumps(found, ensure_ascii=False, indent=1) + "\n"):
        click.echo("\n".join(lines))


def _in_fours(files: list[Path], of: Path) -> list[Path]:
    """The photos that fill mosaics. The others are left out, and this says so."""
    used = files[: min(len(files) // 4, ON_PAGE) * 4]
    if not used:
        raise SatError(f"{of}: {plural(len(files), 'photo')}, and a mosaic has 4: add photos")
    if len(files) > len(used):
        left = plural(len(files) - len(used), "photo")
        click.echo(f"{left} of {len(files)} left out: a page has 4 photos a mosaic, and {ON_PAGE} mosaics", err=True)
    return used


def _unknown(captioner: "Captioner", captions: Sequence[str]) -> list[str]:
    """The words of captions that the model does not know, each once."""
    vocabulary = captioner.checkpoint.vocabulary
    words = [word for caption in captions for word in vocabulary.tokenizer.words(caption)]
    return list(dict.fromkeys(word for word in words if word not in vocabulary))


def _in_scenes(result: "ScenePointing", of: str) -> Iterator[str]:
    yield (
        f"{result.model} on {of}, attention mode {result.attention_mode}: {result.photos:,} photos, "
        f"{result.kinds['all'].words:,} words that name an object"
    )
    for kind, found in result.kinds.items():
        share, elsewhere, hit = (
            f"{_percent(found.means[name])} (chance {100 * found.means[f'{name}_chance'].mean:.1f} %)"
            for name in ("share", "elsewhere", "hit")
        )
        yield (
            f"  {kind:<6}  alpha on the object {share}, on the others {elsewhere}; argmax inside {hit}; "
            f"word right {100 * found.means['right'].mean:.1f} %"
        )


def _in_mosaics(result: "MosaicPointing", of: str) -> Iterator[str]:
    yield (
        f"{result.model} on {result.mosaics:,} mosaics of {plural(result.photos, 'photo')} of {of} by seed "
        f"{result.seed}, attention mode {result.attention_mode}; nouns that tell the photo apart; chance is "
        f"{100 * result.chance:g} %; 95 % intervals over photos"
    )
    steps = {"at the noun's own step": result.word, "at the next step, after the noun": result.next}
    for title, by_nouns in steps.items():
        yield f"  {title}"
        for before, found in by_nouns.items():
            nouns = {"all": "all", "1": "1 noun before"}.get(before, f"{before} nouns before")
            words, share, hit = f"{found.words:,} words", _percent(found.means["share"]), _percent(found.means["hit"])
            yield f"    {nouns:<24}{words:>12}  alpha on the right photo {share}, argmax on it {hit}"


def _percent(found: "Interval") -> str:
    return f"{100 * found.mean:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"
