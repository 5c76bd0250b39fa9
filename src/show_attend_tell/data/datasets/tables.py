"""Tables of captions: ``captions.csv``, ``.tsv``, ``.jsonl`` or ``.txt``, and ``metadata`` files of an imagefolder.

What is in them has any form of `data.caption_rows`. In a Hugging Face imagefolder, photos are named from the folder of
the ``metadata`` file, which is the data folder or the sub-folder of each split (``train``, ``val``, ``test``).
"""

from pathlib import Path, PurePosixPath

from show_attend_tell.data.caption_rows import Row, UnknownForm, caption_rows
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, shorten

SUFFIXES = (".csv", ".tsv", ".jsonl")


def read_table(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What a table in a folder lists, or Kaggle's results.csv; None where there is none, as ``passed_over`` is told."""
    for stem, suffixes in (("captions", SUFFIXES), ("captions", (".txt",)), ("results", (".csv",))):
        if (file := the_one(folder, stem, suffixes)) and (found := _listing(folder, folder, [file], passed_over)):
            return found
    return None


def read_imagefolder(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the ``metadata`` files of an imagefolder list; None where there are none. See `read_table`."""
    for root in (folder, folder / "data"):
        for files in ([the_one(root, "metadata")], _file_of_each_split(root)):
            there = [file for file in files if file is not None]
            if there and (found := _listing(folder, root, there, passed_over, imagefolder=True)):
                return found
    return None


def _file_of_each_split(root: Path) -> list[Path]:
    """The ``metadata`` file of each sub-folder that is named like a split."""
    subfolders = sorted(path for path in root.glob("*") if path.name.lower() in SPLIT_NAMES and path.is_dir())
    found = {subfolder: the_one(subfolder, "metadata") for subfolder in subfolders}
    files = [file for file in found.values() if file is not None]
    if files and (bare := [subfolder.name for subfolder, file in found.items() if file is None]):
        raise SatError(f"{root / bare[0]} has no metadata file, and other sub-folders have: add one, or move it away")
    if len({SPLIT_NAMES[file.parent.name.lower()] for file in files}) < len(files):
        names = first_three([file.parent.name for file in files])
        raise SatError(f"{root} has several sub-folders of one split: keep one of {names}")
    return files


def the_one(folder: Path, stem: str, suffixes: tuple[str, ...] = SUFFIXES) -> Path | None:
    """The table of that name in a folder, in large or small letters, if any; raises `SatError` for several."""
    names = [f"{stem}{suffix}" for suffix in suffixes]
    files = sorted(file for file in folder.glob("*") if file.name.lower() in names and file.is_file())
    if len(files) > 1 and len(files := [file for file in files if _is_table(file)]) > 1:
        raise SatError(f"{folder} holds {first_three([file.name for file in files])}; keep the one that is meant")
    return files[0] if files else None


def _is_table(file: Path) -> bool:
    """Whether the content of a file has one of the forms that are read, also where it is damaged further down."""
    try:
        next(caption_rows(file, []), None)
    except UnknownForm:
        return False
    return True


def _listing(
    folder: Path, root: Path, files: list[Path], passed_over: dict[str, str], *, imagefolder: bool = False
) -> CaptionFile | None:
    """What tables list; None where one is no table of captions, which ``passed_over`` is told."""
    notes: list[str] = []
    photos: list[PhotoEntry] = []
    inside: list[str] = []
    outside: list[str] = []
    for file in files:
        try:
            rows = list(caption_rows(file, notes))
        except UnknownForm as error:
            passed_over[files[0].name] = error.reason
            return None
        for row in rows:
            # One spelling per photo: "a.jpg" and "./a.jpg" are the same picture, maybe in two splits.
            path = PurePosixPath(file.parent.relative_to(root).as_posix(), row.photo.replace("\\", "/"))
            split = SPLIT_NAMES.get(path.parts[0].lower()) if imagefolder and path.parts else None
            if split is None or row.split is None:
                (outside if split is None and row.split is None else inside).append(row.photo)
                split = split or named_split(row)
            elif named_split(row) != split:
                raise SatError(
                    f"{row.where} has the split {row.split}, and {row.photo} is in {path.parts[0]}; a score would be "
                    "wrong: delete the column, or move the photos"
                )
            name = PurePosixPath(root.relative_to(folder).as_posix(), path).as_posix()
            captions = [(tuple(tokenize(caption)), caption) for caption in row.captions]
            photos.append(PhotoEntry(name, split, "", captions, where=row.where))
    if imagefolder and inside and outside:
        raise SatError(
            f"{files[0]}: some photos are in a sub-folder that is named like a split, and others are not "
            f"({first_three(outside)}): move them, or add a column split"
        )
    return CaptionFile(folder.resolve().name, files, photos, notes=notes)


def named_split(row: Row) -> str | None:
    """The split that a row names, None where the table has none; raises `SatError` for another word."""
    if row.split is None:
        return None
    split = SPLIT_NAMES.get(row.split.lower())
    if split is None:
        raise SatError(f"{row.where} has the split {shorten(row.split)}; use train, val, test")
    return split
