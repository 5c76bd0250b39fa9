"""Photos, their captions and their splits, read from a folder in the form in which people have them.

`read_dataset(folder)` takes the first of these that the folder holds:

1. Karpathy's split file, `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json` or any other
   `dataset*.json` of that form: `{"dataset": NAME, "images": [{"filename", "split", "filepath" (COCO's
   subfolder, optional), "sentences": [{"tokens", "raw"}]}]}`. Its tokens are used as they are. COCO's split
   `restval` joins train only when asked for.
2. The authors' own Flickr files, in the folder or in `text/` below it: `Flickr8k.token.txt` with
   `Flickr_8k.trainImages.txt`, `Flickr_8k.devImages.txt` and `Flickr_8k.testImages.txt`, or
   `results_20130124.token` with the same three lists named `Flickr_30k.…`. A caption line is
   `PHOTO#NUMBER<tab>CAPTION`. "dev" is called val here.
3. COCO's captions, in the folder or in `annotations/`: `captions_train2014.json` and `captions_val2014.json`,
   either or both, which become the splits train and val.
4. Your own pictures: `captions.csv` with the header `photo,caption` or `photo,caption,split`, one row per
   caption, several rows per photo; splits are train, val and test. Without splits, photos are dealt to them
   90/5/5 by a hash of their names, so that a photo stays in its split when others are added.

Photos are looked for in `images/` below the folder, then in the folder itself; COCO's also in `train2014/`
and `val2014/` of both.
"""

import csv
import hashlib
import io
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from show_attend_tell.data.vocabulary import tokenise
from show_attend_tell.errors import SatError
from show_attend_tell.files import (
    count,
    list_of_objects,
    number_of,
    read_lines,
    read_object,
    read_text,
    shown,
    some,
    text_of,
)

SPLITS = ("train", "val", "test")
REFERENCES = 5  # captions kept per photo, as in the paper (sec. 5.1)
_SPLIT_NAMES = {**{name: name for name in SPLITS}, "dev": "val", "valid": "val", "validation": "val"}
_FLICKR = (
    ("flickr8k", "Flickr8k.token.txt", "Flickr_8k"),
    ("flickr30k", "results_20130124.token", "Flickr_30k"),
)
_FLICKR_LISTS = {"train": "trainImages", "val": "devImages", "test": "testImages"}
_COCO_FOLDERS = {"train": "train2014", "val": "val2014"}


class NoCaptions(SatError):
    """A folder in which there is no file of captions."""


@dataclass(frozen=True)
class Example:
    """One photo with its captions, at most five, as words and as they were written."""

    name: str  # the photo's file name (for your own pictures with their subfolder), unique in the data set
    photo: Path
    split: str
    captions: tuple[tuple[str, ...], ...]
    raw: tuple[str, ...]


@dataclass(frozen=True)
class DataReport:
    """What was read, and everything that was put right or left out on the way."""

    photos: dict[str, int]  # per split
    captions: dict[str, int]  # per split
    missing_photos: tuple[str, ...] = ()  # in train, left out; elsewhere a missing photo is refused
    duplicate_photos: tuple[str, ...] = ()  # listed again in the same split; the first listing counts
    captionless_photos: tuple[str, ...] = ()  # left out
    stray_photos: tuple[str, ...] = ()  # captions name them, no split does; left out
    stray_captions: int = 0
    empty_captions: int = 0  # left out
    duplicate_captions: int = 0  # the same words twice on one photo; kept, as others count them too
    extra_references: int = 0  # captions beyond five on one photo, left out
    other_splits: dict[str, int] = field(default_factory=dict)  # photos of splits that are not used, left out
    dealt: bool = False  # the splits were dealt by hash, because the file has none

    def lines(self) -> list[str]:
        """Give the report as lines of text, to be printed before training starts."""
        lines = [
            f"{split}: {count(self.photos[split], 'photo')}, {count(self.captions[split], 'caption')}"
            for split in self.photos
        ]
        if self.dealt:
            lines.append("the file names no splits: photos are dealt 90/5/5 to train, val, test by name")
        for split, photos in self.other_splits.items():
            lines.append(f"left out: {count(photos, 'photo')} of the split {split!r}")
        for names, what in (
            (self.missing_photos, "not found, in train"),
            (self.captionless_photos, "without a caption"),
            (self.duplicate_photos, "listed twice (the first listing is kept)"),
        ):
            if names:
                lines.append(f"left out: {count(len(names), 'photo')} {what}: {some(names)}")
        if self.stray_captions:
            lines.append(
                f"left out: {count(self.stray_captions, 'caption')} of "
                f"{count(len(self.stray_photos), 'photo')} in no split: {some(self.stray_photos)}"
            )
        if self.empty_captions:
            lines.append(f"left out: {count(self.empty_captions, 'caption')} without a word")
        if self.extra_references:
            lines.append(f"left out: {count(self.extra_references, 'caption')} beyond {REFERENCES} of a photo")
        if self.duplicate_captions:
            lines.append(f"kept: {count(self.duplicate_captions, 'caption')} that the same photo has twice")
        return lines


