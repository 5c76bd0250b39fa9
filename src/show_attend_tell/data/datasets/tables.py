"""Tables of captions: ``captions.csv``, ``.tsv``, ``.jsonl``, ``.json`` or ``.txt``, and ``metadata`` files.

What is in them has any form of `data.rows`. In a Hugging Face imagefolder, photos are named from the folder of the
``metadata`` file, which is the data folder or the sub-folder of each split (``train``, ``val``, ``test``).
"""

from pathlib import Path, PurePosixPath

from show_attend_tell.data.datasets.files import is_caption_file, read_file
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, PhotoEntry, check_all_or_none, folder_split
from show_attend_tell.data.rows import UnknownForm
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, shorten

SUFFIXES = (".csv", ".tsv", ".jsonl")
NAMES = (  # of tables, with their suffixes: one's own, Flickr30k's on the Hugging Face hub, and Kaggle's
    ("captions", (*SUFFIXES, ".json")),
    ("captions", (".txt",)),
    ("flickr_annotations_30k", (".csv",)),
    ("results", (".csv",)),
)


def read_table(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What a table in a folder lists; None where there is none.

    A file of such a name that is no table of captions is noted in ``passed_over``.
    """
    for stem, suffixes in NAMES:
        file = the_one(folder, stem, suffixes)
        listing = _listing(folder, folder, [file], passed_over) if file else None
        if listing:
            return listing
    return None


def read_imagefolder(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the ``metadata`` files of an imagefolder list; None where there are none. See `read_table`."""
    for root in (folder, folder / "data"):
        for candidates in ([the_one(root, "metadata")], _file_of_each_split(root)):
            files = [file for file in candidates if file is not None]
            listing = _listing(folder, root, files, passed_over, imagefolder=True) if files else None
            if listing:
                return listing
    return None


def _file_of_each_split(root: Path) -> list[Path]:
    """The ``metadata`` file of each sub-folder that is named like a split."""
    subfolders = sorted(path for path in root.glob("*") if path.name.lower() in SPLIT_NAMES and path.is_dir())
    file_of = {subfolder: the_one(subfolder, "metadata") for subfolder in subfolders}
    files = [file for file in file_of.values() if file is not None]
    bare = [subfolder.name for subfolder, file in file_of.items() if file is None]
    if files and bare:
        raise SatError(f"{root / bare[0]} has no metadata file, and other sub-folders have: add one, or move it away")
    if len({SPLIT_NAMES[file.parent.name.lower()] for file in files}) < len(files):
        names = first_three([file.parent.name for file in files])
        raise SatError(f"{root} has several sub-folders of one split: keep one of {names}")
    return files


def the_one(folder: Path, stem: str, suffixes: tuple[str, ...] = SUFFIXES) -> Path | None:
    """The table of that name in a folder, in large or small letters, if any; raises `SatError` for several."""
    names = [f"{stem}{suffix}" for suffix in suffixes]
    files = sorted(file for file in folder.glob("*") if file.name.lower() in names and file.is_file())
    if len(files) > 1:
        files = [file for file in files if is_caption_file(file)]
    if len(files) > 1:
        raise SatError(f"{folder} holds {first_three([file.name for file in files])}; keep the one that is meant")
    return files[0] if files else None


def _listing(
    folder: Path, root: Path, files: list[Path], passed_over: dict[str, str], *, imagefolder: bool = False
) -> CaptionFile | None:
    """What tables list; None where one is no table of captions, and then ``passed_over`` gets its name and why."""
    notes: list[str] = []
    photos: list[PhotoEntry] = []
    inside: list[str] = []
    outside: list[str] = []
    for file in files:
        try:
            listing = read_file(file)
        except UnknownForm as error:
            passed_over[files[0].name] = error.reason
            return None
        notes += listing.notes
        for photo in listing.photos:
            # One spelling per photo: "a.jpg" and "./a.jpg" are the same picture, maybe in two splits.
            path = PurePosixPath(file.parent.relative_to(root).as_posix(), photo.name).as_posix()
            of_folder = folder_split(path) if imagefolder else None
            (inside if of_folder or photo.split is not None else outside).append(photo.name)
            photo.split = _split_of(photo, of_folder, path)
            photo.name = PurePosixPath(root.relative_to(folder).as_posix(), path).as_posix()
            photos.append(photo)
    if imagefolder:
        check_all_or_none(files[0], inside, outside)
    return CaptionFile(folder.resolve().name, files, photos, notes=notes)


def _split_of(photo: PhotoEntry, of_folder: str | None, path: str) -> str | None:
    """The split that a row or its photo's folder names, None where neither does; raises `SatError` for another word."""
    if photo.split is None:
        return of_folder
    split = SPLIT_NAMES.get(photo.split.lower())
    if split is None:
        raise SatError(f"{photo.where} has the split {shorten(photo.split)}; use train, val, test")
    if of_folder not in (None, split):
        raise SatError(
            f"{photo.where} has the split {photo.split}, and {photo.name} is in {path.partition('/')[0]}; a score "
            "would be wrong: delete the column, or move the photos"
        )
    return split
