"""The description on the package index: README with whole addresses, since relative ones are not shown there.

Everything else about the package is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PICTURE = re.compile(r'(!\[[^\]]*\]\(|\b(?:src|srcset)=")(?![a-z]+:|#)([^)"]+)')
LINK = re.compile(r'((?<!!)\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\]\(|\bhref=")(?![a-z]+:|#)([^)"]+)')


def description() -> str:
    """README as it is at the version's tag."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository, tag = project["urls"]["Repository"], f"v{project['version']}"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = PICTURE.sub(rf"\g<1>{repository}/raw/{tag}/\g<2>", text)
    return LINK.sub(rf"\g<1>{repository}/blob/{tag}/\g<2>", text)


setup(long_description=description(), long_description_content_type="text/markdown")
