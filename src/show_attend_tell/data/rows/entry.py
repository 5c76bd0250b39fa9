"""A photo with its captions, as a line or an object of a file has them."""

from collections.abc import Iterable
from dataclasses import dataclass

from show_attend_tell.data.tokenizers import KARPATHY

Words = tuple[str, ...]
WithWords = tuple[Words, str]  # a caption's words, and the caption as it is written


@dataclass(slots=True)
class PhotoEntry:
    """A photo as a file lists it: nothing checked yet but the form. Its path has slashes and begins with no ``./``."""

    name: str  # empty for a sentence without its photo
    split: str | None  # None: the file names none
    subfolder: str  # of the folders of photos, where it is looked for first
    captions: list[WithWords]
    number: str | None = None  # by which results files name it, where the file gives one
    where: str = ""  # the file and line, for messages; empty for those of the whole file
    error: str = ""  # why the file has no caption of it, where it says so

    def __post_init__(self) -> None:
        self.name = self.name.replace("\\", "/").removeprefix("./")
        self.subfolder = self.subfolder.replace("\\", "/")

    @property
    def called(self) -> str:
        """What messages call a photo, or a sentence without its photo."""
        return self.name or self.where


def with_words(texts: Iterable[str]) -> list[WithWords]:
    """Captions as they are written, each with its words."""
    return [(tuple(KARPATHY.words(text)), text.strip()) for text in texts]
