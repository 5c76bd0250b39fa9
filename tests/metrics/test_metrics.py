"""BLEU by hand and against pycocoevalcap, and the metrics that need Java, with Java and without."""

import gzip
import importlib
import math
import random
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from show_attend_tell.errors import SatError
from show_attend_tell.metrics.bleu import bleu, bleu_counts, brevity_penalty, precisions
from show_attend_tell.metrics.cider import CiderD, cider
from show_attend_tell.metrics.java import Java, JavaError, meteor_of
from show_attend_tell.metrics.scores import Variety, score, variety
from show_attend_tell.metrics.table import METRICS

CAPTIONS = {
    "dog.jpg": "a black dog runs through the snow",
    "girl.jpg": "a girl climbs the stairs",
    "surf.jpg": "a man surfs a wave",
}
REFERENCES = {
    "dog.jpg": ["a black dog is running after a white dog in the snow", "two dogs run in the snow"],
    "girl.jpg": ["a little girl climbing the stairs to her playhouse", "a girl climbs into a house", "a child"],
    "surf.jpg": ["a man surfs a wave", "a surfer rides a big wave"],
}
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="METEOR and the PTB tokenizer run on Java")


@pytest.fixture(params=["short", pytest.param("whole", marks=pytest.mark.proof)])
def paraphrases(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR's program with one paraphrase, or with its whole table, which takes it a quarter of a minute to read."""
    module = pytest.importorskip("pycocoevalcap.meteor.meteor", reason="needs the extra 'evaluation'")
    if request.param == "whole":
        return
    jar = Path(module.__file__).parent / module.METEOR_JAR
    (tmp_path / "data").mkdir()
    shutil.copy(jar, tmp_path)
    with gzip.open(tmp_path / "data" / "paraphrase-en.gz", "wt") as table:
        table.write("0.3\nthrough\nin\n0.3\nin\nthrough\n")  # probability, text, paraphrase
    monkeypatch.setattr(module, "__file__", str(tmp_path / "meteor.py"))  # for pycocoevalcap's own class, too


def test_bleu_by_hand():
    # 1-grams: "the" is allowed twice (by the first reference), "cat" once; 2-grams: only "the cat" is right.
    captions, references = [["the", "the", "the", "cat"]], [[["the", "cat", "on", "the", "mat"], ["a", "cat"]]]
    counts = bleu_counts(captions, references)
    assert bleu(references[0][:1], [[["a"], references[0][0]]]) == pytest.approx((100, 100, 100, 100), abs=1e-5)
    assert bleu(captions, references, brevity=False)[0] == pytest.approx(75)
    assert counts[0, 8:].tolist() == [4, 5]  # the caption's length, and the closest reference's
    plain, penalty = precisions(counts.sum(0)), brevity_penalty(counts.sum(0))
    assert penalty == pytest.approx(math.exp(1 - 5 / 4), abs=1e-8)
    assert plain[:2] == pytest.approx((75.0, 100 * math.sqrt(3 / 4 * 1 / 3)), abs=1e-5)
    assert bleu(captions, references)[0] == pytest.approx(75 * math.exp(-1 / 4), abs=1e-5)


@pytest.mark.parametrize("seed", range(7))
def test_bleu_equals_pycocoevalcap(seed):
    module = pytest.importorskip("pycocoevalcap.bleu.bleu", reason="needs the extra 'evaluation'")
    draw = random.Random(seed)

    def caption(shortest):
        return draw.choices("abcde", k=draw.randint(shortest, 11))

    references = [[caption(0) for _ in range(draw.randint(1, 5))] for _ in range(13)]
    hypotheses = [caption(0) for _ in references]
    if seed == 0:
        hypotheses = [[] for _ in references]
    if seed == 1:  # far too short, so that the penalty bites
        hypotheses = [words[:2] for words in hypotheses]
    theirs, _ = module.Bleu(4).compute_score(
        {i: [" ".join(words) for words in choices] for i, choices in enumerate(references)},
        {i: [" ".join(words)] for i, words in enumerate(hypotheses)},
        verbose=0,
    )
    assert bleu(hypotheses, references) == pytest.approx([100 * b for b in theirs], abs=1e-9)


@pytest.mark.parametrize("photos", [1, 11])
def test_cider_d_equals_pycocoevalcap(photos):
    """Words repeat, lengths differ, some captions are short of an n-gram, and photos have 1 to 5 references."""
    module = pytest.importorskip("pycocoevalcap.cider.cider", reason="needs the extra 'evaluation'")
    source = random.Random(3)

    def drawn():
        return [source.randrange(7) for _ in range(source.randrange(1, 14))]

    def text(words):
        return " ".join(f"w{word}" for word in words)

    references = [[drawn() for _ in range(source.randrange(1, 6))] for _ in range(photos)]
    captions = [drawn() for _ in range(photos)]
    captions[0] = references[0][0]
    captions[-1] = [*captions[-1], 99]  # which is in no reference
    expected, each = module.Cider().compute_score(
        {n: [text(words) for words in references[n]] for n in range(photos)},
        {n: [text(words)] for n, words in enumerate(captions)},
    )
    score = CiderD(references)
    found = list(map(score, captions, references))
    assert found == pytest.approx(each, abs=1e-9)
    assert cider(captions, references) == pytest.approx(100 * expected, abs=1e-9)
    assert (max(found) > 1) == (photos > 1)  # of one photo every n-gram has the weight log 1 = 0


def test_variety():
    result = variety({"1": "a dog", "2": "A dog.", "3": "a big cat", "4": ""}, [["a", "dog"], ["a", "bird"]])
    assert result == Variety(4, 75, 0, truncated=None)


@pytest.mark.parametrize(
    ("caption", "repetitive"),
    [
        ("", 0),
        ("a cat next to a cat cat", 50),  # a word twice in a row
        ("a man in a shirt and a man in a hat", 50),  # "a man in" twice
        ("in a shirt in a hat", 0),  # two words twice
        ("run dog run dog run", 50),  # "run dog run" twice, with a word in both
    ],
)
def test_captions_that_repeat_themselves_are_counted(caption, repetitive):
    assert variety({"1": caption, "2": "a dog"}, None).repetitive == repetitive


def test_captions_that_hardly_end_so_are_truncated():
    """ "a" ends 1 caption of 102 that have it, "dog" 100 of 101; "big" never ends one, but is not common."""
    training = [["a", "dog"]] * 100 + [["dog", "a"], ["a", "big", "cat"]]
    captions = {"1": "a big dog", "2": "a dog on a", "3": "a big", "4": ""}
    assert variety(captions, training).truncated == 25
    assert variety(captions, [*training, ["such", "a"]]).truncated == 0  # 2 of 103
    assert variety(captions, training[:99]).truncated is None  # too few to say


def test_incomplete_captions_are_truncated():
    captions = {"1": "a man on a", "2": "a man on a", "3": "a dog", "4": ""}
    complete = {"1": False, "2": True, "3": True}
    assert variety(captions, None, complete=complete).truncated == 25
    assert variety(captions, [["a", "dog"]] * 100, complete=complete).truncated == 50  # the second by its last word
    assert variety(captions, None).truncated is None


REFUSED = [
    ({}, {}, "no captions"),
    ({"a.jpg": "a", "b.jpg": "a"}, {"a.jpg": ["a"]}, r"'b\.jpg' has a caption but no references"),
    ({"a.jpg": "a"}, {"a.jpg": ["a"], "b.jpg": ["a"]}, r"'b\.jpg' has references but no caption"),
    ({"a.jpg": "a"}, {"a.jpg": ["", " \n"]}, r"'a\.jpg' has no list of references with a word"),
    ({"a.jpg": "a"}, {"a.jpg": "a dog"}, r"'a\.jpg' has no list of references"),
]


@pytest.mark.parametrize(("captions", "references", "message"), REFUSED)
def test_what_cannot_be_scored_is_refused(captions, references, message):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    with pytest.raises(SatError, match=message):
        score(captions, references)


def test_score_without_pycocoevalcap_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocoevalcap.rouge.rouge", None)
    with pytest.raises(SatError, match=r"pip install .*\[evaluation\]"):
        score(CAPTIONS, REFERENCES)


@needs_java
@pytest.mark.usefixtures("paraphrases")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # pycocoevalcap's Meteor leaves its pipes open
def test_score_equals_the_plain_scorers(capfd):
    scores = score(CAPTIONS, REFERENCES)
    result = scores.corpus
    assert capfd.readouterr().out == ""  # `sat evaluate --json -` writes there

    given = {photo: [text] for photo, text in CAPTIONS.items()}
    for name, scorer, ours in (
        ("meteor", "Meteor", "meteor"),
        ("rouge", "Rouge", "rouge_l"),
        ("cider", "Cider", "cider"),
    ):
        module = importlib.import_module(f"pycocoevalcap.{name}.{name}")
        theirs, each = getattr(module, scorer)().compute_score(REFERENCES, given)
        assert result[ours] == pytest.approx(100 * theirs, abs=1e-9)
        assert [100 * value for value in each] == pytest.approx([one[ours] for one in scores.photos.values()], abs=1e-9)
    ours = bleu(
        [text.split() for text in CAPTIONS.values()],
        [[text.split() for text in texts] for texts in REFERENCES.values()],
    )
    assert [result[f"bleu_{n}"] for n in range(1, 5)] == pytest.approx(ours, abs=1e-9)
    assert [result[f"bleu_{n}_no_brevity"] for n in range(1, 5)] == pytest.approx(ours, abs=1e-6)
    assert result["brevity_penalty"] == pytest.approx(1)  # 17 words, as in the closest references
    statistics = scores.counts[METRICS["meteor"].counts]
    assert statistics[0, 16:20].any()  # a match by paraphrase
    assert scores.photos["surf.jpg"]["meteor"] == pytest.approx(100)  # a copy has no penalty, alone or in the sum
    weighted = scores.weighted(np.array([[1.0, 1, 1], [2, 0, 1]]))
    assert {name: values[0] for name, values in weighted.items()} == pytest.approx(
        {name: result[name] for name in weighted}, abs=1e-6
    )
    assert {"bleu_4", "bleu_1_no_brevity", "meteor", "rouge_l", "cider"} <= weighted.keys()
    twice = 2 * statistics[0] + statistics[2]
    assert weighted["meteor"][1] == pytest.approx(100 * meteor_of(twice))


@needs_java
def test_ptb_convention(capfd, tmp_path):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    raw = {"dog.jpg": "The dog's ball , a red one .", "girl.jpg": "", "surf.jpg": "A man\nsurfs a wave!"}
    choices = {"dog.jpg": ["the dog 's ball a red one"], "girl.jpg": ["A girl"], "surf.jpg": ["a man surfs a wave"]}
    result = score(raw, choices, tokens="ptb", java=TokenizerAlone()).corpus
    assert capfd.readouterr().out == ""
    # Tokenized, two captions are their references; the third is empty and costs length only.
    assert result["bleu_4_no_brevity"] == pytest.approx(100, abs=1e-5)
    assert result["brevity_penalty"] == pytest.approx(math.exp(1 - 14 / 12), abs=1e-6)
    assert result["rouge_l"] == pytest.approx(100 * 2 / 3)
    untokenized = bleu([t.split() for t in raw.values()], [[t.split() for t in c] for c in choices.values()])
    assert untokenized[0] < 70


class TokenizerAlone(Java):
    """Without METEOR, which takes seconds."""

    def meteor(self, captions: object, references: object) -> NoReturn:
        raise JavaError("no METEOR in this test")


def fake_java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str | None) -> None:
    """Let `java` be this shell script, which still answers `java -version`, or nothing at all."""
    if script is not None:
        program = folder / "java"
        program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && exit 0\n{script}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "Java is not installed"),
        ("exit 1", "METEOR's program failed"),
        ("exec /bin/echo nonsense", "METEOR's program failed"),
        ("exec /bin/sleep 60", "METEOR's program failed: no answer in"),
    ],
)
def test_without_a_sound_java_the_other_metrics_remain(tmp_path, monkeypatch, script, reason):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    fake_java(tmp_path, monkeypatch, script)
    impatient = Java(patience=1.0)
    scores = score(CAPTIONS, REFERENCES, java=impatient)
    bare = score(CAPTIONS, REFERENCES, java=Java(folder=tmp_path)).missing["meteor"]
    assert script is None or "meteor-1.5.jar is missing" in bare
    result = scores.corpus
    assert result["meteor"] is None and reason in scores.missing["meteor"]
    assert result["spice"] is None and scores.missing["spice"]
    assert (result["bleu_1"] or 0) > 0 and (result["cider"] or 0) > 0
    with pytest.raises(SatError, match=r"'ptb' need its tokenizer|returned"):
        score(CAPTIONS, REFERENCES, tokens="ptb", java=impatient)


