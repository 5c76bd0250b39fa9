"""Options made from the data classes of settings that they fill, so that each setting is described and checked once.

The comment behind a field is the help of its option, and the field's type says which values it may have. A command's
function gets all values that were given in one dictionary, by the names of the fields.

The options are made when a command runs or shows its help, because data classes of settings import pydantic, and
`sat --help` need not wait for it.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

F = TypeVar("F", bound=Callable[..., Any])  # a command's function


class SettingsOptions:
    """Options for settings, which `BaseCommand` makes when it needs them; see `options_from`."""

    def __init__(
        self, classes: Callable[[], tuple[type, ...]], names: tuple[str, ...], *, into: str, rest: str, default: str
    ) -> None:
        self.classes, self.names, self.into, self.rest, self.default = classes, names, into, rest, default

    def make(self) -> Iterator[click.Option]:
        """The options: one for each named setting, and the one that takes the rest as KEY=VALUE."""
        fields = _fields(self.classes())
        for name in self.names:
            cls, hint = fields[name]
            default = f" [default: {self.default}]" if self.default and getattr(cls, name, None) is not None else ""
            yield click.Option(
                [f"--{name.replace('_', '-')}"],
                metavar=f"[{_metavar(hint)}]" if "|" in _metavar(hint) else _metavar(hint),
                help=_sentence(_comments(cls).get(name, "")) + default,
                expose_value=False,
                callback=self._keep_one(cls, name),
            )
        if self.rest:
            others = [name for name in fields if name not in self.names]
            yield PairsOption(
                [self.rest],
                metavar="KEY=VALUE",
                multiple=True,
                help=f"Another setting of the {self.into}, by a key from below. It may be given several times.",
                expose_value=False,
                callback=self._keep_pairs(fields),
                keys=[
                    (f"{name}={_metavar(fields[name][1])}", _comments(fields[name][0]).get(name, "")) for name in others
                ],
            )

    def _keep_one(self, cls: type, name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
        def keep(ctx: click.Context, parameter: click.Parameter, text: str | None) -> None:
            values = ctx.params.setdefault(self.into, {})
            if text is not None:
                values[name] = _read(cls, name, text)

        return keep

    def _keep_pairs(
        self, fields: dict[str, tuple[type, Any]]
    ) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], None]:
        def keep(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> None:
            values = ctx.params.setdefault(self.into, {})
            for text in given:
                name, equals, value = text.partition("=")
                if not equals or name not in fields:
                    raise click.BadParameter(f"{text!r}: give KEY=VALUE with one of the keys {', '.join(fields)}")
                if name in values:
                    raise click.BadParameter(f"{text!r}: {name} is given twice")
                values[name] = _read(fields[name][0], name, value)

        return keep


class PairsOption(click.Option):
    """An option KEY=VALUE that may be given several times, with the keys that the command's help lists."""

    def __init__(self, *arguments: Any, keys: list[tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.keys = keys


def options_from(
    classes: Callable[[], tuple[type, ...]], *names: str, into: str, rest: str = "", default: str = ""
) -> Callable[[F], F]:
    """A decorator that gives a command options for settings.

    ``classes`` returns the data classes of the settings. Each field in ``names`` becomes an option of that name. The
    option called ``rest``, if there is one, takes any field as KEY=VALUE. The command's function gets the values that
    were given as a dictionary, its argument ``into``. ``default`` says in the help where other values come from.
    """
    made = SettingsOptions(classes, names, into=into, rest=rest, default=default)

    def add(command: F) -> F:
        command.__dict__.setdefault("__click_params__", []).append(made)  # where click's own decorators put theirs
        return command

    return add


def _fields(classes: tuple[type, ...]) -> dict[str, tuple[type, Any]]:
    """The class and the type of each field, by its name."""
    return {
        name: (cls, hint)
        for cls in classes
        for name, hint in get_type_hints(cls, include_extras=True).items()
        if name in cls.__dataclass_fields__  # type: ignore[attr-defined]
    }


def _comments(cls: type) -> dict[str, str]:
    """The comment behind each field of a class."""
    return dict(re.findall(r"^    (\w+): .*  # (.+)$", inspect.getsource(cls), re.MULTILINE))


def _sentence(comment: str) -> str:
    return f"{comment[:1].upper()}{comment[1:].removesuffix('.')}."


def _metavar(hint: Any) -> str:
    """What values of a type look like, in a help."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if NoneType in get_args(hint) else [hint]
    kind = get_args(kinds[0])[0] if get_origin(kinds[0]) is Annotated else kinds[0]
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return {bool: "true|false", int: "INTEGER", float: "NUMBER"}.get(kind, "TEXT")


def _read(cls: type, name: str, text: str) -> Any:
    """A setting's value. Raises click's error for a wrong one."""
    from show_attend_tell.errors import InvalidValue
    from show_attend_tell.settings import read_setting

    try:
        return read_setting(cls, name, text)
    except InvalidValue as error:
        raise click.BadParameter(str(error)) from None


def generation_config() -> tuple[type, ...]:
    """The settings of how captions are made."""
    from show_attend_tell.search.config import GenerationConfig

    return (GenerationConfig,)


generation_options = options_from(
    *(generation_config, "beam_size", "attention_mode", "length_penalty", "rerank_weight"),
    into="generation",
    default="the model's",
)
attention_mode_option = options_from(generation_config, "attention_mode", into="generation", default="the model's")
