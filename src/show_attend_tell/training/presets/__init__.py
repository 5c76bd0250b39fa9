"""Settings to train with, for each data set: a `TrainingConfig` for soft attention, and one for hard attention.

The docstrings of `paper` and `flickr8k` say how they depart from the paper and what they reached. A decoder of another
kind is trained with the soft ones.
"""

from dataclasses import replace

from show_attend_tell.model.registry import config_class
from show_attend_tell.registries import Registry
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.presets import flickr8k, paper

PRESETS = Registry(
    "a preset",
    "presets",
    {
        "paper": (paper.SOFT, paper.HARD),
        "flickr8k": (flickr8k.SOFT, flickr8k.HARD),
    },
)


def preset(name: str, attention: str = "soft", *, decoder: str | None = None) -> TrainingConfig:
    """The settings of that name for "soft", "hard" or "uniform" attention, or for a decoder of another kind.

    Those of "uniform" are the soft model's, with another attention. Those of another decoder are the soft model's
    without visual n-grams, and its configuration has its own defaults. Raises `SatError` for an unknown name, attention
    or kind, listing the known ones.
    """
    soft, hard = PRESETS[name]
    if decoder is not None:
        return replace(soft, decoder=config_class(decoder)(), visual_ngrams=False)
    return hard if attention == "hard" else replace(soft, decoder=replace(soft.decoder, attention=attention))  # type: ignore[call-arg]
