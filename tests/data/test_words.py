"""Words of captions: their parts of speech, sides that they name, and what is seen in them before a training."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from builders import shape_folder, small_config, small_encoder

from show_attend_tell.data.datasets import DataReport, Dataset, Example, join, read_dataset
from show_attend_tell.data.inspection import inspect, language_of, script, without_captions
from show_attend_tell.data.parts_of_speech import (
    COLORS,
    FUNCTION_WORDS,
    IRREGULAR_PLURALS,
    NOUNS,
    VERBS,
    part_of_speech,
    singular,
)
from show_attend_tell.data.photos import mirrors
from show_attend_tell.data.sides import side_words
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.training.config import RunOptions
from show_attend_tell.training.stages.data import encode


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            "noun",
            "greyhounds dogs man men woman children bench benches puppy puppies scarf scarves grass shorts field water",
        ),
        ("color", "red blue black white brown orange tan gray grey blond"),
        ("verb", "runs running jumps sitting stands wearing holding catches rides smiles plays slides"),
        ("function", "a an the of in on with and is are their its front next through"),
        (None, "two three young little large snowy zyx <unk> s-curve"),
    ],
)
def test_common_words_are_classified(part, words):
    assert {word: part_of_speech(word) for word in words.split()} == dict.fromkeys(words.split(), part)


def test_a_word_is_on_one_list_only_and_as_captions_are_written():
    lists = (COLORS, FUNCTION_WORDS, VERBS, NOUNS, frozenset(IRREGULAR_PLURALS))
    for one, other in itertools.combinations(lists, 2):
        assert not one & other
    assert all(word.isalpha() and word == word.lower() for words in lists for word in words)
    assert {part_of_speech(word) for words in lists for word in words} == {"noun", "color", "verb", "function"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dog dogs benches puppies scarves", "dog dog bench puppy scarf"),
        ("men children glasses shorts bus", "man child glasses shorts bus"),
    ],
)
def test_the_singular_of_a_noun(word, expected):
    assert list(map(singular, word.split())) == expected.split()
    assert {*map(singular, ("runs", "red", "zyxs"))} == {None}


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
def test_side_words(caption, words):
    assert side_words(caption) == words


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("encoder_lr", [None, 0.01], ids=["cached", "live"])
def test_a_photo_whose_caption_names_a_side_is_never_mirrored(tmp_path, joined, encoder_lr):
    dataset = read_dataset(shape_folder(tmp_path / "shapes"))
    plain = [replace(e, raw=("a shape",)) if number % 2 else e for number, e in enumerate(dataset.examples)]
    dataset = replace(dataset, examples=tuple(plain))
    if joined:
        dataset = join([dataset, replace(dataset, folder=tmp_path)])
    config, encoder = small_config(flipped=True, crops=4), small_encoder()
    views = ["original", *config.views]
    train = dataset.split("train")

    def shown(**settings):
        options = RunOptions(encoder_lr=encoder_lr)
        config = replace(small_config(flipped=True, crops=4), **settings)
        views = encode(dataset, config, encoder, options, tmp_path / "cache")["views"]
        with torch.no_grad():
            return [annotations[[example.name for example in train]].float() for annotations in views]

    free, kept = shown(mirror_sides=True), shown()
    met = set()
    for view, before, after in zip(views, free, kept, strict=True):
        for row, example in enumerate(train):
            own = example.name.partition("/")[2] if joined and encoder_lr is None else example.name
            mirrored, sided = mirrors(view, own), any(map(side_words, example.raw))
            met.add((view[:4], mirrored, sided))
            assert torch.equal(after[row], free[0][row] if mirrored and sided else before[row])
    assert {("flip", True, True), ("flip", True, False), ("crop", True, True), ("crop", False, True)} <= met


ENGLISH = set("a dog runs through the grass two cats sit on red sofa and".split())
GERMAN = "Ein Hund läuft durch das Gras"


def dataset(*captions: tuple[str, str], folder: Path = Path()) -> Dataset:
    """One photo a caption: its split and its text."""
    examples = [
        Example(f"{number}.jpg", folder / f"{number}.jpg", split, (tuple(tokenize(raw)),), (raw,))
        for number, (split, raw) in enumerate(captions)
    ]
    return Dataset("some", folder, tuple(examples), DataReport())


def test_lengths_words_and_coverage():
    data = dataset(("train", "a dog"), ("train", "a dog left"), ("val", "a cat"), ("val", "a dog sits"))
    found = inspect(data, Vocabulary(["a", "dog"]), english=ENGLISH, longest=3)  # the end token included
    assert found.lengths == [2, 2, 3, 3, 3]
    assert (found.words, found.once, found.learnt) == (3, 1, 2)
    assert found.coverage == pytest.approx(3 / 5) and found.not_covered == ("cat", "sits")
    assert [(odd.photo, odd.why) for odd in found.sides] == [("1.jpg", "left")]
    assert [(odd.photo, odd.why) for odd in found.very_long] == [("1.jpg", "3 words"), ("3.jpg", "3 words")]


def test_captions_of_another_language_are_listed():
    english = [("train", "a dog runs through the grass"), ("val", "two cats sit on a red sofa"), ("train", "a sofa")]
    data = dataset(*english, ("train", GERMAN), ("train", "собака бежит по траве"), ("train", "Sofa rot"))
    found = inspect(data, Vocabulary(["a"]), english=ENGLISH, longest=40)
    assert found.language.is_english and found.language.script == "Latin"
    assert [(odd.photo, odd.why) for odd in found.other_language] == [
        ("3.jpg", "0 % English words"),
        ("4.jpg", "Cyrillic script"),
    ]
    data = dataset(*[("train", GERMAN)] * 5, english[0], ("val", "собака"))
    found = inspect(data, Vocabulary(["a"]), english=ENGLISH, longest=40)
    assert not found.language.is_english
    assert [odd.photo for odd in found.other_language] == ["5.jpg", "6.jpg"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Bär", "Latin"), ("狗在草地上跑", "East Asian"), ("犬が走る a", "East Asian"), ("كلب", "Arabic"), ("12 ...", "")],
)
def test_scripts(text, expected):
    assert script(text) == expected
    assert language_of([text, "7"], ENGLISH).script == expected


def test_photos_without_captions_are_found(tmp_path):
    """A photo that is left out for another reason has captions."""
    left_out = ("images/a/1.jpg", "b/2.jpg", "restval.jpg", "stray.jpg", ".hidden/3.jpg", "images/.4.jpg", "notes.txt")
    for name in ("0.jpg", *left_out, "images/5.PNG", "images/more/6.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "gone.jpg")
    report = DataReport(
        left_out={"without a caption": ["a/1.jpg", "2.jpg"], "of a split": ["restval.jpg"], "stray": ["stray.jpg"]}
    )
    data = replace(dataset(("train", "a dog"), folder=tmp_path), report=report)
    assert {path.name: path.parent.name for path in without_captions(data)} == {**{"5.PNG": "images", "6.webp": "more"}}
