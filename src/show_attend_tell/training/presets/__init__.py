"""Settings to train with, one module for each data set.

A module's docstring says how it departs from the paper and what it reached. Each module has ``SOFT`` and ``HARD``, a
`TrainingConfig` for each kind of attention. A decoder of another kind is trained with the soft ones.
"""

from dataclasses import replace
from pathlib import Path

from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object
from show_attend_tell.messages import shorten
from show_attend_tell.model.registry import config_class
from show_attend_tell.training.config import TrainingConfig, changed
from show_attend_tell.training.presets import coco, flickr8k, flickr30k, paper, scenes

PRESETS = {
    "paper": paper,
    "flickr8k": flickr8k,
    "flickr30k": flickr30k,
    "coco": coco,
    "scenes": scenes,
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


def read_preset(name: str, attention: str | None, decoder: str | None = None) -> TrainingConfig:
    """The settings of a preset, or of a file that `sat tune` wrote; of soft attention if nothing else is named.

    Raises `SatError` as `preset` and `tuned_settings` do.
    """
    if decoder is not None:
        return preset(name, decoder=decoder)
    base, attention, changes = tuned_settings(name, attention)
    return changed(preset(base, attention), changes)


def tuned_settings(name: str, attention: str | None) -> tuple[str, str, list[str]]:
    """The preset of that name with its attention, and the changes of it if the name is of a file of `sat tune`.

    Raises `SatError` for another file, and for a file with settings of another attention.
    """
    if not name.lower().endswith(".json"):
        return name, attention or "soft", []
    content = read_object(Path(name), "preset")
    base, tuned, changes = (content.get(entry) for entry in ("preset", "attention", "set"))
    texts = isinstance(changes, list) and all(isinstance(change, str) for change in changes)
    if not (isinstance(base, str) and isinstance(tuned, str) and texts):
        raise SatError(
            f"{name} must hold 'preset', 'attention' and 'set', a list of texts, and holds {shorten(content)}"
        )
    if attention not in (None, tuned):
        raise SatError(f"{name} has settings of {tuned} attention: leave out --attention")
    return base, tuned, list(changes or ())
