"""Captions to words and back: in English, in other scripts with spaces, and in scripts without."""

import sys
from dataclasses import replace

import pytest
from languages import CAPTIONS, caption_folder

from show_attend_tell.data.datasets import join, read_dataset
from show_attend_tell.data.inspection import choose_tokenizer, start_tokenizer
from show_attend_tell.data.tokenizers import ENGLISH, KARPATHY, UNICODE, Unigram, in_form
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.training.presets.custom import english_words

CHINESE = CAPTIONS["chinese"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("„Ein großer Hund“, sagt Jürgen: »Größe 2,5 m!«", "ein großer hund sagt jürgen größe 2,5 m"),
        ("L’herbe d'été – c'est l'", "l'herbe d'été c'est l"),  # an apostrophe stays between letters only
        ("قطة، تجلس؛ على اليمين؟", "قطة تجلس على اليمين"),
        ("می\u200cرود", "می\u200cرود"),  # without width, but it is seen
        ("काली बिल्ली।", "काली बिल्ली"),  # vowel signs are marks, not letters
        ("Ελιά 20€ + άλλα_δύο", "ελιά 20 € + άλλα δύο"),
        ("co\u00adoperate cafe\u0301", "cooperate café"),
        ("…!", ""),
    ],
)
def test_words_by_the_rules_of_unicode(text, words):
    assert UNICODE.words(text) == words.split()
    assert UNICODE.words(UNICODE.text(UNICODE.words(text))) == UNICODE.words(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A cable of 3.5 mm for $1.09, or 1,000.", "a cable of 3.5 mm for $1.09 or 1,000"),
        ("a .5-mm pen (-5 °C) 10-20 rooms, $.99", "a .5 mm pen (-5 °c) 10 20 rooms $.99"),
        ("wait...5 dogs,3 cats", "wait5 dogs3 cats"),  # as the split files' tokens
    ],
)
def test_numbers_of_english_captions_stay(text, words):
    assert ENGLISH.words(text) == in_form(text, "english").split() == words.split()


def test_a_training_from_a_model_of_karpathy_s_words_keeps_the_numbers_of_custom_data(tmp_path):
    custom = read_dataset(caption_folder(tmp_path / "custom", "english"))
    papers = replace(custom, custom=False, folder=tmp_path)
    both = join([papers, custom])  # whose scores compare with others'
    for dataset, expected in ((custom, ENGLISH), (papers, KARPATHY), (both, KARPATHY)):
        assert start_tokenizer(KARPATHY, dataset) == expected
        assert choose_tokenizer(dataset, english=english_words(), minimum_count=1, size=500)[0] == expected
    assert start_tokenizer(UNICODE, custom) == UNICODE


def test_pieces_are_the_text_and_the_same_each_time():
    learnt = Unigram.fit(CHINESE)
    assert max(map(len, learnt.scores)) <= 4 < max(map(len, Unigram.fit(CAPTIONS["thai"]).scores))  # about a word
    assert learnt == Unigram.fit(CHINESE) and len(learnt.scores) > len({*"".join(CHINESE)}) - 3
    for text in CHINESE:
        pieces = learnt.words(text)
        assert learnt.text(pieces) == in_form(text, "characters") and 1 < len(pieces) < len(text)
    assert learnt.words("红龘色，OK ｄｏｇ")[:3] == ["红", "龘", "色"]  # a sign that it does not know
    assert learnt.text(learnt.words("红龘色，OK ｄｏｇ。")) == "红龘色ok dog"
    assert learnt.units(learnt.words("红色 圆形")) == ["红", "色", "圆", "形"]


def test_the_likeliest_pieces_by_hand():
    tokenizer = Unigram({"a": -1.0, "b": -2.0, "ab": -2.5, "abb": -6.0, " a": -1.5, "c": -9.0})
    assert tokenizer.words("ab") == ["ab"]  # −2.5, above −1 − 2
    assert tokenizer.words("abb") == ["ab", "b"]  # −4.5, above −6 and −5
    assert tokenizer.words("b ab") == ["b", " a", "b"]  # a piece with the space alone can begin there
    assert tokenizer.words("axb") == ["a", "x", "b"] and tokenizer.words(".") == []


def test_few_and_rare_signs():
    with pytest.raises(SatError, match="no character occurs 9 times or more"):
        Unigram.fit(["红色"] * 8, minimum_count=9)
    learnt = Unigram.fit([*CHINESE, "龘"], minimum_count=2)
    assert not any("龘" in piece for piece in learnt.scores)
    assert len(Unigram.fit(CHINESE, size=20).scores) <= 20


def test_without_sentencepiece_the_message_says_what_to_install(monkeypatch):
    learnt = Unigram.fit(CHINESE)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(SatError, match=r"pip install .*\[languages\]"):
        Unigram.fit(CHINESE)
    assert learnt.words(CHINESE[0])  # a model that has its pieces needs nothing


@pytest.mark.parametrize("language", CAPTIONS)
def test_the_tokenizer_is_stored_with_the_words(language, tmp_path):
    dataset = read_dataset(caption_folder(tmp_path / "data", language))
    tokenizer, why = choose_tokenizer(dataset, english=english_words(), minimum_count=1, size=500)
    expected = {"english": "English", "chinese": "pieces", "thai": "pieces"}
    assert expected.get(language, "rules of Unicode") in why
    cut = dataset.retokenize(tokenizer)
    train = [words for example in cut.split("train") for words in example.captions]
    vocabulary = Vocabulary.build(train, size=500, tokenizer=tokenizer)
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert loaded == vocabulary and loaded.tokenizer == tokenizer
    for words, raw in zip(train, cut.split("train")[0].raw, strict=False):
        ids = loaded.encode(loaded.tokenizer.words(raw))
        assert Vocabulary.UNKNOWN not in ids and loaded.text(ids) == in_form(raw, tokenizer.tokens)
        assert loaded.decode(loaded.encode(words)) == list(words)
    more = Vocabulary.build([["xyzzy"]], tokenizer=tokenizer, start=vocabulary)
    assert more.words[len(vocabulary) :] == (() if "pieces" in why else ("xyzzy",))


def test_words_that_are_parted_by_spaces_stay(tmp_path):
    folder = caption_folder(tmp_path / "data", "chinese", between=" ")
    tokenizer, why = choose_tokenizer(read_dataset(folder), english=english_words(), minimum_count=1, size=500)
    assert tokenizer == UNICODE and "not English" in why
