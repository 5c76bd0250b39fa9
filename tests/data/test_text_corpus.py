"""Captions without photos are read from a text file, plain or compressed."""

import gzip

import pytest

from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError


def test_sentences_are_captions(tmp_path):
    (tmp_path / "texts.txt").write_text("A dog runs.\n\nTwo men, one boat\n")
    words = [("a", "dog", "runs"), ("two", "men", "one", "boat")]
    assert read_text_corpus(tmp_path / "texts.txt", KARPATHY, []) == words


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"\n \n", "holds no captions"),
        ("a.txt", "a \xff dog, ".encode() * 3 + b"\xff", "UTF-8"),
        ("a.txt", b"a.jpg: a dog\nb.jpg: a cat\n", "first line must be a caption, photo,caption"),
        ("a.txt.gz", b"a dog", "cannot be read"),
        ("a.txt.gz", gzip.compress(b"a dog runs", mtime=0)[:-9], "cannot be read"),
    ],
)
def test_what_is_no_file_of_captions_is_told(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SatError, match=words):
        read_text_corpus(tmp_path / name, KARPATHY, [])


def test_a_word_that_texts_have_often_is_learnt_if_a_training_caption_has_it():
    captions = [["a", "dog"], ["a", "cat"]]
    texts = [["a", "dog", "zebra"]] * 4
    assert Vocabulary.build(captions, minimum_count=2, text_corpus=texts).words[2:] == ("a", "dog")
    assert Vocabulary.build(captions, minimum_count=2, text_corpus=texts, start=Vocabulary(["a"])).words[2:] == (
        "a",
        "dog",
    )
