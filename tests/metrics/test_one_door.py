"""Every file of captions gives a data folder, references, captions to score and a text corpus the same captions."""

import gzip
import json
from pathlib import Path

import pytest
from caption_cases import CLEANED, DAMAGED, FORMS
from commands import refused, sat

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.data.text_corpus import read_text_corpus
from show_attend_tell.data.tokenizers import KARPATHY
from show_attend_tell.errors import SatError
from show_attend_tell.metrics.caption_files import read_captions, read_references

pytestmark = pytest.mark.usefixtures("without_java")


def put_photos(folder: Path, *names: str) -> None:
    """Files with the names of photos, which are found and not opened."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def read_by_all(file: Path) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The captions of each photo of a file alone in its folder, and what each reader says of it."""
    dataset = read_dataset(file.parent)
    captions = {example.name: list(example.raw) for example in dataset.examples}
    references = read_references([file], tokens="raw")
    assert {name: sorted(texts) for name, texts in references.texts.items()} == {
        name: sorted(texts) for name, texts in captions.items()
    }
    notes = []
    corpus = read_text_corpus(file, KARPATHY, notes)
    assert sorted(corpus) == sorted(words for example in dataset.examples for words in example.captions)
    return captions, [dataset.report.lines(), references.notes, notes]


@pytest.mark.parametrize("kind", FORMS)
def test_forms_give_every_reader_the_same_captions_and_lines(tmp_path, kind):
    name, content, expected, note = FORMS[kind]
    put_photos(tmp_path, "a.jpg", "b.jpg")
    (tmp_path / name).write_text(content, encoding="utf-8")
    captions, notes = read_by_all(tmp_path / name)
    assert captions == expected
    for lines in notes:
        assert not note or any(line.endswith(note) for line in lines)


@pytest.mark.parametrize(("text", "captions", "note"), CLEANED)
def test_sat_score_reads_texts_as_a_training_does(tmp_path, text, captions, note):
    pytest.importorskip("pycocoevalcap", reason="needs the extra 'evaluation'")
    put_photos(tmp_path, "a.jpg")
    file = tmp_path / "captions.jsonl"
    file.write_text(json.dumps({"photo": "a.jpg", "caption": text}))
    read, (lines, *_) = read_by_all(file)
    assert read == {"a.jpg": captions} and sum(line.startswith(note) for line in lines) == 1
    if len(captions) > 1:
        assert f"the photo 'a.jpg' has {len(captions)} captions; keep one" in refused("score", file, file)
        return
    result = sat("score", file, file, "--tokens", "unicode", "--json", "-")
    (entry,) = json.loads(result.stdout)["results"]
    assert entry["references"] == [entry["caption"]] and json.loads(result.stdout)["bleu_1"] == pytest.approx(100)
    assert result.stderr.count(f"note: captions.jsonl: {note}") == 2  # of the references, and of the captions to score


@pytest.mark.parametrize(
    ("files", "message"), [case for case in DAMAGED if "split" not in case[1] and "first line must" not in case[1]]
)
def test_damaged_files_are_refused_by_every_reader(tmp_path, files, message):
    message = message.removesuffix("; looked for")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(SatError, match=message):
            read_references([tmp_path / name])
        with pytest.raises(SatError, match=message):
            read_text_corpus(tmp_path / name, KARPATHY, [])


def test_a_photo_with_an_error_is_named_and_an_empty_caption_counted(tmp_path):
    file, wanted = tmp_path / "captions.csv", tmp_path / "references.csv"
    wanted.write_text("photo,caption\na.jpg,a dog\nb.jpg,a cat\n")
    file.write_text("source,caption,error\nphotos/a.jpg,a dog,\nphotos/b.jpg,,it is cut off\n")
    with pytest.raises(SatError, match=r"error instead of a caption for 1 photo: photos/b\.jpg \(it is cut off\)"):
        read_captions(file, read_references([wanted]))
    file.write_text("source,caption\nphotos/a.jpg,a dog\nphotos/b.jpg,\n")
    references = read_references([wanted])
    assert read_captions(file, references) == {"a.jpg": "a dog", "b.jpg": ""}
    assert references.notes[-1] == "captions.csv: empty, and scored as such: 1 caption of b.jpg"


def test_a_data_folder_has_the_references_of_its_split(tmp_path):
    names = [f"{number}.jpg" for number in range(20)]
    put_photos(tmp_path, *names)
    rows = "".join(f"{name},['dog {name[:-4]}' 'cat'],\n" for name in names)
    (tmp_path / "captions.csv").write_text(f"photo,caption,lang\n{rows}")
    test = read_dataset(tmp_path).split("test")
    references = read_references([tmp_path])
    assert references.texts == {example.name: [f"dog {example.name[:-4]}", "cat"] for example in test}
    assert references.split == "test" and len(references.training or ()) == 2 * 16
    assert "20 captions with a list, each part of which is read as a caption" in references.notes


