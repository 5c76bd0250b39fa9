"""Options made from the data classes of settings that they fill, so that each setting is described and checked once.

The description of a field is the help of its option, and the field's type says which values it may have. A command's
function gets all values that were given in one dictionary, by the names of the fields.

The options are made when a command runs or shows its help, because data classes of settings import pydantic, and
`sat --help` need not wait for it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import click

F = TypeVar("F", bound=Callable[..., Any])  # a command's function


class PairsOption(click.Option):
    """An option KEY=VALUE that may be given several times, with the keys that the command's help lists."""

    def __init__(self, *arguments: Any, keys: list[tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.keys = keys


def options_from(classes: str, *names: str, into: str, rest: str = "", default: str = "") -> Callable[[F], F]:
    """A decorator that gives a command options for settings of ``classes``, "MODULE:CLASS MODULE:CLASS".

    Each field in ``names`` becomes an option. The option called ``rest`` takes any other field as KEY=VALUE. The
    command's function gets the values that were given as a dictionary, its argument ``into``. ``default`` says in the
    help where other values come from, if it is not from the class.
    """

    def make() -> Iterator[click.Option]:
        fields = _fields(resolve_name(name) for name in classes.split())
        for name in names:
            cls, hint, description = fields[name]
            value = getattr(cls, name, None)
            stated = f" [default: {default or value}]" if value is not None and hint is not bool else ""
            values = _metavar(hint)
            yield click.Option(
                [f"--{name.replace('_', '-')}"],
                metavar=f"[{values}]" if "|" in values else values,
                help=f"{description[:1].upper()}{description[1:]}.{stated}",
                expose_value=False,
                is_flag=hint is bool,
                flag_value="true" if hint is bool else None,
                callback=lambda ctx, _, text, name=name: keep(ctx, fields, [] if text is None else [(name, text)]),
            )
        if rest:
            others = [name for name in fields if name not in names]
            yield PairsOption(
                [rest],
                metavar="KEY=VALUE",
                multiple=True,
                help=f"A further setting of the {into}, by one of the keys below. It may be given several times.",
                expose_value=False,
                callback=lambda ctx, _, texts: keep(ctx, fields, [_pair(text, fields) for text in texts]),
                keys=[(f"{name}={_metavar(fields[name][1])}", fields[name][2]) for name in others],
            )

    def keep(ctx: click.Context, fields: Mapping[str, Field], pairs: Iterable[tuple[str, str]]) -> None:
        from show_attend_tell.settings import read_setting

        values = ctx.params.setdefault(into, {})
        for name, text in pairs:
            # the value of a registered filter is read where it is used
            values[name] = read_setting(fields[name][0], name, text) if name in fields else text

    def add(command: F) -> F:
        command.__dict__.setdefault("__click_params__", []).append(make)  # where click's own decorators put theirs
        return command

    return add


Field = tuple[type, Any, str]  # the class that has a field, the field's type, and its description


def _fields(classes: Iterable[type]) -> dict[str, Field]:
    """The fields of classes of settings, by their names."""
    from show_attend_tell.settings import descriptions

    by_name = {}
    for cls in classes:
        hints = get_type_hints(cls, include_extras=True)
        described = descriptions(cls)
        for field in dataclasses.fields(cls):
            if get_origin(hints[field.name]) is not tuple:  # registered filters, which have keys of their own
                by_name[field.name] = cls, hints[field.name], described.get(field.name, "")
    return by_name


def _pair(text: str, fields: Mapping[str, Field]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    from show_attend_tell.search.registry import FILTERS

    registered = FILTERS if "repetition_cost" in fields else {}
    if not equals or (name not in fields and name not in registered):
        from show_attend_tell.settings import meant

        why = (equals and meant(name, fields)) or f"give KEY=VALUE with one of the keys {', '.join(fields)}"
        raise click.BadParameter(f"{text!r}: {why}")
    return name, value


def _metavar(hint: Any) -> str:
    """What values of a type look like, in a help."""
    from show_attend_tell.settings import choices

    if NoneType in get_args(hint):
        hint = get_args(hint)[0]
    if known := choices(hint):
        return "|".join(known)
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return {bool: "true|false", int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


GENERATION = "show_attend_tell.search.config:GenerationConfig"
generation_options = options_from(
    GENERATION,
    "beam_size",
    "attention_mode",
    "length_penalty",
    "rerank_weight",
    into="generation",
    rest="--generation",
    default="the model's",
)
