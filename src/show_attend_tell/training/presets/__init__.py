"""Settings to train with, one module for each data set.

A module's docstring says how it departs from the paper and what it reached. Each module has ``SOFT`` and ``HARD``, a
`TrainingConfig` for each kind of attention. `baselines` has those of the systems that attention is compared with.
"""

from dataclasses import replace

from show_attend_tell.errors import SatError
from show_attend_tell.model.registry import BASELINES
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.presets import baselines as baselines
from show_attend_tell.training.presets import coco, flickr8k, flickr8k_cider, flickr30k, mosaics, paper, scenes

PRESETS = {
    "paper": paper,
    "flickr8k": flickr8k,
    "mosaics": mosaics,
    "flickr8k-cider": flickr8k_cider,
    "flickr30k": flickr30k,
    "coco": coco,
    "scenes": scenes,
}


def preset(name: str, attention: str) -> TrainingConfig:
    """The settings of that name for "soft", "hard" or "uniform" attention; raises `SatError` naming the known ones.

    Those of "uniform" are the soft model's, with another attention.
    """
    if name not in PRESETS:
        raise SatError(f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}")
    if attention == "uniform":
        soft: TrainingConfig = PRESETS[name].SOFT
        return replace(soft, decoder=replace(soft.decoder, attention="uniform"))  # type: ignore[call-arg]
    if attention not in ("soft", "hard"):
        raise SatError(f"there is no {attention!r} attention: choose soft, hard or uniform")
    config: TrainingConfig = getattr(PRESETS[name], attention.upper())
    return config


def baseline_preset(name: str, kind: str) -> TrainingConfig:
    """The settings of that name for a comparator; raises `SatError` for a kind or a name that is not there."""
    if kind not in BASELINES or name != "flickr8k":
        raise SatError(f"there is no preset {name!r} for {kind!r}: choose flickr8k and one of {', '.join(BASELINES)}")
    config: TrainingConfig = baselines.settings(kind)
    return config
