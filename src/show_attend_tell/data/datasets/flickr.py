"""The authors' own Flickr files.

They are in the folder or in ``text/`` below it: ``Flickr8k.token.txt`` with ``Flickr_8k.trainImages.txt``,
``Flickr_8k.devImages.txt`` and ``Flickr_8k.testImages.txt``, or ``results_20130124.token`` with the same three lists
named ``Flickr_30k.…``. A caption line is ``PHOTO#NUMBER<tab>CAPTION``. "dev" is called val here.
"""

from collections import Counter
from pathlib import Path

from show_attend_tell.data.datasets.files import read_file
from show_attend_tell.data.datasets.listing import CaptionFile, PhotoEntry
from show_attend_tell.data.rows.entry import WithWords
from show_attend_tell.data.rows.text import decoded
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three

FILES = (("flickr8k", "Flickr8k.token.txt", "Flickr_8k"), ("flickr30k", "results_20130124.token", "Flickr_30k"))
LISTS = {"train": "trainImages", "val": "devImages", "test": "testImages"}


def read_flickr(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the Flickr files in a folder list; None where there are none."""
    for name, token_file, prefix in FILES:
        for root in (folder, folder / "text"):
            if (root / token_file).is_file():
                return _read_files(name, root / token_file, prefix)
    return None


def _read_files(name: str, file: Path, prefix: str) -> CaptionFile:
    captions: dict[str, list[WithWords]] = {}
    for photo in read_file(file).photos:
        captions.setdefault(photo.name, []).extend(photo.captions)
    paths = {split: file.with_name(f"{prefix}.{list_name}.txt") for split, list_name in LISTS.items()}
    lists = {split: path for split, path in paths.items() if path.is_file()}
    if not lists:
        raise SatError(
            f"{file} comes without its splits: put {first_three([path.name for path in paths.values()])} "
            f"beside it, or Karpathy's dataset_{name}.json into the data folder"
        )
    photos = [
        PhotoEntry(line.strip(), split, "", captions.get(line.strip(), []))
        for split, path in lists.items()
        for line in decoded(path, []).split("\n")
        if line.strip()
    ]
    listed = {photo.name for photo in photos}
    strays = Counter({name: len(texts) for name, texts in captions.items() if name not in listed})
    return CaptionFile(name, [file, *lists.values()], photos, strays, custom=False)
