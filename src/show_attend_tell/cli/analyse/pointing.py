"""`sat analyse pointing`: whether a model looks at the objects that it names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from show_attend_tell.cli.command import (
    Teaching,
    check_targets,
    device_option,
    gave,
    json_option,
    look_option,
    model_option,
    seed_option,
    split_option,
    weights_option,
    write_text,
)
from show_attend_tell.errors import SatError
from show_attend_tell.files import count

if TYPE_CHECKING:
    from PIL import Image

    from show_attend_tell.captioner import Captioner

    Mosaics = list[list[tuple[Image.Image, str]]]  # four photos each, with a caption of each

ON_PAGE = 8  # mosaics at most

EXAMPLES = """
\b
Examples:
  sat analyse scenes scenes/ --photos 2000
  sat analyse pointing --model scenes-soft --data scenes/
  sat analyse pointing --model scenes-hard --data scenes/ --split val --json pointing.json
  sat analyse pointing --model flickr8k-soft --mosaic flickr8k/
  sat analyse pointing --model flickr8k-soft --mosaic my-photos/ --html mosaics.html
"""


@click.command(cls=Teaching, examples=EXAMPLES)
@model_option(required=True)
@click.option("--data", type=click.Path(path_type=Path), help="Folder made by sat analyse scenes.")
@click.option(
    "--mosaic",
    type=click.Path(path_type=Path),
    help="Folder of captioned photos, as for sat train, in place of --data: four photos share one picture. With --html "
    "also a folder of your own photos without captions.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(),
    help="Page to write for --mosaic: mosaics on which a caption of each of the four photos is told.",
)
@click.option("--mosaics", type=click.IntRange(2), default=500, show_default=True, help="Number of mosaics.")
@split_option("test")
@look_option
@seed_option("mosaics and of sampled places")
@json_option("the figures")
@weights_option
@device_option
def pointing(
    model: str,
    data: Path | None,
    mosaic: Path | None,
    html_file: str | None,
    mosaics: int,
    split: str,
    look: Any,
    seed: int,
    json_file: str | None,
    encoder_weights: str | None,
    device: str,
) -> None:
    """Measure attention on what words name.

    With --data the pictures are generated scenes, in which the place of every object is known. With --mosaic each
    picture is four photos, and a caption of one of them is told to the model: how much attention falls on that photo?
    The page of --html has one picture for each caption. Photos without captions are captioned by the model first, each
    by itself, and nothing is measured on them.
    """
    from show_attend_tell.analysis.mosaics import draw_mosaics, point_in_mosaics
    from show_attend_tell.analysis.pointing import point_in_scenes
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import NoCaptions, read_dataset
    from show_attend_tell.data.photos import open_photo

    if (data is None) == (mosaic is None):
        raise SatError("give either --data, a folder made by sat analyse scenes, or --mosaic, a folder of photos")
    if html_file is not None and mosaic is None:
        raise SatError(f"--html {html_file}: the page shows mosaics, so give --mosaic too")
    check_targets(json_file, html_file, read=[folder for folder in (data, mosaic) if folder is not None])
    dataset = None
    if mosaic is not None:
        try:
            dataset = read_dataset(mosaic)
        except NoCaptions:
            if html_file is None:
                raise
            if json_file is not None:
                raise SatError(f"--json {json_file}: nothing is measured on photos without captions") from None
    captioner = Captioner.from_pretrained(model, device=device, encoder_weights=encoder_weights)
    if dataset is not None:
        examples = dataset.split(split)
        result = point_in_mosaics(captioner, examples, mosaics=mosaics, look=look, seed=seed)
        result |= {"data": dataset.name, "split": split}
        if html_file is not None:
            drawn = draw_mosaics(examples, min(mosaics, ON_PAGE), seed)
            photos = [[(open_photo(each.photo), " ".join(each.captions[0])) for each in one.photos] for one in drawn]
            _write_page(captioner, photos, Path(html_file), dataset.name, look)
    elif mosaic is not None and html_file is not None:
        photos = _own_photos(captioner, mosaic, look)
        _write_page(captioner, photos, Path(html_file), mosaic.name, look)
        return
    elif data is not None:
        result = point_in_scenes(captioner, data, split=split, look=look, seed=seed)
    if not gave(json_file, json.dumps(result, ensure_ascii=False, indent=1) + "\n"):
        for line in _in_mosaics(result) if dataset is not None else _in_scenes(result, data):
            click.echo(line)


def _own_photos(captioner: "Captioner", folder: Path, look: Any) -> "Mosaics":
    """The photos of a folder, in fours by name, each with the caption that the model gives it."""
    from show_attend_tell.data.photos import find_photos, open_photo

    files = find_photos([str(folder)]).photos
    used = files[: min(len(files) // 4, ON_PAGE) * 4]
    if not used:
        raise SatError(f"{folder}: {count(len(files), 'photo')}, and a mosaic has 4: add photos")
    if len(files) > len(used):
        left = count(len(files) - len(used), "photo")
        click.echo(f"{left} of {len(files)} left out: a page has 4 photos a mosaic, and {ON_PAGE} mosaics", err=True)
    captions = captioner(used, look=look)
    told = [(open_photo(file), str(caption)) for file, caption in zip(used, captions, strict=True)]
    return [told[start : start + 4] for start in range(0, len(told), 4)]


def _write_page(captioner: "Captioner", photos: "Mosaics", file: Path, name: str, look: Any) -> None:
    from show_attend_tell.analysis.mosaics import mosaic_page

    write_text(file, mosaic_page(captioner, photos, title=f"{captioner.name} on mosaics of {name}", look=look))
    click.echo(f"a page of {count(len(photos), 'mosaic')}: {file}", err=True)


def _in_scenes(result: dict[str, Any], data: Path | None) -> Iterator[str]:
    yield (
        f"{result['model']} on {data} {result['split']}, look by {result['look']}: {result['photos']:,} photos, "
        f"{result['all']['words']:,} words that name an object"
    )
    for kind in ("all", "colour", "shape"):
        if found := result.get(kind):
            yield (
                f"  {kind:<6}  alpha on the object {_percent(found, 'share')}, on the others "
                f"{_percent(found, 'elsewhere')}; likeliest place inside {_percent(found, 'hit')}; "
                f"word right {100 * found['right']['mean']:.1f} %"
            )


def _in_mosaics(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{result['model']} on {result['mosaics']:,} mosaics of {result['data']} {result['split']} by seed "
        f"{result['seed']}, look by {result['look']}; nouns that tell the photo apart; "
        f"chance is {100 * result['chance']:g} %"
    )
    for step, title in (("word", "at the noun's own step"), ("next", "at the next step, after the noun")):
        yield f"  {title}"
        for before, found in result[step].items():
            share, hit = (
                f"{100 * found[name]['mean']:.1f} % [{100 * found[name]['low']:.1f}, {100 * found[name]['high']:.1f}]"
                for name in ("share", "hit")
            )
            nouns = {"all": "all", "1": "1 noun before"}.get(before, f"{before} nouns before")
            words = f"{found['words']:,} words"
            yield f"    {nouns:<24}{words:>12}  alpha on the right photo {share}, likeliest place on it {hit}"


def _percent(found: dict[str, Any], figure: str) -> str:
    """A mean with its 95 % interval, and what even attention gives."""
    mean, low, high = (100 * found[figure][name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} % [{low:.1f}, {high:.1f}] (chance {100 * found[f'{figure}_chance']['mean']:.1f} %)"