SPICE = """case "$*" in *-out*) ;; *) exit 1 ;; esac
while [ "$1" != -out ]; do shift; done
printf '%s' '{}' > "$2"
"""


def spice_entry(photo: int, value: str) -> str:
    return f'{{"image_id": "{photo}", "scores": {{"All": {{"f": {value}}}, "Object": {{"f": 0.9}}}}}}'


@pytest.fixture
def spice_folder(tmp_path: Path) -> Path:
    """A place for SPICE's jars that has them all, empty."""
    pytest.importorskip("pycocoevalcap.spice.spice", reason="needs the extra 'evaluation'")
    (tmp_path / "lib").mkdir()
    for name in ("spice-1.0.jar", "lib/stanford-corenlp-3.6.0.jar", "lib/stanford-corenlp-3.6.0-models.jar"):
        (tmp_path / name).touch()
    return tmp_path


def test_spice_is_the_mean_of_its_program_s_scores(spice_folder, monkeypatch):
    answer = f"[{spice_entry(1, '0.25')}, {spice_entry(0, '0.5')}, {spice_entry(2, '0')}]"  # in any order
    fake_java(spice_folder, monkeypatch, SPICE.replace("{}", answer))
    scores = score(CAPTIONS, REFERENCES, java=Java(spice_folder))
    assert scores.corpus["spice"] == pytest.approx(25) and "spice" not in scores.missing
    assert [one["spice"] for one in scores.photos.values()] == [50, 25, 0]
    assert scores.weighted(np.array([[1.0, 0, 1]]))["spice"] == pytest.approx(25)
    assert not list(spice_folder.glob("*.json"))  # nothing is left in pycocoevalcap's folder


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Could not score' >&2; exit 1", "SPICE's program failed: Could not score"),
        (SPICE.replace("{}", "[]"), "SPICE's program failed"),
        (SPICE.replace("{}", "nonsense"), "SPICE's program failed"),
        (SPICE.replace("{}", f"[{', '.join(spice_entry(n, 'NaN') for n in range(3))}]"), "no number"),
        ("", "python -m pycocoevalcap.spice.get_stanford_models"),  # whose models are not fetched unasked
    ],
)
def test_without_a_sound_spice_the_reason_is_given(script, reason, spice_folder, monkeypatch):
    fake_java(spice_folder, monkeypatch, script)
    if not script:
        (spice_folder / "lib" / "stanford-corenlp-3.6.0-models.jar").unlink()
    scores = score(CAPTIONS, REFERENCES, java=Java(spice_folder))
    assert scores.corpus["spice"] is None
    assert reason in scores.missing["spice"]
