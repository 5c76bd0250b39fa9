"""What `sat caption` writes: the names of its outputs, and what must not be overwritten."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from show_attend_tell.errors import SatError
from show_attend_tell.files import STDIN, check_writable, make_folder
from show_attend_tell.show.outputs import OUTPUTS

TABLES = ("csv", "tsv", "jsonl", "parquet")
FILES = (*TABLES, "json", "html")


class Named(NamedTuple):
    """An output that ``--output`` names."""

    target: str  # a path; a text that begins with - for standard output; or xmp, for sidecars of photos
    form: str  # one of FILES, or - for lines, or xmp

    @property
    def piped(self) -> bool:
        """Whether it is standard output, which then gets nothing else."""
        return self.target.startswith("-")

    @property
    def is_table(self) -> bool:
        """Whether it is a file with a table, or a folder of its parts."""
        return self.form in TABLES

    @property
    def file(self) -> str | None:
        """Its file on this machine, if it is one."""
        elsewhere = self.piped or self.form == "xmp" or "://" in self.target or self.target.endswith("/")
        return None if elsewhere else self.target


def read_outputs(targets: Sequence[str]) -> list[Named]:
    """What ``--output`` names. Raises `SatError` for another ending, and for two that are standard output."""
    outputs = []
    for target in dict.fromkeys(targets):
        form = target if target in ("-", "xmp") else target.rstrip("/").rpartition(".")[2].lower()
        is_file = form in FILES and not target.startswith("-")
        if target not in ("-", "xmp") and not is_file and not OUTPUTS.get(form):
            endings = f"name a file that ends in .{', .'.join(FILES)}"
            raise SatError(f"--output {target}: {endings}; - is standard output, and xmp a sidecar of each photo")
        outputs.append(Named(target, form))
    piped = [output.target for output in outputs if output.piped]
    if len(piped) > 1:
        raise SatError(f"--output {' and '.join(piped)}: give one for standard output")
    return outputs


def check_pictures(pictures: Sequence[Path]) -> None:
    """Make the folder of the pictures; raises `SatError` where they would overwrite another file."""
    from show_attend_tell.show.pictures import is_signed

    make_folder(pictures[0].parent, "name another")
    for picture in pictures:
        check_writable(picture)
        if picture.is_file() and not is_signed(picture):
            raise SatError(f"{picture} exists already and was not drawn by this command: name another folder")


def picture_names(files: Sequence[str | Path], form: str) -> list[str]:
    """A name for each photo's picture: the photo's own, with a number where several would be alike."""
    names: dict[str, str] = {}  # by what a file system that ignores case tells apart
    alike: dict[str, int] = defaultdict(int)
    for file in map(Path, files):
        name = own = "stdin" if str(file) == STDIN else file.stem
        while name.casefold() in names:
            alike[own] += 1
            name = f"{own}-{alike[own] + 1}"
        names[name.casefold()] = name
    return [f"{name}.{form}" for name in names.values()]
