"""Captions of other systems and references in every form, and `sat score` on them."""

import json
from pathlib import Path
from typing import Any

import caption_cases
import pytest
from commands import refused, sat

from show_attend_tell.errors import SatError
from show_attend_tell.files import read_json
from show_attend_tell.metrics.caption_files import read_captions, read_evaluation, read_references

CAPTIONS = {"cat.jpg": "a cat sleeps on a mat", "dog.jpg": "a dark haired dog", "owl.jpg": "an owl looks at you"}
RAW = {
    "cat.jpg": ["A cat sleeps on the mat .", "A cat's mat."],
    "dog.jpg": ["A dark-haired dog!"],
    "owl.jpg": ["An owl looks at us.", "Owls.", "An owl, by day"],
}
WORDS = {
    "cat.jpg": ["a cat sleeps on the mat", "a cats mat"],
    "dog.jpg": ["a dark haired dog"],
    "owl.jpg": ["an owl looks at us", "owls", "an owl by day"],
}
NUMBERS = {"cat.jpg": 391895, "dog.jpg": 60623, "owl.jpg": 13}

pytestmark = pytest.mark.usefixtures("without_java")


def write(file: Path, content: Any) -> Path:
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def karpathy(file: Path, *, number: str = "imgid") -> Path:
    """Three test photos and one to train on; every caption in this file's own words and raw."""
    images = [
        {
            "filename": photo,
            "split": "test",
            number: NUMBERS[photo],
            "sentences": [
                {"tokens": words.split(), "raw": raw} for words, raw in zip(WORDS[photo], RAW[photo], strict=True)
            ],
        }
        for photo in CAPTIONS
    ]
    sentence = {"tokens": CAPTIONS["dog.jpg"].split(), "raw": CAPTIONS["dog.jpg"]}
    images.append({"filename": "fox.jpg", "split": "train", number: 7, "sentences": [sentence]})
    return write(file, {"dataset": "animals", "images": images})


def coco(file: Path, captions: dict[str, list[str]] = RAW) -> Path:
    annotations = [{"image_id": NUMBERS[photo], "caption": text} for photo in captions for text in captions[photo]]
    return write(file, caption_cases.coco({NUMBERS[photo]: photo for photo in captions}, annotations))


def lines(folder: Path) -> list[Path]:
    """Three files of references, the photos that have fewer with empty lines."""
    files = []
    for n in range(3):
        rows = [texts[n] if n < len(texts) else "" for texts in RAW.values()]
        files.append(write(folder / f"reference{n}.txt", "\n".join(rows) + "\n"))
    return files


def test_references_of_every_form_are_the_same(tmp_path):
    split = read_references([karpathy(tmp_path / "dataset_animals.json")])
    assert split.texts == WORDS and (split.name, split.split) == ("animals", "test")
    assert split.training == [("a", "dark", "haired", "dog")]
    other = read_references([coco(tmp_path / "captions_val.json")])
    assert other.texts == WORDS and (other.name, other.split, other.training) == ("captions_val", None, None)
    texts = read_references(lines(tmp_path)).texts
    assert texts == {str(n): found for n, found in enumerate(WORDS.values(), start=1)}

    for file in ("dataset_animals.json", "captions_val.json"):
        assert read_references([tmp_path / file], tokens="raw").texts == RAW
    assert read_references([tmp_path / "dataset_animals.json"], split="train").texts == {
        "fox.jpg": ["a dark haired dog"]
    }


@pytest.mark.parametrize(
    ("texts", "tokens", "words", "language"),
    [
        (["一只狗 在草地上奔跑。"], "characters", "一只狗 在草地上奔跑", "East Asian script, without spaces"),
        (["Ein Hund, auf der Wiese"], "unicode", "ein hund auf der wiese", "not English (Latin script)"),
        (["A dog's 3.5 balls"], "english", "a dogs 3.5 balls", ""),
    ],
)
def test_the_language_of_references_chooses_the_tokens(texts, tokens, words, language, tmp_path):
    english = {"a", "dogs", "the"}
    found = read_references([write(tmp_path / "r.txt", "\n".join(texts) + "\n")], english=english)
    assert (found.tokens, found.texts) == (tokens, {"1": [words]}) and language in found.language
    assert read_references([tmp_path / "r.txt"], english=english, tokens="raw").texts == {"1": texts}
    papers = read_references([coco(tmp_path / "captions_val2014.json", {"cat.jpg": texts})], english=english)
    assert (papers.tokens, papers.language) == ("split", "")


