"""Captions that are wrong of the mirrored photo: they name a side, a direction of turning, or text that can be read."""

import re
import tomllib
from pathlib import Path

WORDS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))  # by language
WITHOUT_SPACES = ("chinese", "japanese", "thai")  # their words are found inside of others

_PARTS = "|".join(word for language in WITHOUT_SPACES for word in WORDS[language].split())
_WHOLE = "|".join(
    re.escape(word) for language, words in WORDS.items() if language not in WITHOUT_SPACES for word in words.split()
)
_SIDE = re.compile(rf"(?<!\w)(?:{_WHOLE})(?!\w)|{_PARTS}", re.IGNORECASE)


def side_words(text: str) -> list[str]:
    """The words of a caption that would be wrong of its mirrored photo, in lower case."""
    return [word.lower() for word in _SIDE.findall(text)]
