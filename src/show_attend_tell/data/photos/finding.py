"""Finding photos: which files the arguments of a command stand for."""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from show_attend_tell.errors import MissingPhoto, SatError
from show_attend_tell.messages import plural

SUFFIXES = tuple(
    ".jpg .jpeg .jpe .jfif .mpo .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .jp2 .avif .heic .heif .hif".split()
)
SIDECAR = ".xmp"  # such a file says something of a photo, and nobody expects a caption of it
QUOTES = "put quotes around a name with spaces"  # which a shell cuts into several
NAMED = 3  # files that were left out are named, at most


def counts_as_photo(name: str) -> bool:
    """Whether a file that is found, and not named, counts as a photo: by its suffix, unless it is hidden."""
    hidden = any(part.startswith(".") and part.strip(".") for part in name.replace("\\", "/").split("/"))
    return not hidden and name.lower().endswith(SUFFIXES)


def leaves_folder(name: str) -> bool:
    """Whether a relative path would leave the folder that it is relative to; none has a character of value 0."""
    parts = name.replace("\\", "/")
    return parts.startswith("/") or ".." in parts.split("/") or "://" in name or name[1:2] == ":" or "\0" in name


@dataclass
class Found:
    """The photos that arguments of a command stand for, and how much was left out."""

    photos: list[Path] = field(default_factory=list)  # each once, in the order given
    files: int = 0  # files in folders that are not photos by their suffix
    folders: int = 0  # subfolders that were not searched
    names: list[str] = field(default_factory=list)  # of the first such files

    @property
    def skipped(self) -> str:
        """What was left out, in words: "2 files and 1 subfolder"; empty when it was nothing."""
        counts = {"file": self.files, "subfolder": self.folders}
        return " and ".join(plural(number, thing) for thing, number in counts.items() if number)

    @property
    def note(self) -> str:
        """What was left out, as a note to the user; empty when it was nothing."""
        if not self.skipped:
            return ""
        hint = " (--recursive reads subfolders)" if self.folders else ""
        more = f" and {self.files - NAMED} more" if self.names and self.files > NAMED else ""
        named = f": {', '.join(self.names)}{more}" if self.names else ""
        return f"note: {self.skipped} skipped{hint}{named}"

    def add(self, entries: Iterable[Path], recursive: bool) -> None:
        """Add the photos among files and folders; what is left out is counted."""
        for entry in sorted(entries):
            if entry.name.startswith("."):
                continue
            if entry.is_dir() and recursive and not entry.is_symlink():
                self.add(_inside(entry), recursive)
            elif entry.is_dir():
                self.folders += 1
            elif counts_as_photo(entry.name) and entry.is_file():
                self.photos.append(entry)
            else:
                gone = "" if entry.exists() else ", a link to a file that does not exist"
                self.leave_out(entry.name + gone)

    def leave_out(self, name: str) -> None:
        """Count a file that is no photo, and keep its name if it is one of the first. Sidecars are not counted."""
        if not name.lower().endswith(SIDECAR):
            self.files += 1
            self.names = [*self.names, name][:NAMED]


def find_photos(arguments: Sequence[str], *, recursive: bool | None = False) -> Found:
    """Return the photos that files, folders and globs stand for.

    A folder stands for the photos in it by their suffix, sorted, with ``recursive`` also in its subfolders, and a glob
    for its matches. Hidden names are left out, and links to folders are not followed. A file that is named is taken
    whatever its suffix. Raises `SatError` for an argument without any photo, and for a folder that cannot be read;
    ``recursive`` is None for a command without that option.
    """
    everything = Found()
    for argument in arguments:
        path = Path(os.path.expanduser(argument))  # Path's own raises an error where ~ names no user
        here = Found()
        if os.path.isdir(path):
            here.add(_inside(path), bool(recursive))
        elif os.path.exists(path) or os.path.islink(path):  # `open_photo` says of a link that it leads nowhere
            here.photos.append(path)
        else:
            here.add(map(Path, glob.glob(str(path))), bool(recursive))
        if not here.photos and os.path.isdir(path):
            skipped = f"; {here.skipped} skipped" if here.skipped else ""
            if here.folders and recursive is not None:
                skipped += ", --recursive reads subfolders"
            raise SatError(f"{argument}: no photo in this folder (photos end in {' '.join(SUFFIXES)}){skipped}")
        if not here.photos:
            remedy = QUOTES if len(arguments) > 1 else None
            raise MissingPhoto("no such photo, and no photo matches it as a pattern", subject=argument, remedy=remedy)
        everything.photos += here.photos
        everything.files += here.files
        everything.folders += here.folders
        everything.names = [*everything.names, *here.names][:NAMED]
    everything.photos = list(dict.fromkeys(everything.photos))
    return everything


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise SatError(f"{folder}: the folder cannot be read ({error.strerror})") from None