FORMS = {  # the captions of photos in another order than that of the references, or as sentences in theirs
    "results.json": json.dumps([{"image_id": NUMBERS[p], "caption": t} for p, t in reversed(CAPTIONS.items())]),
    "own.json": json.dumps({"results": [{"photo": p, "caption": t, "file": f"/a/{p}"} for p, t in CAPTIONS.items()]}),
    "lines.txt": "\n".join(text.capitalize() for text in CAPTIONS.values()) + "\r\n",
    "numbers.jsonl": "".join(json.dumps({"image_id": NUMBERS[p], "caption": t}) + "\n" for p, t in CAPTIONS.items()),
    "headless.csv": "".join(f'"photos/{p}","{t}"\n' for p, t in reversed(CAPTIONS.items())),
    "numbered.csv": "".join(f"{NUMBERS[p]}, {t}\r\n" for p, t in reversed(CAPTIONS.items())),
    "counted": "".join(f"{p}|0|{t}\n" for p, t in reversed(CAPTIONS.items())),
}


@pytest.mark.parametrize("number", ["imgid", "cocoid"])
@pytest.mark.parametrize("name", FORMS)
def test_captions_of_every_form_are_the_same(name, number, tmp_path):
    references = read_references([karpathy(tmp_path / "dataset.json", number=number)])
    file = write(tmp_path / name, FORMS[name])
    assert read_captions(file, references) == CAPTIONS
    if name != "own.json":
        texts = read_references([file]).texts.values()  # the same file as references
        assert sorted(map(list, texts)) == sorted([text] for text in CAPTIONS.values())
    (tmp_path / "utf16").write_bytes(FORMS[name].encode("utf-16"))
    assert read_captions(tmp_path / "utf16", references) == CAPTIONS


def test_references_of_several_files_and_of_a_split_are_told_by_name(tmp_path):
    first = write(tmp_path / "a.tsv", "cat.jpg\ta cat\ndog.jpg\ta dog\n")
    second = write(tmp_path / "b.csv", "dog.jpg,dogs\ncat.jpg,cats\n")
    assert read_references([first, second]).texts == {"cat.jpg": ["a cat", "cats"], "dog.jpg": ["a dog", "dogs"]}
    table = write(tmp_path / "c.csv", "photo,caption,split\na.jpg,a,val\nb.jpg,b,test\nb.jpg,bb,test\n")
    found = read_references([table])
    assert (found.texts, found.split) == ({"b.jpg": ["b", "bb"]}, "test")
    assert read_references([table], split="val").texts == {"a.jpg": ["a"]}


@pytest.mark.parametrize(
    "content",
    [
        "100 a dog runs\n1001 a cat\n2001 a hen\n4000 a cow\n",  # numbers, which could also begin a sentence
        "1\ta dog\t0.5\n2\ta cat\t0.4\n3\ta hen\t0.3\n",
        "cat.jpg: a cat\ndog.jpg: a dog\n",
        "cat.jpg,a cat\ndog.jpg,a dog\n# the end\n",
        "1, a cat\n2, a dog\na hen\n",
    ],
)
def test_what_is_no_sentence_is_not_read_as_one(content, tmp_path):
    file = write(tmp_path / "told.txt", content)
    with pytest.raises(
        SatError,
        match=r"(first line must be a caption|line 3 has no photo and a).*PHOTO,CAPTION; Flickr's token",
    ):
        read_references([file])


