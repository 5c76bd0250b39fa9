"""The lock pins whatever the project can ask pip for, and the wheel holds what ships."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
LOCKED = {
    canonicalize_name(requirement.name): requirement
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines()
    if line and not line.startswith("#")
    for requirement in [Requirement(line)]
}
ASKED = [
    Requirement(line)
    for lines in [
        PROJECT["build-system"]["requires"],
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    ]
    for line in lines
    if not line.startswith("show-attend-tell")
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.name)
def test_the_lock_pins_a_version_that_pyproject_allows(asked):
    (pin,) = LOCKED[canonicalize_name(asked.name)].specifier
    assert pin.operator == "=="
    assert pin.version in asked.specifier


def test_the_lock_pins_what_the_requirements_require_in_turn():
    """Walks the installed packages, so it sees one platform; `uv` saw them all when it made the lock."""
    pending, seen = list(ASKED), set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        assert name in LOCKED, f"{name} is missing from requirements.lock"
        try:
            required = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here
        for line in required:
            further = Requirement(line)
            marker = further.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *requirement.extras}):
                pending.append(further)


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    """Weights are empty here: it is their names that count."""
    package, ships = CHECKOUT / "src" / "show_attend_tell", set()
    for file in package.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            ships.add(file.relative_to(package.parent).as_posix())
            copy = tmp_path / file.relative_to(CHECKOUT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".safetensors":
                copy.touch()
            else:
                shutil.copyfile(file, copy)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copyfile(CHECKOUT / name, tmp_path / name)
    for name in ("tests", "research", "benchmarks"):  # which a wheel must not take along
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    build = "import setuptools.build_meta as backend; print(backend.build_wheel('dist'))"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if ".dist-info/" not in name}
        (described,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        description = message_from_bytes(opened.read(described)).get_payload()
    assert held == ships
    assert {"show_attend_tell/checkpoint/models/flickr8k-soft/model.safetensors", "show_attend_tell/py.typed"} <= held
    assert_addresses_are_whole(str(description))


def assert_addresses_are_whole(description: str) -> None:
    """On the package index a relative address of a picture or a page leads nowhere."""
    addresses = re.findall(r"\]\(([^)]+)\)", description)
    addresses += re.findall(r'\b(?:src|srcset|href)="([^"]+)"', description)
    assert len(addresses) > 10
    assert [address for address in addresses if not address.startswith(("https://", "#"))] == []
