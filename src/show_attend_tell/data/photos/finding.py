"""Which files of a folder are photos, and what else is in it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

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


def photos_in(folder: Path) -> list[Path]:
    """The photos in a folder and its subfolders, by their suffixes, sorted.

    Hidden names are left out, and links to folders are not followed.
    """
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sorted(file for file in files if counts_as_photo(str(file.relative_to(folder))) and file.is_file())


@dataclass
class LeftOut:
    """What else is in folders of photos, counted."""

    files: int = 0  # that are not photos by their suffix
    folders: int = 0  # subfolders that were not searched
    names: list[str] = field(default_factory=list)  # of the first such files

    @property
    def note(self) -> str:
        """What was left out, as a note to the user; empty when it was nothing."""
        counts = {"file": self.files, "subfolder": self.folders}
        skipped = " and ".join(plural(number, thing) for thing, number in counts.items() if number)
        if not skipped:
            return ""
        hint = " (--recursive reads subfolders)" if self.folders else ""
        more = f" and {self.files - NAMED} more" if self.files > NAMED else ""
        named = f": {', '.join(self.names)}{more}" if self.names else ""
        return f"note: {skipped} skipped{hint}{named}"

    def add(self, name: str) -> None:
        """Count a file that is no photo, and keep its name if it is one of the first. Sidecars are not counted."""
        if not name.lower().endswith(SIDECAR):
            self.files += 1
            self.names = [*self.names, name][:NAMED]
