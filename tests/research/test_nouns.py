"""Which nouns of captions people use too, and which of theirs a model uses."""

from pathlib import Path

import nouns
import pytest

from show_attend_tell.data.datasets import Example


def example(name: str, *captions: str) -> Example:
    return Example(name, Path(name), "test", tuple(tuple(text.split()) for text in captions), captions)


def test_recall_is_over_nouns_that_two_captions_have() -> None:
    photos = {
        "a.jpg": example("a.jpg", "a zebra and a dog", "two zebras", "an elephant"),
        "b.jpg": example("b.jpg", "an elephant", "the elephant stands", "a zebra"),
        "c.jpg": example("c.jpg", "a dog", "a dog runs"),
    }
    said = {"a.jpg": "three zebras", "b.jpg": "a dog", "c.jpg": "a dog"}
    evaluation = {"results": [{"photo": name, "caption": caption} for name, caption in said.items()]}
    read = nouns.read("x.json", evaluation, photos)
    pairs, share = nouns.recall(read, {"zebra", "elephant"})
    assert (pairs, share.mean) == (2, 0.5)
    number, share = nouns.right(read)
    assert (number, share.mean) == (3, pytest.approx(2 / 3))
