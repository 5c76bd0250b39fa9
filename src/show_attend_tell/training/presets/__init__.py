"""Settings to train with, one module for each data set.

A module's docstring says how it departs from the paper and what it reached. Each module has ``SOFT`` and ``HARD``, a
`TrainingConfig` for each kind of attention. A decoder of another kind is trained with the soft ones.
"""

from dataclasses import replace

from show_attend_tell.errors import SatError
from show_attend_tell.model.registry import config_class
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.presets import coco, flickr8k, flickr30k, paper

PRESETS = {
    "paper": paper,
    "flickr8k": flickr8k,
    "flickr30k": flickr30k,
    "coco": coco,
}


def preset(name: str, attention: str = "soft", *, decoder: str | None = None) -> TrainingConfig:
    """The settings of that name for "soft", "hard" or "uniform" attention, or for a decoder of another kind.

    Those of "uniform" are the soft model's, with another attention. Those of another decoder are the soft model's
    without visual n-grams, and its configuration has its own defaults. Raises `SatError` for an unknown name, attention
    or kind, listing the known ones.
    """
    if name not in PRESETS:
        raise SatError(f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}")
    soft: TrainingConfig = PRESETS[name].SOFT
    if decoder is not None:
        return replace(soft, decoder=config_class(decoder)(), visual_ngrams=False)
    if attention == "uniform":
        return replace(soft, decoder=replace(soft.decoder, attention="uniform"))  # type: ignore[call-arg]
    if attention not in ("soft", "hard"):
        raise SatError(f"there is no {attention!r} attention: choose soft, hard or uniform")
    config: TrainingConfig = getattr(PRESETS[name], attention.upper())
    return config
