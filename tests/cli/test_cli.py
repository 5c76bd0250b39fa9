"""The command `sat`: what it prints and writes, and that a mistake costs the user one line and no traceback."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from builders import (
    COLUMNS,
    ROWS,
    SIZES,
    shape_folder,
    shape_photo,
    shape_scenes,
    small_checkpoint,
    small_encoder,
)
from click.testing import CliRunner, Result
from commands import refused, sat
from PIL import Image

import show_attend_tell.checkpoint.checkpoint as checkpoint_module
import show_attend_tell.checkpoint.hub as find_module
import show_attend_tell.progress as progress_module
import show_attend_tell.training.run as run_module
import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.captioner import Caption, Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.cli import main
from show_attend_tell.cli.caption import Results, picture_names
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.training.loop import Trainer
from show_attend_tell.vision.encoder import load_encoder

SETTINGS = {
    **{f"decoder.{name}": size for name, size in SIZES.items()},
    "minimum_count": 1,
    "batch_size": 4,
    "warmup": 0,
    "averaging": 0,  # a whole number where a float is wanted
    "learning_rate": 0.01,
    "decoder.gate": "true",  # as the configuration's JSON has it, for True
}
SMALL = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
NO_WINDOW = ("--set", "decoder.annotation_window=1")  # the small encoder's places are no square


# Help


def commands(group: click.Group = main, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    """Every command that the help shows by its words, ("analyze", "scenes") for one, groups left out."""
    found: dict[tuple[str, ...], click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= commands(command, (*before, name))
        elif not command.hidden:
            found[*before, name] = command
    return found


each_command = pytest.mark.parametrize(("words", "command"), commands().items(), ids=str)


@pytest.mark.parametrize("words", [(), ("analyze",), *commands()], ids=" ".join)
def test_help_has_examples(words: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        text = sat(*words, flag).stdout
        assert text.startswith("Usage: ")
        shown = {(): "caption", ("analyze",): "analyze ablation"}.get(words)
        assert f"sat {shown or ' '.join(words)}" in text.split("Options:")[0 if shown else 1]


@each_command
def test_every_option_is_explained(words: tuple[str, ...], command: click.Command) -> None:
    """By a help that starts with what the value is, a noun, and not with a verb or "of"."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help and parameter.help[0].isupper(), parameter.opts
            assert parameter.help.split()[0] not in VERBS.split(), parameter.help


VERBS = "At Begin By Change Count Draw Encode Find Give Go Hide Keep Link Make Of On Print Say Show Start Train Write"


@each_command
def test_examples_name_options_that_exist(words: tuple[str, ...], command: click.Command) -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    for line in sat(*words, "--help").stdout.splitlines():
        if line.strip().startswith(f"sat {' '.join(words)}"):
            example = line.strip().split("  ")[0]  # what comes after two spaces is said of it
            assert {word for word in example.split() if word.startswith("--")} <= known, line


def test_the_help_shows_all_commands() -> None:
    groups: list[tuple[tuple[str, ...], str]] = [
        ((), "caption data train tune evaluate score compare report features models serve analyze import-arctic"),
        (("analyze",), "gaze hard-attention pointing ranking retrieval scenes"),
    ]
    for group, wanted in groups:
        lines = sat(*group, "--help").stdout.split("Commands:\n")[1].splitlines()
        assert [line.split()[0] for line in lines] == wanted.split()
        assert not [line for line in lines if line.endswith("...")]  # each says what it is for


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("examine --model flickr8k-hard --data flickr8k/", "sat analyze hard-attention"),
        ("pointing --help", "sat analyze pointing"),
        ("rank --photos 3", "sat analyze ranking"),
        ("retrieve flickr8k/ --resize squash", "sat analyze retrieval"),
        ("scenes", "sat analyze scenes"),
        ("evaluate --gaze", "sat analyze ablation"),
        ("evaluate --data flickr8k/ --gaze-photos 3", "sat analyze ablation"),
    ],
)
def test_what_moved_says_where_it_is(before: str, now: str) -> None:
    assert now in refused(*before.split(), code=2)
    assert sat(*now.split()[1:], "--help").stdout.startswith("Usage: ")


def test_version_is_the_package_s() -> None:
    import show_attend_tell

    assert sat("--version").stdout.split()[-1] == show_attend_tell.__version__
    try:
        installed = metadata.version("show-attend-tell")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert installed == show_attend_tell.__version__


# sat caption


def test_caption_prints_a_line_for_every_photo(photos: Path, model: Path) -> None:
    lines = sat("caption", photos, "--model", model).stdout.splitlines()
    captioner = Captioner.from_pretrained(model, device="cpu")
    assert len(lines) == 3
    for number, line in enumerate(lines):
        file = photos / f"photo{number}.png"
        caption = captioner(file)
        ending = "" if caption.complete else " …"
        assert line == f"{file}: {caption}{ending}  (log p {caption.log_probability:.2f})"


def test_caption_takes_files_folders_and_globs(photos: Path, model: Path) -> None:
    def named(*arguments: object) -> list[str]:
        return [
            Path(line.split(": ")[0]).name
            for line in sat("caption", "--model", model, *arguments).stdout.split("\n")[:-1]
        ]

    everything = ["photo0.png", "photo1.png", "photo2.png"]
    assert named(photos / "photo1.png") == ["photo1.png"]
    assert named(photos) == named(photos / "*.png") == named(photos / "photo?.png") == everything
    assert named(photos / "photo2.png", photos) == ["photo2.png", "photo0.png", "photo1.png"]  # each once


def test_json_to_standard_output_is_nothing_but_json(photos: Path, model: Path, tmp_path: Path) -> None:
    options = ("--model", model, "--json", "-", "--save-maps", tmp_path / "pictures", "--attention-mode", "argmax")
    result = sat("caption", photos, *options)
    found = json.loads(result.stdout)
    assert [Path(caption["source"]).name for caption in found] == ["photo0.png", "photo1.png", "photo2.png"]
    for caption in found:
        words = caption["words"]
        assert caption["caption"] == " ".join(words) and caption["settings"]["attention_mode"] == "argmax"
        assert np.shape(caption["attention"]) == (len(words), ROWS, COLUMNS)
        assert np.shape(caption["locations"]) == (len(words), 2) and np.shape(caption["gate"]) == (len(words),)
    assert "3 pictures" in result.stderr


