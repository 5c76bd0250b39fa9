"""`sat caption`: what it prints and writes, and that a mistake costs one line and no file."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from builders import COLUMNS, ROWS, shape_photo, shape_scenes, small_checkpoint, small_encoder
from commands import read_json, refused, sat
from PIL import Image

from show_attend_tell.batch.tables import read_rows
from show_attend_tell.cli.outputs import picture_names
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.vision.encoder import load_encoder

NAMES = ["photo0.png", "photo1.png", "photo2.png"]


def sources(text: str) -> list[str]:
    """The names of the photos in the JSON."""
    return [Path(entry["source"]).name for entry in json.loads(text)]


def test_json_to_standard_output_is_nothing_but_json(photos, model, tmp_path):
    options = ("--model", model, "--output", "-.json", "--generation", "attention_mode=argmax")
    result = sat("caption", photos, *options, "--save-maps", tmp_path / "pictures")
    assert sources(result.stdout) == NAMES
    assert [line[0] for line in result.stdout.splitlines()] == ["[", *"{{{", "]"]  # one caption a line
    for caption in json.loads(result.stdout):
        words = caption["words"]
        assert caption["caption"] == " ".join(words) and caption["settings"]["attention_mode"] == "argmax"
        assert np.shape(caption["attention"]) == np.shape(caption["evidence"]) == (len(words), ROWS, COLUMNS)
        assert np.shape(caption["locations"]) == (len(words), 2) and np.shape(caption["gate"]) == (len(words),)
    assert "3 pictures" in result.stderr


def test_tables_and_lines_hold_what_is_printed(photos, model, tmp_path):
    names = [f"captions.{form}" for form in ("csv", "tsv", "jsonl", "json")]
    files = [part for name in names for part in ("--output", tmp_path / name)]
    (photos / "photo1.png").rename(photos / "p, ü\t1.png")
    (photos / "photo2.png").write_bytes(b"broken")
    command = ["caption", photos, "--model", model, "--generation", "num_captions=2"]
    lines = sat(*command, *files, "--output", "-", code=1).stdout
    assert "p, ü\\t1.png\t" in lines
    entries = read_json(tmp_path / "captions.json")
    made = [
        (entry["source"], each["caption"], round(each["log_probability"], 6), None)
        for entry in entries
        for each in ([entry, *entry["alternatives"]] if "words" in entry else ())
    ]
    made = [*made[2:], *made[:2]] if "ü" in made[2][0] else made
    assert [tuple(line.split("\t")) for line in lines.splitlines()] == [
        (source.replace("\t", "\\t"), text) for source, text, *_ in made
    ]
    for name in names[:3]:
        rows = [
            (row["source"], row["caption"], row["log_probability"] and float(row["log_probability"]), row["error"])
            for row in read_rows(io.BytesIO((tmp_path / name).read_bytes()), name.rpartition(".")[2])
        ]
        assert sorted(rows[:-1]) == sorted(made) and rows[-1][0].endswith("photo2.png") and "not a photo" in rows[-1][3]
    assert (tmp_path / "captions.csv").read_bytes().startswith("\ufeffsource,caption,confidence,".encode())  # for Excel
    (photos / "photo2.png").unlink()
    table = tmp_path / "captions.csv"
    table.write_text("source,caption\nx.png,edited\n")
    for kept in (True, False):  # once: the rows of the second run are those of the first
        assert ("captions-1.csv keeps\n" in sat(*command, *files).stdout) == kept
        assert "edited" in (tmp_path / "captions-1.csv").read_text()
    table.write_text("my notes")
    assert "holds no captions: name another output, or give --overwrite" in refused(*command, *files)
    assert "captions-2.csv keeps\n" in sat(*command, *files, "--overwrite").stdout
    assert (tmp_path / "captions-2.csv").read_text() == "my notes"
    both = tmp_path / "both.tsv"
    sat("caption", photos / "photo0.png", "--model", model, "--compare", "flickr8k-hard", "--output", both)
    assert [line.split("\t")[1] for line in both.read_text().splitlines()] == ["model", "beach", "flickr8k-hard"]


def test_sidecars_are_written_once_beside_photos(photos, model):
    content = {file: file.read_bytes() for file in photos.iterdir()}
    (photos / "photo1.png.xmp").write_text("<x/>")
    command = ("caption", photos, "--model", model, "--output", "xmp", "--output", "-")
    first = sat(*command, code=1)
    assert "2 sidecars written beside the photos\n" in first.stderr
    assert "photo1.png.xmp: cannot be read as XMP (no rdf:RDF)" in first.stderr
    text = (photos / "photo0.png.xmp").read_text()
    assert first.stdout.splitlines()[0].partition("\t")[2] in text
    again = sat(*command, "--generation", "beam_size=1", code=1)
    assert "0 sidecars written beside the photos\n2 photos with a caption of an earlier run left alone" in again.stderr
    assert "note: 1 file skipped: notes.txt\n" in again.stderr  # and no sidecar
    assert (photos / "photo0.png.xmp").read_text() == text and (photos / "photo1.png.xmp").read_text() == "<x/>"
    assert all(file.read_bytes() == before for file, before in content.items())


def test_words_to_check_are_printed_behind_the_caption(photos, tmp_path):
    checkpoint = small_checkpoint(small_encoder())
    words = np.arange(2, 23, dtype=np.int32)
    offsets = np.where(words % 2, -1, 1).astype(np.float32)
    checkpoint.confidence = {"words": words, "offsets": offsets, "weights": np.zeros(3, np.float32)}
    checkpoint.save(tmp_path / "judging")
    command = ("caption", photos / "photo0.png", "--model", tmp_path / "judging", "--output", tmp_path / "all.json")
    printed = sat(*command, "--min-confidence", 0.9).stdout.rstrip()
    (entry,) = read_json(tmp_path / "all.json")
    wrong = [word for word in entry["words"] if checkpoint.vocabulary.encode([word])[0] % 2]
    assert wrong and printed.endswith(f"  check: {', '.join(wrong)}  no caption reaches 0.9")
    assert entry["reaches_min_confidence"] is False and sat(*command).stdout.rstrip().endswith(f"{wrong[-1]}")


@pytest.mark.parametrize("form", ["png", "jpg", "svg", "gif", "webp"])
def test_pictures_replace_earlier_ones_and_no_other_file(form, photos, model, tmp_path):
    folder = tmp_path / "maps"
    command = ("caption", photos / "photo0.png", "--model", model, "--generation", "beam_size=1", "--save-maps", folder)
    command += ("--style", f"format={form}")
    assert str(folder) in sat(*command).stdout.splitlines()[-1]
    first = (folder / f"photo0.{form}").read_bytes()
    if form != "svg":
        with Image.open(io.BytesIO(first)) as picture:
            assert picture.format == form.upper().replace("JPG", "JPEG") and picture.width > 300
    assert "1 picture " in sat(*command, "--style", "dark=true").stdout
    assert (folder / f"photo0.{form}").read_bytes() != first
    (folder / f"photo0.{form}").write_bytes(b"mine")
    assert f"photo0.{form} exists already and was not drawn by this command: name another" in refused(*command)
    assert (folder / f"photo0.{form}").read_bytes() == b"mine"


def test_each_picture_has_a_name_of_its_own_also_of_very_many_photos():
    def names(*files: str) -> list[str]:
        return picture_names([Path(file) for file in files], "svg")

    found = names("a.png", "x/a.bmp", "a-2.png", "b.png", "z/a.png")
    assert found == ["a.svg", "a-2.svg", "a-2-2.svg", "b.svg", "a-3.svg"]
    assert names("x/Dog.png", "y/dog.png") == ["Dog.svg", "dog-2.svg"]  # also where a file system ignores case
    many = names(*(f"{folder}/a.png" for folder in range(20_000)))
    assert len(set(many)) == 20_000 and many[-1] == "a-20000.svg"


def test_pictures_of_two_models_side_by_side(photos, model, tmp_path):
    hard = tmp_path / "hard"
    small_checkpoint(small_encoder(), seed=7, attention="hard", gate=False).save(hard)
    folder, photo = tmp_path / "pictures", photos / "photo1.png"
    options = ("--model", model, "--compare", hard, "--generation", "attention_mode=argmax", "--style", "format=svg")
    options += ("--style", "dark=true", "--save-maps", folder)
    result = sat("caption", photo, *options, "--output", tmp_path / "both.json")
    first, second, last = result.stdout.splitlines()
    assert first.startswith(f"{photo} [beach]: ") and second.startswith(f"{photo} [hard]: ")
    assert last.startswith("1 picture ") and "note:" not in result.stderr
    captions = read_json(tmp_path / "both.json")
    modes = [(caption["settings"]["model"], caption["settings"]["attention_mode"]) for caption in captions]
    assert modes == [("beach", "mean"), ("hard", "argmax")]  # soft attention keeps to the mean
    (picture,) = folder.iterdir()
    text = picture.read_text()
    assert picture.name == "photo1.svg" and all(caption["caption"] in text for caption in captions)
    assert 'fill="#eeeeea"' in text
    alone = sat("caption", photo, "--model", hard, "--generation", "attention_mode=argmax").stdout.splitlines()[0]
    assert alone.split(": ", 1)[1] == second.split(": ", 1)[1]
    assert "argmax" in sat("caption", photo, "--model", model, "--generation", "attention_mode=argmax").stderr


REFUSED = [
    ("absent.png", r"absent.png: no such photo"),
    ("*.gif", r"\*.gif: no such photo"),
    ("PHOTOS/notes.txt", "notes.txt: not a photo"),
    ("EMPTY", "no photo in this folder"),
    ("", "PHOTO"),
    ("PHOTOS ''", "an argument is empty"),
    ("PHOTOS --output ''", "an argument is empty"),
    ("PHOTOS --model beech", "no model 'beech'"),
    ("PHOTOS --model EMPTY", "no config.json"),
    ("PHOTOS --generation attention_mode=away", "attention_mode is 'away': choose one of mean, argmax, sample"),
    ("PHOTOS --generation length_penalty=1e39", "give a number from 0 to 10"),
    ("PHOTOS --generation num_captions=3 --generation beam_size=2", "num_captions is 3.* larger beam_size"),
    ("PHOTOS --generation rerank_weight=5", "rerank_weight is 5, and beach has no reranker: give 0"),
    ("PHOTOS --output absent/captions.json", "absent is not a folder"),
    (
        "PHOTOS --output page.pdf",
        r"page\.pdf: name a file that ends in \.csv, \.tsv, \.jsonl, \.parquet, \.json, \.html;",
    ),
    ("PHOTOS --output - --output -.json", "- and -.json: give one for standard output"),
    ("PHOTOS --model flickr8k-soft --compare flickr8k-soft", "two models are called flickr8k-soft"),
    ("- --output xmp", "xmp writes beside photos, and - has no folder"),
    ("PHOTOS --num-beams 3", r"did you mean --generation beam_size=VALUE"),
    ("PHOTOS --max-new-tokens 9", "did you mean --generation max_length=VALUE"),
    ("PHOTOS --generation num_return_sequences=2", "did you mean num_captions"),
    ("PHOTOS PHOTOS/odd.json --output ./PHOTOS/odd.json", r"odd\.json is read by this command, and would be over"),
    ("PHOTOS --output both.csv --output ./both.csv", "both.csv is named for two outputs"),
    ("PHOTOS --save-maps PHOTOS", r"photo0\.png exists already and was not drawn by this command"),
    ("PHOTOS --style dark=true", "add --save-maps FOLDER"),
    ("PHOTOS --workers 2", "leave out --workers and --engine"),
    ("PHOTOS --output page.html --engine local", "leave out --workers"),
    ("PHOTOS --engine ray --output captions.csv", "Ray"),
    ("https://localhost:1/a.jpg --output xmp", "a.jpg"),
    ("PHOTOS --save-maps pictures --style format=bmp", "format is 'bmp': choose one of png, jpg, svg"),
    ("PHOTOS --device gpu", "device 'gpu'"),
    ("PHOTOS --encoder-weights weights1", "SHA-256"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_mistakes_with_caption(arguments, message, photos, model, monkeypatch):
    monkeypatch.chdir(photos.parent)
    photos.rename("PHOTOS")
    Path("EMPTY").mkdir()
    Path("PHOTOS/odd.json").write_bytes(Path("PHOTOS/photo0.png").read_bytes())
    line = refused("caption", *shlex.split(arguments), *([] if "--model" in arguments else ["--model", model]))
    assert re.search(message, line), line
    assert not list(Path.cwd().glob("**/*.part"))
    for name, scene in zip(NAMES, shape_scenes(3), strict=True):
        with Image.open(f"PHOTOS/{name}") as photo:
            assert np.array_equal(np.array(photo), np.array(shape_photo(*scene)))


def test_a_photo_s_name_may_be_no_utf8(photos, model, tmp_path):
    try:
        odd = (photos / "photo0.png").rename(os.fsdecode(os.fsencode(photos) + b"/p\xff.png"))
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    file = tmp_path / "captions.json"
    sat("caption", odd, "--model", model, "--output", file)
    for text in (file.read_text(), sat("caption", odd, "--model", model, "--output", "-.json").stdout):
        assert json.loads(text)[0]["source"] == str(odd)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xff"))
    output = sat("caption", photos / "photo1.png", "--model", model, "--save-maps", folder).stdout
    assert f"1 picture of what supported each word: {tmp_path}/f\\udcff/" in output


def test_a_photo_from_standard_input(photos, model, tmp_path):
    command = ("caption", "-", "--model", model)
    first, second, third = (photos / name for name in NAMES)
    (line,) = sat("caption", first, "--model", model).stdout.splitlines()
    outputs = ("--output", tmp_path / "c.json", "--save-maps", tmp_path / "p")
    result = sat(*command, *outputs, stdin=first.read_bytes())
    assert result.stdout.splitlines()[0] == line.replace(str(first), "-")
    assert read_json(tmp_path / "c.json")[0]["source"] == "-"
    assert [file.name for file in (tmp_path / "p").iterdir()] == ["stdin.png"]
    both = sat(*command, third, stdin=second.read_bytes()).stdout.splitlines()
    assert [line.split(": ")[0] for line in both] == ["-", str(third)]
    for content, message in ((b"", "standard input is empty"), (b"no photo", "-: not a photo in a format")):
        (line,) = sat(*command, stdin=content, code=1).stderr.splitlines()
        assert message in line


def test_unreadable_photos_are_named_and_cost_no_other(photos, model, tmp_path):
    content = (photos / "photo1.png").read_bytes()
    (photos / "photo1.png").write_bytes(content[: len(content) // 2])
    assert "photo1.png: damaged" in refused("caption", photos / "photo1.png", "--model", model)
    file, page = tmp_path / "all.json", tmp_path / "page.html"
    command = ("caption", photos / "*.png", "--model", model, "--output", file, "--output", page)
    problem, count = sat(*command, code=1).stderr.splitlines()
    assert "photo1.png: damaged" in problem and count.startswith("sat: 1 of 3 photos")
    found = read_json(file)
    assert [Path(entry["source"]).name for entry in found] == NAMES
    assert ["words" in entry for entry in found] == [True, False, True]
    assert found[1]["error"].startswith("damaged, it cannot be decoded")
    assert '["photo1.png","damaged' in page.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_one_output_that_cannot_be_written_costs_no_other(photos, data, model, tmp_path):
    page, full = tmp_path / "captions.html", tmp_path / "full.json"
    full.symlink_to("/dev/full")
    line = refused("caption", photos / "photo0.png", "--model", model, "--output", full, "--output", page, code=1)
    assert line.startswith(f"sat: {full} cannot be written (No space left on device). What was there")
    assert "photo0.png" in page.read_text()
    result = sat("evaluate", "--model", model, "--data", data, "--split", "val", "--json", "/dev/full", code=1)
    assert "CIDEr" in result.stdout and "No space left" in result.stderr


def ctrl_c_at(pipe: Path) -> None:
    """Make a pipe, and press Ctrl-C when it is opened for reading."""

    def press() -> None:
        with open(pipe, "wb"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    os.mkfifo(pipe)
    threading.Thread(target=press, daemon=True).start()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the pipe, which stays open
@pytest.mark.parametrize("name", ["captions.json", "-.json"])
def test_ctrl_c_keeps_what_was_made(name, photos, model, tmp_path):
    """It comes with the ninth photo, which begins the second batch."""
    files = [str(photos / f"photo{number}.png") for number in range(9)]
    for file, scene in zip(files[:8], shape_scenes(8), strict=True):
        shape_photo(*scene).save(file)
    ctrl_c_at(Path(files[8]))
    target = name if name == "-.json" else str(tmp_path / name)
    page, pictures = tmp_path / "page.html", tmp_path / "pictures"
    options = ("--output", target, "--output", page, "--save-maps", pictures, "--style", "format=svg")
    result = sat("caption", *files, "--model", model, *options, code=130)
    assert "Traceback" not in result.output
    assert result.stderr.splitlines()[-1] == "sat: interrupted: 8 of 9 photos captioned"
    made = [f"photo{number}.png" for number in range(8)]
    assert sources(result.stdout if name == "-.json" else Path(target).read_text()) == made
    assert sorted(file.stem for file in pictures.iterdir()) == [Path(name).stem for name in made]
    assert "8 photos" in page.read_text()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the pipe, which stays open
def test_ctrl_c_before_the_first_caption_keeps_an_earlier_result(photos, model, tmp_path):
    ctrl_c_at(photos / "photo3.png")
    file, page = tmp_path / "captions.json", tmp_path / "page.html"
    for earlier in (file, page):
        earlier.write_text("earlier")
    files = (photos / "photo0.png", photos / "photo3.png")
    line = refused("caption", *files, "--model", model, "--output", file, "--output", page, code=130)
    assert line == "sat: interrupted: 0 of 2 photos captioned"
    assert [earlier.read_text() for earlier in (file, page)] == ["earlier"] * 2


def test_words_and_names_cannot_command_a_terminal(photos, tmp_path):
    checkpoint = small_checkpoint(small_encoder())
    checkpoint.vocabulary = Vocabulary([f"\x1b[2J\x07\u202e{word}" for word in checkpoint.vocabulary.words[2:]])
    checkpoint.save(tmp_path / "evil")
    photo = (photos / "photo0.png").rename(photos / "\x1b]0;evil\x07.png")
    (photos / "bad\x1b[2J.png").write_text("no photo")
    result = sat("caption", photo, "--model", tmp_path / "evil", "--generation", "num_captions=2")
    assert "\\x1b[2J\\x07\\u202eword" in result.stdout and "\\x1b]0;evil\\x07.png" in result.stdout
    line = refused("caption", photos / "bad\x1b[2J.png", "--model", tmp_path / "evil")
    assert "bad\\x1b[2J.png" in line
    assert not any(sign in result.output + line for sign in "\x1b\x07\u202e")


def test_a_process_prints_json_alone_and_fails_in_one_line(tmp_path, photos):
    """With the shipped VGG-19 and a decoder of random weights."""
    encoder = load_encoder(resize="squash")
    small_checkpoint(encoder, annotation_size=512, annotation_norm="layer").save(tmp_path / "random")

    def process(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "show_attend_tell", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done = process("caption", photos / "photo0.png", "--model", tmp_path / "random", "--output", "-.json")
    assert done.returncode == 0 and done.stderr == ""
    (caption,) = json.loads(done.stdout)
    assert np.shape(caption["attention"])[1:] == (14, 14) and caption["settings"]["model"] == "random"
    failed = process("dog.jpg")
    assert failed.returncode == 2 and failed.stdout == ""
    assert "sat: there is no command dog.jpg: did you mean sat caption dog.jpg?" in failed.stderr
