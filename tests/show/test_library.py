"""A library of 200 photos with all kinds of descriptions, made by exiftool: what is a person's stays, byte by byte."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from commands import sat
from documents import needs_models
from PIL import Image

from show_attend_tell.show.sidecar import summary

COPIES = 8
WORDS = "the harbour on our last evening"
# The suffix, exiftool's options (of the photo, or of the file that they name), and what is right. In a file's name,
# %f is the photo's name without its suffix.
KINDS = {
    "plain": ("jpg", [], "written"),
    "blank": ("jpg", [], "blank"),
    "small": ("png", [], "too small"),
    "xmp": ("jpg", [f"-XMP-dc:Description={WORDS}"], "described"),
    "exif": ("jpg", [f"-EXIF:ImageDescription={WORDS}"], "described"),
    "iptc": ("jpg", [f"-IPTC:Caption-Abstract={WORDS}"], "described"),
    "german": ("jpg", [f"-XMP-dc:Description-de={WORDS}"], "described"),
    "xmp-tiff": ("jpg", [f"-XMP-tiff:ImageDescription={WORDS}"], "described"),
    "png-xmp": ("png", [f"-XMP-dc:Description={WORDS}"], "described"),
    "png-exif": ("png", [f"-EXIF:ImageDescription={WORDS}"], "described"),
    "png-text": ("png", [f"-PNG:Description={WORDS}"], "described"),
    "webp-xmp": ("webp", [f"-XMP-dc:Description={WORDS}"], "described"),
    "tiff-exif": ("tif", [f"-EXIF:ImageDescription={WORDS}"], "described"),
    "tiff-iptc": ("tif", [f"-IPTC:Caption-Abstract={WORDS}"], "described"),
    "gif-xmp": ("gif", [f"-XMP-dc:Description={WORDS}"], "described"),
    "jp2-xmp": ("jp2", [f"-XMP-dc:Description={WORDS}"], "described"),
    "beside": ("jpg", [f"-XMP-dc:Description={WORDS}", "-o", "%d%f.xmp"], "described"),
    "beside-long": ("jpg", [f"-XMP-dc:Description={WORDS}", "-o", "%d%f.jpg.xmp"], "described"),
    "writer": ("jpg", ["-XMP-photoshop:CaptionWriter=Jo", "-o", "%d%f.jpg.xmp"], "described"),
    "camera": ("jpg", ["-EXIF:ImageDescription=OLYMPUS DIGITAL CAMERA"], "written"),
    "blanks": ("jpg", [f"-EXIF:ImageDescription={' ' * 31}", f"-XMP-dc:Description={' ' * 31}"], "written"),
    "rated": ("jpg", ["-XMP:Rating=4", "-XMP-dc:Subject=Minka"], "written"),
    "rated-beside": ("jpg", ["-XMP:Rating=4", "-XMP-dc:Subject=Minka", "-o", "%d%f.jpg.xmp"], "written"),
    "empty-beside": ("jpg", ["-XMP:Rating=4", "-XMP-dc:Description=  ", "-o", "%d%f.jpg.xmp"], "written"),
    "rated-short": ("jpg", ["-XMP:Rating=4", "-o", "%d%f.xmp"], "written"),
}


OTHERS = ("harbour.xmp", "notes.txt")  # which are of no photo
SAT = ("--output", "xmp", "--generation", "beam_size=1", "--generation", "rerank_weight=0")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def exiftool(*arguments: object) -> str:
    command = ["exiftool", "-q", "-m", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Eight photos of each kind, and other files."""
    random = np.random.default_rng(5)
    for kind, (suffix, options, _) in KINDS.items():
        for number in range(COPIES):
            side = 17 if kind == "small" else 37
            levels = random.integers(0, 256, (4, 3, 3), np.uint8)
            photo = Image.fromarray(levels if kind != "blank" else levels[:1, :1]).resize((53, side))
            photo.save(tmp_path / f"{kind}-{number}.{suffix}")
        if options:
            exiftool(*options, *([] if "-o" in options else ["-overwrite_original"]), *tmp_path.glob(f"{kind}-?.*"))
    for name in OTHERS:
        (tmp_path / name).write_text("mine")
    return tmp_path


@pytest.mark.acceptance
@needs_models
@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool (libimage-exiftool-perl) is not installed")
def test_the_command_describes_only_what_nobody_has_described(library):
    """What is a person's stays byte by byte, and what a program wrote is replaced on request alone."""
    right = {f"{kind}-{n}.{suffix}": outcome for kind, (suffix, _, outcome) in KINDS.items() for n in range(COPIES)}
    ours = {f"{name}.xmp" for name, outcome in right.items() if outcome == "written"}
    assert len(right) == 200

    def run(*options: str, instead: str) -> tuple[dict[str, bytes], set[str]]:
        """Caption the library: its files, and which of them are new or other than before."""
        before = contents(library)
        lines = sat("caption", library, *SAT, *options).stdout.splitlines()
        outcomes = Counter(instead if outcome == "written" else outcome for outcome in right.values())
        assert lines[-len(summary(outcomes)) :] == summary(outcomes)
        after = contents(library)
        assert before.keys() <= after.keys()
        return after, {name for name in after if after[name] != before.get(name)}

    first, changed = run(instead="written")
    assert changed == ours
    writers = exiftool("-T", "-CaptionWriter", *(library / name for name in ours))
    assert Counter(writers.splitlines()) == {"show-attend-tell everyday-soft": len(ours)}
    kept = exiftool("-T", "-Rating", "-Subject", *(library / f"rated-beside-{n}.jpg.xmp" for n in range(COPIES)))
    assert kept.splitlines() == ["4\tMinka"] * COPIES

    assert run(instead="captioned") == (first, set())
    exiftool("-XMP-dc:Description=ours", "-overwrite_original", library / "plain-0.jpg.xmp")  # a person edits one
    right["plain-0.jpg"] = "described"
    replace = ("--sidecar", "replace=own")
    _, changed = run("--model", "everyday-hard", *replace, instead="replaced")
    assert changed == ours - {"plain-0.jpg.xmp"}
    again, _ = run(*replace, instead="replaced")
    assert {name for name in again if again[name] != first[name]} == {"plain-0.jpg.xmp"}
