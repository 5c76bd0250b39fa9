"""The lock pins whatever the project can ask pip for."""

import tomllib
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
def test_the_lock_pins_a_version_that_pyproject_allows(asked: Requirement) -> None:
    (pin,) = LOCKED[canonicalize_name(asked.name)].specifier
    assert pin.operator == "=="
    assert pin.version in asked.specifier


def test_the_lock_pins_what_the_requirements_require_in_turn() -> None:
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
