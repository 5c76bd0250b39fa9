"""Does a model attend to what a caption is about? Four photos share one picture, and the caption is of one of them.

A mosaic is four photos of a split, each a quarter of the picture. The encoder sees it in one pass. Then the model
reads a person's caption of one of the photos by teacher forcing. Only nouns that tell the photo apart are counted:
those that the model knows and that no caption of the other three photos has, in the singular or the plural. How much of
a map falls on the right quarter? A map of where the picture is salient, whatever the words are, stays at 25 %.

α of a noun's step comes before the model reads the noun, so there the words before must lead it to the photo. So the
nouns are measured by how many came before.

L locations in a grid · S side of the encoder's square of pixels.
"""

import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scenes import Box
from torch import Tensor

from attention.maps import Cover, check_attention, positive
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.data.parts_of_speech import part_of_speech, singular
from show_attend_tell.data.photos import Preprocessing, open_photo
from show_attend_tell.errors import SatError
from show_attend_tell.generation import photo_seed, with_evidence
from show_attend_tell.messages import plural
from show_attend_tell.progress import Progress
from show_attend_tell.settings import AttentionModeName
from show_attend_tell.show.page import captions_page, with_image

SHOWN = 400  # pixels of a photo's side on a page
QUARTERS = ("upper left", "upper right", "lower left", "lower right")


class Mosaic(NamedTuple):
    """Four photos in one picture, and a caption of one of them."""

    photos: tuple[Example, ...]  # in the order of `QUARTERS`
    quarter: int  # the number of the photo that the caption is of
    words: tuple[str, ...]

    def nouns(self, known: Container[str]) -> list[tuple[int, int]]:
        """The steps of the known nouns that tell the photo apart, and how many known nouns come before each."""
        others = {
            singular(word)
            for number, photo in enumerate(self.photos)
            for caption in photo.captions
            for word in caption
            if number != self.quarter
        }
        steps = self.known_nouns(known)
        return [(step, before) for before, step in enumerate(steps) if singular(self.words[step]) not in others]

    def known_nouns(self, known: Container[str]) -> list[int]:
        """The steps of all known nouns."""
        return [step for step, word in enumerate(self.words) if part_of_speech(word) == "noun" and word in known]


def draw_mosaics(examples: Sequence[Example], number: int, seed: int) -> list[Mosaic]:
    """That many mosaics of four different photos, by the seed; the order of the examples does not matter."""
    chance = random.Random(seed)
    ordered = sorted(examples, key=lambda example: example.name)
    mosaics = []
    for _ in range(number):
        photos, quarter = tuple(chance.sample(ordered, 4)), chance.randrange(4)
        mosaics.append(Mosaic(photos, quarter, chance.choice(photos[quarter].captions)))
    return mosaics


