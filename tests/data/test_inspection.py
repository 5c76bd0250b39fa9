"""What is seen in captions before training: their languages, lengths and words."""

from dataclasses import replace
from pathlib import Path

import pytest

from show_attend_tell.data.datasets import DataReport, Dataset, Example
from show_attend_tell.data.inspection import inspect, language_of, script, without_captions
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.data.vocabulary import Vocabulary

ENGLISH = set("a dog runs through the grass two cats sit on red sofa and".split())
GERMAN = "Ein Hund läuft durch das Gras"


def dataset(*captions: tuple[str, str], folder: Path = Path()) -> Dataset:
    """One photo a caption: its split and its text."""
    examples = [
        Example(f"{number}.jpg", folder / f"{number}.jpg", split, (tuple(tokenize(raw)),), (raw,))
        for number, (split, raw) in enumerate(captions)
    ]
    return Dataset("some", folder, tuple(examples), DataReport())


def test_lengths_words_and_coverage() -> None:
    data = dataset(("train", "a dog"), ("train", "a dog runs"), ("val", "a cat"), ("val", "a dog sits"))
    found = inspect(data, Vocabulary(["a", "dog"]), english=ENGLISH, longest=2)
    assert found.lengths == [2, 2, 3, 3, 3]
    assert (found.words, found.once, found.learnt) == (3, 1, 2)
    assert found.coverage == pytest.approx(3 / 5) and found.not_covered == ("cat", "sits")
    assert [(odd.photo, odd.why) for odd in found.very_long] == [("1.jpg", "3 words"), ("3.jpg", "3 words")]


def test_captions_that_repeat_themselves_or_name_sides_are_listed() -> None:
    captions = ["a cat sitting on top of a cat", "a white and white bird", "a dog and a cat", "a dog left of a cat"]
    found = inspect(dataset(*(("train", raw) for raw in captions)), Vocabulary(["a"]), english=ENGLISH, longest=40)
    assert [(odd.photo, odd.why) for odd in found.repetitive] == [("0.jpg", "a cat twice"), ("1.jpg", "white twice")]
    assert [(odd.photo, odd.why) for odd in found.sides] == [("3.jpg", "left")]


def test_captions_of_another_language_are_listed() -> None:
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
def test_scripts(text: str, expected: str) -> None:
    assert script(text) == expected
    assert language_of([text, "7"], ENGLISH).script == expected


def test_english_words_of_another_script_do_not_count() -> None:
    assert language_of(["a dog", "the hund"], ENGLISH).english == 0.75
    assert language_of(["狗在草地上跑 dog", "狗"], ENGLISH).english == 0


def test_photos_without_captions_are_found(tmp_path: Path) -> None:
    """A photo that is left out for another reason has captions; it hides no photo of its name in another folder."""
    left_out = ("images/a/1.jpg", "b/2.jpg", "restval.jpg", "stray.jpg", ".hidden/3.jpg", "images/.4.jpg", "notes.txt")
    for name in ("0.jpg", *left_out, "images/b/1.jpg", "images/5.PNG", "images/more/6.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "gone.jpg")
    report = DataReport(
        captionless_photos=["a/1.jpg", "2.jpg"], unused_photos=["restval.jpg"], stray_photos=["stray.jpg"]
    )
    data = replace(dataset(("train", "a dog"), folder=tmp_path), report=report)
    assert {path.name: path.parent.name for path in without_captions(data)} == {
        **{"1.jpg": "b", "5.PNG": "images", "6.webp": "more"}
    }
