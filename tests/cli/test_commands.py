"""`sat train`, `evaluate`, `models` and others: what they print and write, and what mistakes cost."""

import errno
import json
import os
import re
import signal
from itertools import count
from pathlib import Path

import click
import pytest
from builders import shape_folder
from click.testing import CliRunner
from commands import read_json, refused, sat, settings

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.cli.command import Commands
from show_attend_tell.training.likelihood import MiniBatch
from show_attend_tell.training.trainer import Trainer

# a whole number where a float is wanted, and True as the configuration's JSON has it
GIVEN = {"averaging": 0, "decoder.gate": "true", "learning_rate": 0.01, "minimum_count": 1, "warmup": 0}
SMALL = settings(**GIVEN)
NO_WINDOW = ("--set", "decoder.annotation_window=1")  # the locations of the small encoder are no square


# sat train


def test_train_resume_evaluate_and_caption(data, photos, tmp_path):
    output = tmp_path / "model"
    train = ("train", data, "--attention", "soft", "--output", output, "--resize", "squash", "--epochs", 2, *SMALL)
    printed = sat(*train, "--resume").stdout  # there is none yet, so it begins
    assert printed.startswith("train: 10 photos, 10 captions") and "epoch 2: val BLEU-4" in printed
    assert f"sat evaluate --model {output} --data {data} --split test" in printed.splitlines()[-1]
    trained = Checkpoint.load(output)
    assert trained.training["preset"] == "flickr8k" and trained.training["settings"]["batch_size"] == 4
    assert trained.encoder.preprocessing.resize == "squash"
    assert "holds a model already" in refused(*train)
    resumed = sat(*train, "--resume").stdout  # finished, so there is nothing left to do
    assert "resumed after 2 epochs" in resumed and "epoch 3" not in resumed
    assert "had other settings or data (seed was 1, is 2)" in refused(*train, "--resume", "--seed", 2)

    assert len(sat("caption", photos, "--model", output).stdout.splitlines()) == 3

    pytest.importorskip("pycocoevalcap")
    evaluate, file = ("evaluate", "--model", output, "--data", data, "--beam-size", 1), tmp_path / "scores.json"
    printed = sat(*evaluate, "--json", file, "--attention").stdout
    assert printed.startswith("model on shapes test: 4 captions, ") and "CIDEr" in printed and "METEOR" in printed
    written = read_json(file)
    assert all(len(found["attention"]) == len(found["words"]) for found in written["results"])
    assert len([line for line in file.read_text().splitlines() if '"photo": ' in line]) == 4
    others = ("--rerank-weight", 0, "--generation", "seed=3", "--generation", "max_length=40")
    alone = json.loads(sat(*evaluate, *others, "--json", "-").stdout)
    made = ("beam_size", "split", "rerank_weight", "seed", "max_length")
    assert tuple(alone[name] for name in made) == (1, "test", 0, 3, 40)
    assert alone["cider"] == written["cider"] and len(alone["results"]) == 4
    assert "give --json FILE too" in refused(*evaluate, "--attention")
    assert "no split 'dev'" in refused(*evaluate, "--split", "dev")
    assert "absent is not a folder" in refused(*evaluate, "--json", tmp_path / "absent" / "s.json")


def test_an_interrupted_training_is_resumed_by_the_same_command(data, tmp_path, monkeypatch):
    train = ("train", data, "--output", tmp_path / "model", "--attention", "hard", "--epochs", 2, *SMALL, *NO_WINDOW)
    take, taken = Trainer.take, count(1)

    def interrupted(self: Trainer, batch: MiniBatch) -> None:
        if next(taken) == 5:
            signal.raise_signal(signal.SIGINT)
        take(self, batch)

    monkeypatch.setattr(Trainer, "take", interrupted)
    line = sat(*train, code=130).stderr.splitlines()[-1]
    assert line == "sat: interrupted. To go on from here: the same command with --resume"
    assert "--resume" in refused(*train)
    assert "resumed after 1 epoch and" in sat(*train, "--resume").stdout


