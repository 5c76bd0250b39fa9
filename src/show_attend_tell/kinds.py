"""The kinds of decoder that there are, by name: the paper's, and those of the systems that its Table 1 compares it
with.

A comparator is imported here alone, when a model of its kind is wanted.
"""

from importlib import import_module
from typing import Any

from show_attend_tell.decoder import Config, Decoder
from show_attend_tell.errors import SatError

# module below this package, the class of the configuration, the class of the decoder
KINDS = {
    "attention": ("decoder", "DecoderConfig", "AttentionDecoder"),
    "nic": ("comparators.nic", "NicConfig", "Nic"),
    "lrcn": ("comparators.lrcn", "LrcnConfig", "Lrcn"),
    "log_bilinear": ("comparators.log_bilinear", "LogBilinearConfig", "LogBilinear"),
    "m_rnn": ("comparators.m_rnn", "MRnnConfig", "MRnn"),
    "brnn": ("comparators.brnn", "BrnnConfig", "Brnn"),
}
COMPARATORS = tuple(kind for kind in KINDS if kind != "attention")  # what `sat train --comparator` takes


def classes(kind: str) -> tuple[type[Config], type[Any]]:
    """The classes of a kind's configuration and decoder; raises `SatError` naming the known kinds for another."""
    if kind not in KINDS:
        raise SatError(f"there is no kind of decoder {kind!r}: this version has {', '.join(KINDS)}")
    module, config, decoder = KINDS[kind]
    found = import_module(f"show_attend_tell.{module}")
    return getattr(found, config), getattr(found, decoder)


def read_config(values: dict[str, Any]) -> Config:
    """The configuration that `Config.to_dict` wrote; one without a kind is the paper's decoder's."""
    config, _ = classes(values.get("kind", "attention"))
    return config.from_dict(values)


def build(config: Config) -> Decoder:
    """A new decoder of that configuration, with random weights."""
    _, decoder = classes(config.kind)
    built: Decoder = decoder(config)
    return built
