"""`sat caption` and `sat encode` with ``--output``: the same captions and annotations, in shards."""

import base64
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import small_checkpoint, small_encoder
from click.testing import CliRunner
from commands import refused, sat

from show_attend_tell.captioner import Captioner
from show_attend_tell.cli import main
from show_attend_tell.cli.shards.works import Captioning
from show_attend_tell.data.photos import open_photo


def lines_of(output: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in sorted(output.glob("part-*")) for line in file.read_text().splitlines()]


def test_captions_are_those_that_the_command_prints(tmp_path: Path, photos: Path, model: Path) -> None:
    search = ("--model", model, "--beam-size", 2, "--device", "cpu")
    made = tmp_path / "captions.json"
    sat("caption", photos, *search, "--json", made)
    expected = json.loads(made.read_text())
    (photos / "damaged.png").write_bytes((photos / "photo0.png").read_bytes()[:60])
    output = tmp_path / "captions.jsonl"
    (photos / "more").mkdir()
    command = ("caption", photos, *search, "--output", output, "--shard-size", 3)
    done = CliRunner().invoke(main, list(map(str, command)))
    note = "note: 1 file and 1 subfolder skipped (--recursive reads subfolders)"
    failures = f"sat: 1 photo failed: see {tmp_path / 'captions-quarantine.jsonl'}\n"
    assert done.exit_code == 1 and done.stdout.startswith(f"{note}\n4 photos in 2 shards")
    assert "photos a second with 1 worker" in done.stdout and done.stderr.endswith(failures)
    names = ("source", "caption", "log_probability", "complete", "doubt")
    found = lines_of(output)
    assert [list(row) for row in found] == [list(names)] * 3
    for row, entry in zip(found, expected, strict=True):
        assert row["log_probability"] == pytest.approx(entry["log_probability"], abs=1e-4)
        assert all(row[name] == entry[name] for name in names if name != "log_probability")
    (bad,) = lines_of(tmp_path / "captions-quarantine.jsonl")
    assert bad["source"] == str(photos / "damaged.png") and str(bad["reason"]).startswith("damaged")
    done = CliRunner().invoke(main, list(map(str, command)))
    assert done.exit_code == 1 and done.stderr.endswith(failures)
    assert done.stdout.splitlines() == [
        note,
        f"{output} has 2 of 2 shards already",
        f"{output} is complete: there is nothing left to do",
    ]
    other = ("--model", model, "--beam-size", 3)
    assert "begun with other settings" in refused("caption", photos, *other, "--output", output, "--shard-size", 3)


def test_captions_of_another_encoder_are_another_output_also_of_an_imported_model(tmp_path: Path) -> None:
    settings = []
    for seed in (0, 1):
        checkpoint = small_checkpoint(small_encoder())
        checkpoint.encoder = dataclasses.replace(checkpoint.encoder, digest=None)  # as an imported model has it
        work = Captioning(model="imported", device="cpu", encoder_weights="vgg19.pth", search={}, seed=0)
        vars(work)["captioner"] = Captioner(checkpoint, small_encoder(seed=seed), name="imported")
        settings.append(work.settings())
    assert settings[0] != settings[1]


def test_features_are_those_that_the_encoder_gives(tmp_path: Path, photos: Path) -> None:
    output = tmp_path / "features.jsonl"
    sat("encode", photos, "--resize", "squash", "--output", output, "--device", "cpu")
    encoder = small_encoder()
    pixels = [encoder.preprocessing(open_photo(photos / f"photo{number}.png")) for number in range(3)]
    expected = encoder.annotate(torch.stack(pixels)).half().numpy()
    shape = json.loads((output / "_plan.json").read_text())["work"]["shape"]
    for row, annotations in zip(lines_of(output), expected, strict=True):
        found = np.frombuffer(base64.b64decode(str(row["annotations"])), "<f2").reshape(shape)
        assert np.array_equal(found, annotations)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("caption", "--workers", 2), "--workers is for a stream of photos: add --output"),
        (("caption", "--output", "x.jsonl", "--num-captions", 2), "leave out --json, --html"),
        (("caption", "--output", "x.txt"), "ends in .parquet or .jsonl"),
        (("features", "--output", "x.jsonl", "--flipped"), "leave out --flipped"),
        (("features", "--recursive"), "add --output"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused(
    arguments: tuple[str, ...], why: str, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    more = ("--model", model) if command == "caption" else ()
    assert why in refused(command, photos, *more, *options)
