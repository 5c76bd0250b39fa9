"""Data classes of settings: pydantic checks their values when they are made, and its errors become sentences.

A class of settings is decorated with `settings`. Its fields have the types below, or a `Literal`, or ``bool``:

    @settings
    class Example:
        size: Count = Field(3, description="number of layers")
        share: Share = 0.5

``Example(size=0)`` raises `InvalidValue`: "size is 0: give a whole number from 1". Values are not converted, except
that a whole number may stand for any number. These are data classes, so `dataclasses.replace` makes checked copies.

What `Field` says of a field is its help (`descriptions`).
"""

import dataclasses
from collections.abc import Iterable
from difflib import get_close_matches
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from show_attend_tell.errors import InvalidValue
from show_attend_tell.registries import Registry

Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]  # 0 for none
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # which every generator of random numbers takes
BeamSize = Annotated[int, Field(ge=1, le=1000)]  # more than this fills the memory
Words = Annotated[int, Field(ge=1, le=1000)]  # of a caption
Amount = Annotated[float, Field(ge=0, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Exponent = Annotated[float, Field(ge=0, le=10)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]  # a dropout, a smoothing, a decay


class NameIn:
    """What makes the type of a setting a name of a registry: ``Annotated[str, NameIn(registry)]``."""

    def __init__(self, registry: Registry[Any]) -> None:
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": self.registry.names()}

    def check(self, name: str) -> str:
        """The name; raises `ValueError` for one that is not registered."""
        if name not in self.registry:
            raise ValueError(f"choose one of {', '.join(self.registry.names())}")
        return name


# Each back end computes these modes itself, and the page in the browser too. Those of plugins run in PyTorch alone.
EVERYWHERE = ("mean", "argmax", "sample")
ATTENTION_MODES: Registry[Any] = Registry("an attention mode", "attention_modes", dict.fromkeys(EVERYWHERE))
AttentionModeName = Annotated[str, NameIn(ATTENTION_MODES)]

TRANSFORMERS_NAMES = {  # what `transformers` calls settings of a search
    "num_beams": "beam_size",
    "num_return_sequences": "num_captions",
    "max_new_tokens": "max_length",
    "no_repeat_ngram_size": "allow_repetitions",
}

CHECKED = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
BOUNDS = {"ge": "from {}", "gt": "above {} and up", "le": "to {}", "lt": "up to but not including {}"}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
def settings(cls: Any = None, *, frozen: bool = True) -> Any:
    """Make a class one of settings: a data class, made with keywords, that raises `InvalidValue` for wrong values."""

    def decorate(cls: type) -> type:
        made: Any = dataclass(described(cls), frozen=frozen, kw_only=True, config=CHECKED)
        check = made.__init__

        @wraps(check)
        def init(self: Any, **values: Any) -> None:
            plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
            try:
                check(self, **plain)
            except ValidationError as error:
                for each in error.errors():
                    if isinstance(cause := each.get("ctx", {}).get("error"), InvalidValue):  # of a __post_init__
                        raise cause from None
                raise InvalidValue("; ".join(_sentence(made, each) for each in error.errors())) from None

        made.__init__ = init
        return made  # type: ignore[no-any-return]

    return decorate if cls is None else decorate(cls)


def _sentence(cls: type, error: Any) -> str:
    """One of pydantic's errors in the words of a user."""
    name = str(error["loc"][0])
    types = get_type_hints(cls, include_extras=True)
    if name not in types:
        names = [field.name for field in dataclasses.fields(cls)]
        return f"there is no setting {name}: " + (meant(name, names) or f"the settings are {', '.join(names)}")
    return f"{name} is {error['input']!r}: {remedy(types[name])}"


def meant(name: str, names: Iterable[str]) -> str:
    """Which of some names a wrong one may stand for, the one of `transformers` or a slip: "did you mean X?", or ""."""
    found = get_close_matches(TRANSFORMERS_NAMES.get(name, name), list(names), 1)
    return f"did you mean {found[0]}?" if found else ""


def described(cls: type) -> type:
    """Take the descriptions of a class's own fields, for `descriptions`; the fields keep their plain defaults."""
    fields = {name: value for name, value in vars(cls).items() if isinstance(value, FieldInfo)}
    for name, value in fields.items():
        if value.is_required():
            delattr(cls, name)
        else:
            setattr(cls, name, value.default)
    own = {name: value.description for name, value in fields.items()}
    cls._descriptions = descriptions(cls) | own  # type: ignore[attr-defined]
    return cls


def descriptions(cls: type) -> dict[str, str]:
    """What the description of each field of a class of settings says, by the field's name."""
    texts: dict[str, str] = getattr(cls, "_descriptions", {})
    return texts


def read_setting(cls: type, name: str, text: str) -> Any:
    """The value of a setting that a text stands for, "1e-3" or "none"; raises `InvalidValue` for another text."""
    hint = get_type_hints(cls, include_extras=True)[name]
    values = {"none": None} if NoneType in get_args(hint) else {}
    values |= {str(value): value for value in get_args(hint) if get_origin(hint) is Literal}
    if text.lower() in values:
        return values[text.lower()]
    try:
        return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False)).validate_strings(text)
    except ValidationError:
        raise InvalidValue(f"{name} is {text!r}", remedy=remedy(hint)) from None


def remedy(hint: Any) -> str:
    """What to give for a setting of that type: "give a whole number from 1" or "choose one of soft, hard"."""
    return f"{'choose' if choices(hint) else 'give'} {_in_words(hint)}"


def choices(hint: Any) -> list[str]:
    """The values from which a setting of that type is chosen, as texts; none for a type of numbers or of any text."""
    if get_origin(hint) is Literal:
        return list(map(str, get_args(hint)))
    registries = [note.registry for note in getattr(hint, "__metadata__", ()) if isinstance(note, NameIn)]
    return [name for registry in registries for name in registry.names()]


def _in_words(hint: Any) -> str:
    if known := choices(hint):
        return f"one of {', '.join(known)}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(hint)))
    if get_origin(hint) is Annotated:
        base, *fields = get_args(hint)
        limits = [limit for field in fields for limit in field.metadata]
        bounds = [
            words.format(getattr(limit, bound))
            for bound, words in BOUNDS.items()
            for limit in limits
            if hasattr(limit, bound)
        ]
        return " ".join([_in_words(base), *bounds])
    if get_origin(hint) is tuple:
        first = get_args(hint)[0]
        if get_origin(first) is tuple:
            return "the name of each registered filter with its number"  # the one setting of this type
        return f"{len(get_args(hint))} values, each {_in_words(first)}"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "none"}
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")
