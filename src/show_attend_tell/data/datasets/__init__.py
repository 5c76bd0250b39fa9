"""Photos, their captions and their splits, read from a folder or a file in the form in which people have them.

`read_listing` reads captions of every kind: those of a data folder, references, captions to score, and text corpora.
Of a folder it asks `READERS` one after the other, and a file of such a name with other content is passed over.
`read_dataset` finds the photos of a folder's listing, and splits them. Photos are looked for in `PHOTO_FOLDERS` below
the folder, then in the folder itself, and never outside of it.

The paper's data sets (Flickr8k, Flickr30k and COCO) are read as the paper reads them: with their own splits, and five
captions a photo. All other data are *custom data*: every caption counts and is cleaned (`cleaning`), photos without a
split get one at random (`splits`), and no photo, nor an exact copy of it, is in two splits, also of data that are
joined (`join`).
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from show_attend_tell.data.datasets.assembly import assemble
from show_attend_tell.data.datasets.cleaning import clean
from show_attend_tell.data.datasets.dataset import DataReport, Dataset, Example, NoCaptions
from show_attend_tell.data.datasets.files import read_file
from show_attend_tell.data.datasets.flickr import read_flickr
from show_attend_tell.data.datasets.folders import read_coco, read_imagefolder, read_karpathy, read_table
from show_attend_tell.data.datasets.habits import look_alike
from show_attend_tell.data.datasets.joined import join
from show_attend_tell.data.datasets.listing import CaptionFile, merged
from show_attend_tell.data.datasets.text_files import read_text_files
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three
from show_attend_tell.registries import Registry

# Each gives the listing of a folder, or None. It notes files without captions: by name, and why they have none.
READERS: Registry[Callable[[Path, dict[str, str]], CaptionFile | None]] = Registry(
    "a reader of data",
    "readers",
    {
        "karpathy": read_karpathy,
        "flickr": read_flickr,
        "coco": read_coco,
        "table": read_table,
        "imagefolder": read_imagefolder,
        "text-files": read_text_files,
    },
)
# In large or small letters, as the data sets come.
PHOTO_FOLDERS = ("images", "flickr30k_images", "flickr30k-images", "flicker8k_dataset")

__all__ = ["DataReport", "Dataset", "Example", "NoCaptions", "join", "read_dataset", "read_listing"]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Of the millions of small objects of a large file none is garbage; to look for it would double the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@no_garbage_collection()
def read_listing(source: Path, *, sentences: bool = False) -> CaptionFile:
    """What a folder or a file of captions lists, with captions put right and counted (`CaptionFile.notes`).

    ``sentences`` says whether a file of captions without their photos, one a line, is read, too. The captions of the
    paper's data sets stay as they are. Raises `NoCaptions` for a folder without captions, and `SatError` for a file in
    no form that is read and for a damaged one.
    """
    listing = _listing_of_folder(source) if source.is_dir() else read_file(source, sentences=sentences)
    if listing.custom:
        listing.notes += clean(listing.photos) + look_alike(listing.photos)
    return listing


def _listing_of_folder(folder: Path) -> CaptionFile:
    """What the first of the `READERS` that knows a folder's files finds in it."""
    passed_over: dict[str, str] = {}
    listing = next(filter(None, (read(folder, passed_over) for read in READERS.values())), None)
    if listing is None:
        reasons = "".join(f"; {why}" for why in passed_over.values())
        raise NoCaptions(
            f"{folder} holds no captions that can be read{reasons}; looked for dataset*.json (Karpathy's split file), "
            "Flickr8k.token.txt or results_20130124.token (there and in text/), captions_*.json (COCO's form, there "
            "and in annotations/), captions.csv, captions.tsv, captions.jsonl, captions.json or captions.txt, "
            "metadata.csv or metadata.jsonl (there and in train/, val/ and test/), flickr_annotations_30k.csv, "
            "results.csv, and a text file beside each photo (mug.txt for mug.jpg)"
        )
    for file in listing.sources:
        passed_over.pop(file.name, None)  # which another reader has read
    if passed_over:
        listing.notes.append(f"passed over, since no captions are in it: {first_three(passed_over)}")
    return listing


def read_dataset(folder: str | os.PathLike[str], *, restval: bool = False) -> Dataset:
    """Read the photos, captions and splits of a folder in any format of docs/reference/data.md.

    `restval` adds COCO's split of that name to train. Photos are found by name and not opened; only files of the same
    size are compared, to find copies. `Dataset.report` counts what is left out.

    Raises SatError for what would make a score wrong (a missing val or test photo, a photo in two splits), for a photo
    outside of the folder, for a damaged file (naming file and line), and for a folder with nothing recognized in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise SatError(f"{folder} is not a folder; give the folder that holds the captions and images/")
    listing = read_listing(folder)
    if listing.custom:
        listing.photos = merged(listing.photos)
    roots = [path for path in sorted(folder.iterdir()) if path.name.lower() in PHOTO_FOLDERS and path.is_dir()]
    return assemble(listing, folder, [*(roots or [folder / "images"]), folder], restval=restval)
