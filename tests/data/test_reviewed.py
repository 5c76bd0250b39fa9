"""A table of `sat review` teaches what people wrote or edited, and never what nobody reviewed."""

import json
from pathlib import Path

import pytest
from PIL import Image

from show_attend_tell.data.datasets import read_dataset

REVIEWS = ("written", "edited", "accepted", "accepted in bulk", "left out", "")
NAMES = [f"sub/{number}.png" for number in range(12)]


def write(folder: Path, form: str, column: str, before: str = "") -> None:
    """Photos with a table of their captions, of which the first and the seventh judge."""
    (folder / "sub").mkdir()
    rows = []
    for number, name in enumerate(NAMES):
        Image.new("RGB", (7, 5), (20 * number, 3, 5)).save(folder / name)
        split = "val" if number % 6 == 0 else "train"
        rows.append({"source": before + name, "caption": f"a photo of {number} things", column: REVIEWS[number % 6]})
        rows[-1]["split"] = split
    if form == "jsonl":
        lines = [json.dumps(row) for row in rows]
    else:
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (folder / f"captions.{form}").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("called_in", ["the folder", "the folder above"])
def test_only_what_people_wrote_teaches(tmp_path: Path, form: str, called_in: str) -> None:
    before = f"{tmp_path.name}/" if called_in == "the folder above" else ""  # how sat caption spells a photo
    write(tmp_path, form, "reviewed", before)
    dataset = read_dataset(tmp_path)
    splits = {example.name: example.split for example in dataset.examples}
    written = {NAMES[0]: "val", NAMES[1]: "train", NAMES[6]: "val", NAMES[7]: "train"}
    assert splits == {before + name: split for name, split in written.items()}
    assert len(dataset.report.captionless_photos) == 8
    assert any("8 captions" in note and "reviewed" in note for note in dataset.report.notes)


def test_another_column_of_such_words_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, "csv", "kind of review")
    assert len(read_dataset(tmp_path).examples) == 12
