"""Captions that name sides: they are found in every language with a list, and never meet the mirrored photo."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import shape_folder, small_config, small_encoder

from show_attend_tell.data.datasets import join, read_dataset
from show_attend_tell.data.photos import mirrors, open_photo
from show_attend_tell.data.sides import names_side, side_words
from show_attend_tell.training.config import Start, TrainingPlan
from show_attend_tell.training.data import encode_readable


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A dog on the LEFT, of the picture.", ["left"]),
        ('A sign says "go west"', ["says", "west"]),
        ("a hand turns a dial clockwise", ["clockwise"]),
        ("a brightly lit outright westerner", []),  # parts of words do not count
        ("Ein Hund auf der linken Seite", ["linken"]),
        ("un chat à gauche est assis", ["gauche"]),
        ("собака слева от дома", ["слева"]),
        ("一只狗在左边跑", ["左"]),
        ("桌子上有东西和西瓜", []),  # a thing and a melon, although their signs are those of east and west
        ("แมวอยู่ทางซ้าย", ["ซ้าย"]),
    ],
)
def test_side_words(caption: str, words: list[str]) -> None:
    assert side_words(caption) == words and names_side(["a dog", caption]) == bool(words)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("encoder_lr", [None, 0.01], ids=["cached", "live"])
def test_a_photo_whose_caption_names_a_side_is_never_mirrored(
    tmp_path: Path, joined: bool, encoder_lr: float | None
) -> None:
    dataset = read_dataset(shape_folder(tmp_path / "shapes"))
    plain = [replace(e, raw=("a shape",)) if number % 2 else e for number, e in enumerate(dataset.examples)]
    dataset = replace(dataset, examples=tuple(plain))
    if joined:
        dataset = join([dataset, replace(dataset, folder=tmp_path)])
    config, encoder = small_config(flipped=True, crops=4), small_encoder()
    views = ["original", *config.views]
    train = dataset.split("train")

    def shown(**settings: bool) -> list[torch.Tensor]:
        how: dict[str, Any] = {"output": tmp_path / "model", "cache": tmp_path / "cache", "encoder_lr": encoder_lr}
        plan = TrainingPlan(dataset=dataset, start=Start(encoder), config=replace(config, **settings), **how)
        _, sources = encode_readable(dataset, plan, show=False)
        with torch.no_grad():
            return [annotations[[example.name for example in train]].float() for annotations in sources.views]

    free, kept = shown(mirror_sides=True), shown()
    met = set()
    for view, before, after in zip(views, free, kept, strict=True):
        for row, example in enumerate(train):
            own = example.name.partition("/")[2] if joined and encoder_lr is None else example.name
            mirrored, sided = mirrors(view, own), names_side(example.raw)
            met.add((view[:4], mirrored, sided))
            assert torch.equal(after[row], free[0][row] if mirrored and sided else before[row])
    assert {("flip", True, True), ("flip", True, False), ("crop", True, True), ("crop", False, True)} <= met


def test_which_views_are_mirrored(tmp_path: Path) -> None:
    """`mirrors` says of a crop what its pixels show: red grows to the right here."""
    ramp = open_photo(torch.linspace(0, 1, 60).expand(3, 40, 60))
    square = small_encoder().preprocessing
    for name in map(str, range(20)):
        red = square(ramp, "crop-1", name)[0, 0]
        assert mirrors("crop-1", name) == bool(red[0] > red[-1])
    assert mirrors("flipped", "a") and not mirrors("original", "a")
