"""The demo's photos: small, each with its author and licence, and described as their credits say."""

import csv
import re

import pytest
from documents import ROOT, needs_models
from PIL import Image

from show_attend_tell import Captioner

FOLDER = ROOT / "examples"
CREDITS = (FOLDER / "CREDITS.md").read_text()
PHOTOS = sorted(FOLDER.rglob("*.jpg"))


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of a table of the credits by photo; the heading is that of the table's second column."""
    table = CREDITS[CREDITS.index(f"| photo | {heading} |") :].split("\n\n")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return {photo.strip().strip("`"): [cell.strip() for cell in rest] for photo, *rest in cells}


def test_every_photo_has_an_author_and_a_free_licence():
    credited = {photo: licence for photo, (_, licence, _) in rows("author").items()}
    credited |= {photo: licence for photo, (licence, _) in rows("licence").items()}
    assert sorted(credited) == [photo.relative_to(FOLDER).as_posix() for photo in PHOTOS]
    assert {re.sub(r"\[(.*)\]\(.*\)", r"\1", licence) for licence in credited.values()} <= {
        "CC0 1.0",
        "CC BY 2.0",
        "CC BY 4.0",
        "public domain",
    }


def test_the_photos_are_small_and_say_nothing_of_their_makers():
    assert len(PHOTOS) >= 8
    for photo in PHOTOS:
        assert photo.stat().st_size <= 240_000, photo.name
        with Image.open(photo) as image:
            assert 450 <= max(image.size) <= 640 and not image.getexif(), photo.name


@needs_models
@pytest.mark.acceptance
def test_the_default_model_says_what_the_credits_say():
    told = {photo: said for photo, (_, said, _) in rows("what it shows").items()}
    told |= {photo: said for photo, (said, _) in rows("`everyday-soft` says").items()}
    # in float32, which says the same on every processor; in bfloat16 the otter is "a brown dog" on some
    captions = Captioner.from_pretrained("everyday-soft", backend="onnx")(PHOTOS)
    assert {
        photo.relative_to(FOLDER).as_posix(): str(caption) for photo, caption in zip(PHOTOS, captions, strict=True)
    } == told


def test_the_readings_are_those_of_the_credits():
    with (FOLDER / "readings.csv").open(newline="") as file:
        read = {row["photo"]: [row["caption"], f"{row['reading']}: {row['note']}"] for row in csv.DictReader(file)}
    assert read == rows("`everyday-soft` says") and len(read) == 12
