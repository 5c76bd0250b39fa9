"""`sat export`: an edited table for other programs."""

import csv
import json
from pathlib import Path

from commands import refused, sat
from reviewing import write_table as photos_and_table

from show_attend_tell.review.table import Decided, read_table, write_table
from show_attend_tell.show.sidecar import sidecar_of
from show_attend_tell.show.xmp import ALT_TEXT, Packet


def edited(folder: Path) -> Path:
    """A table of which two rows are reviewed, one is left out, and one is trusted."""
    table = photos_and_table(folder)
    found = read_table(table)
    for row, decided in zip(
        found.rows,
        (
            Decided("a blue dog", "edited", "the dog <Rex>"),
            Decided("two cats", "accepted in bulk", decorative="yes"),
            Decided("a bird", "left out", "a bird"),
            Decided("a fish", alt_text="a fish in a bowl"),  # whose caption nobody has reviewed
        ),
        strict=False,
    ):
        row.decided = decided
    write_table(table, found.columns, found.rows)
    return table


def test_each_form(tmp_path):
    table = edited(tmp_path)
    sat("export", table, "--format", "jsonl", "--output", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"photo": "a.png", "caption": "a blue dog", "reviewed": "edited"},
        {"photo": "b.png", "caption": "two cats", "reviewed": "accepted in bulk"},
    ]
    sat("export", table, "--format", "imagefolder", "--above", 0.7)
    metadata = [json.loads(line) for line in (tmp_path / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["file_name"] for record in metadata] == ["a.png", "b.png", "e.png"]
    coco = json.loads(sat("export", table, "--format", "coco", "--output", "-").stdout)
    assert [image["file_name"] for image in coco["images"]] == ["a.png", "b.png"]
    assert [annotation["caption"] for annotation in coco["annotations"]] == ["a blue dog", "two cats"]
    sat("export", table, "--format", "alt")
    with open(tmp_path / "alt.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["source", "alt"],
            ["a.png", "the dog <Rex>"],
            ["b.png", ""],
            ["d.png", "a fish in a bowl"],
        ]
    sat("export", table, "--format", "xmp")
    sidecar = sidecar_of(tmp_path / "a.png")
    assert "a blue dog" in sidecar.read_text(encoding="utf-8") and not Packet(sidecar.read_bytes())[ALT_TEXT]
    sat("export", table, "--format", "xmp", "--alt-text")
    for name, texts in (("a.png", ["the dog <Rex>"]), ("b.png", [])):
        assert Packet(sidecar_of(tmp_path / name).read_bytes())[ALT_TEXT] == texts
    assert not sidecar_of(tmp_path / "c.png").exists()
    sidecar.write_text(
        sidecar.read_text(encoding="utf-8").replace(">the dog &lt;Rex", ">my dog &lt;Rex", 1), encoding="utf-8"
    )
    sat("export", table, "--format", "xmp", "--alt-text")
    assert Packet(sidecar.read_bytes())[ALT_TEXT] == ["my dog <Rex>"]  # by another program


def test_what_is_refused(tmp_path):
    assert "no caption has been reviewed" in refused("export", photos_and_table(tmp_path), "--format", "jsonl")
    assert "nothing.csv" in refused("export", tmp_path / "nothing.csv", "--format", "jsonl")
    table = edited(tmp_path)
    (tmp_path / "sub").mkdir()
    elsewhere = tmp_path / "sub/metadata.jsonl"
    assert "a.png" in refused("export", table, "--format", "imagefolder", "--output", elsewhere)
    assert "overwritten" in refused("export", table, "--format", "alt", "--output", table)
    assert "leave --output out" in refused("export", table, "--format", "xmp", "--output", elsewhere)
    assert "not for jsonl" in refused("export", table, "--format", "jsonl", "--alt-text")
