"""The exceptions that users are meant to see. A program reads their type and fields; a person reads their text.

They keep their fields when they are pickled, so they come back whole from worker processes.
"""


class SatError(Exception):
    """A mistake that the user can correct; its text is "subject: reason: remedy", as far as they are given."""

    def __init__(self, reason: str = "", *, subject: str | None = None, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.subject = subject  # what is wrong: a photo's path, a setting, a model
        self.reason = reason  # what is wrong with it
        self.remedy = remedy  # what to do

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.subject, self.why)))

    @property
    def why(self) -> str:
        """The reason and the remedy, for where the subject is known."""
        return ": ".join(filter(None, (self.reason, self.remedy)))


class InvalidValue(SatError, ValueError):
    """A value that an argument or a setting cannot have."""


class UnknownName(SatError, KeyError):
    """A name that nothing is registered under."""


class MissingFile(SatError, FileNotFoundError):
    """A file, folder or model that is not there."""


class MissingPackage(SatError, ImportError):
    """A package that is not installed, and that what was asked for needs."""


class PhotoError(SatError, OSError):
    """A photo that cannot be read: ``subject`` is its path, or what it is, ``reason`` says why."""


class MissingPhoto(PhotoError, MissingFile):
    """A photo's file that is not there."""
