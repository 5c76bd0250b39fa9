"""Words to ids and back, and the cutting of raw captions."""

import json

import pytest

from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY, UNICODE, tokenize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError

CAPTIONS = [["a", "dog", "runs"], ["a", "cat", "runs"], ["a", "bird"]]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("A black dog is running , fast .", "a black dog is running fast"),
        ("A dark-haired man in a t-shirt .", "a dark haired man in a t shirt"),
        ("The vendor sells children 's toys .", "the vendor sells children s toys"),
        ('A sign that says " Free dinner ! "', "a sign that says free dinner"),
        ("A man in a statefarm.com hat", "a man in a statefarmcom hat"),
        ("Race dog # 2 ( brown & white ) : ahead", "race dog # 2 ( brown & white ) : ahead"),
        ("It\u2019s \u201cfine\u201d \u2014 really\u2026", "its fine really"),
        (" . \n", ""),
    ],
)
def test_tokenize(raw, words):
    assert tokenize(raw) == words.split()


def test_minimum_count_and_size():
    assert Vocabulary.build(CAPTIONS, minimum_count=2).words[2:] == ("a", "runs")
    assert Vocabulary.build(CAPTIONS, size=5).words[2:] == ("a", "runs", "bird")  # the size counts the two specials
    assert Vocabulary.build(CAPTIONS).words == ("<end>", "<unk>", "a", "runs", "bird", "cat", "dog")  # ties by alphabet
    with pytest.raises(SatError, match="size 2"):
        Vocabulary.build(CAPTIONS, size=2)
    with pytest.raises(SatError, match="no word occurs 4 times"):
        Vocabulary.build(CAPTIONS, minimum_count=4)


def test_encode_and_decode():
    vocabulary = Vocabulary.build([*CAPTIONS, ["<end>", "<unk>"]])  # which no caption can spell
    assert vocabulary == Vocabulary.build(CAPTIONS) and "cat" in vocabulary and "<unk>" not in vocabulary
    assert (Vocabulary.END, Vocabulary.UNKNOWN) == (0, 1)
    assert vocabulary.encode(["a", "horse", "runs"]) == [2, 1, 3, 0]
    assert vocabulary.decode([2, 1, 3, 0, 6, 6]) == ["a", "<unk>", "runs"]


@pytest.mark.parametrize(
    ("tokenizer", "texts", "said", "written"),
    [
        (
            UNICODE,
            ["Das Gemälde zeigt Öl.", "Ein Gemälde, das alt ist"],
            "das gemälde zeigt das öl",
            "Das Gemälde zeigt das Öl",
        ),
        (UNICODE, ["der Hund", "der Hund", "der HUND", "Hund der"], "hund der hund", "Hund der Hund"),
        (UNICODE, ["un chien à l'Ermitage"] * 2, "l'ermitage un chien", "l'Ermitage un chien"),
        (UNICODE, ["L'herbe est verte"], "l'herbe est", "L'herbe est"),
        (ENGLISH, ["A dog in Paris.", "A cat, a T-shirt on TV"], "a cat in paris on tv", "A cat in Paris on TV"),
        (ENGLISH, ["a dog", "A dog", "a Dog"], "a dog", "a dog"),  # a word as often in lower case stays so
        (ENGLISH, ["a dog", "3 dogs", "A dog", "A cat"], "3 dogs", "3 dogs"),
        (KARPATHY, ["A dog in Paris."], "a dog in paris", "a dog in paris"),  # the paper's tokens are in lower case
        (UNICODE, ["im İstanbul Park"], "im i̇stanbul park", "im İstanbul Park"),
    ],
)
def test_words_are_written_as_the_training_captions_mostly_write_them(tokenizer, texts, said, written, tmp_path):
    captions = [tokenizer.words(text) for text in texts]
    vocabulary = Vocabulary.build(captions, tokenizer=tokenizer, texts=texts)
    ids = vocabulary.encode(said.split())
    assert vocabulary.written(ids) == written.split()
    assert vocabulary.text(ids) == said and vocabulary.decode(ids) == said.split()  # what scores compare
    assert Vocabulary.build(captions, tokenizer=tokenizer).written(ids) == said.split()
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert loaded == vocabulary and loaded.written(ids) == written.split()
    more = Vocabulary.build([["more"]], tokenizer=tokenizer, start=vocabulary)
    assert more.written(ids) == written.split()
    lower = [text.lower() for text in texts]
    more = Vocabulary.build([], tokenizer=tokenizer, start=vocabulary, texts=lower)
    assert more.written(ids) == said.split()


def unigram(*words: str, **more: object) -> str:
    return json.dumps({"tokenizer": "unigram", "words": ["<end>", "<unk>", *words], **more})


@pytest.mark.parametrize(
    "content",
    [
        "",
        '["<end>", "<unk>", "a"',
        '{"a": 2}',
        '["a", "b"]',
        '["<end>", "<unk>", 3]',
        "[" * 100_000,
        '["<end>", "<unk>", "a", "a"]',
        '{"tokenizer": "unicode"}',
        b"\xff\xfe\x00",
        '{"tokenizer": "os.system", "words": ["<end>", "<unk>", "a"]}',
        unigram("a"),
        unigram("a", "b", scores=[-1.0]),
        unigram("a", scores=["-1"]),
        unigram("a", scores=[float("-inf")]),
        unigram("a", scores=[10**400]),
        '{"tokenizer": "unicode", "words": ["<end>", "<unk>", "a"], "forms": ["A"]}',
        '{"tokenizer": "unicode", "words": ["<end>", "<unk>", "a"], "forms": {"a": "B"}}',
        '{"tokenizer": "unicode", "words": ["<end>", "<unk>", "a"], "forms": {"a": 3}}',
        unigram("a", scores=[-1.0]).replace('"unigram"', '["unigram"]'),
    ],
)
def test_a_damaged_or_hostile_file_is_refused(tmp_path, content):
    file = tmp_path / "vocabulary.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SatError, match=r"vocabulary\.json"):
        Vocabulary.load(file)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(SatError, match=r"cannot read .*vocabulary\.json"):
        Vocabulary.load(tmp_path / "vocabulary.json")


def test_new_words_are_appended():
    known = Vocabulary(["dog", "a"])
    captions = [["a", "mug", "cup"], ["a", "cup", "jar"], ["mug", "cup", "dog", "<unk>"]]
    more = Vocabulary.build(captions, start=known)
    assert more.words == ("<end>", "<unk>", "dog", "a", "cup", "mug", "jar")
    assert Vocabulary.build(captions, minimum_count=3, start=known).words[4:] == ("cup",)
    assert Vocabulary.build(captions, size=6, start=known).words[4:] == ("cup", "mug")
    assert Vocabulary.build(captions, size=3, start=known) == Vocabulary.build([], start=known) == known
