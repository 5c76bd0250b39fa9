"""Settings: what is taken, what is refused, and in which words."""

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest

from show_attend_tell.errors import SatError
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import Amount, Count, CountOrNone, Rate, Share, ShareBelowOne, read_setting, settings


@pytest.mark.parametrize(
    ("name", "guess"), [("num_beams", "beam_size"), ("max_new_tokens", "max_length"), ("bean_size", "beam_size")]
)
def test_a_name_of_another_program_or_a_slip_is_answered(name, guess):
    with pytest.raises(SatError, match=rf"there is no setting {name}: did you mean {guess}\?"):
        GenerationConfig(**{name: 3})


@settings
class Example:
    """One setting of each kind."""

    count: Count = 3
    count_or_none: CountOrNone = 0
    amount: Amount = 1.5
    rate: Rate = 1e-3
    share: Share = 0.5
    dropout: ShareBelowOne = 0.0
    number: float | None = None
    flag: bool = False
    depth: Literal[1, 2] = 1
    kind: Literal["soft", "hard"] = "soft"


BELOW_ONE = "give a number from 0 up to but not including 1"


@pytest.mark.parametrize(
    ("name", "value", "text", "remedy"),
    [
        ("count", 0, "0", "give a whole number from 1"),
        ("count", 2.5, "2.5", "give a whole number from 1"),
        ("count", True, "true", "give a whole number from 1"),
        ("count", "3", "", "give a whole number from 1"),
        ("count_or_none", -1, "-1", "give a whole number from 0"),
        ("amount", -0.5, "-0.5", "give a number from 0 to 1000000"),
        ("amount", math.inf, "inf", "give a number from 0 to 1000000"),
        ("rate", 0, "0", "give a number above 0 and up to 1000000"),
        ("share", 1.5, "1.5", "give a number from 0 to 1"),
        ("dropout", 1, "1", BELOW_ONE),
        ("dropout", math.nan, "nan", BELOW_ONE),
        ("number", "often", "often", "give a number or none"),
        ("flag", 1, "maybe", "give true or false"),
        ("depth", 3, "3", "choose one of 1, 2"),
        ("kind", "firm", "firm", "choose one of soft, hard"),
    ],
)
def test_a_wrong_value_gets_a_sentence(name, value, text, remedy):
    """Given in Python, in a copy, and as a text."""
    for make in (Example, lambda **values: dataclasses.replace(Example(), **values)):
        with pytest.raises(SatError) as refusal:
            make(**{name: value})
        assert str(refusal.value) == f"{name} is {value!r}: {remedy}"
    with pytest.raises(SatError) as refusal:
        read_setting(Example, name, text)
    assert str(refusal.value) == f"{name} is {text!r}: {remedy}"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "64", 64),
        ("amount", "2", 2.0),
        ("rate", "1e-4", 1e-4),
        ("number", "-0.05", -0.05),
        ("number", "none", None),
        ("number", "None", None),
        ("flag", "true", True),
        ("flag", "False", False),
        ("depth", "2", 2),
        ("kind", "hard", "hard"),
    ],
)
def test_a_text_is_read_as_the_setting_has_it(name, text, value):
    found = read_setting(Example, name, text)
    assert found == value and type(found) is type(value)
    assert getattr(dataclasses.replace(Example(), **{name: found}), name) == value


def test_settings_are_data_classes_that_stay_as_they_are():
    with pytest.raises(SatError, match=r"^count is 0: .*; share is 2: "):  # each wrong value is named
        Example(count=0, share=2)
    example = Example(amount=2, count=np.int64(3))
    assert type(example.amount) is float  # a whole number stands for any number
    assert type(example.count) is int
    assert dataclasses.asdict(example)["amount"] == 2.0 and example == Example(amount=2.0)
    assert dataclasses.replace(example, count=5).count == 5 and example.count == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.count = 4  # type: ignore[misc]