def test_several_folders_are_trained_on_together(data, tmp_path):
    other = shape_folder(tmp_path / "others", train=4, val=2, test=0)
    train = ("train", data, other, "--attention", "soft", "--epochs", 1, "--resize", "squash", *SMALL)
    printed = sat(*train, "--output", tmp_path / "both", "--weight", 1, "--weight", 2.5, "--text-corpus", "none").stdout
    assert printed.startswith("train: 12 photos, 12 captions") and "others: train: 4 photos, 4 captions" in printed
    assert "shapes: left out: 2 photos whose exact copy is in another split" in printed  # train here, and val there
    trained = Checkpoint.load(tmp_path / "both").training
    assert trained["data"] == "shapes + others" and trained["weights"] == [1.0, 2.5]
    assert "weights: 1, data folders: 2" in refused(*train, "--output", tmp_path / "none", "--weight", 3)


def test_a_training_starts_from_a_model_and_its_tuned_encoder(data, tmp_path):
    train = ("train", data, "--epochs", 1, "--resize", "squash", *SMALL)
    sat(*train, "--attention", "soft", "--output", tmp_path / "soft", "--encoder-lr", 0.001)
    assert (tmp_path / "soft" / "encoder.safetensors").exists()
    assert len(sat("caption", data / "images" / "photo1.png", "--model", tmp_path / "soft").stdout.splitlines()) == 1
    hard = (*train, "--attention", "hard", *NO_WINDOW, "--init-from")
    sat(*hard, tmp_path / "soft", "--output", tmp_path / "tuned")
    assert Checkpoint.load(tmp_path / "tuned").encoder == Checkpoint.load(tmp_path / "soft").encoder
    assert (tmp_path / "tuned" / "encoder.safetensors").exists()
    sat(*train, "--attention", "soft", "--output", tmp_path / "frozen")
    sat(*hard, tmp_path / "frozen", "--output", tmp_path / "hard")
    assert Checkpoint.load(tmp_path / "hard").training["init_from"] == str(tmp_path / "frozen")
    assert not (tmp_path / "hard" / "encoder.safetensors").exists()


def test_photos_are_encoded_once_and_those_that_cannot_be_read_are_left_out(data, tmp_path):
    for number in (3, 11):  # of train and val
        (data / "images" / f"photo{number}.png").write_bytes(b"no photo %d" % number)
    train = ("train", data, "--attention", "soft", "--epochs", 1, *SMALL, "--set", "flipped=true", "--output")
    said = sat(*train, tmp_path / "model").stdout
    assert "left out: 2 of 13 photos cannot be read. First: " in said and "photo3.png: " in said
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    sat(*train, tmp_path / "again")
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*") if file.is_file()}


