"""A library of 200 photos with all kinds of descriptions, made by exiftool: what is a person's stays, byte by byte."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from show_attend_tell.show.sidecar import SidecarSettings, write_sidecar

COPIES = 8
WORDS = "the harbour on our last evening"
# The suffix, exiftool's options (of the photo, or of the file that they name), and what is right. In a file's name,
# %f is the photo's name without its suffix.
KINDS: dict[str, tuple[str, list[str], str]] = {
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


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def exiftool(*arguments: str) -> str:
    done = subprocess.run(["exiftool", "-q", "-m", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool (libimage-exiftool-perl) is not installed")
def test_of_a_library_only_what_has_no_description_gets_a_caption(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    right: dict[str, str] = {}
    for kind, (suffix, options, outcome) in KINDS.items():
        for number in range(COPIES):
            name = f"{kind}-{number}.{suffix}"
            side = 17 if kind == "small" else 37
            levels = generator.integers(0, 256, (4, 3, 3), np.uint8)
            photo = Image.fromarray(levels if kind != "blank" else levels[:1, :1]).resize((53, side))
            photo.save(tmp_path / name)
            right[name] = outcome
        if options:
            exiftool(
                *options, *([] if "-o" in options else ["-overwrite_original"]), *map(str, tmp_path.glob(f"{kind}-?.*"))
            )
    before = contents(tmp_path)

    def run(text: str, replace: str = "none") -> dict[str, str]:
        options = SidecarSettings(replace=replace)  # type: ignore[arg-type]
        return {name: write_sidecar(tmp_path / name, text, model="everyday-soft", options=options) for name in right}

    assert len(right) == 200 and run("two dogs on a beach") == right
    after = contents(tmp_path)
    written = {f"{name}.xmp" for name, outcome in right.items() if outcome == "written"}
    assert {name for name in after if after[name] != before.get(name)} == written
    seen = exiftool("-m", "-T", "-Description", "-CaptionWriter", *(str(tmp_path / name) for name in sorted(written)))
    assert Counter(seen.splitlines()) == {"two dogs on a beach\tshow-attend-tell everyday-soft": len(written)}
    kept = exiftool("-T", "-Rating", "-Subject", *(str(tmp_path / f"rated-beside-{n}.jpg.xmp") for n in range(COPIES)))
    assert kept.splitlines() == ["4\tMinka"] * COPIES

    assert Counter(run("a cat").values()) == Counter(
        "captioned" if outcome == "written" else outcome for outcome in right.values()
    )
    assert contents(tmp_path) == after
    run("a cat", "own")
    last = contents(tmp_path)
    assert {name for name in last if last[name] != after[name]} == written
    run("two dogs on a beach", "own")
    assert contents(tmp_path) == after
