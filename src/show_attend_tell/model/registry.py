"""The kinds of decoder, by the names that they have in a model's configuration. Nothing here needs PyTorch.

The paper's decoder has the kind "attention". A module with another one calls `register_decoder` when it is imported.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from show_attend_tell.errors import SatError
from show_attend_tell.model.config import Config, DecoderConfig
from show_attend_tell.registries import Registry, import_registering

if TYPE_CHECKING:
    from show_attend_tell.model.interface import Decoder


def paper_decoder(config: Any) -> "Decoder":
    """A new `AttentionDecoder`, whose module is imported only here, since it needs PyTorch."""
    from show_attend_tell.model.decoder import AttentionDecoder

    return AttentionDecoder(config)


# of each kind: the class of its configuration, and what makes a decoder of one
DECODERS: Registry[tuple[type[Config], "Callable[[Any], Decoder]"]] = Registry(
    "a decoder of the kind", "decoders", {DecoderConfig.kind: (DecoderConfig, paper_decoder)}
)
plugins: list[str] = []  # what `import_plugin` has imported, for the worker processes


def register_decoder(config_class: type[Config], decoder_class: "Callable[[Any], Decoder]") -> None:
    """Register a kind of decoder, whose models can then be trained, saved and loaded; `SatError` if it is taken."""
    DECODERS.register(config_class.kind, (config_class, decoder_class))


def config_class(kind: str) -> type[Config]:
    """The class of a kind's configuration. Raises `SatError` for a kind that is not registered."""
    return DECODERS[kind][0]


def read_config(values: dict[str, Any]) -> Config:
    """The configuration that `Config.to_dict` wrote; without a kind, it is the paper's decoder's."""
    return config_class(values.get("kind", DecoderConfig.kind)).from_dict(values)


def build(config: Config) -> "Decoder":
    """A new decoder of that configuration, with random weights. Raises `SatError` for an unregistered kind."""
    _, make = DECODERS[config.kind]
    return make(config)


def import_plugin(name: str) -> None:
    """Import a module that registers something (`registries`): by its name, or its .py file or folder."""
    path = Path(name).resolve()
    file = path if path.suffix == ".py" else path / "__init__.py"
    if not file.is_file():
        import_registering(name, f"the plugin {name!r}")
    else:
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        import_registering(path.stem, f"the plugin {name!r}")
        imported = sys.modules[path.stem].__file__
        if imported is None or Path(imported).resolve() != file:
            raise SatError(f"the plugin {name!r} has the name of another module ({imported or path.stem}): rename it")
        name = str(path)
    plugins.append(name)