@pytest.mark.parametrize("way", [(), ("--sample",)], ids=["searched", "drawn"])
def test_several_captions_of_a_photo_are_printed_and_kept(
    way: tuple[str, ...], photos: Path, model: Path, tmp_path: Path
) -> None:
    photo = photos / "photo0.png"
    printed = sat("caption", photo, "--model", model, "--num-captions", 3, *way, "--json", tmp_path / "all.json").stdout
    (entry,) = json.loads((tmp_path / "all.json").read_text())
    captions = [entry, *entry["alternatives"]]
    assert len({caption["caption"] for caption in captions}) == 3
    assert printed.splitlines() == [
        f"{photo}: {caption['caption']}  (log p {caption['log_probability']:.2f})" for caption in captions
    ]
    assert entry["settings"].get("num_captions") == (None if way else 3)


def test_json_to_a_file_and_pictures_to_a_folder(photos: Path, model: Path, tmp_path: Path) -> None:
    (photos / "more").mkdir()
    Image.open(photos / "photo0.png").save(photos / "more" / "photo0.png")  # a second photo of that name
    file, pictures = tmp_path / "captions.json", tmp_path / "new" / "pictures"
    result = sat("caption", photos, photos / "more", "--model", model, "--json", file, "--save-maps", pictures)
    assert len(json.loads(file.read_text(encoding="utf-8"))) == 4
    lines = result.stdout.splitlines()
    assert len(lines) == 5 and str(pictures) in lines[-1] and lines[-1].startswith("4 pictures")
    names = ["photo0-2.png", "photo0.png", "photo1.png", "photo2.png"]
    assert sorted(path.name for path in pictures.iterdir()) == names
    for path in pictures.iterdir():
        with Image.open(path) as picture:
            assert picture.format == "PNG" and picture.width > 300
    assert (pictures / "photo0.png").read_bytes() == (pictures / "photo0-2.png").read_bytes()


