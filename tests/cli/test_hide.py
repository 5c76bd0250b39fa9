"""`sat caption --hide`: what came out is printed below the caption, and in the page and the JSON."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from builders import small_checkpoint, small_encoder
from commands import read_json, sat

from show_attend_tell import Captioner


@pytest.fixture
def judging(tmp_path: Path) -> Path:
    """A model that judges all words but the first ones of its vocabulary."""
    checkpoint = small_checkpoint(small_encoder())
    words = np.arange(2, 23, dtype=np.int32)
    offsets = np.zeros(len(words), np.float32)
    checkpoint.confidence = {"words": words, "offsets": offsets, "weights": np.zeros(3, np.float32)}
    checkpoint.save(tmp_path / "judging")
    return tmp_path / "judging"


def test_a_page_and_json_hold_what_is_printed(photos, judging, tmp_path):
    photo, page, entries = photos / "photo0.png", tmp_path / "page.html", tmp_path / "all.json"
    command = ("caption", photo, "--model", judging, "--output", page, "--output", entries)
    printed = sat(*command, "--hide", "nouns").stdout.splitlines()
    captioner = Captioner.from_pretrained(judging)
    caption = captioner(photo, evidence=True)
    steps = np.flatnonzero(~np.isnan(caption.word_confidence)).tolist()
    hidden = [captioner.hide(caption, step) for step in steps]
    assert len(steps) > 1
    (entry,) = read_json(entries)
    assert entry["hidden"] == json.loads(json.dumps([answer.to_dict() for answer in hidden]))
    found = re.search(r'id="sat-data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert json.loads(found[1])["photos"][0]["captions"][0]["hidden"] == entry["hidden"]
    lines = dict.fromkeys(line for answer in hidden for line in answer.lines)
    assert printed[1:-1] == [f"  {line}" for line in lines]
    assert "hidden" not in json.loads(sat(*command[:4], "--output", "-.json").stdout)[0]


@pytest.mark.parametrize("word", ["first", "0"])
def test_one_word_by_itself_or_its_number(word, photos, model):
    command = ("caption", photos / "photo0.png", "--model", model, "--output", "-.json")
    (plain,) = json.loads(sat(*command).stdout)
    (entry,) = json.loads(sat(*command, "--hide", plain["words"][0] if word == "first" else word).stdout)
    assert [answer["step"] for answer in entry["hidden"]] == [0]
    assert plain.items() <= entry.items()


def test_several_photos_and_models_and_one_that_judges_nothing(photos, judging, model):
    command = ("caption", photos, "--model", judging, "--compare", model, "--hide", "nouns", "--output", "-.json")
    result = sat(*command)
    entries = json.loads(result.stdout)
    assert [bool(entry.get("hidden")) for entry in entries] == [True, False] * 3
    assert result.stderr.count("has a confidence: name a word") == 3
    assert sat(*command[:4], "--hide", 99).stderr.count("the caption has no word '99': give one of") == 3
    assert "--output - has no place" in sat(*command[:4], "--hide", "nouns", "--output", "-", code=1).stderr
