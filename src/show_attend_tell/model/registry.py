"""The kinds of decoder, by the names that they have in a model's configuration. Nothing here needs PyTorch.

The paper's decoder has the kind "attention". A module with another one calls `register_decoder` when it is imported: by
the user's program, by `import_plugin` (``--plugin``), or through the entry points `ENTRY_POINTS` of an installed
package, which name the module of each kind. The files of a model never name code.
"""

import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from show_attend_tell.errors import MissingPackage, SatError
from show_attend_tell.messages import install_command
from show_attend_tell.model.config import Config, DecoderConfig

if TYPE_CHECKING:
    from show_attend_tell.model.interface import Decoder

ENTRY_POINTS = "show_attend_tell.decoders"

_configs: dict[str, type[Config]] = {DecoderConfig.kind: DecoderConfig}
_decoders: dict[str, "type[Decoder]"] = {}  # without the paper's, which is imported when one is built
plugins: list[str] = []  # what `import_plugin` has imported, for the worker processes


def register_decoder(config_class: type[Config], decoder_class: "type[Decoder]") -> None:
    """Register a kind of decoder, whose models can then be trained, saved and loaded; `SatError` if it is taken."""
    kind = getattr(config_class, "kind", None)
    if not kind:
        raise SatError(f'{name_of(config_class)} has no kind: give the class one, for example kind = "gru"')
    other = _configs.get(kind)
    if other is not None and name_of(other) != name_of(config_class):
        raise SatError(f"{name_of(config_class)} has the kind {kind!r}, as {name_of(other)} has: choose another kind")
    _configs[kind], _decoders[kind] = config_class, decoder_class


def name_of(cls: type) -> str:
    """Where a class is defined, "package.module.Class"."""
    return f"{cls.__module__}.{cls.__qualname__}"


def config_class(kind: str) -> type[Config]:
    """The class of a kind's configuration. Raises `SatError` for a kind that is not registered."""
    installed = entry_points(group=ENTRY_POINTS) if kind not in _configs else ()
    for point in installed:
        if point.name == kind:
            _import(point.module, f"the installed decoder {kind!r}")
    if kind not in _configs:
        known = ", ".join(dict.fromkeys([*_configs, *(point.name for point in installed)]))
        raise SatError(
            f"no decoder of the kind {kind!r} is registered (registered: {known})",
            remedy="name the module that defines it by --plugin MODULE, or import this module before",
        )
    return _configs[kind]


def read_config(values: dict[str, Any]) -> Config:
    """The configuration that `Config.to_dict` wrote; without a kind, it is the paper's decoder's."""
    return config_class(values.get("kind", DecoderConfig.kind)).from_dict(values)


def build(config: Config) -> "Decoder":
    """A new decoder of that configuration, with random weights. Raises `SatError` for an unregistered kind."""
    if config_class(config.kind) is DecoderConfig:
        from show_attend_tell.model.decoder import AttentionDecoder

        return AttentionDecoder(config)  # type: ignore[arg-type]
    return _decoders[config.kind](config)


def import_plugin(name: str) -> None:
    """Import a module that registers decoders, encoders or rerankers: by its name, or its .py file or folder."""
    path = Path(name).resolve()
    file = path if path.suffix == ".py" else path / "__init__.py"
    if not file.is_file():
        _import(name, f"the plugin {name!r}")
    else:
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        _import(path.stem, f"the plugin {name!r}")
        found = sys.modules[path.stem].__file__
        if found is None or Path(found).resolve() != file:
            raise SatError(f"the plugin {name!r} has the name of another module ({found or path.stem}): rename it")
        name = str(path)
    plugins.append(name)


def _import(module: str, what: str) -> None:
    try:
        import_module(module)
    except SatError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise MissingPackage(f"{what} needs PyTorch", remedy=install_command("torch")) from error
        reason = f"{what} cannot be imported ({type(error).__name__}: {error})"
        raise SatError(reason, remedy="mend or install it") from error
