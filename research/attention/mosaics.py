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
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scenes import Box
from torch import Tensor

from attention.maps import Cover, check_attention
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


class Mosaic(NamedTuple):
    """Four photos in one picture, and a caption of one of them."""

    photos: tuple[Example, ...]  # upper left, upper right, lower left, lower right
    quarter: int  # the photo that the caption is of
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

    For each word the page has its evidence and α over the mosaic, and the share of each in each quarter. It marks the
    nouns that tell the caption's photo apart. Where a map goes to another photo when another caption is read, it
    follows the words. ``attention_mode`` and ``seed`` are as in `point_in_mosaics`. Raises `SatError` for a caption
    without a word, and for a model without attention.
    """
    check_attention(captioner)
    attention_mode = attention_mode or captioner.checkpoint.generation.attention_mode
    square, known = captioner.backend.encoder.preprocessing, captioner.checkpoint.vocabulary
    inside = _quarters(captioner)
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
            nouns = Mosaic(tuple(photos), quarter, tuple(caption.words)).nouns(known)
            found = caption.to_dict() | {
                "source": f"mosaic {number}",
                "visible_box": [0, 0, *picture.size],  # what the encoder crops off a photo is no part of the mosaic
                "settings": {"model": captioner.name, "attention_mode": attention_mode}
                | {name: value for name, value in caption.settings.items() if name in ("tokenizer", "seed")},
                "quarters": {
                    "own": quarter,
                    "names": [PurePath(each.name).name for each in photos],
                    "shares": {
                        name: shares(maps, inside)
                        for name, maps in (("attention", caption.attention), ("evidence", caption.evidence))
                        if maps is not None
                    },
                    "nouns": [step for step, _ in nouns],
                },
            }
            read.append(with_image(found, picture, side=2 * SHOWN))
    return captions_page(read, title=title, cards={captioner.name: captioner.checkpoint.card(captioner.name)})


def shares(maps: NDArray[np.float32], parts: Sequence[NDArray[np.float64]]) -> list[list[float]]:
    """The share of each word's map (T, rows, columns), where it is positive, in each part; 0 for a dark map."""
    light = maps.reshape(len(maps), -1).clip(0).astype(np.float64)
    light /= np.maximum(light.sum(1, keepdims=True), 1e-12)
    return [[round(float(word @ part), 4) for part in parts] for word in light]


def _quarters(captioner: Captioner) -> list[NDArray[np.float64]]:
    """The part of each location that is inside each quarter of a mosaic: four arrays (L,)."""
    size = captioner.backend.encoder.preprocessing.size
    cover = Cover((0, 0, size, size), captioner.checkpoint.encoder.grid, captioner.offset)
    return [cover.share(quarter_box(number, size // 2)) for number in range(4)]