@pytest.mark.parametrize("form", ["png", "svg", "gif", "webp"])
def test_pictures_replace_earlier_ones_and_no_other_file(
    form: str, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "looked"
    command = (
        "caption",
        photos / "photo0.png",
        "--model",
        model,
        "--beam-size",
        1,
        "--format",
        form,
        "--save-maps",
        folder,
    )
    sat(*command)
    first = (folder / f"photo0.{form}").read_bytes()
    assert "1 picture " in sat(*command, "--dark").stdout
    assert (folder / f"photo0.{form}").read_bytes() != first
    (folder / f"photo0.{form}").write_bytes(b"mine")
    monkeypatch.setattr(Captioner, "from_pretrained", None)  # the work does not begin
    assert f"photo0.{form} is there already, and was not drawn by this command: name another" in refused(*command)
    assert (folder / f"photo0.{form}").read_bytes() == b"mine"


def test_each_picture_has_a_name_of_its_own_also_of_very_many_photos() -> None:
    names = picture_names(
        [Path(name) for name in ("a.png", "x/a.png", "a-2.png", "y/a.jpg", "b.png", "z/a.png")], "svg"
    )
    assert names == ["a.svg", "a-2.svg", "a-2-2.svg", "a-3.svg", "b.svg", "a-4.svg"]
    many = picture_names([Path(str(folder), "a.png") for folder in range(20_000)], "png")
    assert len(set(many)) == 20_000 and many[-1] == "a-20000.png"


def test_pictures_of_two_models_side_by_side(photos: Path, model: Path, tmp_path: Path) -> None:
    hard = tmp_path / "hard"
    small_checkpoint(small_encoder(), seed=7, attention="hard", gate=False).save(hard)
    folder, photo = tmp_path / "pictures", photos / "photo1.png"
    options = ("--model", model, "--compare", hard, "--attention-mode", "argmax", "--format", "svg", "--heat", "--dark")
    result = sat("caption", photo, *options, "--save-maps", folder, "--json", tmp_path / "both.json")
    first, second, last = result.stdout.splitlines()
    assert first.startswith(f"{photo} [beach]: ") and second.startswith(f"{photo} [hard]: ")
    assert last.startswith("1 picture ") and "note:" not in result.stderr
    captions = json.loads((tmp_path / "both.json").read_text(encoding="utf-8"))
    told = [(caption["settings"]["model"], caption["settings"]["attention_mode"]) for caption in captions]
    assert told == [("beach", "mean"), ("hard", "argmax")]  # soft attention keeps to the mean
    (picture,) = folder.iterdir()
    text = picture.read_text(encoding="utf-8")
    title = text.split("</title>")[0]
    assert picture.name == "photo1.svg" and all(caption["caption"] in title for caption in captions)
    assert "yellow: looked most" in text and 'fill="#121316"' in text
    alone = sat("caption", photo, "--model", hard, "--attention-mode", "argmax").stdout.splitlines()[0]
    assert alone.split(": ", 1)[1] == second.split(": ", 1)[1]


def test_the_search_is_set_as_for_evaluate(photos: Path, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "captions.json"
    options = ("--beam-size", 4, "--length-penalty", 3, "--rerank-weight", 0)
    sat("caption", photos, "--model", model, *options, "--json", file)
    found = json.loads(file.read_text(encoding="utf-8"))
    captioner = Captioner.from_pretrained(model)
    wanted = captioner(sorted(photos.glob("*.png")), beam_size=4, length_penalty=3.0)
    assert [caption["caption"] for caption in found] == [str(caption) for caption in wanted]
    assert all(caption["settings"]["length_penalty"] == 3 for caption in found)
    usual = captioner(sorted(photos.glob("*.png")), beam_size=4)
    assert [str(caption) for caption in wanted] != [str(caption) for caption in usual]


def test_sampling_is_seeded(photos: Path, model: Path) -> None:
    def drawn(*options: object) -> str:
        return sat("caption", photos, "--model", model, *options).stdout

    assert drawn("--sample", "--seed", 7) == drawn("--sample", "--seed", 7) != drawn("--sample", "--seed", 8)
    assert drawn("--sample", "--temperature", 0.001) == drawn("--sample", "--top-k", 1) == drawn("--beam-size", 1)
    hard = ("--attention-mode", "sample", "--beam-size", 1)
    assert drawn(*hard, "--seed", 7) == drawn(*hard, "--seed", 7) != drawn(*hard, "--seed", 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.png"], r"absent.png: no such photo"),
        (["*.gif"], r"\*.gif: no such photo"),
        (["PHOTOS/notes.txt"], "notes.txt: not a photo"),
        (["EMPTY"], "no photo in this folder"),
        ([], "PHOTO"),
        (["PHOTOS", "--model", "beech"], "no model 'beech'"),
        (["PHOTOS", "--model", "EMPTY"], "no config.json"),
        (["PHOTOS", "--beam-size", "0"], "--beam-size"),
        (["PHOTOS", "--beam-size", "wide"], "--beam-size"),
        (["PHOTOS", "--attention-mode", "away"], "'away' .*expectation"),
        (["PHOTOS", "--seed", "-1"], "--seed"),
        (["PHOTOS", "--seed", "one"], "--seed"),
        (["PHOTOS", "--sample", "--beam-size", "3"], "leave out one or the other"),
        (["PHOTOS", "--num-captions", "0"], "--num-captions"),
        (
            ["PHOTOS", "--num-captions", "3", "--beam-size", "2"],
            "several is 3, and a beam of 2 finds 2: give a wider beam",
        ),
        (["PHOTOS", "--sample", "--rerank-weight", "0"], "leave out one or the other"),
        (["PHOTOS", "--rerank-weight", "5"], "rerank_weight is 5, and beach has no reranker: give 0"),
        (["PHOTOS", "--length-penalty", "-1"], "--length-penalty"),
        (["PHOTOS", "--temperature", "0.5"], "add --sample"),
        (["PHOTOS", "--top-k", "3"], "add --sample"),
        (["PHOTOS", "--sample", "--temperature", "0"], "temperature is 0"),
        (["PHOTOS", "--sample", "--top-p", "2"], "top_p is 2.0: give a number above 0 and up to 1"),
        (["PHOTOS", "--json", "absent/captions.json"], "absent is not a folder"),
        (["PHOTOS", "--json", "PHOTOS"], "PHOTOS"),
        (["PHOTOS", "--json", "PHOTOS/photo0.png"], r"photo0\.png is read by this command, and would be overwritten"),
        (["PHOTOS", "--html", "./PHOTOS/photo1.png"], r"photo1\.png is read by this command"),
        (["PHOTOS", "--json", "both", "--html", "./both"], "both is named for two outputs"),
        (["PHOTOS", "--sample", "--temperature", "nan"], "temperature is nan"),
        (["PHOTOS", "--sample", "--temperature", "inf"], "temperature is inf"),
        (["PHOTOS", "--save-maps", "PHOTOS/notes.txt"], "--save-maps"),
        (["PHOTOS", "--save-maps", "PHOTOS"], r"photo0\.png would overwrite a photo"),
        (["PHOTOS", "--dark"], "add --save-maps FOLDER"),
        (["PHOTOS", "--format", "gif"], "add --save-maps FOLDER"),
        (["PHOTOS", "--save-maps", "pictures", "--format", "bmp"], "'bmp' .*svg"),
        (["PHOTOS", "--compare", "beech"], "no model 'beech'"),
        (["PHOTOS", "--device", "gpu"], "device 'gpu'"),
        (["PHOTOS", "--device", "cuda"], "device 'cuda'"),
        (["PHOTOS", "--encoder-weights", "weights1"], "SHA-256"),
        (["PHOTOS", "--wide"], "--wide"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_with_caption(
    arguments: list[str], message: str, photos: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos.parent)
    photos.rename("PHOTOS")
    Path("EMPTY").mkdir()
    given = [*arguments] if "--model" in arguments else [*arguments, "--model", str(model)]
    line = refused("caption", *given)
    assert re.search(message, line), line
    assert not list(Path.cwd().glob("**/*.part"))
    for number, scene in enumerate(shape_scenes(3)):
        with Image.open(f"PHOTOS/photo{number}.png") as photo:
            assert np.array_equal(np.array(photo), np.array(shape_photo(*scene)))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["photos", "--json", ""], "--json"),
        (["photos", "--html="], "--html"),
        (["photos", "--save-maps", ""], "--save-maps"),
        (["photos", "--output", ""], "--output"),
        (["photos", "--compare", "beach", "--compare", ""], "--compare"),
        ([""], "PHOTO..."),
        (["photos", ""], "PHOTO..."),
    ],
    ids=str,
)
def test_an_empty_value_is_refused(
    arguments: list[str], name: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"Invalid value for '{name}': it is empty" in refused("caption", *arguments, code=2)


def test_a_photo_s_name_may_be_no_utf8(photos: Path, model: Path, tmp_path: Path) -> None:
    try:
        odd = (photos / "photo0.png").rename(os.fsdecode(os.fsencode(photos) + b"/p\xff.png"))
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    file = tmp_path / "captions.json"
    sat("caption", odd, "--model", model, "--json", file)
    for text in (file.read_text(encoding="utf-8"), sat("caption", odd, "--model", model, "--json", "-").stdout):
        assert json.loads(text)[0]["source"] == str(odd)
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xff"))
    told = sat("caption", photos / "photo1.png", "--model", model, "--save-maps", folder).stdout
    assert f"1 picture of where each word looked: {tmp_path}/f\\udcff/" in told


def test_links_and_pipes_are_written_through(photos: Path, model: Path, tmp_path: Path) -> None:
    def told(target: Path) -> list[str]:
        sat("caption", photos, "--model", model, "--json", target)
        return [Path(caption["source"]).name for caption in json.loads(target.read_text(encoding="utf-8"))]

    names = ["photo0.png", "photo1.png", "photo2.png"]
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target.name)
    assert told(link) == names and link.is_symlink() and target.read_text(encoding="utf-8") != "old"

    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    sat("caption", photos, "--model", model, "--json", pipe)
    reader.join(timeout=30)
    assert received == [target.read_text(encoding="utf-8")] and pipe.is_fifo()
    sat("caption", photos, "--model", model, "--json", os.devnull)
    assert Path(os.devnull).is_char_device()


def test_what_was_left_out_is_counted(photos: Path, model: Path) -> None:
    (photos / "more").mkdir()
    shape_photo(*shape_scenes(1)[0]).save(photos / "more" / "photo3.png")
    shape_photo(*shape_scenes(1)[0]).save(photos / ".photo4.png")
    result = sat("caption", photos, "--model", model)
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == "note: 1 file and 1 subfolder skipped (--recursive reads subfolders)\n"
    result = sat("caption", photos, "--model", model, "--recursive")
    assert len(result.stdout.splitlines()) == 4 and result.stderr == "note: 1 file skipped\n"


def test_a_photo_from_standard_input(photos: Path, model: Path, tmp_path: Path) -> None:
    def piped(content: bytes, *options: object) -> Result:
        return CliRunner().invoke(main, [*map(str, ("caption", "-", "--model", model, *options))], input=content)

    (line,) = sat("caption", photos / "photo0.png", "--model", model).stdout.splitlines()
    result = piped((photos / "photo0.png").read_bytes(), "--json", tmp_path / "c.json", "--save-maps", tmp_path / "p")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == line.replace(str(photos / "photo0.png"), "-")
    assert json.loads((tmp_path / "c.json").read_text())[0]["source"] == "-"
    assert [file.name for file in (tmp_path / "p").iterdir()] == ["stdin.png"]
    both = piped((photos / "photo1.png").read_bytes(), photos / "photo2.png").stdout.splitlines()
    assert [told.split(": ")[0] for told in both] == [str(photos / "photo2.png"), "-"]
    for content, message in ((b"", "standard input is empty"), (b"no photo", "-: not a photo in a format")):
        result = piped(content)
        assert result.exit_code == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1


def test_json_lines_are_written_as_photos_are_captioned(
    photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "photo1.png").write_bytes(b"no photo")
    file, before = tmp_path / "captions.jsonl", []
    add = Results.add

    def watched(self: Any, *arguments: Any) -> None:
        add(self, *arguments)
        before.append(len(file.read_text(encoding="utf-8").splitlines()))

    monkeypatch.setattr(Results, "add", watched)
    result = CliRunner().invoke(main, ["caption", str(photos), "--model", str(model), "--json", str(file)])
    assert result.exit_code == 1 and before == [1, 2, 3]
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert ["error" in line for line in lines] == [False, True, False]
    CliRunner().invoke(main, ["caption", str(photos), "--model", str(model), "--json", str(tmp_path / "all.json")])
    assert lines == json.loads((tmp_path / "all.json").read_text())


def test_what_is_cut_off_by_a_full_disk_leaves_whole_lines(
    photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line does not fit. What the page needs was made, so the page is written."""
    file, page = tmp_path / "captions.jsonl", tmp_path / "captions.html"

    class Small(io.FileIO):
        def write(self, lines: Any) -> int:
            room = size - self.tell()
            if room < 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(lines[:room])

    size = 10**9
    sat("caption", photos, "--model", model, "--json", file)
    first, *_ = file.read_bytes().splitlines(True)
    monkeypatch.setattr(io, "FileIO", Small)
    size = len(first) + 10
    (photos / "notes.txt").unlink()
    line = refused("caption", photos, "--model", model, "--json", file, "--html", page, code=1)
    assert "cannot be written (No space left on device): it holds the captions of 1 photo" in line
    assert file.read_bytes() == first and "photo0.png" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_one_output_that_cannot_be_written_costs_no_other(
    photos: Path, data: Path, model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "captions.html"
    refused("caption", photos / "photo0.png", "--model", model, "--json", "/dev/full", "--html", page, code=1)
    assert "photo0.png" in page.read_text(encoding="utf-8")
    evaluate = ["evaluate", "--model", str(model), "--data", str(data), "--split", "val", "--json", "/dev/full"]
    result = CliRunner().invoke(main, evaluate)
    assert result.exit_code == 1 and "CIDEr" in result.stdout and "No space left" in result.stderr


def test_ctrl_c_keeps_what_was_made(photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the second of three photos."""
    save, saved = Caption.save, 0

    def interrupted(self: Caption, *arguments: Any, **options: Any) -> None:
        nonlocal saved
        save(self, *arguments, **options)
        saved += 1
        if saved == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Caption, "save", interrupted)
    for name in ("captions.json", "captions.jsonl", "-"):
        saved = 0
        target = name if name == "-" else str(tmp_path / name)
        page, pictures = tmp_path / f"{name}.html", tmp_path / f"{name}-pictures"
        options = ["--json", target, "--html", str(page), "--save-maps", str(pictures)]
        result = CliRunner().invoke(main, ["caption", str(photos), "--model", str(model), *options])
        assert result.exit_code == 130 and "Traceback" not in result.output
        last = result.stderr.splitlines()[-1]
        assert last.startswith("sat: interrupted: 2 of 3 photos captioned")
        text = result.stdout if name == "-" else Path(target).read_text(encoding="utf-8")
        told = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)
        assert [Path(one["source"]).name for one in told] == ["photo0.png", "photo1.png"]
        assert sorted(file.name for file in pictures.iterdir()) == ["photo0.png", "photo1.png"]
        assert "2 photos" in page.read_text(encoding="utf-8") and (name == "-" or name in last)