def draw_picture(photos: Sequence[Example], preprocessing: Preprocessing) -> Tensor:
    """The pixels of a mosaic of four photos (3, S, S): each photo is prepared as usual, at half the side.

    A side of an odd number of pixels leaves its last row and column in the mean color.
    """
    half = replace(preprocessing, size=preprocessing.size // 2)
    pixels = torch.zeros(3, preprocessing.size, preprocessing.size)  # the mean color, once normalized
    for number, photo in enumerate(photos):
        left, top, right, bottom = (int(edge) for edge in quarter_box(number, half.size))
        pixels[:, top:bottom, left:right] = half(open_photo(photo.photo))
    return pixels


def quarter_box(quarter: int, half: int) -> Box:
    """Where a quarter is, in pixels of the mosaic, whose photos have ``half`` pixels a side."""
    top, left = half * (quarter // 2), half * (quarter % 2)
    return (left, top, left + half, top + half)


def own_mosaics(
    captioner: Captioner, files: Sequence[Path], *, most: int, attention_mode: AttentionModeName | None = None
) -> list[list[Example]]:
    """Photos without captions in ``most`` mosaics of four, in their order, each with the model's caption of it alone.

    Photos that fill no mosaic are left out. Raises `SatError` for fewer than four photos.
    """
    if len(files) < 4:
        raise SatError(f"{plural(len(files), 'photo')}, and a mosaic has 4: add photos")
    used = files[: 4 * min(most, len(files) // 4)]
    captions = captioner(used, attention_mode=attention_mode)
    words = captioner.checkpoint.vocabulary.tokenizer.words
    examples = [
        Example(str(file), file, "", (tuple(words(text)),), (text,))
        for file, text in zip(used, map(str, captions), strict=True)
    ]
    return [examples[start : start + 4] for start in range(0, len(examples), 4)]


def mosaic_page(
    captioner: Captioner,
    mosaics: Sequence[Sequence[Example]],
    *,
    title: str,
    attention_mode: AttentionModeName | None = None,
    seed: int = 0,
) -> str:
    """A page of mosaics of four photos each, on which the model reads the first caption of each photo.

    The captions of a mosaic stand side by side, and below each a `share_note`. Where a map goes to another photo when
    another caption is read, it follows the words. ``attention_mode`` and ``seed`` are as in `point_in_mosaics`. Raises
    `SatError` for a caption without a word, and for a model without attention.
    """
    check_attention(captioner)
    attention_mode = attention_mode or captioner.checkpoint.generation.attention_mode
    square, known = captioner.backend.encoder.preprocessing, captioner.checkpoint.vocabulary
    cover = Cover((0, 0, square.size, square.size), captioner.checkpoint.encoder.grid, captioner.offset)
    read = []
    for number, photos in enumerate(Progress(mosaics, desc="page", unit="mosaic"), start=1):
        picture = Image.new("RGB", (2 * SHOWN, 2 * SHOWN))
        for quarter, example in enumerate(photos):
            photo = open_photo(example.photo)
            left, top = (int(edge) for edge in quarter_box(quarter, SHOWN)[:2])
            picture.paste(
                photo.resize((SHOWN, SHOWN), Image.Resampling.BICUBIC, box=square.seen(*photo.size)), (left, top)
            )
        pixels = draw_picture(photos, square)
        annotations = captioner.backend.encode(pixels[None])
        own_seed = photo_seed(seed, pixels.numpy().tobytes())
        for quarter, example in enumerate(photos):
            config = captioner.resolve_config(attention_mode=attention_mode, seed=seed)
            hypothesis = captioner.explain_features(annotations, example.raw[0], config, own_seed)
            hypotheses = with_evidence(captioner.backend, annotations, [hypothesis], config)
            caption = captioner.assemble(hypotheses, config, size=picture.size)
            mosaic = Mosaic(tuple(photos), quarter, tuple(caption.words))
            maps = {"evidence": caption.evidence, "attention": caption.attention}
            inside = cover.share(quarter_box(quarter, square.size // 2))
            on_page = caption.to_dict() | {
                "source": f"mosaic {number}",
                "visible_box": [0, 0, *picture.size],  # what the encoder crops off a photo is no part of the mosaic
                "settings": {"model": captioner.name, "attention_mode": attention_mode}
                | {name: value for name, value in caption.settings.items() if name in ("tokenizer", "seed")},
                "note": share_note(mosaic, known, maps, inside),
            }
            read.append(with_image(on_page, picture, side=2 * SHOWN))
    return captions_page(read, title=title, cards={captioner.name: captioner.checkpoint.card(captioner.name)})


def share_note(
    mosaic: Mosaic, known: Container[str], maps: Mapping[str, NDArray[np.float32] | None], inside: NDArray[np.float64]
) -> str:
    """How much of each map is on the photo that the caption is of, on average at the known nouns that tell it apart.

    ``maps`` (T, rows, columns) are by name. ``inside`` (L,) is the part of each location in the photo's quarter.
    """
    photo = f"{QUARTERS[mosaic.quarter]}, {PurePath(mosaic.photos[mosaic.quarter].name).name}"
    steps = [step for step, _ in mosaic.nouns(known)]
    if not steps:
        return f"{photo}: no noun tells it apart"
    shares = []
    for name, values in maps.items():
        if values is not None:
            share = (positive(torch.tensor(values[steps]).flatten(1)) @ inside).mean()
            shares.append(f"{100 * share:.0f} % of the {name}")
    nouns = ", ".join(mosaic.words[step] for step in steps)
    return f"{photo}: it has {' and '.join(shares)} at the nouns that tell it apart ({nouns}); a uniform map has 25 %"
