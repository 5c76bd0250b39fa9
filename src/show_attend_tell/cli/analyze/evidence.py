"""`sat analyze evidence`: whether a word's map lies on what the word is about, and says what moved the model."""

import json
from collections.abc import Iterator, Sequence
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
    from show_attend_tell.analysis.evidence import EvidenceMeasured
    from show_attend_tell.captioner import Captioner
    from show_attend_tell.data.datasets import Example
    from show_attend_tell.metrics.bootstrap import Interval

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
  sat analyze evidence scenes/ --model scenes-soft
  sat analyze evidence scenes/ --model scenes-hard --split val --json evidence.json
  sat analyze evidence flickr8k/
  sat analyze evidence a.jpg b.jpg c.jpg d.jpg --html mosaic.html
  sat analyze evidence my-photos/ --html mosaics.html
  sat analyze evidence a.jpg b.jpg c.jpg d.jpg --html mosaic.html \\
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
def evidence(
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
    """Measure the evidence of words, and other maps.

    Is it in the right place, and does it say what moved the model?

    DATA is a folder of captioned photos, as for sat train. Each picture is a mosaic of four photos, and the model reads
    a caption of one of them: how much of a noun's evidence, attention and other maps falls on that photo? How much of
    the maps of the other words? How far does the word's log-probability fall when the brightest locations are hidden?
    Does the map change when weights of the model are shuffled? Or DATA is a folder made by sat analyze scenes, in whose
    pictures the box of every object is known. A model with uniform attention has the gradient times the input.

    On the page of --html you choose which of the four captions is read, and go or play through its words.

    PHOTOs or a folder of them, without captions, also make such a page, four photos a mosaic, upper row first. They get
    your captions (--caption), or those that the model gives each photo by itself. Nothing is measured on them.
    """
    from show_attend_tell.analysis.evidence import point_in_scenes
    from show_attend_tell.analysis.mosaics import draw_mosaics, mosaic_page, own_mosaics, point_in_mosaics
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
    if kind == "generated scenes":
        found = point_in_scenes(captioner, data, split=split, seed=seed, **generation)
    elif dataset is not None:
        examples = dataset.split(split)
        found = point_in_mosaics(captioner, examples, split=split, mosaics=mosaics, seed=seed, **generation)
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
        of = data.resolve().name if len(photos) == 1 else plural(len(photos), "photo")
        title = f"{captioner.name} on {'a mosaic' if len(shown) == 1 else 'mosaics'} of {of}"
        write_text(Path(html_file), mosaic_page(captioner, shown, title=title, seed=seed, **generation))
        click.echo(f"a page of {plural(len(shown), 'mosaic')}: {html_file}", err=True)
    if not files:
        name = data.name if dataset is None else dataset.name
        figures = {**found.to_dict(), "data": name}
        if not write_output(json_file, json.dumps(figures, ensure_ascii=False, indent=1) + "\n"):
            click.echo("\n".join(_tables(found, name)))


def _unknown(captioner: "Captioner", captions: Sequence[str]) -> list[str]:
    """The words of captions that the model does not know, each once."""
    vocabulary = captioner.checkpoint.vocabulary
    words = [word for caption in captions for word in vocabulary.tokenizer.words(caption)]
    return list(dict.fromkeys(word for word in words if word not in vocabulary))


def _tables(found: "EvidenceMeasured", data: str) -> Iterator[str]:
    from show_attend_tell.analysis.evidence import CONTROLLED, HIDDEN, MAPS

    of = f"{found.mosaics:,} mosaics of " if found.mosaics else ""
    yield (
        f"{found.model} on {of}{data} {found.split} by seed {found.seed}, {found.attention} attention, attention mode "
        f"{found.attention_mode}: captions of {plural(found.photos, 'photo')}, 95 % intervals over photos"
    )
    heads = ("in the right place", "peak inside", "minus alpha's", "minus other words'", "minus other nouns'")
    for kind, even in found.chance.items():
        before = f", {kind} before" if found.mosaics and kind != "all" else ""
        name = kind if not found.mosaics else "nouns that tell the photo apart"
        rows = [[f"{name}{before} ({even.words:,})", *heads]]
        rows.append(["chance", *(f"{mean.value:.2f}" for mean in even.means.values()), "", "", ""])
        rows += [[MAPS[key], *map(_figure, of[kind].figures.values())] for key, of in found.maps.items()]
        yield from ("", *aligned(rows))
    kinds = list(found.hidden)
    titles = {key: MAPS[key] for key in found.maps} | HIDDEN
    falls = [[title, *(_figure(found.hidden[kind].figures[key]) for kind in kinds)] for key, title in titles.items()]
    yield from ("", f"In the first {CONTROLLED} captions at most, {found.hidden['all'].words:,} words:")
    yield f"nats that log p of the word falls when {found.hidden_locations} locations are hidden, those of the largest"
    yield from aligned([["", *kinds], *falls])
    yield "rank correlation of evidence with that of the model whose weights of one part are shuffled"
    parts = found.shuffled["all"].figures.items()
    yield from aligned([["", "all"], *([part.replace("_", "-"), _figure(figure)] for part, figure in parts)])


def _figure(found: "Interval | None") -> str:
    return "–" if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