@pytest.mark.parametrize("name", ["captions.json", "captions.jsonl"])
def test_ctrl_c_before_the_first_caption_keeps_an_earlier_result(
    name: str, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        yield

    monkeypatch.setattr(Captioner, "stream", interrupted)
    file, page = tmp_path / name, tmp_path / "page.html"
    for earlier in (file, page):
        earlier.write_text("earlier", encoding="utf-8")
    line = refused("caption", photos / "*.png", "--model", model, "--json", file, "--html", page, code=130)
    assert line == "sat: interrupted: 0 of 3 photos captioned"
    assert [earlier.read_text(encoding="utf-8") for earlier in (file, page)] == ["earlier"] * 2


@pytest.mark.parametrize("name", ["captions.json", "captions.jsonl"])
def test_ctrl_c_keeps_what_was_printed(
    name: str, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes with the second of three lines."""
    echo, lines = click.echo, 0

    def interrupted(message: Any = None, *arguments: Any, **options: Any) -> None:
        nonlocal lines
        echo(message, *arguments, **options)
        lines += "(log p " in str(message)
        if lines == 2:
            lines += 1
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(click, "echo", interrupted)
    file, page = tmp_path / name, tmp_path / "page.html"
    command = ["caption", str(photos), "--model", str(model), "--json", str(file), "--html", str(page)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 130 and "sat: interrupted: 2 of 3 photos captioned" in result.stderr
    text = file.read_text(encoding="utf-8")
    told = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)
    assert [Path(one["source"]).name for one in told] == ["photo0.png", "photo1.png"]
    assert "2 photos" in page.read_text(encoding="utf-8")


def test_what_cannot_be_written_is_named_before_the_work(
    photos: Path, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(Captioner, "from_pretrained", load)
    monkeypatch.chdir(tmp_path)
    long = "x" * 300
    for command in (
        ("caption", photos, "--json", f"{long}.json"),
        ("caption", photos, "--html", f"{long}.html"),
        ("caption", photos, "--save-maps", long),
        ("caption", photos, "--save-maps", "captions.csv/pictures"),
        ("evaluate", "--data", data, "--json", f"{long}.json"),
        ("analyze", "ablation", "--data", data, "--json", f"{long}.json"),
    ):
        (tmp_path / "captions.csv").touch()
        line = refused(*command, code=1)
        assert "cannot be" in line and "name another" in line, line
    assert not list(tmp_path.glob(".*")) and not list(tmp_path.glob("x*"))


def test_what_the_system_refuses_is_told_with_a_remedy(
    photos: Path, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = data / "captions.csv" / "below"  # no folder can be made there
    train = ("train", data, "--output", tmp_path / "trained", "--init-from", "none")
    for command in (("evaluate", "--model", model, "--data", data), train):
        line = refused(*command, "--cache", below, code=1)
        assert "below" in line and "the folder cannot be made (Not a directory)" in line
        assert "--cache or $SAT_CACHE" in line and "Errno" not in line
    line = refused("analyze", "scenes", below, code=1)
    assert "the folder cannot be made (Not a directory): name another folder" in line
    if Path("/dev/full").exists():
        line = refused("caption", photos / "photo0.png", "--model", model, "--json", "/dev/full", code=1)
        assert line == "sat: /dev/full cannot be written (No space left on device): name another file"

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "somewhere")

    monkeypatch.setattr(Captioner, "from_pretrained", denied)
    line = refused("caption", photos, code=1)
    assert line == "sat: somewhere cannot be read or written (Permission denied): mend that, or name another place"


def test_progress_is_told_in_photos(photos: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SECONDS", 0.0)
    assert "of 3" not in sat("caption", photos, "--model", model).stderr
    for number, scene in enumerate(shape_scenes(12)):
        shape_photo(*scene).save(photos / f"photo{number}.png")
    result = sat("caption", photos, "--model", model)
    assert "photos: 12 of 12, " in result.stderr and len(result.stdout.splitlines()) == 12


def test_a_folder_does_not_hide_a_shipped_model(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_module, "SHIPPED", tmp_path / "shipped")
    small_checkpoint(small_encoder(), seed=5).save(tmp_path / "shipped" / "beach")
    monkeypatch.chdir(tmp_path)
    command = ("caption", photos / "photo0.png", "--model")
    alone = sat(*command, "beach")
    assert alone.stderr == ""
    small_checkpoint(small_encoder(), seed=6).save(tmp_path / "beach")
    both = sat(*command, "beach")
    assert both.stdout == alone.stdout
    assert both.stderr == "note: beach is the shipped model; the folder here is ./beach\n"
    here = sat(*command, "./beach")
    assert here.stdout != alone.stdout and here.stderr == ""


def test_an_unreadable_photo_is_named(photos: Path, model: Path) -> None:
    whole = (photos / "photo1.png").read_bytes()
    (photos / "photo1.png").write_bytes(whole[: len(whole) // 2])
    assert "photo1.png" in refused("caption", photos / "photo1.png", "--model", model)
    result = CliRunner().invoke(
        main, ["caption", str(photos), "--model", str(model), "--json", str(photos / "all.json")]
    )
    note, problem, count = result.stderr.splitlines()
    assert note == "note: 1 file skipped"
    assert result.exit_code == 1 and "photo1.png" in problem and count.startswith("sat: 1 of 3 photos")
    told = json.loads((photos / "all.json").read_text())
    assert [Path(one["source"]).name for one in told] == ["photo0.png", "photo1.png", "photo2.png"]
    assert [bool(one.get("words")) for one in told] == [True, False, True]  # the others are not lost
    assert told[1].keys() == {"source", "error"} and told[1]["error"].startswith("damaged, it cannot be decoded")


def test_unknown_commands_are_one_line_too() -> None:
    assert "captoin" in refused("captoin", "photo.jpg")
    assert "--wide" in refused("--wide")


# sat encode, sat train, sat evaluate


def test_train_resume_evaluate_and_caption(data: Path, photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "model"
    train = ("train", data, "--attention", "soft", "--output", output, "--resize", "squash", "--epochs", 2, *SMALL)
    told = sat(*train).stdout
    assert told.startswith("train: 10 photos, 10 captions") and "epoch 2: val BLEU-4" in told
    assert f"sat evaluate --model {output} --data {data} --split test" in told.splitlines()[-1]
    trained = Checkpoint.load(output)
    assert trained.training["preset"] == "flickr8k" and trained.training["settings"]["batch_size"] == 4
    assert trained.encoder.preprocessing.resize == "squash"
    assert "holds a model already" in refused(*train)
    resumed = sat(*train, "--resume").stdout  # finished, so there is nothing left to do
    assert "resumed after 2 epochs" in resumed and "epoch 3" not in resumed
    assert "had other settings or data (seed was 1, is 2)" in refused(*train, "--resume", "--seed", 2)

    assert len(sat("caption", photos, "--model", output).stdout.splitlines()) == 3

    pytest.importorskip("pycocoevalcap")
    evaluate = ("evaluate", "--model", output, "--data", data, "--beam-size", 1)
    lines = sat(*evaluate, "--json", tmp_path / "scores.json").stdout.splitlines()
    assert lines[0] == "model on shapes test: 4 captions, beam 1, look by expectation, split tokens"
    assert "BLEU with brevity penalty" in lines[1] and "without" in lines[2] and "CIDEr" in lines[3]
    assert "no Java in this test" in lines[3] and "different words" in lines[5]
    written = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    printed = sat(*evaluate, "--json", "-")
    assert json.loads(printed.stdout) == written and len(written["results"]) == 4
    assert written["beam_size"] == 1 and written["split"] == "test"
    assert json.loads(sat(*evaluate, "--rerank-weight", 0, "--json", "-").stdout)["rerank_weight"] == 0
    sat(*evaluate, "--json", tmp_path / "scores.json", "--attention")
    lines = (tmp_path / "scores.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('  {"photo": ') for line in lines) == 4  # a caption a line, however long
    assert [len(found["attention"]) for found in json.loads("\n".join(lines))["results"]] == [
        len(found["words"]) for found in written["results"]
    ]
    assert "give --json FILE too" in refused(*evaluate, "--attention")
    assert "no split 'dev'" in refused(*evaluate, "--split", "dev")
    result = CliRunner().invoke(main, [str(part) for part in (*evaluate, "--json", tmp_path / "absent" / "s.json")])
    assert result.stderr.startswith("sat: ") and "absent is not a folder" in result.stderr  # before anything is decoded


def test_an_interrupted_training_is_resumed_by_the_same_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(output: Path, *options: object) -> tuple[object, ...]:
        common = ("--attention", "hard", "--epochs", 2, "--seed", 3, *SMALL, *NO_WINDOW, "--bits", 32)
        return ("train", data, "--output", output, *common, *options)

    sat(*train(tmp_path / "whole"))
    batch, taken = Trainer.one_batch, 0

    def interrupted(self: Trainer, indices: list[int]) -> dict[str, float]:
        nonlocal taken
        taken += 1
        if taken == 5:
            signal.raise_signal(signal.SIGINT)
        return batch(self, indices)

    monkeypatch.setattr(Trainer, "one_batch", interrupted)
    result = CliRunner().invoke(main, [str(part) for part in train(tmp_path / "model")])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "sat: interrupted. To go on from here: the same command with --resume"
    assert "--resume" in refused(*train(tmp_path / "model"))
    assert "resumed after 1 epoch and" in sat(*train(tmp_path / "model", "--resume")).stdout
    whole, resumed = (Checkpoint.load(tmp_path / name).decoder.state_dict() for name in ("whole", "model"))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_an_interrupted_encoding_is_gone_on_with_by_the_same_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "model"
    train = ("train", data, "--attention", "soft", "--output", output, "--resize", "squash", "--epochs", 1, *SMALL)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "prepare", interrupt)
        line = refused(*train, code=130)
    assert line == "sat: interrupted. To go on from here: the same command with --resume"
    assert "epoch 1: val BLEU-4" in sat(*train, "--resume").stdout


def test_what_training_suggests_exists(tmp_path: Path) -> None:
    data, output = shape_folder(tmp_path / "shapes", test=0), tmp_path / "model"
    told = sat("train", data, "--attention", "soft", "--output", output, "--epochs", 1, *SMALL).stdout
    assert told.splitlines()[-1].endswith("--split val")


def test_several_folders_are_trained_on_together(data: Path, tmp_path: Path) -> None:
    other = shape_folder(tmp_path / "others", train=4, val=2, test=0)
    train = ("train", data, other, "--attention", "soft", "--epochs", 1, "--resize", "squash", *SMALL)
    told = sat(*train, "--output", tmp_path / "both", "--weight", 1, "--weight", 2.5).stdout
    assert told.startswith("train: 12 photos, 12 captions") and "others: train: 4 photos, 4 captions" in told
    assert "shapes: left out: 2 photos whose exact copy is in another split" in told  # train here, and val there
    assert "5 batches an epoch" in told or "6 batches an epoch" in told  # of 18 captions, at most 4 in each
    trained = Checkpoint.load(tmp_path / "both").training
    assert trained["data"] == "shapes + others" and trained["weights"] == [1.0, 2.5]
    assert "2 data folders and 1 weights" in refused(*train, "--output", tmp_path / "none", "--weight", 3)


def test_start_from_and_fine_tuning(data: Path, tmp_path: Path) -> None:
    train = ("train", data, "--epochs", 1, "--resize", "squash", *SMALL)
    sat(*train, "--attention", "soft", "--output", tmp_path / "soft", "--encoder-lr", 0.001)
    assert (tmp_path / "soft" / "encoder.safetensors").exists()
    assert len(sat("caption", data / "images" / "photo1.png", "--model", tmp_path / "soft").stdout.splitlines()) == 1
    hard = (*train, "--attention", "hard", *NO_WINDOW, "--init-from")
    sat(*hard, tmp_path / "soft", "--output", tmp_path / "tuned")  # with the encoder that its decoder learnt with
    assert Checkpoint.load(tmp_path / "tuned").encoder == Checkpoint.load(tmp_path / "soft").encoder
    assert (tmp_path / "tuned" / "encoder.safetensors").exists()
    sat(*train, "--attention", "soft", "--output", tmp_path / "frozen")
    sat(*hard, tmp_path / "frozen", "--output", tmp_path / "hard")
    found = Checkpoint.load(tmp_path / "hard")
    assert found.decoder.config.attention == "hard" and found.training["init_from"] == str(tmp_path / "frozen")
    assert not (tmp_path / "hard" / "encoder.safetensors").exists()


def test_features_are_encoded_once(data: Path, tmp_path: Path) -> None:
    lines = sat("encode", data, "--flipped", "--crops", 1).stdout.splitlines()
    assert lines[0] == "train: 10 photos, 10 captions" and lines[-1].startswith("17 photos are encoded in ")
    assert str(tmp_path / "cache") in lines[-1]
    stores = sorted((tmp_path / "cache").glob("shapes/*/photos"))
    assert [len(store.read_text().splitlines()) for store in stores] == [10, 10, 17]  # crop-1, flipped, original
    before = [store.stat().st_mtime_ns for store in stores]
    sat("encode", data, "--flipped", "--cache", tmp_path / "cache")
    twice = ("--set", "crops=1", "--epochs", 1, *SMALL)
    sat("train", data, "--attention", "soft", "--output", tmp_path / "model", *twice)
    assert [store.stat().st_mtime_ns for store in sorted((tmp_path / "cache").glob("shapes/*/photos"))] == before


def test_features_are_those_of_the_photos_that_can_be_read(data: Path, tmp_path: Path) -> None:
    for number in (3, 11, 15):  # one of each split
        (data / "images" / f"photo{number}.png").write_bytes(b"no photo %d" % number)
    for _ in range(2):
        lines = sat("encode", data, "--flipped", "--crops", 1).stdout.splitlines()
        assert lines[-2].startswith("left out: 3 of 17 photos cannot be read. First: ") and "photo3.png: " in lines[-2]
        assert lines[-1].startswith("14 photos are encoded in ")
        stores = sorted((tmp_path / "cache").glob("shapes/*/photos"))
        assert [len(store.read_text().splitlines()) for store in stores] == [9, 9, 14]  # crop-1, flipped, original
    captions = (data / "captions.csv").read_text(encoding="utf-8").splitlines()[1:]
    listing = [
        {"filename": name, "split": split, "sentences": [{"tokens": caption.split(), "raw": caption}]}
        for name, caption, split in (line.split(",") for line in captions)
    ]
    (data / "dataset_flickr8k.json").write_text(json.dumps({"dataset": "flickr8k", "images": listing}))
    line = refused("features", data)  # of the paper's data sets, all are needed
    assert "3 of 17 photos cannot be read" in line and "Replace these photos" in line


def test_what_is_read_is_not_written_over(data: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    (data / "captions.csv").rename(data / "Captions.CSV")
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    for target in (data / "Captions.CSV", data / "images" / "photo1.png"):
        for command in ("evaluate", "analyze hard-attention", "analyze ranking", "analyze ablation"):
            line = refused(*command.split(), "--model", model, "--data", data, "--json", target)
            assert line == f"sat: {target} is read by this command, and would be overwritten: name another file"
    assert {file: file.read_bytes() for file in data.rglob("*") if file.is_file()} == before


def test_models_and_weights_that_are_read_are_not_written_over(data: Path, model: Path, tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"weights")
    before = {file: file.read_bytes() for file in model.rglob("*") if file.is_file()}
    commands = ("evaluate", "analyze hard-attention", "analyze ranking", "analyze ablation", "analyze pointing")
    for target in (model / "config.json", model / "vocabulary.json", model / "model.safetensors", weights):
        reading = ("--encoder-weights", weights, "--json", target)
        for command in commands:
            data_of = "--mosaic" if command.endswith("pointing") else "--data"
            line = refused(*command.split(), "--model", model, data_of, data, *reading)
            assert line == f"sat: {target} is read by this command, and would be overwritten: name another file"
        assert "is read by" in refused("caption", data / "images" / "photo0.png", "--compare", model, *reading)
    assert "is read by" in refused("analyze", "retrieval", data, "--encoder-weights", weights, "--json", weights)
    assert {file: file.read_bytes() for file in model.rglob("*") if file.is_file()} == before


def test_a_model_is_not_examined_beside_itself(data: Path, model: Path) -> None:
    examine = ("analyze", "hard-attention", "--data", data, "--model", model, "--model", model / ".." / model.name)
    assert "this model is given twice, so leave it out" in refused(*examine)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["EMPTY"], "holds no captions that can be read"),
        (["absent"], "absent is not a folder"),
        (["DATA", "--preset", "imagenet"], "no preset 'imagenet'"),
        (["DATA", "--set", "hidden_size=3"], "give NAME=VALUE .*decoder.hidden_size"),
        (["DATA", "--set", "epochs"], "give NAME=VALUE"),
        (["DATA", "--set", "epochs=many"], "--set epochs=many: epochs is 'many': give a whole number from 1"),
        (["DATA", "--set", "epochs=2.5"], "epochs is '2.5': give a whole number from 1"),
        (["DATA", "--set", "epochs="], "epochs is '': give a whole number from 1"),
        (["DATA", "--set", "decoder.gate=maybe"], "gate is 'maybe': give true or false"),
        (["DATA", "--set", "decoder.hidden_size=0"], "hidden_size is '0': give a whole number from 1"),
        (["DATA", "--set", "decoder.attention_depth=3"], "attention_depth is '3': choose one of 1, 2"),
        (["DATA", "--set", "optimizer=sgd"], "optimizer is 'sgd': choose one of adam, rmsprop"),
        (["DATA", "--set", "schedule=linear"], "schedule is 'linear': choose one of constant, cosine"),
        (["DATA", "--set", "learning_rate=-1"], "learning_rate is '-1': give a number above 0"),
        (["DATA", "--set", "scheduled_sampling_end=often"], "is 'often': give a number from 0 to 1 or none"),
        (["DATA", "--set", "scheduled_sampling_end=2"], "is '2': give a number from 0 to 1 or none"),
        (["DATA", "--set", "entropy_weight_end=low"], "entropy_weight_end is 'low': give a number or none"),
        (["DATA", "--set", "entropy_weight_end=1e999"], "entropy_weight_end is '1e999': give a number or none"),
        (["DATA", "--set", "averaging=nan"], "is 'nan': give a number from 0 up to but not including 1"),
        (["DATA", "--set", "decoder=soft"], "give NAME=VALUE"),
        (["DATA", "--set", "hard.baseline=leave_one_out"], "needs 2 samples or more"),
        (["DATA", "--set", "decoder.annotation_window=4"], "annotation_window is 4: give an odd number"),
        (["DATA", "--set", "hard.coin=heads"], "coin is 'heads'"),
        (["DATA", "--attention", "soft", "--set", "minimum_count=999"], "minimum_count"),
        (["DATA", "--set", "decoder.attention=hard"], "--attention"),
        (["DATA", "--set", "decoder.vocabulary_size=9"], "vocabulary_size"),
        (["DATA", "--epochs", "0"], "--epochs"),
        (["DATA", "--seed", "-2"], "--seed"),
        (["DATA", "--attention", "harder"], "--attention"),
        (["DATA", "--bits", "5"], "--bits"),
        (["DATA", "--encoder-lr", "0"], "--encoder-lr"),
        (["DATA", "--encoder-lr", "nan"], "--encoder-lr nan: give a learning rate"),
        (["DATA", "--encoder", "small"], "--encoder small has random weights .*--encoder-lr"),
        (["DATA", "--output", "MINE"], r"MINE is not a model, and its README\.md would be overwritten"),
        (["DATA", "--init-from", "beech"], "no model 'beech'"),
        (["DATA", "--output", "DATA/captions.csv"], "--output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_with_train(
    arguments: list[str], message: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data.rename("DATA")
    Path("EMPTY").mkdir()
    Path("MINE").mkdir()
    Path("MINE/README.md").write_text("mine", encoding="utf-8")
    given = ["train", *arguments]
    if "--attention" not in arguments:
        given += ["--attention", "hard"]
    if "--output" not in arguments:
        given += ["--output", "model"]
    line = refused(*given)
    assert re.search(message, line), line
    assert not Path("model").exists()
    assert [file.read_text(encoding="utf-8") for file in Path("MINE").iterdir()] == ["mine"]


def test_a_mistake_with_features_or_evaluate_is_one_line(data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no captions" in refused("features", tmp_path / "empty")
    assert "holds no captions" in refused("evaluate", "--model", model, "--data", tmp_path / "empty")
    assert "--data" in refused("evaluate", "--model", model)
    assert "has random weights until it is trained" in refused("analyze", "retrieval", data, "--encoder", "small")
    line = refused("analyze", "pointing", "--model", model, "--data", data, "--mosaics", 7)
    assert line == "sat: --mosaics: no mosaics are made of scenes: leave it out"
    assert "no model 'beech'" in refused("evaluate", "--model", "beech", "--data", data)
    (data / "images" / "photo15.png").write_bytes(b"no photo")
    line = refused("evaluate", "--model", model, "--data", data)
    assert "photo15.png" in line and "Replace these photos, or delete their captions" in line


# sat models


def test_models_lists_what_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_module, "SHIPPED", tmp_path / "shipped")
    assert "none" in sat("models").stdout or "no model" in sat("models").stdout
    model = small_checkpoint(small_encoder())
    model.scores = {
        "test": {
            **{f"bleu_{n}{kind}": 70.0 - n for n in range(1, 5) for kind in ("", "_no_brevity")},
            **{
                "meteor": 20.0,
                "rouge_l": 44.4,
                "cider": 55.5,
                "tokens": "split",
                "beam_size": 3,
                "attention_mode": "mean",
            },
        }
    }
    model.save(tmp_path / "shipped" / "alps")
    small_checkpoint(small_encoder(), attention="hard").save(tmp_path / "shipped" / "beach")
    lines = sat("models").stdout.splitlines()
    assert lines[0] == "alps: soft attention, trained on shapes" and "66.0" in "\n".join(lines)
    assert lines[-1] == "beach: hard attention, trained on shapes"


# Real processes and encoders


INTERRUPTED = """
import os, signal, sys

class Press:  # Ctrl-C at the first import of a module
    def find_spec(self, name, *rest):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                {then}

sys.meta_path.insert(0, Press())
from show_attend_tell.cli import main
from show_attend_tell.cli.caption import picture_names
main(["caption", sys.argv[2]], prog_name="sat")
"""
PHOTO = Path(__file__).parents[2] / "examples" / "dogs.jpg"


@pytest.mark.parametrize("then", ["raise", "pass"], ids=["heard", "lost"])
@pytest.mark.parametrize("module", ["click", "show_attend_tell.cli.training.train", "torch", "torch._C"])
def test_ctrl_c_at_start_up_is_one_line(module: str, then: str) -> None:
    """Also when the import that it interrupts loses the exception, as PyTorch's own may."""
    source = str(Path(checkpoint_module.__file__).parent.parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(then=then), module, PHOTO],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": source},
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sat: interrupted\n")


def in_a_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = "from show_attend_tell.cli import main; main(prog_name='sat')"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    source = str(Path(checkpoint_module.__file__).parent.parent.parent)
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, timeout=120)


def test_a_process_prints_json_alone_and_fails_in_one_line(tmp_path: Path, photos: Path) -> None:
    """With the shipped VGG-19 and a decoder of random weights."""
    encoder = load_encoder(resize="squash")
    small_checkpoint(encoder, annotation_size=512, annotation_norm="layer").save(tmp_path / "random")
    done = in_a_process("caption", photos / "photo0.png", "--model", tmp_path / "random", "--json", "-")
    assert done.returncode == 0 and done.stderr == ""
    (caption,) = json.loads(done.stdout)
    assert np.shape(caption["attention"])[1:] == (14, 14) and caption["settings"]["model"] == "random"
    failed = in_a_process("caption", tmp_path / "absent.jpg")
    assert failed.returncode == 1 and failed.stdout == ""
    assert failed.stderr == f"sat: {tmp_path / 'absent.jpg'}: no such photo, and no photo matches it as a pattern\n"


def test_a_backbone_of_transformers_by_its_folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(encoder_module, "load_encoder", load_encoder)
    monkeypatch.setattr(checkpoint_module, "load_encoder", load_encoder)
    config = {"embedding_size": 6, "hidden_sizes": [6, 10], "depths": [1, 1], "layer_type": "basic"}
    torch.manual_seed(0)
    transformers.ResNetModel(transformers.ResNetConfig(**config)).save_pretrained(tmp_path / "resnet")
    processor = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 48}, "crop_pct": 1.0}
    (tmp_path / "resnet" / "preprocessor_config.json").write_text(json.dumps(processor))
    common = ("--attention", "soft", "--epochs", 1, *SMALL, "--encoder", tmp_path / "resnet")
    sat("train", data, "--output", tmp_path / "model", *common)
    found = Checkpoint.load(tmp_path / "model").encoder
    assert found.grid == (6, 6) and isinstance(found.preprocessing, Preprocessing) and found.preprocessing.size == 48
    lines = sat("caption", data / "images", "--model", tmp_path / "model").stdout.splitlines()
    assert len(lines) == 17


