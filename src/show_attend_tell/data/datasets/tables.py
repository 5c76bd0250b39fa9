"""Tables of captions: ``captions.csv``, ``.tsv``, ``.jsonl``, ``.json`` or ``.txt``, and ``metadata`` files.

What is in them has any form of `data.rows`. In a Hugging Face imagefolder, photos are named from the folder of the
``metadata`` file, which is the data folder or the sub-folder of each split (``train``, ``val``, ``test``).
"""

from pathlib import Path, PurePosixPath

from show_attend_tell.data.datasets.files import read_file
from show_attend_tell.data.datasets.listing import SPLIT_NAMES, CaptionFile, check_one, settle_splits
from show_attend_tell.data.rows import UnknownForm
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three

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
    tables = (_the_one(folder, stem, suffixes, passed_over) for stem, suffixes in NAMES)
    table = next(filter(None, tables), None)
    if table:
        table.name = folder.resolve().name
        for photo in table.photos:
            photo.name = _plain(photo.name)
        settle_splits(table.photos, table.sources[0])
    return table


def read_imagefolder(folder: Path, passed_over: dict[str, str]) -> CaptionFile | None:
    """What the ``metadata`` files of an imagefolder list; None where there are none. See `read_table`."""
    for root in (folder, folder / "data"):
        table = _the_one(root, "metadata", SUFFIXES, passed_over)
        tables = [table] if table else _table_of_each_split(root, passed_over)
        if tables:
            whole = CaptionFile(folder.resolve().name, [table.sources[0] for table in tables], [])
            for table in tables:
                beginning = table.sources[0].parent.relative_to(folder).as_posix()
                for photo in table.photos:
                    photo.name = _plain(beginning, photo.name)
                whole.photos += table.photos
                whole.notes += table.notes
            settle_splits(whole.photos, whole.sources[0], "" if root == folder else f"{root.name}/")
            return whole
    return None


def _plain(*names: str) -> str:
    """One spelling for a photo: "a.jpg" and "./a.jpg" are the same picture, maybe in two splits."""
    return PurePosixPath(*names).as_posix()


def _table_of_each_split(root: Path, passed_over: dict[str, str]) -> list[CaptionFile]:
    """The ``metadata`` of each sub-folder that is named like a split."""
    subfolders = sorted(path for path in root.glob("*") if path.name.lower() in SPLIT_NAMES and path.is_dir())
    table_of = {subfolder.name: _the_one(subfolder, "metadata", SUFFIXES, passed_over) for subfolder in subfolders}
    tables = [table for table in table_of.values() if table]
    bare = [name for name, table in table_of.items() if not table]
    if tables and bare:
        raise SatError(f"{root / bare[0]} has no metadata file, and other sub-folders have: add one, or move it away")
    if len({SPLIT_NAMES[name.lower()] for name in table_of}) < len(tables):
        raise SatError(f"{root} has several sub-folders of one split: keep one of {first_three(table_of)}")
    return tables


def _the_one(folder: Path, stem: str, suffixes: tuple[str, ...], passed_over: dict[str, str]) -> CaptionFile | None:
    """The table of captions of that name in a folder, in large or small letters, if any.

    Raises `SatError` for several; another file of such a name is noted in ``passed_over``.
    """
    names = [f"{stem}{suffix}" for suffix in suffixes]
    tables = []
    for file in sorted(file for file in folder.glob("*") if file.name.lower() in names and file.is_file()):
        try:
            tables.append(read_file(file))
        except UnknownForm as error:
            passed_over[file.name] = error.reason
    check_one(table.sources[0] for table in tables)
    return tables[0] if tables else None
