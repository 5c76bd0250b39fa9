"""Does a word's map lie on what the word is about, and does it say what moved the model?

    python research/evidence.py flickr8k/ everyday-soft --json evidence.json
    python research/evidence.py scenes/ scenes-hard                          # made by research/scenes.py
    python research/evidence.py 'my-photos/*.jpg' everyday-soft --html mosaic.html    # without captions: a page alone

Each picture is a mosaic of four photos, and the model reads a caption of one of them: how much of a noun's evidence,
attention and other maps (`attention.maps`) falls on that photo, and how much of the maps of the other words? How far
does the word's log-probability fall when the locations of the largest values are hidden? Does the map change when
weights of the model are shuffled (Adebayo et al. 2018)? In generated scenes the box of every object is known, and the
words are those that name a color or a shape. A model with uniform attention has the gradient times the input.

On the page of --html the four captions of each mosaic are read, word by word, and a note below each says how much of
its evidence and attention is on its own photo.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attention.maps import CONTROLLED, HIDDEN, MAPS, Cover, Reading, Target, Word, attentive, measured_words
from attention.mosaics import Mosaic, draw_mosaics, draw_picture, mosaic_page, own_mosaics, quarter_box
from attention.occlusion import hidden_number
from measure import Bootstrap, Report, WordClass, add_generation, arguments, generation, table, writable
from scenes import Scene, read_scenes
from stages import reporting

from show_attend_tell.captioner import EVIDENCE, Captioner
from show_attend_tell.data.datasets import Example, NoCaptions, read_dataset
from show_attend_tell.data.photos import open_photo, photos_in
from show_attend_tell.errors import SatError
from show_attend_tell.files import write_text
from show_attend_tell.generation import photo_seed
from show_attend_tell.progress import Progress
from show_attend_tell.settings import AttentionModeName

BATCH_SIZE = 8  # mosaics that are encoded together
BEFORE = ("all", "0", "1 or more")  # nouns of the caption before this one
ON_PAGE = 8  # mosaics at most


def point_in_mosaics(
    captioner: Captioner,
    examples: Sequence[Example],
    *,
    data: str,
    split: str,
    mosaics: int = 500,
    attention_mode: AttentionModeName | None = None,
    seed: int = 0,
    show: bool = True,
) -> Report:
    """How much of each map falls on the photo that a caption is of, in mosaics of four of the examples' photos.

    ``seed`` draws the photos, the caption and its quarter. ``attention_mode`` is the model's by default. A photo counts
    as one in the intervals, in however many mosaics a caption of it is read. Raises `SatError` for fewer than four
    photos, fewer than two mosaics, a model without attention, and mosaics in which no noun tells a photo apart.
    """
    attentive(captioner)
    if len(examples) < 4 or mosaics < 2:
        raise SatError(f"{len(examples)} photos, {mosaics} mosaics: a mosaic has 4 photos, and 2 or more are needed")
    drawn = draw_mosaics(examples, mosaics, seed)
    row_of = {name: row for row, name in enumerate(sorted({mosaic.photos[mosaic.quarter].name for mosaic in drawn}))}
    readings = read_mosaics(captioner, drawn, row_of, seed=seed, show=show)
    facts = {"data": data, "split": split, "photos": len(row_of), "mosaics": mosaics, "seed": seed}
    return report(captioner, readings, facts, BEFORE, attention_mode)


def read_mosaics(
    captioner: Captioner, drawn: Sequence[Mosaic], row_of: Mapping[str, int], *, seed: int, show: bool
) -> Iterator[Reading]:
    """The caption of each mosaic, with the nouns that tell its photo apart."""
    square, known = captioner.backend.encoder.preprocessing, captioner.checkpoint.vocabulary
    cover = Cover((0, 0, square.size, square.size), captioner.checkpoint.encoder.grid, captioner.offset)
    with Progress(total=len(drawn), desc="mosaics", unit="mosaic", disable=not show) as bar:
        for start in range(0, len(drawn), BATCH_SIZE):
            batch = drawn[start : start + BATCH_SIZE]
            features = captioner.backend.encode(torch.stack([draw_picture(mosaic.photos, square) for mosaic in batch]))
            for number, mosaic in enumerate(batch):
                place = cover(quarter_box(mosaic.quarter, square.size // 2))
                steps = mosaic.known_nouns(known)
                targets = [
                    Target(
                        step, *place, kinds=("all", BEFORE[1 + min(before, 1)]), others=[n for n in steps if n != step]
                    )
                    for step, before in mosaic.nouns(known)
                ]
                photo, own = mosaic.photos[mosaic.quarter], photo_seed(seed, b"%d" % (start + number))
                yield Reading(row_of[photo.name], photo, features[[number]], mosaic.words, own, targets)
                bar.update(1)


def point_in_scenes(
    captioner: Captioner,
    folder: Path,
    *,
    split: str = "test",
    attention_mode: AttentionModeName | None = None,
    seed: int = 0,
    show: bool = True,
) -> Report:
    """Measure the maps of the words that name a color or a shape, in generated scenes with a box for each object.

    The model reads every sentence of the split by teacher forcing. ``attention_mode`` is the model's by default. Raises
    `SatError` for data without boxes, a model without attention and an unknown split.
    """
    attentive(captioner)
    dataset, scenes = read_dataset(folder), read_scenes(folder)
    examples = dataset.split(split)
    facts = {"data": dataset.name, "split": split, "photos": len(examples), "mosaics": None, "seed": seed}
    readings = read_sentences(captioner, examples, scenes, seed=seed, show=show)
    return report(captioner, readings, facts, ("all", "color", "shape"), attention_mode)


def read_sentences(
    captioner: Captioner, examples: Sequence[Example], scenes: Mapping[str, Scene], *, seed: int, show: bool
) -> Iterator[Reading]:
    """The sentences of each scene, with the words that name an object."""
    square, grid = captioner.backend.encoder.preprocessing, captioner.checkpoint.encoder.grid
    for photo, example in enumerate(Progress(examples, desc="scenes", unit="photo", disable=not show)):
        scene, image = scenes.get(example.name), open_photo(example.photo)
        if scene is None or image.size != scene.size:
            raise SatError(f"boxes.json has no boxes for {example.name} of the size {image.size}: make it again")
        features = captioner.backend.encode(square.pixels(image)[None])
        cover = Cover(square.seen(*scene.size), grid, captioner.offset)
        for words, objects in ((sentence.words, sentence.objects) for sentence in scene.sentences):
            named = {step: number for step, number in enumerate(objects) if number is not None}
            targets = [
                Target(
                    step,
                    *cover(scene.objects[number].box),
                    kinds=("all", "color" if words[step] == scene.objects[number].color else "shape"),
                    others=[other for other, about in named.items() if about != number],
                )
                for step, number in named.items()
            ]
            yield Reading(photo, example, features, words, photo_seed(seed, example.name.encode()), targets)


def report(
    captioner: Captioner,
    readings: Iterator[Reading],
    facts: Mapping[str, Any],
    kinds: Sequence[str],
    attention_mode: AttentionModeName | None,
) -> Report:
    """Measure the words of readings, with these facts in the report."""
    mode, seed = captioner.resolve_config(attention_mode=attention_mode).attention_mode, facts["seed"]
    words = list(measured_words(captioner, readings, mode, seed))
    if not words:
        raise SatError("no word that can be measured says what it is about: give more mosaics, or captions with nouns")
    of_model = {"model": captioner.name, "attention": captioner.checkpoint.config.attention, "attention_mode": mode}
    figures = {
        "evidence": EVIDENCE,
        "hidden_locations": hidden_number(math.prod(captioner.checkpoint.encoder.grid)),
        **summarize(words, kinds, facts["photos"], seed),
    }
    return Report({**of_model, **facts}, figures, list(tables_of(figures)))


def summarize(words: Sequence[Word], kinds: Sequence[str], photos: int, seed: int) -> dict[str, Any]:
    """The figures of words by class, where there are so many photos:

    - ``maps``: of each of `MAPS`, ``share``, its part in the right place, ``peak``, the words whose largest location
      has its centre there, ``minus_alpha``, the share minus that of α, and the share minus that of the maps of the
      other words of the caption (``minus_words``) and of its other nouns (``minus_nouns``) in the same place;
    - ``chance``: share and peak of even maps;
    - ``hidden``, in the first `CONTROLLED` captions: by how many nats log p of the word falls when so many locations
      are hidden, by map and `HIDDEN`;
    - ``shuffled``, in the same captions: the rank correlation of evidence with that of a model in which the weights of
      one part are shuffled.
    """
    bootstrap, found = Bootstrap(photos, seed), {}
    for group, figures in words[0].groups.items():
        of = [word for word in words if group in word.groups]
        columns = {key: np.array([word.groups[group][key] for word in of]) for key in figures}
        classes = {kind: np.array([kind in word.kinds for word in of]) for kind in kinds}
        found[group] = bootstrap.by_class(columns, np.array([word.photo for word in of]), classes)
    maps = {name: found.pop(name) for name in MAPS if name in found}
    return {**found, "maps": maps}


def tables_of(found: Mapping[str, Any]) -> Iterator[str]:
    """The figures as lines for a terminal."""
    maps: Mapping[str, Mapping[str, WordClass]] = found["maps"]
    heads = ("in the right place", "peak inside", "minus alpha's", "minus other words'", "minus other nouns'")
    for kind, even in found["chance"].items():
        chance = [f"{mean.value:.2f}" for mean in even.means.values()]
        rows = {MAPS[name]: list(of[kind].figures.values()) for name, of in maps.items()}
        yield from table(f"{kind}: {even.words:,} words", heads, {"chance": [*chance, "", "", ""], **rows})
    hidden, titles = found["hidden"], {name: MAPS[name] for name in maps} | HIDDEN
    what = f"nats that log p of a word falls when the {found['hidden_locations']} locations of the largest are hidden"
    falls = {title: [of.figures[name] for of in hidden.values()] for name, title in titles.items()}
    yield from table(f"First {CONTROLLED} captions at most, {hidden['all'].words:,} words: {what}", list(hidden), falls)
    what = "rank correlation of evidence with that of the model whose weights of one part are shuffled"
    shuffled = found["shuffled"]["all"].figures.items()
    yield from table(what, ["all"], {part.replace("_", "-"): [figure] for part, figure in shuffled})


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Measure a model, print the report, and write the page."""
    parser = arguments(__doc__, split="test")
    parser.add_argument("model", help="a model with soft, hard or uniform attention")
    parser.add_argument("--mosaics", type=int, default=500, help="number of mosaics; default: 500")
    parser.add_argument("--html", type=writable, metavar="FILE", help="page of mosaics")
    add_generation(parser)
    options = parser.parse_args(given)
    captioner = Captioner.from_pretrained(options.model, backend="torch", device=options.device)
    data, named = options.data, {"split": options.split, "seed": options.seed, **generation(options)}
    if (data / "boxes.json").exists():
        point_in_scenes(captioner, data, **named).finish(options.json)
        return
    dataset = None
    try:
        dataset = read_dataset(data)
    except SatError as error:
        if options.html is None or options.json is not None or (data.is_dir() and not isinstance(error, NoCaptions)):
            raise
    shown: Sequence[Sequence[Example]]
    if dataset is None:  # photos without captions
        shown = own_mosaics(
            captioner, photos_in(data) if data.is_dir() else [data], most=ON_PAGE, **generation(options)
        )
    else:
        examples, mosaics = dataset.split(options.split), options.mosaics
        found = point_in_mosaics(captioner, examples, data=dataset.name, mosaics=mosaics, **named)
        found.finish(options.json)
        shown = [one.photos for one in draw_mosaics(examples, min(mosaics, ON_PAGE), options.seed)]
    if options.html is not None:
        title = f"{captioner.name} on mosaics of {data.resolve().name}"
        write_text(options.html, mosaic_page(captioner, shown, title=title, seed=options.seed, **generation(options)))
        print(f"a page of mosaics: {options.html}")


if __name__ == "__main__":
    main()