def test_the_card_shows_the_scores(data: Path, model: Path) -> None:
    before = (model / "model.safetensors").read_bytes()
    arguments = ["evaluate", "--model", str(model), "--data", str(data), "--split", "val", "--card"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    scores = json.loads((model / "config.json").read_text(encoding="utf-8"))["scores"]["val"]
    assert scores["tokens"] == "split" and scores["captions"] > 0
    assert result.stderr == ""  # no bars where there is no terminal
    assert not {"results", "variety", "meteor_missing", "spice_missing"} & scores.keys()
    assert f"| {scores['bleu_1']:.1f} |" in (model / "README.md").read_text(encoding="utf-8")
    assert (model / "model.safetensors").read_bytes() == before
    other = data.rename(data.with_name("others"))
    sat(*arguments[:4], other, *arguments[5:])
    card = (model / "README.md").read_text(encoding="utf-8")
    assert f"| val, with brevity penalty | {scores['bleu_1']:.1f} |" in card and "| others, val, with brevity" in card
    assert "flickr8k-soft" in refused("evaluate", "--model", "flickr8k-soft", "--data", other, "--card")


def test_the_card_keeps_the_scores_of_other_data_of_the_same_name(data: Path, model: Path, tmp_path: Path) -> None:
    evaluate = ("evaluate", "--model", model, "--split", "val", "--card", "--data")
    sat(*evaluate, data)
    before = json.loads((model / "config.json").read_text(encoding="utf-8"))["scores"]
    other = tmp_path / "elsewhere" / data.name
    shutil.copytree(data, other)
    captions = (other / "captions.csv").read_text(encoding="utf-8")
    (other / "captions.csv").write_text(captions.replace("a ", "one "), encoding="utf-8")
    sat(*evaluate, other)
    after = json.loads((model / "config.json").read_text(encoding="utf-8"))["scores"]
    assert before.items() <= after.items() and set(after) - set(before) == {f"{other.resolve()}, val"}
    sat(*evaluate, data)
    assert json.loads((model / "config.json").read_text(encoding="utf-8"))["scores"] == after


def test_a_card_that_cannot_be_written_loses_no_scores(
    data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("evaluate", "--model", model, "--data", data, "--split", "val", "--card", "--json")

    def full(*_: Any) -> None:
        raise SatError("the disk is full")

    monkeypatch.setattr(Checkpoint, "describe", full)
    assert "the disk is full" in refused(*arguments, tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["split"] == "val"
    (model / "README.md").unlink()
    (model / "README.md").mkdir()
    assert "README.md is a folder" in refused(*arguments, tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def test_words_and_names_cannot_command_a_terminal(photos: Path, tmp_path: Path) -> None:
    checkpoint = small_checkpoint(small_encoder())
    words = [f"\x1b[2J\x07\u202e{word}" for word in checkpoint.vocabulary.words[2:]]
    checkpoint.vocabulary = Vocabulary(words)
    checkpoint.save(tmp_path / "evil")
    photo = (photos / "photo0.png").rename(photos / "\x1b]0;evil\x07.png")
    (photos / "bad\x1b[2J.png").write_text("no photo", encoding="utf-8")
    said = sat("caption", photo, "--model", tmp_path / "evil", "--num-captions", 2)
    assert "\\x1b[2J\\x07\\u202eword" in said.stdout and "\\x1b]0;evil\\x07.png" in said.stdout
    told = refused("caption", photos / "bad\x1b[2J.png", "--model", tmp_path / "evil")
    assert "bad\\x1b[2J.png" in told
    assert not any(sign in said.output + told for sign in "\x1b\x07\u202e")
