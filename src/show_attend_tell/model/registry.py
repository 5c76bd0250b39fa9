"""The kinds of decoder, by the names that they have in a model's configuration."""

from typing import Any

from show_attend_tell.errors import SatError
from show_attend_tell.model.baselines.brnn import Brnn, BrnnConfig
from show_attend_tell.model.baselines.cmu_msr import CmuMsr, CmuMsrConfig
from show_attend_tell.model.baselines.log_bilinear import LogBilinear, LogBilinearConfig
from show_attend_tell.model.baselines.lrcn import Lrcn, LrcnConfig
from show_attend_tell.model.baselines.m_rnn import MRnn, MRnnConfig
from show_attend_tell.model.baselines.msr import Msr, MsrConfig
from show_attend_tell.model.baselines.nic import Nic, NicConfig
from show_attend_tell.model.config import Config, DecoderConfig
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.model.interface import Decoder

KINDS: dict[str, tuple[type[Config], type[Any]]] = {
    "attention": (DecoderConfig, AttentionDecoder),
    "nic": (NicConfig, Nic),
    "lrcn": (LrcnConfig, Lrcn),
    "log_bilinear": (LogBilinearConfig, LogBilinear),
    "m_rnn": (MRnnConfig, MRnn),
    "brnn": (BrnnConfig, Brnn),
    "cmu_msr": (CmuMsrConfig, CmuMsr),
    "msr": (MsrConfig, Msr),
}
BASELINES = tuple(kind for kind in KINDS if kind != "attention")  # what `sat train --decoder` takes


def classes(kind: str) -> tuple[type[Config], type[Any]]:
    """The classes of the configuration and of the decoder of a kind; raises `SatError` for an unknown kind."""
    if kind not in KINDS:
        raise SatError(f"the kind of decoder is {kind!r}: this version knows {', '.join(KINDS)}")
    return KINDS[kind]


def build(config: Config) -> Decoder:
    """A new decoder of that configuration, with random weights."""
    _, decoder = classes(config.kind)
    built: Decoder = decoder(config)
    return built
