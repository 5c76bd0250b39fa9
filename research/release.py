"""What a release needs in several files, written by one command and checked before anything is published.

    python research/release.py 0.1.0 --repository https://github.com/OWNER/NAME --site https://OWNER.github.io/NAME
    python research/release.py --check

The first writes the version, today's date and the two addresses into pyproject.toml, CITATION.cff, CHANGELOG.md and the
package; the addresses need to be given once only. The second is `make release-check`: it fails while one is missing.

Until the addresses are known they end in `.invalid`, a name that belongs to nobody (RFC 2606).
"""

import datetime
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stages import new_parser, reporting

from show_attend_tell.errors import SatError

ROOT = Path(__file__).parent.parent
PACKAGE = "src/show_attend_tell"
RELEASED = r"^## {version} - (\d{{4}}-\d\d-\d\d)$"  # of CHANGELOG.md


def urls(folder: Path = ROOT) -> dict[str, str]:
    """The addresses of the project by their names."""
    found: dict[str, str] = described(folder)["urls"]
    return found


def site(folder: Path = ROOT) -> str | None:
    """The address of the documentation, without a slash at its end; None while it is not known."""
    address = urls(folder)["Documentation"]
    return address if is_known(address) else None


def described(folder: Path) -> dict[str, Any]:
    """The table [project] of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def is_known(address: str) -> bool:
    """Whether an address is of a host that can exist."""
    parts = urlsplit(address)
    return parts.scheme == "https" and "." in parts.netloc and not parts.netloc.endswith(".invalid")


def replacements(version: str, date: str, repository: str, home: str) -> dict[str, list[tuple[str, str]]]:
    """By file, the patterns of the lines that a release writes, and the lines."""
    return {
        "pyproject.toml": [
            (r'^version = ".*"$', f'version = "{version}"'),
            (r'^Repository = ".*"$', f'Repository = "{repository}"'),
            (r'^Documentation = ".*"$', f'Documentation = "{home}"'),
            (r'^Issues = ".*"$', f'Issues = "{repository}/issues"'),
            (r'^Changelog = ".*"$', f'Changelog = "{repository}/blob/main/CHANGELOG.md"'),
        ],
        "CITATION.cff": [
            (r"^version: .*$", f"version: {version}"),
            (r"^date-released: .*$", f"date-released: {date}"),
            (r"^url: .*$", f'url: "{home}"'),
            (r"^repository-code: .*$", f'repository-code: "{repository}"'),
        ],
        "CHANGELOG.md": [(rf"^## {re.escape(version)} - .*$", f"## {version} - {date}")],
        f"{PACKAGE}/__init__.py": [(r'^__version__ = ".*"$', f'__version__ = "{version}"')],
        f"{PACKAGE}/messages.py": [(r'^SITE = ".*?"', f'SITE = "{home if is_known(home) else ""}"')],
    }


def write(version: str, date: str, repository: str, home: str, folder: Path = ROOT) -> None:
    """Write a release into its files; raises `SatError` for a file that has no such line, and then writes none."""
    texts = {}
    for name, lines in replacements(version, date, repository, home).items():
        text = (folder / name).read_text(encoding="utf-8")
        for pattern, line in lines:
            text, count = re.subn(pattern, line, text, flags=re.MULTILINE)
            if count != 1:
                raise SatError(f"{name} has {count} lines like {pattern}: it needs one")
        texts[folder / name] = text
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")


def problems(folder: Path = ROOT) -> Iterator[str]:
    """What keeps the project from being released, a sentence each."""
    project = described(folder)
    version, addresses = project["version"], project["urls"]
    for name, address in addresses.items():
        if not is_known(address):
            yield f"pyproject.toml: the address of {name} is not known yet ({address})"
    text = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    date = re.search(RELEASED.format(version=re.escape(version)), text, re.MULTILINE)
    if date is None:
        yield f"CHANGELOG.md: {version} has no date"
    expected = replacements(version, date[1] if date else "DATE", addresses["Repository"], addresses["Documentation"])
    for name, lines in expected.items():
        text = (folder / name).read_text(encoding="utf-8")
        for _, line in lines:
            if date is None and "DATE" in line:
                continue
            if not re.search(rf"^{re.escape(line)}", text, re.MULTILINE):
                yield f"{name}: it has no line {line}"


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Write a release into its files, or check it."""
    parser = new_parser(__doc__)
    parser.add_argument("version", nargs="?", help="number of the version")
    parser.add_argument("--repository", help="address of the repository")
    parser.add_argument("--site", help="address of the documentation's site")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where something is missing")
    options = parser.parse_args(given)
    if options.check:
        if sentences := list(problems()):
            sys.exit("\n".join([*sentences, "python research/release.py --help says how they are written"]))
        return
    if options.version is None:
        raise SatError("there is no version: give its number, or --check")
    known = urls()
    repository, home = (options.repository or known["Repository"]), (options.site or known["Documentation"])
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    write(options.version, date, repository.rstrip("/"), home.rstrip("/"))


if __name__ == "__main__":
    main()
