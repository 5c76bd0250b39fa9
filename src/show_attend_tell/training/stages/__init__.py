"""What a training does before and after its loop, in stages. No stage knows another; `run.train` orders them.

From "reranker" on they are a list of `Stage`, which `complete` goes through; "judge small data" is in `cautious`.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.errors import SatError
from show_attend_tell.training import ranks
from show_attend_tell.training.ranks import log

STAGES = "stages"  # entry of the training of a model that is not complete: what it is of, and which stages are done


class Stage(NamedTuple):
    """One part of what completes a model."""

    name: str
    run: Callable[[], object]  # fills in its part of the model


def complete(model: Checkpoint, stages: Sequence[Stage], folder: Path, about: str) -> None:
    """Go through the stages that are not done, in order.

    After each, the ``folder`` has the model so far, all of whose bits are kept. So a training that is killed goes
    on at the stage at which it was, if it is still ``about`` the same weights and settings.
    """
    done = restore(model, folder, about)
    ranks.barrier()  # until all ranks have read it, since the first writes it again
    for number, stage in enumerate(stages, start=1):
        if stage.name in done:
            continue
        log(f"stage {number} of {len(stages)}: {stage.name}")
        stage.run()
        done.append(stage.name)
        if ranks.is_main() and number < len(stages):
            progress = {"about": about, "done": done}
            replace(model, training={**model.training, STAGES: progress}).save(folder)
    if ranks.is_main():
        shutil.rmtree(folder, ignore_errors=True)


def restore(model: Checkpoint, folder: Path, about: str) -> list[str]:
    """Make the model what the folder holds, and return the names of the stages that are done."""
    try:
        known = Checkpoint.load(folder)
        progress = known.training.pop(STAGES)
        if progress["about"] == about:
            for field in fields(known):
                setattr(model, field.name, getattr(known, field.name))
            return list(progress["done"])
    except (SatError, KeyError, TypeError):  # there is none, or it was cut short when the training was killed
        pass
    if ranks.is_main():
        shutil.rmtree(folder, ignore_errors=True)
    return []