ADDRESSES = [(f"a red mug number {number}", f"https://images.example.org/{number}/view") for number in range(3)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("caption_first", [False, True])
def test_addresses_are_photos_on_either_side(tmp_path, caption_first, packed):
    rows = "".join("\t".join(row if caption_first else row[::-1]) + "\n" for row in ADDRESSES)
    file = tmp_path / ("corpus.tsv.gz" if packed else "corpus.tsv")
    file.write_bytes(gzip.compress(rows.encode()) if packed else rows.encode())
    assert read_text_corpus(file, KARPATHY, []) == [tuple(text.split()) for text, _ in ADDRESSES]
    assert read_references([file]).texts == {address: [text] for text, address in ADDRESSES}


def test_a_text_file_beside_each_photo_has_its_captions(tmp_path):
    photos = {"train/a.jpg": "a dog\na puppy\n", "train/b.JPG": "a cat, <b>red</b>", "val/c.png": "a hen"}
    put_photos(tmp_path, *photos, "train/alone.jpg", "test/d.jpg")
    for name, text in photos.items():
        (tmp_path / name).with_suffix(".txt").write_text(text)
    (tmp_path / "test" / "d.caption").write_text("nan")
    (tmp_path / "train" / "notes.txt").write_text("no photo has this name")
    dataset = read_dataset(tmp_path)
    assert {example.name: (example.split, example.raw) for example in dataset.examples} == {
        "train/a.jpg": ("train", ("a dog\na puppy",)),
        "train/b.JPG": ("train", ("a cat,  red",)),
        "val/c.png": ("val", ("a hen",)),
    }
    assert dataset.report.left_out["without a caption"] == ["test/d.jpg"]
    (tmp_path / "e.jpg").write_text("e")
    (tmp_path / "e.txt").write_text("a cow")
    with pytest.raises(SatError, match=r"others are not \(e\.jpg\): move them"):
        read_dataset(tmp_path)


def test_boxes_beside_photos_are_no_captions(tmp_path):
    put_photos(tmp_path, "a.jpg", "b.jpg")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("0 0.5 0.5 0.2 0.1\n")
    with pytest.raises(SatError, match=r"a\.txt and the like, beside photos, contain no words; looked for"):
        read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("a photo of thing {}", "12 of 12 captions begin with 'a photo of thing', which a model learns to say"),
        ("sks thing {}", "12 of 12 captions begin with 'sks thing'"),
        ("{} #a{}", "12 of 12 captions end with '#…'"),
        ("{} https://shop.org/{}", "12 of 12 captions end with 'https://…'"),
        ("a thing with no name {}", "begin with 'a thing with no name'"),
        ("a {} thing", "12 of 12 captions end with 'thing'"),
        ("a {}", ""),  # an article, as most captions have one
    ],
)
def test_what_all_captions_begin_or_end_with_is_named(tmp_path, pattern, line):
    words = "ab cd ef gh ij kl mn op qr st uv wx".split()
    put_photos(tmp_path, *(f"{word}.jpg" for word in words))
    rows = "".join(f"{word}.jpg,{pattern.format(word, word)}\n" for word in words)
    (tmp_path / "captions.csv").write_text(f"photo,caption\n{rows}")
    lines = [each for each in read_dataset(tmp_path).report.notes if "captions begin" in each or "captions end" in each]
    assert len(lines) == bool(line) and all(line in each for each in lines)
    assert [note.partition(": ")[2] for note in read_references([tmp_path / "captions.csv"]).notes] == lines


def test_a_sentence_of_many_photos_is_named(tmp_path):
    names = [f"{number}.jpg" for number in range(23)]
    put_photos(tmp_path, *names)
    rows = "".join(f"{name},thing {name[:-4]} here\n" for name in names)
    rows += "".join(f"{name},Quality issues are too severe.\n" for name in names[:7])
    (tmp_path / "captions.csv").write_text(f"photo,caption\n{rows}")
    line = "to look at: 7 of 23 photos have the caption 'quality issues are too severe'"
    assert line in read_dataset(tmp_path).report.lines()


@pytest.mark.parametrize("called_in", ["", "in the folder above"])
def test_a_table_of_sat_review_teaches_what_people_wrote(tmp_path, called_in):
    """Never what nobody reviewed; another column of such words says nothing."""
    before = f"{tmp_path.name}/" if called_in else ""  # how sat caption spells a photo
    reviews = ["written", "edited", "accepted", "accepted in bulk", "left out", ""]
    names = [f"sub/{number}.png" for number in range(len(reviews))]
    put_photos(tmp_path, *names)
    for column, taught in (("reviewed", 2), ("kind of review", 6)):
        rows = "".join(f"{before}{name},a thing,{review}\n" for name, review in zip(names, reviews, strict=True))
        (tmp_path / "captions.csv").write_text(f"source,caption,{column}\n{rows}")
        dataset = read_dataset(tmp_path)
        assert sorted(example.name for example in dataset.examples) == [before + name for name in names[:taught]]
        assert any("4 captions" in note and "reviewed" in note for note in dataset.report.notes) == (taught == 2)