TOLD = [{"image_id": NUMBERS[photo], "caption": text} for photo, text in CAPTIONS.items()]
REFUSED = [  # captions of the references of `karpathy`, or the lines of a text file
    ([*TOLD, {"image_id": 99, "caption": "a"}], "caption 4: the photo '99' has no references in .*split test"),
    ([{"image_id": 7, "caption": "a"}], "'7' has no references"),  # of the split train
    ([*TOLD, TOLD[0]], "caption 4: the photo '391895' has a caption already"),
    ([TOLD[0], {"image_id": "cat.jpg", "caption": "a"}], "caption 2: the photo 'cat.jpg' has a caption"),
    (TOLD[:1], r"no caption of 2 photos with references.*dog\.jpg, owl\.jpg"),
    ([], "holds no captions"),
    ([{"caption": "a"}], "caption 1: 'photo' must be a text, and is missing"),
    ([{"image_id": None, "caption": "a"}], "'image_id' must be a number or a file name, and is missing"),
    ([{"image_id": float("nan"), "caption": "a"}], "'image_id' must be a number or a file name, and is nan"),
    ([{"image_id": 13, "captions": ["a", "b"]}], "has 2 captions; keep one"),
    ([{"image_id": 13, "caption": 5}], "caption 1: 'caption' must be a text or a list of texts, and is 5"),
    ({"results": 3}, "'results' must be"),
    ("[{]", "not valid JSON"),
    ("\n", "is empty"),
    ("a\nb\n", "has 2 captions and .* 3 photos"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_captions_that_do_not_fit_are_refused(content, message, tmp_path):
    references = read_references([karpathy(tmp_path / "dataset.json")])
    name = "told.txt" if isinstance(content, str) and content[0] != "[" else "told.json"
    with pytest.raises(SatError, match=message):
        read_captions(write(tmp_path / name, content), references)


def test_references_that_are_none_are_refused(tmp_path):
    split, first = karpathy(tmp_path / "dataset.json"), write(tmp_path / "a.txt", "a\nb\n")
    for files, message in (
        ([split], "no split 'val'; it has test, train"),
        ([first, write(tmp_path / "b.txt", "a\nb\nc\n")], r"a\.txt \(2 lines\), .*b\.txt \(3 lines\) must"),
        ([split, first], "must be of the same photos, in the same order or all with the photos' names"),
        ([coco(tmp_path / "c.json", {"cat.jpg": ["", " ."]})], r"c\.json holds no references"),
        ([write(tmp_path / "d.json", {"tokens": "split", "results": []})], "is an evaluation"),
        ([write(tmp_path / "e.json", "[3]")], "an entry must be an object"),
        ([tmp_path / "absent.txt"], r"cannot read .*absent\.txt"),
    ):
        with pytest.raises(SatError, match=message):
            read_references(files, split="val")


ENTRY = {"photo": "a.jpg", "caption": "a", "references": ["a"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must hold a JSON object with 'results'"),
        ({"results": [ENTRY]}, "'tokens' must be a text, and is missing"),
        ({"tokens": "both", "results": [ENTRY]}, "'tokens' must be one of split, .*, characters, and is 'both'"),
        ({"tokens": "split", "results": []}, "holds no captions"),
        ({"tokens": "split", "results": [ENTRY, ENTRY]}, r"results\[1\]: the photo 'a.jpg' is there twice"),
        (
            {"tokens": "split", "results": [{**ENTRY, "references": None}]},
            "'references' must be a list.*evaluate again",
        ),
    ],
)
def test_evaluations_that_are_none_are_refused(content, message, tmp_path):
    with pytest.raises(SatError, match=message):
        read_evaluation(write(tmp_path / "e.json", content))


def test_sat_score(tmp_path):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    references = karpathy(tmp_path / "dataset_animals.json")
    captions = write(tmp_path / "other.json", [{"image_id": p, "caption": t} for p, t in CAPTIONS.items()])

    def score(*arguments):
        return sat("score", *arguments).stdout

    told = score(captions, references, "--json", tmp_path / "scores.json").splitlines()
    assert told[0] == "other on animals test: 3 captions, english tokens"
    assert told[4].startswith("  METEOR – (Java is not installed") and told[5].startswith("  SPICE – (")
    assert "13 different words" in told[-1] and "– truncated" in told[-1]
    written = read_json(tmp_path / "scores.json")
    assert (written["model"], written["data"], written["split"]) == ("other", "animals", "test")
    assert written["bleu_1"] > 50
    evaluation = read_evaluation(tmp_path / "scores.json")
    assert (evaluation.captions, evaluation.references, evaluation.tokens) == (CAPTIONS, WORDS, "english")
    # its own output, scored again, and the same captions and references as lines, come to the same
    assert json.loads(score(tmp_path / "scores.json", references, "--json", "-"))["cider"] == written["cider"]
    by_line = write(tmp_path / "told.txt", "\n".join(CAPTIONS.values()) + "\n")
    again = json.loads(score(by_line, *lines(tmp_path), "--json", "-"))
    assert again["cider"] == written["cider"] and again["split"] is None

    alone = write(tmp_path / "alone.txt", "狗在草地上奔跑\n")
    printed = score(alone, alone)
    assert "CIDEr is 0 for one photo" in printed and "scores count characters" in printed
    line = refused("score", by_line, *lines(tmp_path), "--split", "test")
    assert "--split test: " in line and "has no splits" in line
    assert "no split 'val'" in refused("score", captions, references, "--split", "val")
    assert "cannot read two dogs (No such file or directory)" in refused("score", "two dogs", references)
