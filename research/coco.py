"""Make the folder of COCO that the everyday models learn from, out of COCO's own files.

    python research/coco.py coco-2014/ coco/

`coco-2014/` holds what https://cocodataset.org has for 2014: annotations/captions_train2014.json,
annotations/captions_val2014.json, and the photos in train2014/ and val2014/. `coco/` then has what
`make models COCO=coco/` reads:

- images/ID.jpg, the photos of coco-photos.csv, which also has their splits;
- captions.csv, at most five captions of each of them;
- captions_without_photos.txt.gz, the captions of all other photos, one in a line.

The shipped models learnt from a part of these: of the photos in squares of 256 pixels, from 10,197 captions of them,
and from 230,708 captions of 52,469 other photos.
"""

import csv
import gzip
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from stages import new_parser, reporting

from show_attend_tell.data.datasets.coco import coco_listing
from show_attend_tell.data.datasets.listing import PhotoEntry
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write, read_json
from show_attend_tell.messages import first_three

PHOTOS = Path(__file__).parent / "coco-photos.csv"
CAPTIONS = 5  # of a photo, at most


def splits(file: Path = PHOTOS) -> dict[int, str]:
    """The split of each photo that the everyday models know, by its COCO id."""
    with file.open(encoding="utf-8", newline="") as lines:
        return {int(Path(row["photo"]).stem): row["split"] for row in csv.DictReader(lines)}


def read_photos(downloaded: Path) -> dict[int, PhotoEntry]:
    """COCO's photos by their ids, with their captions; raises `SatError` where there are none, or for damaged files."""
    files = sorted((downloaded / "annotations").glob("captions_*.json"))
    if not files:
        raise SatError(f"{downloaded / 'annotations'} has no captions_*.json: give the folder of COCO's files")
    return {
        int(photo.number): photo
        for file in files
        for photo in coco_listing(file, read_json(file)).photos
        if photo.number and photo.number.isdigit()
    }


def make(downloaded: Path, output: Path, known: Mapping[int, str]) -> tuple[int, int, int]:
    """Write the folder; the numbers of photos, of their captions and of captions without photos.

    Raises `SatError` if captions or photos are missing, and then writes nothing.
    """
    photos = read_photos(downloaded)
    if unknown := [str(number) for number in known if number not in photos]:
        raise SatError(
            f"{downloaded / 'annotations'} does not list the photos {first_three(unknown)}: add COCO's other file"
        )
    files = {number: downloaded / photos[number].subfolder / photos[number].name for number in known}
    if missing := [str(file) for file in files.values() if not file.exists()]:
        raise SatError(
            f"these photos are not there: {first_three(missing)}; get them, or link their folder to that place"
        )
    rows = [
        (f"{number}.jpg", " ".join(raw.split()), split)  # lines of one cell would be captions of their own
        for number, split in known.items()
        for _, raw in photos[number].captions[:CAPTIONS]
    ]
    texts = [raw for number, photo in photos.items() if number not in known for _, raw in photo.captions]
    (output / "images").mkdir(parents=True, exist_ok=True)
    for number, file in files.items():
        atomic_write(output / "images" / f"{number}.jpg", partial(shutil.copyfile, file))
    atomic_write(output / "captions_without_photos.txt.gz", partial(write_lines, texts))
    atomic_write(output / "captions.csv", partial(write_table, rows))
    return len(files), len(rows), len(texts)


def write_lines(texts: Sequence[str], file: Path) -> None:
    """Write captions, one in a line, packed by gzip."""
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.writelines(f"{' '.join(text.split())}\n" for text in texts)


def write_table(rows: Sequence[tuple[str, str, str]], file: Path) -> None:
    """Write captions of photos, with their splits."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([("photo", "caption", "split"), *rows])


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Make the folder, and say what it holds."""
    parser = new_parser(__doc__)
    parser.add_argument("downloaded", type=Path, help="folder of COCO's files")
    parser.add_argument("output", type=Path, help="folder to make")
    options = parser.parse_args(given)
    photos, captions, texts = make(options.downloaded, options.output, splits())
    print(f"{options.output}: {photos:,} photos, {captions:,} captions of them, {texts:,} captions without photos")


if __name__ == "__main__":
    main()