MISTAKES_WITH_TRAIN = [
    ("EMPTY", "holds no captions that can be read"),
    ("absent", "absent is not a folder"),
    ("DATA --preset imagenet", "no preset 'imagenet'"),
    ("DATA --set hidden_size=3", "give NAME=VALUE .*decoder.hidden_size"),
    ("DATA --set epochs=many", "--set epochs=many: epochs is 'many': give a whole number from 1"),
    ("DATA --set decoder.annotation_window=4", "annotation_window is 4: give an odd number"),
    ("DATA --attention soft --set minimum_count=999", "minimum_count"),
    ("DATA --set decoder.attention=hard", "--attention"),
    ("DATA --set decoder.vocabulary_size=9", "vocabulary_size"),
    ("DATA --seed 4294967296", "4294967296 is not in the range 0<=x<=4294967295"),
    ("DATA --attention soft --weight 0.001", "an epoch would show no caption: give a larger --weight"),
    ("DATA --weight 1e30", r"the weight of a data folder is 1e\+30: give a number above 0, up to 1000"),
    ("DATA --bits 5", "bits is '5': choose one of 32, 16, 8, 4"),
    ("DATA --encoder-lr nan", "encoder_lr is 'nan': give a number above 0"),
    ("DATA --output MINE", r"MINE is not a model, and its README\.md would be overwritten"),
    ("DATA --init-from beech", "no model 'beech'"),
    ("DATA --output DATA/captions.csv", "--output"),
    ("DATA --attention soft --output DATA/captions.csv/model", "captions.csv is not a folder"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES_WITH_TRAIN)
def test_mistakes_with_train(arguments, message, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.rename("DATA")
    for name in ("EMPTY", "MINE"):
        Path(name).mkdir()
    Path("MINE/README.md").write_text("mine")
    attention = [] if "--attention" in arguments else ["--attention", "hard"]
    line = refused("train", *arguments.split(), *attention, *([] if "--output" in arguments else ["--output", "model"]))
    assert re.search(message, line), line
    assert not Path("model").exists()
    assert "minimum_count" in message or not Path("cache").exists()  # no photo was encoded
    assert [file.read_text() for file in Path("MINE").iterdir()] == ["mine"]


# What commands do not write over, and what they cannot write


def test_what_cannot_be_written_is_named_before_the_work(photos, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = "x" * 300
    Path("captions.csv").touch()
    for command in (
        ("caption", photos, "--output", f"{long}.json"),
        ("caption", photos, "--output", f"{long}.html"),
        ("caption", photos, "--save-maps", long),
        ("caption", photos, "--save-maps", "captions.csv/pictures"),
        ("evaluate", "--data", data, "--json", f"{long}.json"),
    ):
        line = refused(*command, "--model", "absent", code=1)  # which would be named once the work began
        assert "cannot be" in line and "name another" in line, line
    assert not list(tmp_path.glob(".*")) and not list(tmp_path.glob("x*"))


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "somewhere"),
            1,
            "sat: somewhere cannot be read or written (Permission denied): fix that, or name another place",
        ),
        (ModuleNotFoundError("no torch", name="torch"), 1, "sat: sat work needs PyTorch: pip install "),
        (KeyboardInterrupt(), 130, "sat: interrupted"),
    ],
)
def test_other_errors_cost_one_line_too(error, code, line):
    def work() -> None:
        raise error

    result = CliRunner().invoke(Commands(commands=[click.Command("work", callback=work)]), ["work"])
    assert result.exit_code == code and result.stderr.startswith(line) and result.stderr.count("\n") == 1


# sat evaluate, sat models


def test_mistakes_with_other_commands(data, model, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "holds no captions" in refused("evaluate", "--model", model, "--data", tmp_path / "empty")
    assert "--data" in refused("evaluate", "--model", model)
    moved = {"analyze": "research/README.md", "tune": "examples/tune.py", "import-arctic": "research/import_arctic.py"}
    for command, where in moved.items():
        assert where in refused(command, "ablation", "--model", model, code=1)
    assert "captoin" in refused("captoin", "photo.jpg")
    for file in ("captions.csv", "images/photo1.png"):
        assert "is read by this command" in refused("check", data, "--json", data / file)
    assert "no model 'beech'" in refused("evaluate", "--model", "beech", "--data", data)
    (data / "images" / "photo15.png").write_bytes(b"no photo")
    line = refused("evaluate", "--model", model, "--data", data)
    assert "photo15.png" in line and "eplace these photos, or delete their captions" in line


def test_models_fit_a_screen_and_each_has_its_card():
    header, default, *others, last = sat("models").stdout.splitlines()
    assert header.split()[:2] == ["model", "size"] and re.match(r"everyday-soft +\d+\.\d MB", default)
    assert [line.split()[0] for line in others] == ["everyday-hard", "flickr8k-hard", "flickr8k-soft"]
    assert "everyday-soft is the default" in last
    assert all(len(line) <= 80 for line in (header, default, *others, last))
    assert sat("models", "flickr8k-hard").stdout.startswith("# flickr8k-hard\n")
    assert "no model 'beech'" in refused("models", "beech")
    assert "it has no config.json" in refused("models", ".")
