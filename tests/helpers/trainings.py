"""The settings of the trainings in research/."""

from shipped import Training

from show_attend_tell.training.config import TrainingConfig, changed
from show_attend_tell.training.presets import preset


def config_of(training: Training) -> TrainingConfig:
    """The settings that a training has by its arguments."""
    options = list(zip(training.arguments[::2], training.arguments[1::2], strict=True))
    changes = [value for option, value in options if option == "--set"]
    changes += [f"epochs={value}" for option, value in options if option == "--epochs"]
    named = dict(options)
    return changed(preset(named.get("--preset", "flickr8k"), named["--attention"]), changes)