@dataclass(frozen=True)
class Dataset:
    """Photos with captions, in splits; `report` says what was counted and left out while reading."""

    name: str
    folder: Path
    examples: tuple[Example, ...]
    report: DataReport

    def split(self, name: str) -> tuple[Example, ...]:
        """Give the examples of one split in the file's order; raises SatError where there are none."""
        examples = tuple(example for example in self.examples if example.split == name)
        if not examples:
            known = ", ".join(split for split, photos in self.report.photos.items() if photos)
            chosen = (self.folder / "captions.csv").is_file()
            hint = " (a captions.csv chooses in a column named split)" if chosen else ""
            raise SatError(f"the data in {self.folder} has no split {name!r}; it has {known}{hint}")
        return examples


def read_dataset(
    folder: str | os.PathLike[str], *, restval: bool = False, images: str | os.PathLike[str] | None = None
) -> Dataset:
    """Read the photos, captions and splits of a folder in any of the forms that the module describes.

    `restval` adds COCO's split of that name to train, as many do and the paper did not; `images` is the
    folder of the photos where they are not below `folder`. Photos are found by name and not opened.

    A train photo that is missing, a photo listed twice or left without captions, an empty caption and
    captions beyond five are left out and counted in `Dataset.report`. Raises SatError for what would make a
    score wrong (a missing val or test photo, a photo in two splits), for a damaged file (naming file and
    place), and for a folder with nothing recognised in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise SatError(f"{folder} is not a folder; give the folder that holds the captions and images/")
    if images is not None and not Path(images).is_dir():
        raise SatError(f"{images} is not a folder; give the folder of the photos")
    listing = _read_karpathy(folder) or _read_flickr(folder) or _read_coco(folder) or _read_csv(folder)
    if listing is None:
        raise NoCaptions(
            f"{folder} holds no captions that can be read; looked for dataset*.json (Karpathy's split file), "
            "Flickr8k.token.txt or results_20130124.token (there and in text/), captions_train2014.json or "
            "captions_val2014.json (there and in annotations/), and captions.csv"
        )
    roots = [folder / "images", folder] if images is None else [Path(images)]
    return _assemble(listing, folder, roots, restval=restval)


# What every reader below makes of its files, and what `_assemble` makes of that.


@dataclass
class Listed:
    """A photo as a file lists it: nothing checked yet but the form."""

    name: str
    split: str
    subfolder: str  # of the folders of photos, where it is looked for first
    captions: list[tuple[tuple[str, ...], str]]  # (words, raw text)
    number: int | None = None  # by which results files name it, where the file gives one


@dataclass
class _Listing:
    name: str
    source: Path  # the file to name in messages
    photos: list[Listed]
    strays: Counter[str] = field(default_factory=Counter)  # captions per photo that is in no split
    dealt: bool = False


def _assemble(listing: _Listing, folder: Path, roots: list[Path], *, restval: bool) -> Dataset:
    """Check what a file lists, find its photos, and count what is left out."""
    examples: dict[str, Example] = {}
    found = _Photos(roots)
    duplicates: list[str] = []
    missing: dict[str, list[str]] = {split: [] for split in SPLITS}
    captionless: list[str] = []
    counts: Counter[str] = Counter()
    other_splits: Counter[str] = Counter()
    split_of: dict[str, str] = {}
    name_of: dict[Path, str] = {}
    for listed in listing.photos:
        split = "train" if restval and listed.split == "restval" else _SPLIT_NAMES.get(listed.split)
        if split is None:
            other_splits[listed.split] += 1
            continue
        if listed.name in split_of:
            if split_of[listed.name] != split:
                raise SatError(
                    f"{listing.source}: the photo {listed.name!r} is in two splits, {split_of[listed.name]} "
                    f"and {split}; a score would be wrong: take it out of one"
                )
            duplicates.append(listed.name)
            continue
        split_of[listed.name] = split

        spoken = [caption for caption in listed.captions if caption[0]]
        kept = spoken[:REFERENCES]
        counts["empty"] += len(listed.captions) - len(spoken)
        counts["extra"] += len(spoken) - len(kept)
        counts["duplicate"] += len(kept) - len({words for words, _ in kept})
        photo = found.find(listed)
        if not kept:
            captionless.append(listed.name)
        elif photo is None:
            missing[split].append(listed.name)
        else:
            if (other := name_of.setdefault(photo, listed.name)) != listed.name:
                raise SatError(
                    f"{listing.source}: {other!r} and {listed.name!r} are one photo, {photo}; a score would be wrong: "
                    "give it one name"
                )
            captions, raw = zip(*kept, strict=True)
            examples[listed.name] = Example(listed.name, photo, split, captions, raw)

    places = ", ".join(str(root) for root in roots)
    if not examples:
        splits = ", ".join(sorted({listed.split for listed in listing.photos}))
        raise SatError(
            f"{listing.source} lists {count(len(listing.photos), 'photo')}, and none can be used: {len(captionless)} "
            f"without a caption, {sum(map(len, missing.values()))} not found in {places}; their splits: "
            f"{splits or 'none'}"
        )
    for split in ("val", "test"):
        if missing[split]:
            raise SatError(
                f"{count(len(missing[split]), 'photo')} of the split {split} not found in {places}: "
                f"{some(missing[split])}; a score without them is not the split's: put them there"
            )
    photos = Counter(example.split for example in examples.values())
    captions_per_split: Counter[str] = Counter()
    for example in examples.values():
        captions_per_split[example.split] += len(example.captions)
    report = DataReport(
        photos={split: photos[split] for split in SPLITS},
        captions={split: captions_per_split[split] for split in SPLITS},
        missing_photos=tuple(missing["train"]),
        duplicate_photos=tuple(duplicates),
        captionless_photos=tuple(captionless),
        stray_photos=tuple(listing.strays),
        stray_captions=listing.strays.total(),
        empty_captions=counts["empty"],
        duplicate_captions=counts["duplicate"],
        extra_references=counts["extra"],
        other_splits=dict(other_splits),
        dealt=listing.dealt,
    )
    return Dataset(listing.name, folder, tuple(examples.values()), report)


class _Photos:
    """Finds photos by one listing of each folder: a query per photo takes minutes on a network disk."""

    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots
        self._files: dict[Path, frozenset[str]] = {}

    def find(self, listed: Listed) -> Path | None:
        for root in self._roots:
            for path in dict.fromkeys((root / listed.subfolder / listed.name, root / listed.name)):
                if path.name in self._list(path.parent):
                    return path
        return None

    def _list(self, folder: Path) -> frozenset[str]:
        if folder not in self._files:
            try:
                with os.scandir(folder) as entries:
                    self._files[folder] = frozenset(entry.name for entry in entries if entry.is_file())
            except OSError:
                self._files[folder] = frozenset()
        return self._files[folder]


# The readers, one per form; each gives None where its files are not there.


def _read_karpathy(folder: Path) -> _Listing | None:
    files = sorted(folder.glob("dataset*.json"))
    if not files:
        return None
    if len(files) > 1:
        raise SatError(f"{folder} holds {some([file.name for file in files])}; keep the one that is meant")
    photos, name = karpathy_photos(files[0])
    return _Listing(name, files[0], photos)


def karpathy_photos(file: Path) -> tuple[list[Listed], str]:
    """What one of Karpathy's split files lists, and the data set's name; raises `SatError` for a damaged file."""
    content = read_object(file)
    photos = []
    for index, image in enumerate(list_of_objects(content, "images", str(file))):
        where = f"{file}: images[{index}]"
        sentences = [
            _karpathy_caption(sentence, f"{where}.sentences[{number}]")
            for number, sentence in enumerate(list_of_objects(image, "sentences", where))
        ]
        subfolder = text_of(image, "filepath", where) if "filepath" in image else ""
        number = next((number_of(image, key, where) for key in ("cocoid", "imgid") if key in image), None)
        photo, split = text_of(image, "filename", where), text_of(image, "split", where)
        photos.append(Listed(photo, split, subfolder, sentences, number))
    name = content.get("dataset")
    if not isinstance(name, str) or not name:
        name = file.stem.removeprefix("dataset").lstrip("_") or file.resolve().parent.name
    return photos, name


def _karpathy_caption(sentence: dict[str, Any], where: str) -> tuple[tuple[str, ...], str]:
    tokens = sentence.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise SatError(f"{where}: 'tokens' must be a list of words, and is {shown(tokens)}")
    words = tuple(token for token in tokens if token.strip())
    return words, text_of(sentence, "raw", where) if "raw" in sentence else " ".join(words)


def _read_flickr(folder: Path) -> _Listing | None:
    for name, token_file, prefix in _FLICKR:
        for place in (folder, folder / "text"):
            if (place / token_file).is_file():
                return _read_flickr_files(name, place / token_file, prefix)
    return None


def _read_flickr_files(name: str, file: Path, prefix: str) -> _Listing:
    captions: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for number, line in enumerate(read_lines(file), start=1):
        key, tab, raw = line.partition("\t")
        photo, hash_sign, _ = key.rpartition("#")
        if not (tab and hash_sign and photo):
            raise SatError(f"{file}: line {number} must be PHOTO#NUMBER<tab>CAPTION, and is {shown(line)}")
        captions.setdefault(photo, []).append((tuple(tokenise(raw)), raw.strip()))
    lists = {split: file.with_name(f"{prefix}.{list_name}.txt") for split, list_name in _FLICKR_LISTS.items()}
    if not any(path.is_file() for path in lists.values()):
        raise SatError(
            f"{file} comes without its splits: put {some([path.name for path in lists.values()])} "
            f"beside it, or Karpathy's dataset_{name}.json into the data folder"
        )
    photos = [
        Listed(photo.strip(), split, "", captions.get(photo.strip(), []))
        for split, path in lists.items()
        if path.is_file()
        for photo in read_lines(path)
        if photo.strip()
    ]
    listed = {photo.name for photo in photos}
    strays = Counter({photo: len(texts) for photo, texts in captions.items() if photo not in listed})
    return _Listing(name, file, photos, strays)


def _read_coco(folder: Path) -> _Listing | None:
    for place in (folder, folder / "annotations"):
        files = {split: place / f"captions_{subfolder}.json" for split, subfolder in _COCO_FOLDERS.items()}
        files = {split: file for split, file in files.items() if file.is_file()}
        if files:
            break
    else:
        return None
    photos: list[Listed] = []
    strays: Counter[str] = Counter()
    for split, file in files.items():
        listed, without_photo = coco_photos(file, split)
        photos += listed
        strays += without_photo
    return _Listing("coco", next(iter(files.values())), photos, strays)


def coco_photos(file: Path, split: str = "") -> tuple[list[Listed], Counter[str]]:
    """What one of COCO's caption files lists, and the captions for each photo that it does not list; raises `SatError`
    for a damaged file."""
    content = read_object(file)
    photos: list[Listed] = []
    by_id: dict[int, Listed] = {}
    strays: Counter[str] = Counter()
    for index, image in enumerate(list_of_objects(content, "images", str(file))):
        where = f"{file}: images[{index}]"
        name, number = text_of(image, "file_name", where), number_of(image, "id", where)
        by_id[number] = Listed(name, split, _COCO_FOLDERS.get(split, ""), [], number)
        photos.append(by_id[number])
    for index, annotation in enumerate(list_of_objects(content, "annotations", str(file))):
        where = f"{file}: annotations[{index}]"
        raw, image_id = text_of(annotation, "caption", where), number_of(annotation, "image_id", where)
        if image_id in by_id:
            by_id[image_id].captions.append((tuple(tokenise(raw)), raw.strip()))
        else:
            strays[f"id {image_id}"] += 1
    return photos, strays


def _read_csv(folder: Path) -> _Listing | None:
    file = folder / "captions.csv"
    if not file.is_file():
        return None
    photos: dict[tuple[str, str], Listed] = {}
    reader = csv.reader(io.StringIO(read_text(file), newline=""), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if sorted(header) not in (["caption", "photo"], ["caption", "photo", "split"]):
            raise SatError(f"{file}: the first line must be photo,caption or photo,caption,split, and is {header}")
        for cells in reader:
            if not cells:
                continue
            row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            if len(cells) != len(header) or not row["photo"]:
                raise SatError(
                    f"{file}: line {reader.line_num} must have the cells {', '.join(header)} "
                    f"(a caption with a comma in quotes), and is {cells}"
                )
            # One spelling per photo: "a.jpg" and "./a.jpg" are the same picture, maybe in two splits.
            name = str(PurePosixPath(row["photo"].replace("\\", "/")))
            split = _SPLIT_NAMES.get(row["split"].lower()) if "split" in row else _deal(name)
            if split is None:
                raise SatError(
                    f"{file}: line {reader.line_num} has the split {row['split']!r}; use {', '.join(SPLITS)}"
                )
            listed = photos.setdefault((name, split), Listed(name, split, "", []))
            listed.captions.append((tuple(tokenise(row["caption"])), row["caption"]))
    except csv.Error as error:
        raise SatError(f"{file}: line {reader.line_num} is damaged: {error}") from error
    return _Listing(folder.resolve().name, file, list(photos.values()), dealt="split" not in header)


def _deal(name: str) -> str:
    """Deal a photo to train, val or test, 90/5/5, by its name alone."""
    number = int.from_bytes(hashlib.sha256(f"show-attend-tell {name}".encode()).digest()[:8]) % 100
    return "train" if number < 90 else "val" if number < 95 else "test"
