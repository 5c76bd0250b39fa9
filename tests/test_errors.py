"""Errors: built-in exceptions too, with fields instead of prose to parse, and the same after pickling."""

import pickle

import pytest

from show_attend_tell import errors
from show_attend_tell.errors import InvalidValue, MissingFile, MissingPackage, MissingPhoto, PhotoError
from show_attend_tell.messages import install_command

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


def test_an_error_is_also_the_one_that_a_program_expects():
    pairs = {InvalidValue: ValueError, MissingFile: FileNotFoundError, MissingPackage: ImportError, PhotoError: OSError}
    for kind, builtin in [*pairs.items(), (MissingPhoto, FileNotFoundError), (MissingPhoto, PhotoError)]:
        assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "why"),
        ({"subject": "a.jpg"}, "a.jpg: why"),
        ({"remedy": "do this"}, "why: do this"),
        ({"subject": "a.jpg", "remedy": "do this"}, "a.jpg: why: do this"),
    ],
)
def test_an_error_keeps_its_fields_when_it_is_pickled(kind, fields, text):
    error = pickle.loads(pickle.dumps(kind("why", **fields)))  # as it comes back from another process
    assert type(error) is kind and str(error) == text and error.args == ("why",)
    assert (error.subject, error.reason, error.remedy) == (fields.get("subject"), "why", fields.get("remedy"))


def test_an_extra_is_installed_from_the_folder_and_after_a_release():
    assert all(
        source in install_command("torch") for source in ("pip install -e '.[torch]'", "'show-attend-tell[torch]'")
    )
