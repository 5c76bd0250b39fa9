"""How large the project may be, checked by `make test`: lines of Python and documentation, patches, options.

What grows past its limit is to be written once, or left out. The limits of lines are today's numbers, so that nothing
grows back; the goals are 20,500 (src), 20,000 (tests) and 25,500 (src and research), and each step lowers a limit.
Exits with 1 when a limit is exceeded.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from show_attend_tell.cli.caption import caption

ROOT = Path(__file__).parent.parent
PATCHES = re.compile(r"\.(?:setattr|delattr|setitem|delitem)\(|\bmock\.patch|\bpatch\.(?:object|dict)\(")


def files(*folders: str) -> Sequence[Path]:
    """The Python files of some folders of the project."""
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def lines(*folders: str) -> int:
    """How many lines of Python some folders of the project have."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files(*folders))


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
        "lines of src": (lines("src"), 23_838),
        "lines of tests": (lines("tests"), 22_455),
        "lines of src and research": (lines("src", "research"), 28_288),
        "lines of README": (len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 130),
        "lines of docs": (documentation(*(ROOT / "docs").rglob("*.md")), 1_900),
        "patches in tests": (patches(), 60),
        "options of sat caption": (options(caption), 17),
    }
    for name, (number, limit) in counted.items():
        print(f"{name}: {number:,} of {limit:,}{' — too many' if number > limit else ''}")
    if any(number > limit for number, limit in counted.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
