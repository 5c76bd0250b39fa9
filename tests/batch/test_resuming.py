"""What `sat caption` goes on with: tables, JSON Lines, folders of parts and sidecars."""

import csv
from pathlib import Path

import pytest
from builders import shape_photo, shape_scenes
from commands import refused, sat
from shades import rows_of

GREEDY = "--generation beam_size=1 --generation rerank_weight=0 --engine local".split()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with three photos in p/."""
    monkeypatch.chdir(tmp_path)
    Path("p").mkdir()
    for number, scene in enumerate(shape_scenes(3)):
        shape_photo(*scene).save(f"p/{number}.png")
    return tmp_path


def test_a_table_goes_on_and_keeps_what_a_person_wrote(desk):
    command = ("caption", "p", "--output", "t.csv", *GREEDY)
    Path("p/1.png").write_bytes(b"broken")
    assert "1 photo could not be read" in refused(*command, code=1)
    rows = rows_of(Path("t.csv"))
    assert [row["source"] for row in rows] == ["p/0.png", "p/1.png", "p/2.png"]
    for row, caption in zip(rows, ("mine", "mine too", rows[2]["caption"]), strict=True):
        row |= {"caption": caption, "rating": "5"}
    with Path("t.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    for name, scene in zip(("p/0.png", "p/2.png", "p/3.png"), shape_scenes(6)[3:], strict=True):
        shape_photo(*scene).save(name)  # two that have changed, and a new one
    assert sat(*command).stdout.splitlines()[-1] == "t.csv has 4 photos: 2 new"
    again = {row["source"]: row for row in rows_of(Path("t.csv"))}
    assert [again[f"p/{number}.png"]["caption"] for number in (0, 1)] == ["mine", "mine too"]
    assert [again[f"p/{number}.png"]["rating"] for number in range(4)] == ["5", "5", "5", None]
    assert again["p/2.png"]["file_version"] != rows[2]["file_version"]
    assert sat(*command).stdout.splitlines()[-1] == "t.csv has 4 photos: 0 new"
    other = (*command, "--generation", "length_penalty=0.25")
    assert "begun with other model or settings: name another output, or give --overwrite" in refused(*other)
    shape_photo(*shape_scenes(7)[6]).save("p/1.png")
    for new in (4, 0):  # the same command resumes, with --overwrite too
        assert f"4 photos: {new} new" in sat(*other, "--overwrite").stdout
    assert "mine too" in Path("t-1.csv").read_text() and "mine" not in Path("t.csv").read_text()
    unquoted = Path("t.csv").read_text().replace(again["p/2.png"]["caption"], "a dog, a cat")
    Path("t.csv").write_text(unquoted)  # a comma outside of quotes would move the other cells
    assert "t.csv is damaged (too many cells: p/" in refused(*other) and Path("t.csv").read_text() == unquoted
    alone = ("caption", "p/0.png", "--output", "t.csv", *GREEDY[:4])
    assert "rows of a run with other photos or settings" in refused(*alone)
    Path("notes.csv").write_text("my notes")
    assert "not made by a run" in refused("caption", "p", "--output", "notes.csv", *GREEDY)
    assert Path("notes.csv").read_text() == "my notes"


def test_sidecars_and_tables_are_filled_together(desk):
    both = ("caption", "p", "--output", "t.jsonl", "--output", "xmp", *GREEDY)
    assert sat("caption", "p/0.png", "--output", "xmp", *GREEDY[:4]).stdout.splitlines()[-1].startswith("1 sidecar ")
    lines = sat(*both).stdout.splitlines()
    assert lines == ["t.jsonl has 3 photos: 3 new", "2 sidecars written beside the photos", lines[-1]]
    texts = {row["source"]: row["caption"] for row in rows_of(Path("t.jsonl"))}
    assert all(text in Path(f"{name}.xmp").read_text() for name, text in texts.items())
    Path("p/1.png.xmp").unlink()
    Path("p/2.png.xmp").write_text("<x/>")
    done = sat(*both, code=1)
    assert "p/2.png.xmp: cannot be read" in done.stderr
    assert "1 sidecar written" in done.stdout and "t.jsonl has 3 photos: 0 new" in done.stdout
    assert texts["p/1.png"] in Path("p/1.png.xmp").read_text()


def test_one_photo_leaves_no_manifest_and_a_page_has_the_same_sources(desk):
    sat("caption", "./p/0.png", "--output", "one.csv", *GREEDY[:4])
    sat("caption", "p/", "--output", "all.csv", "--output", "all.json", *GREEDY[:4])
    assert [row["source"] for row in rows_of(Path("all.csv"))] == [f"p/{number}.png" for number in range(3)]
    assert '"source": "p/0.png"' in Path("all.json").read_text()
    assert rows_of(Path("one.csv"))[0]["caption"] == rows_of(Path("all.csv"))[0]["caption"]
    assert not [file.name for file in desk.iterdir() if file.name.startswith(".")]


def test_caption_batch_names_the_new_command():
    assert "sat caption takes the same photos" in refused("caption-batch", "p", "--output", "t.csv")
