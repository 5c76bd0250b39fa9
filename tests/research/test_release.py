"""A release is written into all files by one command, and refused while something is missing."""

import re
import shutil
from pathlib import Path

import pytest
import release
from documents import ROOT

from show_attend_tell.errors import SatError

REPOSITORY = "https://code.example.org/somebody/captions"
HOME = "https://somebody.example.org/captions"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that a release changes, with a version that has no date yet."""
    for name in release.replacements("0", "", "", ""):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text("# Changes\n\n## 1.2.3 - unreleased\n\n- A change.\n", encoding="utf-8")
    return tmp_path


def test_one_command_writes_what_the_check_asks_for(folder):
    release.write("1.2.3", "2030-02-01", REPOSITORY, HOME, folder)
    assert list(release.problems(folder)) == [] and release.site(folder) == HOME
    citation = (folder / "CITATION.cff").read_text(encoding="utf-8")
    assert "version: 1.2.3\ndate-released: 2030-02-01\n" in citation and f'url: "{HOME}"' in citation
    assert "## 1.2.3 - 2030-02-01\n" in (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'SITE = "{HOME}"' in (folder / "src/show_attend_tell/messages.py").read_text(encoding="utf-8")


def test_addresses_of_nobody_are_refused():
    known = [name for name, address in release.urls().items() if release.is_known(address)]
    missing = [sentence for sentence in release.problems() if "is not known yet" in sentence]
    assert len(missing) == len(release.urls()) - len(known)
    assert not any(map(release.is_known, ("https://site.invalid/x", "http://example.org", "https://localhost/", "")))


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("pyproject.toml", REPOSITORY, "https://repository.invalid/captions"),
        ("CITATION.cff", "2030-02-01", "2030-02-02"),
        ("CHANGELOG.md", " - 2030-02-01", " - unreleased"),
        ("src/show_attend_tell/__init__.py", '"1.2.3"', '"1.2.2"'),
        ("src/show_attend_tell/messages.py", HOME, ""),
    ],
)
def test_each_file_that_says_something_else_is_named(file, before, after, folder):
    release.write("1.2.3", "2030-02-01", REPOSITORY, HOME, folder)
    text = (folder / file).read_text(encoding="utf-8")
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")
    assert any(sentence.startswith(f"{file}: ") for sentence in release.problems(folder))


def test_a_version_without_changes_is_not_written(folder):
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(SatError, match=re.escape("CHANGELOG.md")):
        release.write("9.9.9", "2030-02-01", REPOSITORY, HOME, folder)
    assert before == {file: file.read_bytes() for file in before}
