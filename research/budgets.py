"""How large the project may be, checked by `make test`: lines of Python and documentation, patches, options.

What grows past its limit is to be written once, or left out. The limits of lines are today's numbers, so that nothing
grows back. Exits with 1 when a limit is exceeded.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from show_attend_tell.cli.caption import caption

ROOT = Path(__file__).parent.parent
PATCHES = re.compile(r"\.(?:setattr|delattr|setitem|delitem)\(|\bmock\.patch|\bpatch\.(?:object|dict)\(")


FOLDERS = ("src", "tests", "research", "docs", "examples", "web")  # with Python, all but benchmarks


def files(*folders: str, suffix: str = ".py") -> Sequence[Path]:
    """The files of some folders of the project, Python by default, without those of other projects."""
    found = [file for folder in folders for file in sorted((ROOT / folder).rglob(f"*{suffix}"))]
    return [file for file in found if "node_modules" not in file.parts]


def lines(*folders: str, suffix: str = ".py") -> int:
    """How many lines some folders of the project have, in Python by default."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files(*folders, suffix=suffix))


def patches() -> int:
    """How often the tests put something else in the place of an attribute or an entry."""
    return sum(len(PATCHES.findall(file.read_text(encoding="utf-8"))) for file in files("tests"))


def documentation(*documents: Path) -> int:
    """How many lines of Markdown are written by hand: without the tables that are made of kept evaluations."""
    texts = [
        re.sub(r"<!-- table .*?<!-- end of table -->", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        for file in documents
    ]
    return sum(len(text.splitlines()) for text in texts)


def options(command: click.Command) -> int:
    """How many options a command has, hidden ones and --help included."""
    return sum(isinstance(each, click.Option) for each in command.get_params(click.Context(command)))


def main() -> None:
    """Print what is counted with its limit."""
    counted = {
        "lines of src": (lines("src"), 20_500),
        "lines of tests": (lines("tests"), 18_210),
        "lines of Python but benchmarks": (lines(*FOLDERS), 46_500),
        "lines of web/src": (lines("web/src", suffix=".ts"), 1_900),
        "lines of README": (len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 130),
        "lines of docs": (documentation(*(ROOT / "docs").rglob("*.md")), 2_000),
        "patches in tests": (patches(), 60),
        "options of sat caption": (options(caption), 17),
    }
    for name, (number, limit) in counted.items():
        print(f"{name}: {number:,} of {limit:,}{' — too many' if number > limit else ''}")
    if any(number > limit for number, limit in counted.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
