"""Captions in other languages, all the way: a look at the data, training, captioning, scores, a picture and a page."""

import json

import pytest
from commands import read_json, refused, sat, settings
from languages import CAPTIONS, caption_folder

from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.tokenizers import in_form

PLAIN = {"decoder.dropout": 0, "decoder.annotation_dropout": 0, "soft.label_smoothing": 0, "averaging": 0}
SMALL = settings(learning_rate=0.03, crops=0, flipped="false", warmup=0, max_length=16, **PLAIN)
TOKENIZERS = {"german": ("unicode", "unicode"), "chinese": ("unigram", "characters")}


@pytest.mark.acceptance
@pytest.mark.parametrize("language", TOKENIZERS)
def test_all_the_way(language, tmp_path):
    tokenizer, tokens = TOKENIZERS[language]
    data, model = caption_folder(tmp_path / "data", language), tmp_path / "model"
    why = (
        "learnt from the training captions, since these are in East Asian script, without spaces"
        if tokenizer == "unigram"
        else ""
    )
    looked = sat("check", data, "--json", tmp_path / "look.json").stdout
    assert f"tokenizer {tokenizer}: " in looked and why in looked
    assert ("pieces of words, half of them" in looked) == (tokenizer == "unigram")
    assert read_json(tmp_path / "look.json")["tokenizer"] == tokenizer

    said = sat("train", data, "--output", model, "--epochs", 12, "--resize", "squash", *SMALL).stdout
    assert "the training starts afresh, not from everyday-soft: the captions are not English" in said
    assert f"tokenizer {tokenizer}: " in said and why in said
    learnt = Checkpoint.load(model)
    assert learnt.vocabulary.tokenizer.name == learnt.training["tokenizer"] == tokenizer

    photo = data / "images" / "photo0.png"
    told = sat("caption", photo, "--model", model, "--output", tmp_path / "told.json").stdout
    (caption,) = read_json(tmp_path / "told.json")
    between = "" if tokenizer == "unigram" else " "
    assert caption["caption"] == between.join(caption["words"]).strip() and caption["caption"] in told
    assert len(caption["attention"]) == len(caption["words"]) > 1  # α is per token
    assert caption["settings"]["tokenizer"] == tokenizer and "<unk>" not in told
    true = in_form(CAPTIONS[language][0], tokens)
    captioner = Captioner.from_pretrained(model)
    written = "Auf der rechten Seite ist ein weißer Kreis" if language == "german" else true  # with its capitals
    assert str(captioner.explain(photo, CAPTIONS[language][0])) == written
    assert (caption["caption"] == caption["caption"].lower()) == (language != "german")
    assert captioner.score(photo, true) > captioner.score(photo, true[::-1])

    scores = tmp_path / "scores.json"
    evaluate = ("evaluate", "--model", model, "--data", data, "--split", "train", "--attention", "--json", scores)
    line = sat(*evaluate).stdout
    assert ("scores count characters" if tokenizer == "unigram" else "unicode tokens") in line
    assert f"tokenizer {tokenizer}" in line and "METEOR – (it knows English only)" in line
    result = read_json(scores)
    assert (result["tokens"], result["tokenizer"]) == (tokens, tokenizer)
    assert result["results"][0]["references"] == [true]
    assert result["bleu_1_no_brevity"] > 60  # it learnt something
    sat("report", scores, "--output", tmp_path / "report.html")
    assert json.dumps(true).strip('"') in (tmp_path / "report.html").read_text()

    sat("caption", photo, "--model", model, "--save-maps", tmp_path / "pictures", "--output", tmp_path / "page.html")
    assert (tmp_path / "pictures" / "photo0.png").stat().st_size > 1000
    page = (tmp_path / "page.html").read_text()
    assert 'dir: "auto"' in page and json.dumps(caption["caption"]).strip('"') in page


def test_a_model_of_other_words_is_not_started_from(tmp_path):
    english = caption_folder(tmp_path / "english", "english")
    sat("train", english, "--output", tmp_path / "start", "--epochs", 1, "--init-from", "none", *SMALL)
    train = ("train", caption_folder(tmp_path / "chinese", "chinese"), "--output", tmp_path / "model", *SMALL)
    assert "splits captions at spaces (tokenizer english), and these captions have none" in refused(
        *train, "--init-from", tmp_path / "start"
    )
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(CAPTIONS["chinese"]))
    said = sat(*train, "--epochs", 1, "--text-corpus", texts).stdout
    assert f"{len(CAPTIONS['chinese'])} captions without photos, and 0 left out" in said  # cut as those of photos
    more = ("train", tmp_path / "chinese", "--output", tmp_path / "more", "--init-from", tmp_path / "model", *SMALL)
    assert "tokenizer unigram: as in the model to start from" in sat(*more, "--epochs", 1).stdout
    assert Checkpoint.load(tmp_path / "more").vocabulary == Checkpoint.load(tmp_path / "model").vocabulary
