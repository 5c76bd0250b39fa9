"""The kinds of decoder, by the name that a model's configuration has for them."""

from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.model.comparators.brnn import Brnn, BrnnConfig
from show_attend_tell.model.comparators.log_bilinear import LogBilinear, LogBilinearConfig
from show_attend_tell.model.comparators.lrcn import Lrcn, LrcnConfig
from show_attend_tell.model.comparators.m_rnn import MRnn, MRnnConfig
from show_attend_tell.model.comparators.nic import Nic, NicConfig
from show_attend_tell.model.decoder import AttentionDecoder, DecoderConfig
from show_attend_tell.model.interface import Config, Decoder

KINDS: dict[str, tuple[type[Config], type[Any]]] = {
    "attention": (DecoderConfig, AttentionDecoder),
    "nic": (NicConfig, Nic),
    "lrcn": (LrcnConfig, Lrcn),
    "log_bilinear": (LogBilinearConfig, LogBilinear),
    "m_rnn": (MRnnConfig, MRnn),
    "brnn": (BrnnConfig, Brnn),
}
COMPARATORS = tuple(kind for kind in KINDS if kind != "attention")  # what `sat train --comparator` takes


def classes(kind: str) -> tuple[type[Config], type[Any]]:
    """The classes of a kind's configuration and decoder; raises `SatError` naming the known kinds for another."""
    if kind not in KINDS:
        raise SatError(f"there is no kind of decoder {kind!r}: this version has {', '.join(KINDS)}")
    return KINDS[kind]


def read_config(values: dict[str, Any]) -> Config:
    """The configuration that `Config.to_dict` wrote; one without a kind is the paper's decoder's."""
    config, _ = classes(values.get("kind", "attention"))
    return config.from_dict(values)


def build(config: Config) -> Decoder:
    """A new decoder of that configuration, with random weights."""
    _, decoder = classes(config.kind)
    built: Decoder = decoder(config)
    return built
