"""What can be added by name: decoders, encoders, attention modes, rerankers, metrics, readers, formats, …

All follow one policy, that of `Registry`. A plugin adds an entry when it is imported: by the user's program, by
``--plugin``, or by itself, once the installed package that it belongs to names it in an entry-point group. A model's
files name entries, and never code.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from show_attend_tell.errors import MissingPackage, SatError, UnknownName
from show_attend_tell.messages import install_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Value = TypeVar("Value")


class Registry(Mapping[str, Value]):
    """Entries of one kind by their names: a mapping in which a name, once taken, keeps its meaning.

    A name that is unknown may be that of an installed plugin: an entry point in `group` whose module registers it.
    This module is imported when the name is looked up, and those of all such plugins when one iterates.
    """

    def __init__(self, what: str, group: str, entries: Mapping[str, Value] | None = None) -> None:
        """``what`` is one entry in words, "a metric"; ``group`` ends the group's name, "show_attend_tell.metrics"."""
        self.what = what
        self._kind = what.partition(" ")[2]  # without its article
        self.group = f"show_attend_tell.{group}"
        self._entries = dict(entries or {})

    @overload
    def register(self, name: str) -> Callable[[Value], Value]: ...
    @overload
    def register(self, name: str, value: Value) -> Value: ...
    def register(self, name: str, value: Any = None) -> Any:
        """Add an entry, or give the decorator that adds one. Raises `SatError` for a name that another entry has.

        The same entry may come again, and that of a module that is imported twice: the later one is kept.
        """
        if value is None:
            return lambda decorated: self.register(name, decorated)
        if name in self._entries and identity(self._entries[name]) != identity(value):
            raise SatError(f"there is {self.what} {name!r} already: choose another name")
        self._entries[name] = value
        return value

    def names(self) -> list[str]:
        """The names of all entries, and of installed plugins, none of which is imported for it."""
        return list(dict.fromkeys([*self._entries, *(point.name for point in installed(self.group))]))

    def __getitem__(self, name: str) -> Value:
        """The entry of that name. Raises `UnknownName`, with the known ones, for another."""
        self._import({name})
        if name not in self._entries:
            raise UnknownName(
                f"no {self._kind} {name!r} is registered (registered: {', '.join(self.names())})",
                remedy="name the module that defines it with --plugin MODULE, or import it first",
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._import(self.names())
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _import(self, names: Iterable[str]) -> None:
        """Import the installed plugins of names that have no entry yet."""
        missing = set(names) - self._entries.keys()
        for point in installed(self.group) if missing else ():
            if point.name in missing:
                import_registering(point.module, f"the installed {self._kind} {point.name!r}")


@cache
def installed(group: str) -> "tuple[EntryPoint, ...]":
    """The entry points of a group, in the order of their names; read once, since reading takes milliseconds."""
    from importlib.metadata import entry_points  # which takes as long to import as all else that `sat --help` needs

    return tuple(sorted(entry_points(group=group), key=lambda point: point.name))


def identity(value: Any) -> Any:
    """What two entries have alike that come from the same lines of a module which was imported twice."""
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return identity(tuple(vars(value).values()))
    name = getattr(value, "__qualname__", "<>")
    return value if "<" in name else f"{value.__module__}.{name}"


def import_registering(module: str, what: str) -> None:
    """Import a module that registers something. Raises `SatError`, which says what it is, where this fails."""
    try:
        import_module(module)
    except SatError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise MissingPackage(f"{what} needs PyTorch", remedy=install_command("torch")) from error
        reason = f"{what} cannot be imported ({type(error).__name__}: {error})"
        raise SatError(reason, remedy="mend or install it") from error
